"""The methods' claims say what is true of results of which the truth is known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.results import claims, method_claims
from plfl.results.method_claims import ABOUT_SCORES
from plfl.results.records import MODELS
from plfl.results.summary import summarise
from plfl.results.tables import Tables
from plfl.results.verdict import Verdict
from tests.helpers.constructed import config, judged, scored, study
from tests.helpers.fake_results import write

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
OF_METHODS = [c for c in ABOUT_SCORES if c not in [*OF_SCHEMES, *APART]]


def of_methods(*names: str, **grid: Any) -> dict[str, Any]:
    """`CONFIG` with these methods alone."""
    return {**CONFIG, "grid": {**GRID, "method": list(names), **grid}}


def true(cell: dict[str, Any], *_: object) -> float:
    """As the sources have it."""
    scheme = 1.2 if cell["sharing"] in ("LG", "P3") else 1.0
    return scheme * LEVEL[cell["method"]] * (0.8 if cell["server_opt"] == "slowmo" else 1.0)


def contrary(cell: dict[str, Any], *_: object) -> float:
    return 1 / true(cell)


@pytest.mark.parametrize(("level", "answer"), [(true, "holds"), (contrary, "does not hold")])
def test_what_is_true_holds_and_what_is_false_does_not(level: Any, answer: str) -> None:
    found = judged(OF_METHODS, level, study(**CONFIG))
    assert set(found) == {(claim, model) for claim in OF_METHODS for model in MODELS}
    for verdict in found.values():
        assert verdict.answer == answer, verdict
        assert verdict.low is not None
        assert answer != "holds" or verdict.low > 0
        assert verdict.clients == 24, "both states"
    found = judged(OF_SCHEMES, level, study(**WIDE))
    assert {verdict.answer for verdict in found.values()} == {answer}
    body, head = found["o11", "local"].cells[:2]
    assert ("-P2-fedopt" in body, "-LG-fedopt" in head) == (True, True)


def one_step(better: str, **fine_tuning: Any) -> Verdict:
    methods = {"fine_tuning": {"most_steps": 1, **fine_tuning}, "per_fedavg": {"adapt_steps": 1}}
    of = of_methods(*methods, sharing=["P1"]) | {"hyperparameters": {"method": methods}}
    found = judged(["o12"], lambda cell, *_: 0.8 if cell["method"] == better else 1, study(**of))
    return found["o12", "local"]


def test_models_after_a_single_step() -> None:
    assert one_step("per_fedavg").answer == "holds"
    assert one_step("fine_tuning").answer == "does not hold"
    for changed in ({"most_steps": 2}, {"head_epochs": 1}, {"epochs": 0}):
        found = one_step("per_fedavg", **changed)
        assert found.answer == "not in this study"
        assert "fine_tuning: {most_steps: 1}" in found.reason


@pytest.mark.parametrize(("spread", "answer"), [(0.1, "holds"), (3.0, "does not hold")])
def test_spread_over_clients(spread: float, answer: str) -> None:
    of = study(**of_methods("fedopt", "ditto", sharing=["P1", "P3"]))
    of_states = scored(of, lambda *_: 1.0, noise=0.01)
    # Ditto is worse on average, which the claim does not speak of.
    for state, of_state in of_states.items():
        ours = of_state.where(method="ditto", sharing="P1")[:, None, None, None]
        more = 0.1 * (np.arange(12) - 5.5)[:, None] * np.where(ours, spread, 1.0) + ours
        of_states[state] = replace(of_state, weekly=of_state.weekly + more / 5)
    found = {v.claim: v for v in claims.judged(["o1", "o13"], "local", of, of_states)}
    assert found["o13"].answer == answer
    assert found["o1"].effect == pytest.approx(-1, abs=0.1)


def test_every_split_counts() -> None:
    def only_in_fl(cell: dict[str, Any], *_: object) -> float:
        return true(cell) if cell["sharing"] == "P1" else contrary(cell)

    verdict = judged(["j2"], only_in_fl, study(**CONFIG))["j2", "local"]
    assert verdict.answer == "does not hold"
    assert all("-P2-" in cell for cell in verdict.cells)


def test_each_side_has_its_best_client_optimiser() -> None:
    def picky(cell: dict[str, Any], *_: object) -> float:
        favourite = "adam" if cell["method"] == "fedopt" else "sgd"
        return true(cell) * (1 if cell["client_opt"] == favourite else 3)

    of = study(**of_methods("fedopt", "fedcluster", client_opt=["sgd", "adam"]))
    verdict = judged(["j2"], picky, of)["j2", "local"]
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
    changed: dict[str, Any], lost: list[str], reason: str
) -> None:
    config = {key: {**CONFIG.get(key, {}), **changed.get(key, {})} for key in {*CONFIG, *changed}}
    for verdict in judged(OF_METHODS, true, study(**config)).values():
        missing = any(verdict.claim.startswith(name) for name in lost)
        assert (verdict.answer == "not in this study") == missing, verdict
        assert (reason in verdict.reason) == missing, verdict


@pytest.mark.parametrize(("lost", "answer"), [("fedadc_plus", "undecided"), ("moon", "holds")])
def test_one_of_many_methods_that_diverged_keeps_a_claim_from_holding(
    lost: str, answer: str
) -> None:
    def broken(cell: dict[str, Any], *_: object) -> float:
        return np.nan if cell["method"] == lost else true(cell)

    verdict = judged(["h1"], broken, study(**CONFIG))["h1", "local"]
    assert verdict.answer == answer
    assert verdict.diverged
    assert all(lost in cell for cell in verdict.diverged)


def counted(folder: Path, federation: dict[str, Any] | None = None, **changes: Any) -> Any:
    """The verdicts on what is counted, with these changes to the records."""
    few = of_methods("fedopt", "fedeff", "ifca")
    write(folder, config(**few | {"federation": federation or {}}), true)
    records = pd.read_parquet(folder / "records.parquet")
    records = records.assign(**changes)
    records.to_parquet(folder / "records.parquet")
    summarise(records, "sample").to_csv(folder / "summary.csv", index=False)
    return {v.claim: v for v in claims.verdicts(Tables(folder)) if v.claim in method_claims.CLAIMS}


def simulated(folder: Path, waiting: dict[str, float], whole: dict[str, float]) -> Any:
    """Those on a simulated clock: in each round clients wait and rounds last as long as given."""
    return counted(
        folder,
        {"rounds": 2, "simulation": {"step_seconds": 1.0}},
        round_seconds=lambda records: records["method"].map(whole).fillna(10.0),
        seconds=lambda records: (
            records["round_seconds"] - records["method"].map(waiting).fillna(5.0)
        ),
    )


def test_waiting_and_time_are_those_of_the_simulated_clock(tmp_path: Path) -> None:
    found = simulated(tmp_path, {"fedeff": 2.0}, {"fedeff": 12.0})
    waiting, whole = found["l1"], found["l2"]
    assert waiting.answer == "holds"
    assert waiting.effect == pytest.approx(2 / 5)
    assert whole.answer == "does not hold"
    assert whole.effect == pytest.approx(12 / 10)
    # Two states, two splits, three seeds.
    assert "12 pairs" in whole.reason
    assert "[40.00%, 40.00%]" in claims.describe(waiting)
    nobody = simulated(tmp_path, {"fedopt": 0.0}, {})["l1"]
    assert nobody.answer == "not in this study"


@pytest.mark.parametrize(("factor", "answer"), [(2, "holds"), (1, "does not hold")])
def test_ifca_sends_all_its_models(factor: int, answer: str, tmp_path: Path) -> None:
    def sent(records: pd.DataFrame) -> pd.Series:
        return 1000 * (records["method"] == "ifca").map({True: factor, False: 1})

    found = counted(tmp_path, bytes_down=sent)
    assert (found["m"].answer, found["m"].effect) == (answer, factor)
    for claim in ("l1", "l2"):  # without a clock nobody waits
        assert found[claim].answer == "not in this study"
        assert "federation.simulation" in found[claim].reason


def test_a_study_of_the_paper_alone_is_not_asked(tmp_path: Path) -> None:
    grid = {"client_opt": ["adam"], "seeds": [1]}
    tables = write(tmp_path, config(data={"states": ["CA"]}, grid=grid), lambda *_: 1.0)
    assert not [v for v in claims.verdicts(tables) if v.claim in method_claims.CLAIMS]
