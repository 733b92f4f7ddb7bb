"""The guide to forecasts and the tutorial do what they say."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import plfl
from plfl.cli.main import main
from plfl.experiments.train import train
from plfl.forecast.contents import describe
from plfl.results.records import write_models
from plfl.study import Study
from tests.helpers.projects import write_meters
from tests.helpers.repository import ROOT, blocks

GUIDE, TUTORIAL, MEASURED = (
    (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for page in ("forecast", "tutorial-meters", "measured-meters")
)


def commands(page: str) -> list[list[str]]:
    """The commands in its blocks of code, without `plfl`."""
    blocks = re.findall(r"^```\n(plfl .*?)```", page, re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines]


def test_the_commands_and_the_program_of_the_guide_run(tmp_path, capsys, invoke, caplog):
    write_meters(tmp_path / "meters")
    (tmp_path / "meters" / "c.csv").rename("meters/school.csv")
    (tmp_path / "school.csv").write_bytes((tmp_path / "meters" / "school.csv").read_bytes())
    study: dict[str, Any] = {
        "name": "campus",
        "data": {"source": "meters", "states": ["all"], "clients": 3},
        "model": {"hidden": 3, "mlp": [4]},
        "grid": {"client_opt": ["adam"], "server_opt": ["fedavg"]},
        "federation": {"rounds": 2, "local_steps": 3},
    }
    study["data"]["meters"] = {"timezone": "America/New_York"}
    Path("campus.yaml").write_text(yaml.safe_dump(study))
    forecast, cold_start, again, export, run = commands(GUIDE)
    assert main(run) == 0
    kept = Path("results/campus/models/all-P2.safetensors")
    kept.parent.mkdir(parents=True)
    Path("mine.safetensors").rename(kept)
    Path("results/campus/models/all-P1.safetensors").write_bytes(kept.read_bytes())
    capsys.readouterr()

    said = invoke(*forecast)
    columns, first = re.findall(r"```text\n(.*)\n(.*)\n", GUIDE)[0]
    assert said.out.splitlines()[0] == columns
    assert re.sub(r",[\d.]+,", ",x,", said.out.splitlines()[1]) == re.sub(r",[\d.]+,", ",x,", first)
    assert len(said.out.splitlines()) == 5 and "kWh per 15 min" in said.err

    # More than it has seen: the message of the guide, but for its numbers.
    table = pd.read_csv("school.csv")
    table.loc[1000:1002, "load"] = 9
    table.to_csv("school.csv", index=False)
    assert main([*forecast, "--all", "--out", "next.csv"]) == 0
    (message,) = re.findall(r"^school: .*$", GUIDE, re.MULTILINE)
    assert plain(message) in plain(caplog.text)
    assert capsys.readouterr().out == ""
    written = pd.read_csv("next.csv")
    assert list(written) == columns.split(",") and len(written) == 14 * 96 - 11

    Path("museum.csv").write_bytes(Path("meters/a.csv").read_bytes())
    museum_forecasts = invoke(*cold_start).out
    assert invoke(*again).out == museum_forecasts

    assert main(export) == 0
    program, alone = blocks("docs/forecast.md", "python")
    names: dict[str, Any] = {"plfl": plfl, "Path": Path}
    exec(program, names)
    exec(alone, names)
    expected = names["forecasts"]["forecast"]
    np.testing.assert_allclose(names["loads"], expected, rtol=1e-5)
    assert names["columns"] == ["load", "time_index", "weekday"]
    assert list(names["forecasts"]) == ["forecast", "made_at"]
    assert "-fedavg-10 ['a', 'b', 'school'] ['load'] 12" in capsys.readouterr().out


def plain(text: str) -> str:
    return re.sub(r"[\d.:-]+", "0", text)


def test_the_whole_way_of_the_tutorial(capsys: pytest.CaptureFixture[str], invoke) -> None:
    names = sorted(set(re.findall(r"`(Fox_\w+)`", MEASURED)))
    stamps = pd.date_range("2016-12-30", "2017-12-31 23:00", freq="h", name="timestamp")
    dice = np.random.default_rng(1)
    days = 2 + np.sin(np.arange(len(stamps)) / 24 * 2 * np.pi)[:, None]
    loads = days + dice.uniform(0, 0.3, (len(stamps), len(names)))
    pd.DataFrame(loads, stamps, names).to_csv("electricity_cleaned.csv")

    for cut in re.findall(r"^awk .*$", TUTORIAL, re.MULTILINE):
        subprocess.run(cut, shell=True, check=True)
    init, check, cells, _, _, old_meter, _, by_age, new_meter = commands(TUTORIAL)
    for command in (init, check, cells):
        assert main(command) == 0

    # Its study with one short round, instead of `plfl study`.
    raw = yaml.safe_load(Path("campus.yaml").read_text())
    raw["grid"] |= {"sharing": ["P2"], "seeds": [1]}
    raw["federation"] |= {"rounds": 1, "local_steps": 3}
    study = Study.parse(raw, "campus.yaml")
    (cell,) = study.cells
    dataset = plfl.load_dataset(study, "all")
    models = train(study, [cell], dataset)[cell].models
    assert models is not None
    model = Path(new_meter[1])
    model.parent.mkdir(parents=True)
    write_models(model, models, describe(study, cell, dataset, {}))
    capsys.readouterr()

    # A folder with this file alone is not the results of a study, so it is named itself.
    assert old_meter[:2] == ["forecast", "results/campus"] and old_meter[3:5] == ["--with", "P2"]
    shown = invoke("forecast", str(model), old_meter[2], *old_meter[5:]).out.splitlines()
    header, first = re.findall(r"```text\n(timestamp.*)\n(.*)\n", TUTORIAL)[0]
    assert shown[0] == header and len(shown) == 1 + 24
    without_load = r",[\d.]+,20.*"
    assert re.sub(without_load, "", shown[1]) == re.sub(without_load, "", first)
    # The same new meter, once by the results and once by a file of models.
    assert by_age == ["forecast", "results/campus", *new_meter[2 : new_meter.index("--save")]]
    assert main(new_meter) == 0
    (program,) = blocks("docs/tutorial-meters.md", "python")
    found: dict[str, Any] = {}
    exec(program, found)
    assert found["december"].index[-1] == pd.Timestamp("2018-01-01")
    assert np.isfinite(list(found["errors"].values())).all()
