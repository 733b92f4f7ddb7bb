"""The programs behind numbers of the pages, as far as they can be looked at without their data."""

from importlib import import_module
from pathlib import Path

import pytest

from tests.helpers.repository import ROOT

PROGRAMS = sorted(
    str(path.relative_to(ROOT).with_suffix("")).replace("/", ".")
    for path in (ROOT / "benchmarks").rglob("*.py")
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_finds_what_it_imports(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(*name.split(".")[:-1])
    monkeypatch.syspath_prepend(ROOT / folder)  # where a program runs by its path
    assert import_module(name).__doc__
