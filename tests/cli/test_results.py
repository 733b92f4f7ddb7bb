"""`plfl claims` and `plfl compare`."""

import json
from pathlib import Path
from typing import Any

import pytest

from plfl.report.reporting import figures_of
from plfl.study import Study
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
    study = config(data=data, grid={"client_opt": ["adam"]}, federation=rounds)
    write(folder, study | {"claims": [{"better": "P2", "than": "P1"}]}, level, noise=0.001)
    return folder


def test_claims_prints_the_verdicts(folder: Path, invoke) -> None:
    said = invoke("claims", folder).out
    assert (
        "(c1) P2 (body shared) has a lower error than P1 (everything shared)\n  HOLDS; +0.999 ["
        in said
    )


def test_a_study_is_named_by_its_file_or_its_folder(folder: Path, here: Path, invoke) -> None:
    (here / "results").mkdir()
    (here / "results/own").symlink_to(folder)
    (here / "mine.yaml").write_text("name: own\n", encoding="utf-8")
    assert invoke("claims", "mine.yaml").out == invoke("claims", folder).out
    cells = [f"NY-{sharing}-fedopt-adam-fedavg" for sharing in ("P1", "P2")]
    first, second = (f"{folder}:{cell}" for cell in cells)
    by_file = invoke("compare", *(f"mine.yaml:{cell}" for cell in cells)).out
    assert by_file == invoke("compare", first, second).out.replace(str(folder), "results/own")


def test_a_study_without_results_is_said(here: Path, invoke) -> None:
    (here / "mine.yaml").write_text("name: own\n", encoding="utf-8")
    for command in (["claims", "mine.yaml"], ["forecast", "mine.yaml", "new.csv"]):
        assert "results/own: holds no study" in invoke(*command, status=2).err
    serving = ["deploy", "forecasts", "--building", "a", "--readings", "a.csv", "--model"]
    for command in (["export", "--to", "programs"], ["forecast"], ["backtest"], serving):
        paths = ["results/own.2", *["new.csv"] * (command[0] in ("forecast", "backtest"))]
        assert "results/own.2: holds no study" in invoke(*command, *paths, status=2).err
    assert "other.yaml: 1 error" in invoke("claims", "other.yaml", status=2).err


def test_claims_for_machines(folder: Path, invoke) -> None:
    (row,) = json.loads(invoke("claims", folder, "--json").out)
    assert (row["claim"], row["verdict"]) == ("c1", "holds")
    assert (row["chosen"], row["chosen_than"]) == ("P2 (body shared)", "P1 (everything shared)")
    assert row["low"] <= row["difference"] <= row["high"]


def test_compare_lists_the_comparisons_of_a_study(folder, invoke):
    said = invoke("compare", folder).out
    assert "The best federation against the best without one\n    -1.44 [" in said
    assert "HOLDS" not in said and "c1" not in said


def test_the_figures_of_a_copy_are_in_it(tmp_path: Path) -> None:
    study = Study.parse({"name": "demo"}, "test")
    assert figures_of(tmp_path / "results/demo", study) == tmp_path / "figures/demo"
    variant = study.model_copy(update={"name": "demo/model=mlp"})
    folder = tmp_path / "results/demo/model=mlp"
    assert figures_of(folder, variant) == tmp_path / "figures/demo/model=mlp"
    for copy in (tmp_path / "demo", tmp_path / "results/other"):
        assert figures_of(copy, study) == copy / "figures"
