"""The verdicts say what is true of results of which the truth is known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plfl.base.errors import ConfigError
from plfl.config.claims import Claim
from plfl.results import claims, words
from plfl.results.comparisons import read
from plfl.results.contenders import Contender
from plfl.results.scores import select
from plfl.results.statistics import ALPHA, holm
from plfl.results.variants import Variant
from plfl.study import Study
from tests.helpers.constructed import PAPER, config, judged, scored, study, variant, wrong_verdicts
from tests.helpers.fake_results import METHODS, write
from tests.helpers.refusals import naming
from tests.helpers.repository import ROOT

STATE = {"CA": 1.5, "IL": 0.8, "NY": 0.7}
OPTIMISER = {"adam": 1.0, "adamams": 1.1, "prox": 1.6, "proxadam": 1.3}
SPLIT = {"P1": 1.2, "P2": 1.0, "P3": 1.1}
OF_PAPER = PAPER[1:]


def true(cell: dict[str, Any], *_: object) -> float:
    """As the paper has it."""
    return STATE[cell["state"]] * OPTIMISER[cell["client_opt"]] * SPLIT[cell["sharing"]]


def false(cell: dict[str, Any], *_: object) -> float:
    """The contrary of everything."""
    state = {"CA": 0.6, "IL": 3.0, "NY": 3.0}[cell["state"]]
    return state / (OPTIMISER[cell["client_opt"]] * SPLIT[cell["sharing"]])


def rival(name: str, split: str) -> float:
    return 1.0 if name == "persistence" else 2.0


def paper(**blocks: Any) -> Study:
    return Study.parse(config(**blocks) | {"claims": OF_PAPER}, "paper")


@pytest.mark.parametrize(("level", "verdict"), [(true, "holds"), (false, "does not hold")])
def test_what_is_true_holds_and_what_is_false_does_not(level: Any, verdict: str) -> None:
    found = judged(paper(), level, baseline=rival)
    assert [row["verdict"] for row in found] == [verdict] * len(OF_PAPER)
    for row in found:
        assert row["low"] < row["difference"] < row["high"]
        assert (row["difference"] > 0) == (verdict == "holds")
        assert row["seeds"] == 3
    assert [row["p"] for row in found] == pytest.approx(holm([row["p_alone"] for row in found]))


def test_noise_is_undecided_and_says_what_would_decide_it() -> None:
    for row in judged(paper(), lambda *_: 1.0, noise=0.2, baseline=lambda *_: 1.0):
        assert row["verdict"] == "undecided"
        assert row["needed"]


def test_cells_are_chosen_on_validation_and_never_on_test() -> None:
    def misled(cell: dict[str, Any], split: str, *_: object) -> float:
        fedadam = cell["server_opt"] == "fedadam"
        return true(cell) * (0.9 if fedadam == (split == "validation") else 1.0)

    found = judged(paper(grid={"server_opt": ["fedavg", "fedadam"]}), misled, baseline=rival)
    assert found[2]["chosen"] == "FedAdam with Adam, P2 (body shared)"
    assert found[2]["chosen_than"] == "FedAdam with Adam, P1 (everything shared)"


def test_one_seed_decides_nothing_about_errors() -> None:
    for row in judged(paper(grid={"seeds": [4]}), true, baseline=rival):
        assert row["verdict"] == "undecided"
        assert "3 seeds (grid.seeds)" in row["needed"]
        assert row["p_alone"] == 1


@pytest.mark.parametrize(
    ("better", "participation", "verdict"),
    [("in use alone", 1, "holds"), ("P1", 1, "holds"), ("P1", 0.5, "undecided")],
)
def test_seeds_count_where_numbers_depend_on_them(better, participation, verdict, tmp_path) -> None:
    """Not for baselines in use, nor for trees that all clients grow in every round."""
    blocks: dict[str, Any] = config(
        data={"states": ["CA"]},
        windows={"target": "change"},
        model={"name": "trees", "trees": 1, "own_trees": 1},
        grid={"method": ["boosting"], "client_opt": ["sgd"], "sharing": ["P1"], "seeds": [1]},
        federation={"rounds": 2, "participation": participation},
    )
    tables = write(
        tmp_path,
        blocks | {"claims": [{"better": better, "than": "baseline-persistence"}]},
        lambda *_: 0.8,
    )
    (row,) = claims.judge_claims(tables.study, [Variant("", {}, tables)])
    assert row["verdict"] == verdict
    assert ("3 seeds" in row["needed"]) == (verdict == "undecided")


@pytest.mark.parametrize(("optimiser", "verdict"), [("adam", "undecided"), ("prox", "holds")])
def test_a_diverged_cell_is_no_evidence(optimiser: str, verdict: str) -> None:
    def broken(cell: dict[str, Any], *_: object) -> float:
        lost = cell["client_opt"] == optimiser and cell["seed"] == 2
        return np.nan if lost and cell["sharing"] == "P1" else true(cell)

    found = judged(paper(), broken, baseline=rival)
    assert found[0]["verdict"] == verdict
    assert "3 cells diverged" in found[0]["reason"]
    assert found[2]["verdict"] == "holds"


def test_a_study_that_diverged_is_undecided() -> None:
    for row in judged(paper(), lambda *_: np.nan, baseline=rival):
        assert row["verdict"] == "undecided"
        assert "diverged" in row["reason"] and "finite scores" in row["needed"]


def test_two_names_of_one_training_are_left_out() -> None:
    study = paper()
    forecasters_by_state = scored(study, true, baseline=rival)
    for forecasters in forecasters_by_state.values():
        # With nothing shared, ProxAdam has nothing to be drawn to.
        adam, proxadam = (
            select(forecasters, sharing="P3", client_opt=name) for name in ("adam", "proxadam")
        )
        for one, other in zip(adam, proxadam, strict=True):
            other.weekly[:] = one.weekly
    made_up = variant(study, {"local": forecasters_by_state, "global": forecasters_by_state})
    row = claims.judge_claims(study, [made_up])[0]
    assert "3 further pairs have equal results" in row["reason"]


MANY_METHODS: dict[str, Any] = METHODS | {
    "grid": METHODS["grid"] | {"seeds": [1, 2, 3]},
    "data": METHODS["data"] | {"clients": 8},
}


@pytest.fixture(scope="module")
def methods(tmp_path_factory: pytest.TempPathFactory) -> Variant:
    """The only variant of `MANY_METHODS`."""
    return Variant("", {}, write(tmp_path_factory.mktemp("methods"), MANY_METHODS, noise=0.002))


@pytest.mark.parametrize(
    ("named", "verdict"),
    [
        ({"better": "P1-ifca", "than": ["P1-fedopt", "P1-moon"], "each": ["method"]}, "holds"),
        ({"better": "*-ifca", "than": ["*-scaffold", "*-moon"], "each": ["method"]}, "holds"),
        ({"better": "*-moon", "than": "*-scaffold", "each": ["sharing"]}, "does not hold"),
        ({"better": "P1-feddyn", "than": "P1-moon", "margin": 0.2}, "holds"),
        ({"better": "P1-feddyn", "than": "P1-moon", "margin": 0.01}, "does not hold"),
        ({"better": "P1", "than": "P2", "each": ["state"], "score": "spread"}, "undecided"),
        ({"better": "*-fedopt", "than": "*-fedeff", "score": "seconds"}, "does not hold"),
        ({"better": "P2", "than": "P1", "score": "waiting"}, "holds"),
        ({"better": "*-ifca", "than": "*-fedopt", "score": "bytes_down", "share": 3}, "holds"),
        ({"better": "*-ifca", "than": "*-fedopt", "score": "bytes", "share": 2}, "does not hold"),
        ({"better": "in use", "than": "P1-fedopt", "score": "bytes_down"}, "holds"),
        ({"better": "best federation", "than": "best alone"}, "does not hold"),
        ({"score": "loads", "share": 2}, "holds"),
    ],
    ids=str,
)
def test_claims_about_methods(named: dict[str, Any], verdict: str, methods: Variant) -> None:
    study = Study.parse(MANY_METHODS | {"claims": [named]}, "methods")
    found = read(methods.tables.folder, study, [methods])
    (row,) = found[found["about"] == "claim"].to_dict("records")
    assert row["verdict"] == verdict, row
    others = found[found["about"] != "claim"]
    assert (others["verdict"] == "").all() and others["p"].isna().all()
    if named.get("better") == "best federation":
        same = others[(others["than"] == "best alone") & (others["state"] == "")].iloc[0]
        assert same["difference"] == row["difference"]


@pytest.mark.parametrize(
    ("cost", "verdict"),
    [
        ({"P1": 0.0, "P2": 5.0}, "does not hold"),
        ({"P1": 0.0, "P2": 0.0}, "not in this study"),
        ({"P1": np.nan, "P2": 5.0}, "not in this study"),
        ({"P1": 7.0, "P2": 5.0}, "holds"),
    ],
    ids=str,
)
def test_a_pair_in_which_only_the_better_side_costs_something_refutes_a_claim(
    cost: dict[str, float], verdict: str, methods: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every other pair of cells P2 is cheaper."""

    def counted(contender: Contender, _column: str) -> float:
        if contender.forecaster.combination.method == "moon":
            return cost[contender.forecaster.combination.sharing]
        return {"P1": 7.0, "P2": 5.0}[contender.forecaster.combination.sharing]

    monkeypatch.setattr(Contender, "counted_cost", counted)
    claim = {"better": "P2", "than": "P1", "score": "waiting", "each": ["method"]}
    if verdict == "not in this study" and cost["P1"] == 0:
        claim |= {"better": "P2-moon", "than": "P1-moon"}
    study = Study.parse(MANY_METHODS | {"claims": [claim]}, "methods")
    (row,) = claims.judge_claims(study, [methods])
    assert row["verdict"] == verdict, row


