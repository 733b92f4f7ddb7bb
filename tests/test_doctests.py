"""The examples in docstrings print what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

import plfl
from tests.helpers import fake_results
from tests.helpers.meter_models import make_study, write_models_of

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "plfl").rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)


READ = {
    "plfl.results.tables": lambda: fake_results.write(Path("results/demo"), fake_results.TINY),
    "plfl.forecast.model": lambda: write_models_of(
        make_study(), Path("results/demo/models/town-P2.safetensors")
    ),
    "plfl.plugins": lambda: Path("my_method.py").touch(),
}
"""What writes the files that the examples of a module read."""


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name: str, here: Path) -> None:
    if name in READ:
        Path("results/demo/models").mkdir(parents=True)
        READ[name]()
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0 and found.failed == 0


def test_the_functions_of_the_python_interface_have_an_example() -> None:
    # All others are types of what these return or raise.
    results = {"Cell", "CellResult", "Client", "Dataset", "ForecastModel", "PlflError"}
    for name in {*plfl.__all__} - results:
        value = plfl.Study.parse if name == "Study" else getattr(plfl, name)  # not in the schema
        assert ">>>" in value.__doc__, name
        assert plfl.MODULES[name] in MODULES


def test_every_function_for_notebooks_has_an_example() -> None:
    assert "plfl.datasets" in MODULES
    datasets = importlib.import_module("plfl.datasets")
    for name in datasets.__all__:
        assert ">>>" in getattr(datasets, name).__doc__
