"""The guide to the measured meters does what it says, on synthetic numbers in the source's form."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from plfl.cli.main import main
from plfl.config.study import Study
from plfl.data import meters

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "measured-meters.md"


def studies() -> list[Study]:
    """The studies that the guide writes down."""
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [Study.parse(yaml.safe_load(block), str(GUIDE)) for block in blocks]


def test_its_code_makes_the_files_that_its_study_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stamps = pd.date_range("2016-12-30", "2018-01-02", freq="h", name="timestamp")
    guide = GUIDE.read_text(encoding="utf-8")
    listed = sorted(set(re.findall(r"`(Fox_\w+)`", guide)))
    dice = np.random.default_rng(1)
    table = pd.DataFrame(
        {name: dice.uniform(1, 2, len(stamps)) for name in [*listed, "Fox_office_Other"]}, stamps
    )
    table.to_csv("electricity_cleaned.csv", date_format="%Y-%m-%d %H:%M:%S")
    (command,) = re.findall(r"```\n(plfl data import .*?)```", guide, flags=re.DOTALL)
    assert main(shlex.split(command.replace("\\\n", " "))[1:]) == 0
    study, day_ahead = studies()
    assert day_ahead.data.meters == study.data.meters
    found = meters.read(study.data, "fox")
    assert list(found) == listed and len(listed) == 12
    for name, series in found.items():
        np.testing.assert_allclose(series["load"], table.loc["2017", name], rtol=1e-12)
        assert series.index[0] == pd.Timestamp("2017-01-01 01:00"), "stamps end their hour"
        assert series.attrs == {"gaps": 0, "filled": 0, "missing": 0}
