"""The methods' claims say what is true of results of which the truth is known."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plfl.config.study import Study
from plfl.results import claims, method_claims
from plfl.results.claims import verdicts
from plfl.results.records import MODELS
from plfl.results.statistics import ALPHA
from plfl.results.summary import summarise
from plfl.results.tables import Tables
from plfl.results.verdict import Verdict
from tests.helpers import errors
from tests.helpers.constructed import write, wrong_verdicts

LEVEL = {
    "fedadc_plus": 0.5,
    "fedadc": 0.6,
    "fedsplit": 0.7,
    "fedac": 0.7,
    "cc_fedadagrad": 0.7,
    "cc_fedadam": 0.75,
    "cc_fedams": 0.72,
    "fedsc": 0.8,
    "fedcluster": 0.8,
    "feddyn": 0.85,
    "fedgkd": 0.9,
    "ifca": 1.1,
    "one_shot": 1.2,
    "fedprox": 1.3,
    "moon": 1.4,
    "ditto": 0.7,
    "fedrep": 0.7,
    "fedbabu": 0.6,
    "fine_tuning": 0.65,
    "per_fedavg": 0.85,
    "pfedme": 0.75,
    "fedala": 0.7,
    "apfl": 0.8,
    "fedamp": 0.8,
    "fedfomo": 0.8,
    "knn_per": 0.5,
    "fedeff": 1.0,
    "fedopt": 1.0,
}
GRID: dict[str, Any] = {
    "method": list(LEVEL),
    "client_opt": ["sgd"],
    "server_opt": ["fedavg", "slowmo"],
    "sharing": ["P1", "P2"],
    "refused": "skip",
}
CONFIG: dict[str, Any] = {
    "grid": GRID,
    "data": {"states": ["CA", "NY"]},
    "federation": {"participation": 0.5},
    "hyperparameters": {"method": {"fedala": {"subset": "shared"}}},
}

WIDE: dict[str, Any] = {
    **CONFIG,
    "grid": {**GRID, "method": ["fedopt", "ditto", "apfl"], "sharing": ["P1", "P2", "LG", "P3"]},
    "sharing": {"P1": ["*"], "P2": ["body"], "LG": ["head"], "P3": []},
}
"""With local training and LG-FedAvg, of which two claims speak."""
OF_SCHEMES = ["o8", "o11"]
APART = ["o12", "o13"]
"""Of these one contradicts another claim, and one is not about means."""
OF_METHODS = [c for c in method_claims.ABOUT_SCORES if c not in [*OF_SCHEMES, *APART]]

SMALL = {**CONFIG, "grid": {**GRID, "method": ["fedopt", "fedeff", "ifca"]}}
"""What is counted needs no more."""


def true(cell: dict[str, Any], *_: object) -> float:
    """As the sources have it."""
    scheme = 1.2 if cell["sharing"] in ("LG", "P3") else 1.0
    return scheme * LEVEL[cell["method"]] * (0.8 if cell["server_opt"] == "slowmo" else 1.0)


def contrary(cell: dict[str, Any], *_: object) -> float:
    return 1 / true(cell)


def about_methods(tables: Tables) -> dict[tuple[str, str | None], Verdict]:
    found = {(v.claim, v.model): v for v in verdicts(tables)}
    return {key: v for key, v in found.items() if key[0] in method_claims.CLAIMS}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return write(tmp_path_factory.mktemp("methods"), true, **CONFIG)


def test_what_is_true_holds(good: Tables) -> None:
    found = about_methods(good)
    for claim in OF_METHODS:
        for model in MODELS:
            verdict = found[claim, model]
            assert verdict.answer == "holds", verdict
            assert verdict.low is not None
            assert verdict.low > 0
            assert verdict.clients == 24, "both states"
            assert verdict.text == method_claims.CLAIMS[claim]


def test_what_is_false_does_not_hold(tmp_path: Path) -> None:
    found = about_methods(write(tmp_path, contrary, **CONFIG))
    for claim in OF_METHODS:
        for model in MODELS:
            assert found[claim, model].answer == "does not hold", found[claim, model]


@pytest.mark.parametrize(("level", "answer"), [(true, "holds"), (contrary, "does not hold")])
def test_methods_and_schemes_against_local_training_and_shared_heads(
    level: Any, answer: str, tmp_path: Path
) -> None:
    found = about_methods(write(tmp_path, level, **WIDE))
    assert {found[claim, "local"].answer for claim in OF_SCHEMES} == {answer}
    body, head = found["o11", "local"].cells[:2]
    assert ("-P2-fedopt" in body, "-LG-fedopt" in head) == (True, True)


def one_step(better: str, folder: Path, **fine_tuning: Any) -> Verdict:
    methods = {"fine_tuning": {"most_steps": 1, **fine_tuning}, "per_fedavg": {"adapt_steps": 1}}
    grid = {**GRID, "method": list(methods), "sharing": ["P1"]}
    tables = write(
        folder,
        lambda cell, *_: 0.8 if cell["method"] == better else 1.0,
        **{**CONFIG, "grid": grid, "hyperparameters": {"method": methods}},
    )
    return about_methods(tables)["o12", "local"]


def test_models_after_a_single_step(tmp_path: Path) -> None:
    assert one_step("per_fedavg", tmp_path / "a").answer == "holds"
    assert one_step("fine_tuning", tmp_path / "b").answer == "does not hold"


@pytest.mark.parametrize("changed", [{"most_steps": 2}, {"head_epochs": 1}, {"epochs": 0}])
def test_several_steps_are_not_one(changed: dict[str, Any], tmp_path: Path) -> None:
    found = one_step("per_fedavg", tmp_path, **changed)
    assert found.answer == "not in this study"
    assert "fine_tuning: {most_steps: 1}" in found.reason


@pytest.mark.parametrize(("spread", "answer"), [(0.1, "holds"), (3.0, "does not hold")])
def test_spread_over_clients(spread: float, answer: str, tmp_path: Path) -> None:
    grid = {**GRID, "method": ["fedopt", "ditto"], "sharing": ["P1", "P3"]}
    tables = write(tmp_path, lambda *_: 1.0, noise=0.01, **{**CONFIG, "grid": grid})
    records = pd.read_parquet(tables.folder / "records.parquet")
    client = records["client"].str.removeprefix("client").astype(int)
    ours = (records["method"] == "ditto") & (records["sharing"] == "P1")
    # Ditto is worse on average, which the claim does not speak of.
    records["mase"] += 0.1 * (client - 5.5) * np.where(ours, spread, 1.0) + ours
    baselines = pd.read_parquet(tmp_path / "baselines.parquet")
    errors.write(tmp_path, records, baselines, int(records["round"].max()))
    summarise(records, "sample").to_csv(tmp_path / "summary.csv", index=False)
    found = about_methods(Tables(tmp_path))
    assert found["o13", "local"].answer == answer
    assert found["o1", "local"].effect == pytest.approx(-1, abs=0.1)


def test_every_split_counts(tmp_path: Path) -> None:
    def only_in_fl(cell: dict[str, Any], *_: object) -> float:
        return true(cell) if cell["sharing"] == "P1" else contrary(cell)

    found = about_methods(write(tmp_path, only_in_fl, **CONFIG))
    verdict = found["j2", "local"]
    assert verdict.answer == "does not hold"
    assert all("-P2-" in cell for cell in verdict.cells)


def test_each_side_has_its_best_client_optimiser(tmp_path: Path) -> None:
    def picky(cell: dict[str, Any], *_: object) -> float:
        favourite = "adam" if cell["method"] == "fedopt" else "sgd"
        return true(cell) * (1 if cell["client_opt"] == favourite else 3)

    grid = {**GRID, "method": ["fedopt", "fedcluster"], "client_opt": ["sgd", "adam"]}
    verdict = about_methods(write(tmp_path, picky, **{**CONFIG, "grid": grid}))["j2", "local"]
    assert verdict.answer == "holds"
    sides = [cell.split("-", 2)[2] for cell in verdict.cells]
    assert sides == 2 * ["fedcluster-sgd-fedavg", "fedopt-adam-fedavg"]


@pytest.mark.parametrize(
    ("changed", "lost", "reason"),
    [
        ({"grid": {"server_opt": ["fedavg"]}}, ["g"], "no SlowMo (grid.server_opt)"),
        ({"grid": {"method": [m for m in LEVEL if m != "moon"]}}, ["h"], "no MOON (grid.method)"),
        ({"grid": {"sharing": ["P3"]}}, "ghijklmo", "no sharing scheme that shares parameters"),
        ({"federation": {"participation": 1.0}}, ["k"], "every client takes part"),
        (
            {"hyperparameters": {"method": {"fedsc": {"clusters": 1}}}},
            ["j1"],
            "clusters: 1, FedSC is FedAvg",
        ),
    ],
    ids=["servers", "methods", "sharing", "participation", "clusters"],
)
def test_a_study_without_what_a_claim_speaks_of_says_so(
    changed: dict[str, Any], lost: list[str], reason: str, tmp_path: Path
) -> None:
    config = {key: {**CONFIG.get(key, {}), **changed.get(key, {})} for key in {*CONFIG, *changed}}
    found = about_methods(write(tmp_path, true, **config))
    for (claim, _), verdict in found.items():
        asked = claim not in ("l1", "l2", *OF_SCHEMES, *APART)  # nothing takes time here
        missing = any(claim.startswith(name) for name in lost)
        if asked:
            assert (verdict.answer == "not in this study") == missing, verdict
            assert (reason in verdict.reason) == missing, verdict


def test_a_study_of_the_paper_alone_is_not_asked(tmp_path: Path) -> None:
    tables = write(tmp_path, lambda *_: 1.0, data={"states": ["CA"]})
    assert not about_methods(tables)


def test_one_of_many_methods_that_diverged_keeps_a_claim_from_holding(tmp_path: Path) -> None:
    def broken(lost: str, cell: dict[str, Any]) -> float:
        return np.nan if cell["method"] == lost else true(cell)

    better = about_methods(write(tmp_path / "a", lambda c, *_: broken("fedadc_plus", c), **CONFIG))
    assert better["h1", "local"].answer == "undecided"
    assert better["h1", "local"].diverged
    worse = about_methods(write(tmp_path / "b", lambda c, *_: broken("moon", c), **CONFIG))
    assert worse["h1", "local"].answer == "holds"
    assert all("moon" in cell for cell in worse["h1", "local"].diverged)


def simulated(folder: Path, waiting: dict[str, float], whole: dict[str, float]) -> Tables:
    """Results on a simulated clock: in each round clients wait and rounds last as long as given."""
    clock = {"step_seconds": 1.0}
    write(folder, true, **{**SMALL, "federation": {"rounds": 2, "simulation": clock}})
    records = pd.read_parquet(folder / "records.parquet")
    records["round_seconds"] = records["method"].map(whole).fillna(10.0)
    records["seconds"] = records["round_seconds"] - records["method"].map(waiting).fillna(5.0)
    records.to_parquet(folder / "records.parquet")
    summarise(records, "sample").to_csv(folder / "summary.csv", index=False)
    return Tables(folder)


def test_waiting_and_time_are_those_of_the_simulated_clock(tmp_path: Path) -> None:
    found = about_methods(simulated(tmp_path, {"fedeff": 2.0}, {"fedeff": 12.0}))
    waiting, whole = found["l1", None], found["l2", None]
    assert waiting.answer == "holds"
    assert waiting.effect == pytest.approx(2 / 5)
    assert whole.answer == "does not hold"
    assert whole.effect == pytest.approx(12 / 10)
    # Two states, two splits, three seeds.
    assert "12 pairs" in whole.reason
    assert "[40.00%, 40.00%]" in claims.describe(waiting)


def test_without_a_clock_nobody_waits(good: Tables) -> None:
    for claim in ("l1", "l2"):
        verdict = about_methods(good)[claim, None]
        assert verdict.answer == "not in this study"
        assert "federation.simulation" in verdict.reason


def test_nobody_waits_under_fedavg(tmp_path: Path) -> None:
    verdict = about_methods(simulated(tmp_path, {"fedopt": 0.0}, {}))["l1", None]
    assert verdict.answer == "not in this study"


@pytest.mark.parametrize(("factor", "answer"), [(2, "holds"), (1, "does not hold")])
def test_ifca_sends_all_its_models(factor: int, answer: str, tmp_path: Path) -> None:
    tables = write(tmp_path, true, **SMALL)
    records = pd.read_parquet(tmp_path / "records.parquet")
    records.loc[records["method"] == "ifca", "bytes_down"] *= factor
    records.to_parquet(tmp_path / "records.parquet")
    verdict = about_methods(tables)["m", None]
    assert verdict.answer == answer
    assert verdict.effect == factor


def test_no_effect_no_verdict() -> None:
    """At most the nominal rate where no method is better than another, by simulation."""
    data = {"source": "sample", "states": ["CA", "NY"]}
    grid = {**GRID, "seeds": [1, 2, 3]}
    study = Study.parse({**CONFIG, "data": data, "grid": grid}, "null")
    found = wrong_verdicts(study, 30, noise=0.1, shock=0.1, between=0.3)
    assert sum(map(bool, found)) <= stats.binom.ppf(0.99, 30, ALPHA)
