"""`plfl claims` and `plfl compare`."""

import json
from pathlib import Path
from typing import Any

import pytest

from plfl.cli import main as cli
from tests.helpers.constructed import config
from tests.helpers.fake_results import write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a synthetic study in NY."""

    def level(cell: dict[str, Any], split: str, model: str, t: int) -> float:
        return {"P1": 1.5, "P2": 1.0, "P3": 1.2}[cell["sharing"]] * t

    folder = tmp_path_factory.mktemp("results")
    data = {"states": ["NY"], "clients": 12}
    rounds = {"rounds": 2, "evaluate_every": 1}
    write(
        folder, config(data=data, grid={"client_opt": ["adam"]}, federation=rounds), level, noise=0
    )
    return folder


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