@pytest.mark.parametrize("spread", [1.5, 0.1, 0.75])
def test_the_spread_of_loads_has_its_textbook_interval(spread: float, tmp_path: Path) -> None:
    named = [{"score": "loads", "share": 2}]
    tables = write(tmp_path, config(data={"states": ["CA"]}) | {"claims": named}, spread=spread)
    row = read(tmp_path, tables.study).iloc[0]
    verdicts = {1.5: "holds", 0.1: "does not hold", 0.75: "undecided"}
    assert row["verdict"] == verdicts[spread]
    ends = spread * np.sqrt(11 / stats.chi2.ppf([0.975, 0.025], 11))
    found = row[["difference", "low", "high"]].to_numpy(float)
    np.testing.assert_allclose(found, np.exp([spread, *ends]), rtol=1e-5)


def test_loads_are_those_of_the_named_states(tmp_path: Path) -> None:
    named = [
        {"score": "loads", "share": 2, "where": {"data.states": state}} for state in ("CA", "NY")
    ]
    content = config(data={"states": ["CA", "NY"]}) | {"claims": named}
    tables = write(tmp_path, content, spread=1.5)
    in_new_york = tables.clients["state"] == "NY"
    tables.clients.loc[in_new_york, ["mean", "std"]] = np.linspace([1, 1], [2, 2], 12)
    study = Study.parse(content, "of")
    found = claims.judge_claims(study, [Variant("", {}, tables)])
    assert [row["verdict"] for row in found] == ["holds", "does not hold"]


