from pathlib import Path

import pytest

from plfl.cli import main as cli


def test_compare_prints_both_sides(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cell = f"{folder}:NY-P1-fedopt-adam-fedavg"
    assert cli.main(["compare", cell, cell.replace("P1", "P2")]) == 0
    said = capsys.readouterr().out
    assert "client11" in said
    assert "negative where B is better" in said


def test_sides_of_different_kinds_are_explained(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", str(folder), f"{folder}:NY"]) == 2
    assert "one is a study, the other a cell" in capsys.readouterr().err
