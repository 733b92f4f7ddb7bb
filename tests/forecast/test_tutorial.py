"""The tutorial does what it says, on synthetic numbers in the form of its export."""

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import plfl
from plfl.cli.main import main
from plfl.config.study import Study
from plfl.experiments.train import train
from plfl.forecast.contents import describe
from plfl.results.models import write_models

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "tutorial-meters.md").read_text(encoding="utf-8")
MEASURED = (ROOT / "docs" / "measured-meters.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    blocks = re.findall(r"^```\n(plfl .*?)```", GUIDE, re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines]


def test_the_whole_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = sorted(set(re.findall(r"`(Fox_\w+)`", MEASURED)))
    stamps = pd.date_range("2016-12-30", "2018-01-02", freq="h", name="timestamp")
    dice = np.random.default_rng(1)
    days = 2 + np.sin(np.arange(len(stamps)) / 24 * 2 * np.pi)[:, None]
    loads = days + dice.uniform(0, 0.3, (len(stamps), len(names)))
    pd.DataFrame(loads, stamps, names).to_csv("electricity_cleaned.csv")

    takes_part, new, init, check, cells, _, old_meter, new_meter, later = commands()
    for command in (takes_part, new, init, check, cells):
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
    Path(old_meter[1]).parent.mkdir(parents=True)
    write_models(Path(old_meter[1]), models, describe(study, cell, dataset, {}))
    capsys.readouterr()

    assert main(old_meter) == 0
    shown = capsys.readouterr().out.splitlines()
    header, first = re.findall(r"```text\n(timestamp.*)\n(.*)\n", GUIDE)[0]
    assert shown[0] == header and len(shown) == 1 + 24
    without_load = r"^([^,]*),[^,]*,"
    assert re.sub(without_load, "", shown[1]) == re.sub(without_load, "", first)
    assert main(new_meter) == 0 and main(later) == 0
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    found: dict[str, Any] = {}
    exec(program, found)
    assert found["december"].index[-1] == pd.Timestamp("2018-01-01")
    assert np.isfinite(list(found["errors"].values())).all()
