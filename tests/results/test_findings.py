"""The findings are those that the results were constructed to have."""

from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from plfl.results.findings import LOCAL_TRAINING, RIVALS, Findings, findings
from plfl.results.tables import Tables
from tests.helpers.constructed import config
from tests.helpers.fake_results import Level, write

LEVEL = {"P1": 0.9, "P2": 0.8, "P3": 0.7}
RIVAL = {"naive_week": 1.2, "ridge": 1.1, "ridge_lags": 0.6, "lightgbm": 0.5, "persistence": 1.0}
ANSWERS = {
    "persistence": "holds",
    "the best seasonal naive": "holds",
    "the best ridge": "does not hold",
    "the best LightGBM": "does not hold",
    "local training": "does not hold",
}


def level(cell: dict[str, Any], *_: object) -> float:
    return LEVEL[cell["sharing"]] * (1.5 if cell["client_opt"] == "sgd" else 1)


def rival(name: str) -> float:
    return RIVAL.get(name, 2.0)


def study(
    folder: Path, level: Level = level, constant: int | None = None, **grid: list[str]
) -> Tables:
    grid = {"client_opt": ["adam", "sgd"], **grid}
    of = config(data={"states": ["CA", "NY"]}, grid=grid)
    return write(folder, of, level, baseline=rival, constant=constant)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return study(tmp_path_factory.mktemp("findings"))


@pytest.fixture(scope="module")
def found(tables: Tables) -> Findings:
    return findings(tables)


def test_effects_are_differences_of_the_records(tables: Tables, found: Findings) -> None:
    means = {
        sharing: tables.records(
            ["mase"], split="test", model="local", state="NY", sharing=sharing, client_opt="adam"
        )["mase"].mean()
        for sharing in ("P2", "P3")
    }
    assert [(v.claim, v.state) for v in found.verdicts] == [
        (name, state) for name in RIVALS for state in ("CA", "NY")
    ]
    assert {v.claim: v.answer for v in found.verdicts} == ANSWERS
    assert {(v.clients, v.seeds, v.model) for v in found.verdicts} == {(12, 3, "local")}
    effects = {v.claim: v.effect for v in found.verdicts if v.state == "NY"}
    # Of several baselines, the one of lowest validation MASE is the rival.
    others = dict(zip(RIVALS, (1.0, 1.2, 0.6, 0.5), strict=False))
    for name, other in (others | {LOCAL_TRAINING: means["P3"]}).items():
        assert effects[name] == pytest.approx(other - means["P2"]), name
    for verdict in found.verdicts:
        assert verdict.low is not None and verdict.high is not None and verdict.effect is not None
        assert verdict.low <= verdict.effect <= verdict.high


def test_the_best_are_chosen_on_validation(tmp_path: Path) -> None:
    def misled(cell: dict[str, Any], split: str, *_: object) -> float:
        return 0.1 if (cell["sharing"] == "P1") == (split == "validation") else 0.3

    tables = study(tmp_path, misled)
    found = findings(tables)
    (best, _), (federated, _) = found.best, found.federated
    assert best == federated
    assert best.cell is not None and best.cell.sharing == "P1"
    assert best.mase == pytest.approx(0.3, abs=0.01)
    assert tables.best("local", state="CA") == best.cell


def test_the_interval_of_the_best_is_about_its_mean(tables: Tables, found: Findings) -> None:
    best = found.federated[0]
    assert best.cell is not None and best.state == "CA"
    by_client = tables.records(
        ["client", "mase"], split="test", model="local", state="CA", sharing="P2",
        client_opt="adam",
    ).groupby("client", sort=False)["mase"].mean()  # fmt: skip
    assert best.mase == pytest.approx(by_client.mean())
    assert (best.low + best.high) / 2 == pytest.approx(best.mase)
    over_clients = stats.t.ppf(0.975, 11) * by_client.sem()
    assert best.high - best.mase >= over_clients * (1 - 1e-5)
    assert [one.baseline for one in found.best] == ["lightgbm", "lightgbm"]
