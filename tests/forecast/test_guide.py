"""The guide to forecasts does what it says."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import plfl
from plfl.cli.main import main
from tests.test_workflow import write_meters

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "forecast.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """The commands in its blocks of code, without `plfl`."""
    lines = re.findall(r"^plfl (.*)$", GUIDE, re.MULTILINE)
    return [line.split() for line in lines]


def test_its_commands_and_its_program_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
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
    study["data"]["meters"] = {"timezone": "Etc/GMT+5"}
    Path("campus.yaml").write_text(yaml.safe_dump(study))
    forecast, cold_start, again, export, run = commands()
    assert main(run) == 0
    kept = Path("results/campus/models/all-P2.safetensors")
    kept.parent.mkdir(parents=True)
    Path("mine.safetensors").rename(kept)
    Path("results/campus/models/all-P1.safetensors").write_bytes(kept.read_bytes())
    capsys.readouterr()

    assert main(forecast) == 0
    said = capsys.readouterr()
    columns, first = re.findall(r"```text\n(.*)\n(.*)\n", GUIDE)[0]
    assert said.out.splitlines()[0] == columns
    assert re.sub(r",[\d.]+,", ",x,", said.out.splitlines()[1]) == re.sub(r",[\d.]+,", ",x,", first)
    assert len(said.out.splitlines()) == 5 and "kWh per 15 min" in said.err

    # More than it has seen: the message of the guide, but for its numbers.
    table = pd.read_csv("school.csv")
    table.loc[1000:1002, "load"] = 99
    table.to_csv("school.csv", index=False)
    assert main([*forecast, "--all", "--out", "next.csv"]) == 0
    (message,) = re.findall(r"^school: .*$", GUIDE, re.MULTILINE)
    assert plain(message) in plain(caplog.text)
    assert capsys.readouterr().out == ""
    written = pd.read_csv("next.csv")
    assert list(written) == columns.split(",") and len(written) == 14 * 96 - 11
    assert written["outside"].sum() == 14

    Path("museum.csv").write_bytes(Path("meters/a.csv").read_bytes())
    assert main(cold_start) == 0
    of_museum = capsys.readouterr().out
    assert main(again) == 0
    assert capsys.readouterr().out == of_museum

    assert main(export) == 0
    new, program, alone = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, Any] = {"plfl": plfl, "Path": Path}
    exec(new, names)
    assert names["museum"].clients == ["museum"]
    exec(program, names)
    exec(alone, names)
    expected = names["forecasts"]["forecast"]
    np.testing.assert_allclose(names["loads"].detach().numpy(), expected, rtol=1e-5)
    assert names["columns"] == ["load", "time_index", "weekday"]
    assert list(names["forecasts"]) == ["forecast", "made_at", "outside"]
    assert (
        "all-P2-fedopt-adam-fedavg-10 ['a', 'b', 'school'] ['load'] 12" in capsys.readouterr().out
    )


def plain(text: str) -> str:
    return re.sub(r"[\d.:-]+", "0", text)
