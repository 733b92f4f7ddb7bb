"""The guides to inputs and to measured meters do what they say."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from plfl.config.windows import Windows
from plfl.data import meters
from plfl.study import Study
from tests.helpers.repository import ROOT, blocks

GUIDE, MEASURED = (
    (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for page in ("inputs", "measured-meters")
)


def test_its_study_is_the_recipe() -> None:
    (block,) = (block for block in blocks("docs/inputs.md", "yaml") if "\nmodel:" in block)
    raw = yaml.safe_load(block)
    recipe = Study.load(ROOT / "config" / "recipe.yaml")
    shown = Study.parse(raw, "docs/inputs.md")
    assert (shown.windows, shown.model) == (recipe.windows, recipe.model)
    assert shown.data.features == recipe.data.features
    assert shown.plan.window_shape.covariates == 96
    assert "12 + 96 = 108 inputs" in GUIDE and recipe.windows.look_back == 12
    assert shown.plan.layout.width == 11_201


def test_every_transform_is_in_its_table() -> None:
    items = Windows.model_json_schema()["properties"]["covariates"]["items"]
    rows = GUIDE.partition("| transform |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` ", rows, re.MULTILINE)
    assert sorted(listed) == sorted(items["discriminator"]["mapping"])


def test_its_study_reads_the_twelve_meters(here: Path) -> None:
    stamps = pd.date_range("2016-12-30", "2018-01-02", freq="h", name="timestamp")
    listed = sorted(set(re.findall(r"`(Fox_\w+)`", MEASURED)))
    dice = np.random.default_rng(1)
    table = pd.DataFrame(
        {name: dice.uniform(1, 2, len(stamps)) for name in [*listed, "Fox_office_Other"]}, stamps
    )
    table.to_csv("electricity_cleaned.csv", date_format="%Y-%m-%d %H:%M:%S")
    page = "docs/measured-meters.md"
    study, day_ahead = (Study.parse(yaml.safe_load(b), page) for b in blocks(page, "yaml"))
    assert day_ahead.data.meters == study.data.meters
    found = meters.read(study.data, "fox")
    assert list(found) == listed and len(listed) == 12
    for name, series in found.items():
        np.testing.assert_allclose(series["load"], table.loc["2017", name], rtol=1e-12)
        assert series.index[0] == pd.Timestamp("2017-01-01 01:00"), "stamps end their hour"
        assert series.attrs["missing"] == series.attrs["gaps"] == series.attrs["filled"] == 0
