"""The guide to inputs does what it says."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from plfl.config.sections import Windows
from plfl.config.study import Study

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "inputs.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The guide's only piece of code in `language`."""
    (code,) = re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)
    return str(code)


def test_its_study_is_the_recipe() -> None:
    raw = yaml.safe_load(block("yaml"))
    recipe = Study.load(ROOT / "config" / "recipe.yaml")
    shown = Study.parse(raw, "docs/inputs.md")
    assert (shown.windows, shown.model) == (recipe.windows, recipe.model)
    assert shown.data.features == recipe.data.features
    assert shown.window_shape.context == 96
    assert "12 + 96 = 108 inputs" in GUIDE and recipe.windows.look_back == 12
    assert shown.layout.width == 11_201


def test_every_transform_is_in_its_table() -> None:
    items = Windows.model_json_schema()["properties"]["context"]["items"]
    rows = GUIDE.partition("| transform |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` ", rows, re.MULTILINE)
    assert sorted(listed) == sorted(items["discriminator"]["mapping"])


def test_its_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(block("python"), names)
    assert capsys.readouterr().out == "(285, 20)\n"
    dataset, starts = names["dataset"], names["starts"]
    truth = dataset.load[dataset.target_rows(starts)]
    np.testing.assert_allclose(names["forecast"], truth, rtol=1e-5)