def test_claims_about_loads_say_what_they_exceed_and_are_about_one_variant() -> None:
    wrong: list[dict[str, Any]] = [
        {},
        {"share": 1},
        {"share": 2, "each": ["state"], "margin": 0.1},
        {"share": 2, "where": {"windows.history": [1, 2]}},
        {"share": 2, "where": {"windows.history": 1}},
    ]
    told = [
        *("claims.0: is about loads that differ", "claims.1: is about loads that differ"),
        *("claims.2: is about loads, so it has no `each`", "has no `margin`"),
        "claims.3: is about the loads of one variant, but windows.history has 2 values",
    ]
    named = [{"score": "loads"} | one for one in wrong]
    with naming(ConfigError, *told) as raised:
        Study.parse(config(grid={"windows.history": [1, 2]}) | {"claims": named}, "wrong")
    assert "claims.4" not in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        {"data": {"source": "sample"}, "grid": {"server_opt": ["fedavg"], "seeds": [1, 2, 3]}},
        {"data": {"source": "sample", "clients": 20}, "grid": {"seeds": [1, 2, 3, 4, 5]}},
    ],
    ids=["few", "many"],
)
def test_no_effect_no_verdict(content: dict[str, Any]) -> None:
    """At most the nominal rate, by simulation; docs/claims.md has longer ones."""
    study = Study.parse(content | {"claims": PAPER}, "null")
    found = wrong_verdicts(study, 30, noise=0.1, shock=0.1, between=0.3)
    assert sum(map(bool, found)) <= stats.binom.ppf(0.99, 30, ALPHA)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (
            "config.yaml",
            "AMS has a lower error than each of Prox and ProxAdam, for every state, sh",
        ),
        (
            "config/map.yaml",
            "With 1 week of history: LightGBM, federated has a lower error than un",
        ),
        ("config/label-skew-claims.yaml", "FedADC with variant nesterov is more accurate than Fed"),
    ],
)
def test_claims_are_said_in_words(file: str, said: str) -> None:
    study = Study.load(ROOT / file)
    assert any(said in words.word_claim(study, claim) for claim in study.claims)


