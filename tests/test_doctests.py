"""The examples in docstrings print what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "plfl").rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name: str, here: Path) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0 and found.failed == 0


def test_every_function_for_notebooks_has_an_example() -> None:
    assert "plfl.datasets" in MODULES
    datasets = importlib.import_module("plfl.datasets")
    for name in datasets.__all__:
        assert ">>>" in getattr(datasets, name).__doc__
