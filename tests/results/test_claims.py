"""The verdicts say what is true of results of which the truth is known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plfl.config.study import Study
from plfl.results import axis_claims, claim, claims, paper_claims
from plfl.results.claims import verdicts
from plfl.results.paper_claims import ABOUT_SCORES
from plfl.results.records import MODELS
from plfl.results.statistics import ALPHA
from plfl.results.tables import Tables
from plfl.results.verdict import Verdict, settle
from tests.helpers.constructed import config, judged, scored, study, wrong_verdicts
from tests.helpers.fake_results import write

STATE = {"CA": 1.5, "IL": 0.8, "NY": 0.7}
OPTIMISER = {"adam": 1.0, "adamams": 1.1, "prox": 1.6, "proxadam": 1.3}
SPLIT = {"P1": 1.2, "P2": 1.0, "P3": 1.1}


def true(cell: dict[str, Any], *_: object) -> float:
    """As the paper has it."""
    return STATE[cell["state"]] * OPTIMISER[cell["client_opt"]] * SPLIT[cell["sharing"]]


def half(cell: dict[str, Any], split: str, model: str, t: int) -> float:
    """As the paper has it of local models, and the contrary of everything of global ones."""
    if model == "local":
        return true(cell)
    state = {"CA": 0.6, "IL": 3.0, "NY": 3.0}[cell["state"]]
    return state / (OPTIMISER[cell["client_opt"]] * SPLIT[cell["sharing"]])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return write(tmp_path_factory.mktemp("half"), config(), half, baseline=lambda _: 2.0)


@pytest.fixture(scope="module")
def found(tables: Tables) -> list[Verdict]:
    return verdicts(tables)


def test_what_is_true_holds_and_what_is_false_does_not(found: list[Verdict]) -> None:
    of_paper = [v for v in found if v.claim in paper_claims.CLAIMS]
    about_scores = {(claim, model) for claim in ABOUT_SCORES for model in MODELS}
    assert {(v.claim, v.model) for v in of_paper} == about_scores | {("d", None), ("f", None)}
    assert [v.claim for v in of_paper] == sorted(v.claim for v in of_paper)
    for verdict in of_paper:
        false = verdict.model == "global"
        assert verdict.answer == ("does not hold" if false else "holds"), verdict
        assert verdict.effect is not None
        assert verdict.low is not None and verdict.high is not None
        assert verdict.low <= verdict.effect <= verdict.high
        if verdict.unit == "MASE":
            assert (verdict.effect < 0) == false
            assert verdict.seeds == 3


def test_text_and_json_say_the_same(tables: Tables, found: list[Verdict]) -> None:
    text = claims.as_text(tables.study, found)
    assert text.startswith("constructed (sample data)")
    data = claims.as_json(tables.study, found)
    assert data["sample_data"] is True
    for entry, verdict in zip(data["verdicts"], found, strict=True):
        assert f"({entry['claim']}) {entry['text']}" in text
        assert verdict.effect is None or claims.describe(verdict) in text
        assert (entry["effect"], entry["state"]) == (verdict.effect, verdict.state)
        assert entry["needed"] == verdict.needed
        assert verdict.needed in text
    of_a_few = Verdict("f", None, effect=5.884, low=2.52, high=6.86e4, unit="factor")
    assert claims.estimate(of_a_few) == "5.88-fold [2.52, over 1,000]"


def test_spread_of_loads_has_its_textbook_interval(found: list[Verdict]) -> None:
    (verdict,) = (v for v in found if v.claim == "f")
    assert verdict.effect == pytest.approx(np.exp(1.5))
    ends = 1.5 * np.sqrt(11 / stats.chi2.ppf([0.975, 0.025], 11))
    assert [verdict.low, verdict.high] == pytest.approx(np.exp(ends))


@pytest.mark.parametrize(
    ("made", "claim", "answer", "said"),
    [
        ({"spread": 0.1}, "f", "does not hold", ""),
        ({"spread": 0.75}, "f", "undecided", ""),
        ({"sent": {"P2": 4 * 4000}}, "d", "does not hold", ""),
        # Who sends all parameters in double precision saves nothing.
        (
            {
                "sent": dict.fromkeys(["P1", "P2", "P3"], 8 * 60276),
                "grid": {"method": ["authors_code"]},
            },
            "d",
            "does not hold",
            "",
        ),
        ({"sent": {"P1": 239104}}, "d", "not in this study", "59,776 parameters"),
        ({"grid": {"sharing": ["P1", "P3"]}}, "d", "not in this study", "PL-FL (shares body)"),
    ],
)
def test_claims_about_bytes_and_loads(
    made: dict[str, Any], claim: str, answer: str, said: str, tmp_path: Path
) -> None:
    grid = {"client_opt": ["adam"], "seeds": [1], **made.pop("grid", {})}
    tables = write(tmp_path, config(grid=grid, data={"states": ["CA"]}), true, **made)
    (verdict,) = (v for v in settle(paper_claims.about_tables(tables)) if v.claim == claim)
    assert verdict.answer == answer
    assert said in verdict.reason


def test_noise_is_undecided() -> None:
    for verdict in judged(ABOUT_SCORES, lambda *_: 1.0, study(), noise=0.2).values():
        assert verdict.answer == "undecided"
        assert verdict.reason and verdict.needed


def test_cells_are_chosen_on_validation_and_never_on_test() -> None:
    def misled(cell: dict[str, Any], split: str, *_: object) -> float:
        fedadam = cell["server_opt"] == "fedadam"
        return true(cell) * (0.9 if fedadam == (split == "validation") else 1.0)

    found = judged(ABOUT_SCORES, misled, study(grid={"server_opt": ["fedavg", "fedadam"]}))
    for cell in found["c1", "local"].cells:
        assert cell.endswith("-adam-fedadam")
    assert all("fedadam" in cell for cell in found["b", "local"].cells if "-P3-" not in cell)


def test_one_seed_decides_nothing_about_scores() -> None:
    for verdict in judged(ABOUT_SCORES, true, study(grid={"seeds": [4]})).values():
        assert verdict.answer == "undecided"
        assert verdict.seeds == 1
        assert "one seed does not show" in verdict.reason
        assert "3 seeds (grid.seeds)" in verdict.needed
        assert verdict.p_alone == 1
        assert "p = " not in claims.describe(verdict)


@pytest.mark.parametrize(
    ("blocks", "lost", "reason"),
    [
        (
            {"grid": {"client_opt": ["adam", "prox"]}},
            "abe",
            "no AdamAMS, ProxAdam (grid.client_opt)",
        ),
        ({"grid": {"sharing": ["P1", "P2"]}}, ["b", "c2", "e"], "local training"),
        ({"grid": {"sharing": ["P1", "P3"]}}, "bce", "PL-FL (shares body)"),
        ({"data": {"states": ["NY"]}}, ["e1", "e2"], "no state"),
    ],
    ids=["clients", "no P3", "no P2", "states"],
)
def test_a_grid_without_the_cells_says_so(
    blocks: dict[str, Any], lost: list[str], reason: str
) -> None:
    for verdict in judged(ABOUT_SCORES, true, study(**blocks)).values():
        missing = any(verdict.claim.startswith(name) for name in lost)
        assert (verdict.answer == "not in this study") == missing, verdict
        assert (reason in verdict.reason) == missing


@pytest.mark.parametrize(("optimiser", "answer"), [("adam", "undecided"), ("prox", "holds")])
def test_diverged_cells_are_named(optimiser: str, answer: str) -> None:
    def broken(cell: dict[str, Any], *_: object) -> float:
        lost = cell["client_opt"] == optimiser and cell["seed"] == 2
        return np.nan if lost and cell["sharing"] == "P1" else true(cell)

    found = judged(ABOUT_SCORES, broken, study(data={"states": ["CA"]}))
    verdict = found["a", "local"]
    assert verdict.answer == answer
    assert verdict.diverged == (f"CA-P1-fedopt-{optimiser}-fedavg",)
    assert found["c1", "local"].answer == found["e1", "local"].answer == "holds"
    assert set(found["e1", "local"].diverged) == set(verdict.diverged)


def test_a_study_that_diverged_is_undecided() -> None:
    for verdict in judged(ABOUT_SCORES, lambda *_: np.nan, study()).values():
        assert verdict.answer == "undecided"
        assert "diverged" in verdict.reason
        assert verdict.diverged
        assert "finite scores" in verdict.needed


def test_two_names_of_one_training_are_left_out() -> None:
    def without(cell: dict[str, Any], *_: object) -> float:
        local_ams = cell["sharing"] == "P3" and cell["client_opt"] == "adamams"
        return true(cell) * (0.8 if local_ams else 1.0)

    of = study()
    of_states = scored(of, without)
    for of_state in of_states.values():
        # With nothing shared, ProxAdam has nothing to be drawn to.
        adam, proxadam = (
            of_state.where(sharing="P3", client_opt=name) for name in ("adam", "proxadam")
        )
        of_state.weekly[proxadam] = of_state.weekly[adam]
    (verdict,) = settle(list(claims.judged(["a"], "local", of, of_states)))
    assert verdict.answer == "holds"
    assert "3 pairs have identical results" in verdict.reason


METHODS = {
    "data": {"source": "sample", "states": ["CA", "NY"]},
    "grid": {
        "method": ["fedopt", "ditto", "fine_tuning", "fedcluster"],
        "client_opt": ["sgd"],
        "server_opt": ["fedavg", "slowmo"],
        "sharing": ["P1", "P3"],
        "seeds": [1, 2, 3],
        "refused": "skip",
    },
}


@pytest.mark.parametrize(
    "content",
    [
        {"data": {"source": "sample"}, "grid": {"server_opt": ["fedavg"], "seeds": [1, 2, 3]}},
        METHODS,
    ],
    ids=["paper", "methods"],
)
def test_no_effect_no_verdict(content: dict[str, Any]) -> None:
    """At most the nominal rate, by simulation; docs/claims.md has longer ones."""
    found = wrong_verdicts(Study.parse(content, "null"), 30, noise=0.1, shock=0.1, between=0.3)
    assert sum(map(bool, found)) <= stats.binom.ppf(0.99, 30, ALPHA)


def test_the_page_lists_every_claim_as_it_is_judged() -> None:
    page = (Path(__file__).resolve().parents[2] / claim.PAGE).read_text(encoding="utf-8")
    assert page == claim.with_table(page), "run `plfl schema` and commit what it writes"
    rows = [row.split(" | ") for row in claim.table().splitlines()[2:]]
    listed = {name.removeprefix("| "): text for name, text, _ in rows}
    assert listed == claims.CLAIMS | axis_claims.CLAIMS
