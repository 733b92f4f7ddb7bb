"""Claims about values on an axis say what is true of results of which the truth is known."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plfl.cli.main import main
from plfl.config.study import FORMAT, Study
from plfl.results import axis_claims
from plfl.results.axis_claims import HEAD, HISTORY, LAM, LEARNED, SHARE
from plfl.results.variants import Variant
from plfl.results.verdict import Verdict
from tests.helpers import constructed, fake_results

Score = Callable[[dict[str, Any], str], float]
"""MASE, given the values on the axes and the method."""


def study(axes: dict[str, list[Any]], methods: list[str]) -> Study:
    """A study with these axes."""
    return constructed.study(
        data={"states": ["NY"]},
        grid={"sharing": ["P1"], "client_opt": ["adam"], "method": methods, **axes},
        hyperparameters={"method": {"apfl": {"adapt_alpha": "never"}}},
    )


def verdict(
    claim: str, axes: dict[str, list[Any]], methods: list[str], score: Score, noise: float = 0.02
) -> Verdict:
    """What is said of variants that have these scores."""
    of = study(axes, methods)
    placed = Variant.all_of(of, Path())
    for variant in placed:
        own, place = of.variants[variant.label], of.places[variant.label]
        at = {axis.key: axis.choices[place[axis.key]] for axis in of.axes}
        scores = constructed.scored(
            own, lambda cell, *_, at=at: score(at, cell["method"]), noise=noise
        )
        vars(variant.tables)["study"] = own
        vars(variant)["scores"] = {"local": scores}
    return axis_claims.judged(claim, of, placed)


def long(values: dict[str, Any]) -> bool:
    return values[HISTORY] is None


def off(value: float, best: float) -> float:
    """A score that is lowest at the best value."""
    return 1 + abs(np.log2(value / best))


LAMS, ALPHAS, WEEKS = [0.25, 4.0], [0.25, 1.0], [4, None]
CASES: dict[str, tuple[dict[str, list[Any]], list[str], Score, Score]] = {
    "o14": (
        {HEAD: [0, 20]},
        ["fine_tuning"],
        lambda at, _: 1.0 - 0.2 * (at[HEAD] > 0),
        lambda at, _: 1.0 + 0.2 * (at[HEAD] > 0),
    ),
    "o15": (
        {LAM: LAMS, HISTORY: WEEKS},
        ["ditto"],
        lambda at, _: off(at[LAM], 0.25 if long(at) else 4),
        lambda at, _: off(at[LAM], 4 if long(at) else 0.25),
    ),
    "o16": (
        {SHARE: ALPHAS, HISTORY: WEEKS},
        ["apfl"],
        lambda at, _: off(at[SHARE], 1 if long(at) else 0.25),
        lambda at, _: off(at[SHARE], 0.25 if long(at) else 1),
    ),
    "o17": (
        {LEARNED: ["never", "round"], SHARE: ALPHAS},
        ["apfl"],
        lambda at, _: 0.8 * off(at[SHARE], 1) if at[LEARNED] == "round" else off(at[SHARE], 0.25),
        lambda at, _: 1.2 * off(at[SHARE], 1) if at[LEARNED] == "round" else off(at[SHARE], 0.25),
    ),
    "o18": (
        {HISTORY: WEEKS},
        ["fedopt", "knn_per"],
        lambda at, method: 1.0 - (method == "knn_per") * (0.3 if long(at) else 0.1),
        lambda at, method: 1.0 - (method == "knn_per") * (0.1 if long(at) else 0.3),
    ),
}
"""For each claim its axes, its methods, scores under which it is true, and contrary ones."""
EFFECTS = {"o14": 0.2, "o15": 4, "o16": 2, "o17": 0.2, "o18": 0.2}
"""What the true scores show: differences of MASE; from 4 to 1/4 are four doublings."""


@pytest.mark.parametrize("claim", CASES)
def test_a_claim_holds_fails_or_stays_undecided(claim: str) -> None:
    axes, methods, true, contrary = CASES[claim]
    holds = verdict(claim, axes, methods, true)
    assert holds.answer == "holds", holds
    assert holds.effect == pytest.approx(EFFECTS[claim], rel=0.1)
    if claim == "o17":  # against the best fixed share
        sides = [cell.split("/")[0] for cell in holds.cells]
        assert sides == ["adapt_alpha=round,alpha=1.0", "adapt_alpha=never,alpha=0.25"]
    assert verdict(claim, axes, methods, contrary).answer == "does not hold"
    # Nothing is better than anything else, but by chance.
    assert verdict(claim, axes, methods, lambda *_: 1.0, noise=0.5).answer == "undecided"


def test_where_the_share_is_learned_no_value_of_it_is_the_best() -> None:
    axes = {LEARNED: ["never", "round"], SHARE: ALPHAS, HISTORY: WEEKS}

    def score(at: dict[str, Any], _: str) -> float:
        return off(at[SHARE], 1 if long(at) is (at[LEARNED] == "never") else 0.25)

    found = verdict("o16", axes, ["apfl"], score)
    assert found.answer == "holds"
    assert found.cells == ("history=4/NY-P1-apfl-*", "history=null/NY-P1-apfl-*")
    found = verdict("o16", axes | {LEARNED: ["round", "step"]}, ["apfl"], score)
    assert "fixed in no variant" in found.reason


def test_the_same_value_at_every_history_decides_nothing() -> None:
    axes, methods, *_ = CASES["o15"]
    found = verdict("o15", axes, methods, lambda at, _: off(at[LAM], 4), 1e-6)
    assert (found.answer, found.effect) == ("undecided", 0)
    assert "same at both histories" in found.reason


@pytest.mark.parametrize(
    ("axes", "methods", "claim", "reason"),
    [
        ({LAM: [0.0, 1.0], HISTORY: WEEKS}, ["ditto"], "o15", "must be above 0"),
        ({LAM: [0.5, 1.0]}, ["ditto"], "o15", "no axis windows.history"),
        ({HISTORY: WEEKS}, ["fedopt"], "o18", "no kNN-Per (grid.method)"),
        ({HEAD: [10, 20]}, ["fine_tuning"], "o14", "on one side"),
    ],
)
def test_what_a_study_lacks_is_named(
    axes: dict[str, list[Any]], methods: list[str], claim: str, reason: str
) -> None:
    found = verdict(claim, axes, methods, lambda *_: 1.0)
    assert found.answer == "not in this study"
    assert reason in found.reason


def test_plfl_claims_ends_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    axes, methods, true, _ = CASES["o18"]
    of = study(axes, methods)
    for label, own in of.variants.items():
        whole, (history,) = own.description(), of.places[label].values()
        at = {HISTORY: None if history == "null" else int(history)}
        fake_results.write(
            tmp_path / label, whole, lambda cell, *_, at=at: true(at, cell["method"])
        )
    about = {"format": FORMAT, "version": "0", "study": of.description()}
    (tmp_path / "study.json").write_text(json.dumps(about | {"variants": of.places}))
    assert main(["claims", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "constructed (sample data): claims about variants" in said
    assert "(o18) kNN-Per's lead over FedAvg grows with the history\n  local: HOLDS; +0.2" in said
    assert main(["claims", str(tmp_path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [v["claim"] for v in said["variants"]["verdicts"]] == list(axis_claims.CLAIMS)
