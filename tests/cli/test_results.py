"""The commands that read results."""

import json
from pathlib import Path
from typing import Any

import pytest

from plfl.cli import main as cli
from tests.helpers.constructed import write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def level(cell: dict[str, Any], split: str, model: str, t: int) -> float:
        return {"P1": 1.5, "P2": 1.0, "P3": 1.2}[cell["sharing"]] * t

    folder = tmp_path_factory.mktemp("results")
    data = {"states": ["NY"], "clients": 12}
    rounds = {"rounds": 2, "evaluate_every": 1}
    write(folder, level, data=data, grid={"client_opt": ["adam"]}, federation=rounds)
    return folder


def test_claims_prints_the_verdicts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["claims", str(folder)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("constructed (sample data): claims at the last round")
    assert "(c1) PL-FL (P2) beats FL (P1)\n  local: HOLDS; +1" in said
    assert "(a) Adam and AdamAMS beat" in said
    assert "the grid has no ClientOpt AdamAMS, Prox, ProxAdam" in said


def test_claims_for_machines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    effects = {}
    for chosen in ("last", "best_validation"):
        assert cli.main(["claims", str(folder), "--json", "--round", chosen]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["round"] == chosen
        (verdict,) = [v for v in said["verdicts"] if (v["claim"], v["model"]) == ("c1", "global")]
        assert verdict["answer"] == "holds"
        assert verdict["cells"] == ["NY-P2-fedopt-adam-fedavg", "NY-P1-fedopt-adam-fedavg"]
        effects[chosen] = verdict["effect"]
    # The first round is the better one, and all its scores are half of the last one's.
    assert effects["last"] == pytest.approx(2 * effects["best_validation"], rel=0.05)


def test_compare_prints_both_sides(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cell = f"{folder}:NY-P1-fedopt-adam-fedavg"
    assert cli.main(["compare", cell, cell.replace("P1", "P2")]) == 0
    said = capsys.readouterr().out
    assert "client11" in said
    assert "negative where B is better" in said


def test_mistakes_are_explained(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["claims", str(tmp_path)]) == 2
    assert "holds no study" in capsys.readouterr().err
    assert cli.main(["compare", str(folder), f"{folder}:NY"]) == 2
    assert "one is a study, the other a cell" in capsys.readouterr().err