@pytest.mark.parametrize(
    ("better", "start"),
    [
        (["unseen"], "unseen (received without taking part) has"),
        (["unseen-fine_tuning"], "Fine-tuning has"),
        (["unseen-pfedme"], "pFedMe has"),
        (["unseen", "P3"], "The best of unseen (received"),
        (["baseline-lightgbm_bagged"], "LightGBM, bagged has"),
        (["baseline-ridge_lags"], "Ridge, day and week lags has"),
        (["baseline-ridge_lags", "baseline-lightgbm_lags"], "The best without a federation among "),
        (
            ["baseline-ridge_lags", "baseline-lightgbm_lags", "unseen"],
            "The best of ridge, ",
        ),
    ],
)
def test_a_claim_begins_with_a_capital_letter_or_a_name(better: list[str], start: str) -> None:
    map_study = Study.load(ROOT / "config/map.yaml")
    assert words.word_claim(map_study, Claim(better=better, than="P3")).startswith(start)


def test_a_claim_may_have_words_of_its_own() -> None:
    own_study = study()
    named = own_study.model_copy(update={"claims": paper().claims})
    assert words.word_claim(named, named.claims[1]).startswith(
        "In each state the best cell is PL-FL"
    )


def test_claims_about_what_the_study_lacks_are_refused() -> None:
    wrong = [
        {"better": "P7", "than": "P1"},
        {"better": "P2-moon", "than": "baseline-lightgbm_lag"},
        {"better": "P1", "than": "P1-*-sgd"},
        {"better": "P1", "than": "P1"},
        {"better": "P1"},
        {"better": "P1", "than": "P2", "where": {"windows.history": 2}},
        {"better": "depth=1/P1", "than": "P2"},
    ]
    told = [
        *("claims.0: 'P7' is unknown", "'P2-moon'", "'lightgbm_lags'", "'P1-*-sgd'"),
        *("claims.3: a forecaster is on both sides", "claims.4: has two sides"),
        *("windows.history is no axis", "depth is no axis"),
    ]
    with naming(ConfigError, *told):
        Study.parse(config() | {"claims": wrong}, "wrong")


def test_a_claim_can_be_about_the_whole_history() -> None:
    claim = {"better": "P1", "than": "P2", "where": {"windows.history": None}}
    study = Study.parse(config(grid={"windows.history": [1, None]}) | {"claims": [claim]}, "of")
    assert words.word_claim(study, study.claims[0]).startswith("With the whole history: ")


def test_claims_have_scores_of_the_task_and_numbers_of_the_score() -> None:
    wrong: list[dict[str, Any]] = [
        {"score": "byte"},
        {"score": "own", "text": "Own words."},
        {"share": 0.5, "text": "Own words."},
        {"score": "spread", "share": 0.5},
        {"score": "bytes", "margin": 0.02},
        {"score": "spread", "margin": 0.02},
        {"score": "bytes", "share": 0.5},
        {"margin": 0.02},
    ]
    told = [
        "claims.0.score: 'byte' is no score of the task forecast; allowed: spread, bytes,",
        "claims.1.score: 'own' is no score of the task forecast",
        *(f"claims.{i}: has no `share`, which is about what is counted" for i in (2, 3)),
        *(f"claims.{i}: has no `margin`, which is about the error" for i in (4, 5)),
    ]
    named = [{"better": "P1", "than": "P2"} | one for one in wrong]
    with naming(ConfigError, *told) as raised:
        Study.parse(config() | {"claims": named}, "wrong")
    assert not any(f"claims.{i}" in str(raised.value) for i in (6, 7))


@pytest.mark.parametrize("states", ["OH", ["CA", "OH"]])
def test_a_claim_about_a_state_that_the_study_lacks_is_not_judged(states: str | list[str]) -> None:
    claim = {"better": "P2", "than": "P1", "where": {"data.states": states}}
    study = Study.parse(config() | {"claims": [claim]}, "of")
    (row,) = claims.judge_claims(study, [])
    assert row["verdict"] == "not in this study" and "OH" in row["reason"]
    assert row["p"] is None
