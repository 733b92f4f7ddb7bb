"""`plfl claims` and `plfl compare`."""

import json
from pathlib import Path

import pytest

from plfl.cli import main as cli


def test_claims_prints_the_verdicts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["claims", str(folder)]) == 0
    assert "(c1) PL-FL (P2) beats FL (P1)\n  local: HOLDS; +1" in capsys.readouterr().out


def test_claims_for_machines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["claims", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (verdict,) = [v for v in said["verdicts"] if (v["claim"], v["model"]) == ("c1", "global")]
    assert verdict["answer"] == "holds"
    assert verdict["cells"] == ["NY-P2-fedopt-adam-fedavg", "NY-P1-fedopt-adam-fedavg"]
    assert verdict["low"] <= verdict["effect"] <= verdict["high"]


def test_compare_prints_both_sides(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cell = f"{folder}:NY-P1-fedopt-adam-fedavg"
    assert cli.main(["compare", cell, cell.replace("P1", "P2")]) == 0
    said = capsys.readouterr().out
    assert "ny507" in said
    assert "negative where B is better" in said


def test_sides_of_different_kinds_are_explained(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", str(folder), f"{folder}:NY"]) == 2
    assert "one is a study, the other a cell" in capsys.readouterr().err
