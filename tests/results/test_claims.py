"""The verdicts say what is true of results of which the truth is known."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plfl.config.study import Study
from plfl.results import claims, paper_claims
from plfl.results.claims import verdicts
from plfl.results.records import CELL, MODELS
from plfl.results.statistics import ALPHA
from plfl.results.tables import Tables
from plfl.results.verdict import Verdict
from tests.helpers import errors
from tests.helpers.constructed import BYTES, write, wrong_verdicts

STATE = {"CA": 1.5, "IL": 0.8, "NY": 0.7}
OPTIMISER = {"adam": 1.0, "adamams": 1.1, "prox": 1.6, "proxadam": 1.3}
SPLIT = {"P1": 1.2, "P2": 1.0, "P3": 1.1}


def true(cell: dict[str, Any], *_: object) -> float:
    """As the paper has it."""
    return STATE[cell["state"]] * OPTIMISER[cell["client_opt"]] * SPLIT[cell["sharing"]]


def contrary(cell: dict[str, Any], *_: object) -> float:
    """The contrary of everything the paper says."""
    state = {"CA": 0.6, "IL": 3.0, "NY": 3.0}[cell["state"]]
    return state / (OPTIMISER[cell["client_opt"]] * SPLIT[cell["sharing"]])


def level(cell: dict[str, Any], *_: object) -> float:
    """All cells alike, and as good as persistence."""
    return 1.0


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return write(tmp_path_factory.mktemp("good"), true)


def of_paper(tables: Tables, **options: Any) -> list[Verdict]:
    return [v for v in verdicts(tables, **options) if v.claim in paper_claims.CLAIMS]


def by_claim(tables: Tables, **options: Any) -> dict[tuple[str, str | None], Verdict]:
    return {(v.claim, v.model): v for v in of_paper(tables, **options)}


def test_what_is_true_holds(good: Tables) -> None:
    found = of_paper(good)
    about_scores = {(claim, model) for claim in paper_claims.ABOUT_SCORES for model in MODELS}
    assert {(v.claim, v.model) for v in found} == about_scores | {("d", None), ("f", None)}
    assert {v.answer for v in found} == {"holds"}
    assert [v.claim for v in found] == sorted(v.claim for v in found)
    for verdict in found:
        assert verdict.effect is not None
        assert verdict.low is not None
        assert verdict.high is not None
        assert verdict.low <= verdict.effect <= verdict.high
        if verdict.unit == "MASE":
            assert verdict.low > 0
            assert verdict.seeds == 3


def test_what_is_false_does_not_hold(tmp_path: Path) -> None:
    sent = {**BYTES, "P2": 4 * 4000}
    found = of_paper(write(tmp_path, contrary, spread=0.1, sent=sent))
    assert {v.answer for v in found} == {"does not hold"}
    assert all(v.effect is not None and v.effect < 0 for v in found if v.unit == "MASE")


def test_noise_is_undecided(tmp_path: Path) -> None:
    found = of_paper(write(tmp_path, level, noise=0.2, spread=float(np.log(2))))
    assert {v.answer for v in found if v.claim != "d"} == {"undecided"}
    assert all(v.reason for v in found)
    assert all(v.needed for v in found if v.claim in paper_claims.ABOUT_SCORES)


def test_the_effect_is_that_of_the_records(good: Tables) -> None:
    verdict = by_claim(good)["c1", "global"]
    assert verdict.clients == 36
    records = good.records([*CELL, "mase"], split="test", model="global")
    means = records.groupby(records[CELL[:-1]].agg("-".join, axis=1))["mase"].mean()
    cells = verdict.cells
    assert len(cells) == 6
    assert verdict.effect == pytest.approx(
        np.mean([means[fl] - means[pl] for pl, fl in zip(cells[::2], cells[1::2], strict=True)])
    )
    assert f"CA {means[cells[1]] - means[cells[0]]:+.3g}" in verdict.reason


def test_cells_are_chosen_on_validation_and_never_on_test(tmp_path: Path) -> None:
    def misled(cell: dict[str, Any], split: str, *_: object) -> float:
        fedadam = cell["server_opt"] == "fedadam"
        return true(cell) * (0.9 if fedadam == (split == "validation") else 1.0)

    servers = {"server_opt": ["fedavg", "fedadam"]}
    found = by_claim(write(tmp_path, misled, grid=servers))
    for cell in found["c1", "local"].cells:
        assert cell.endswith("-adam-fedadam")
    assert all("fedadam" in cell for cell in found["b", "local"].cells if "-P3-" not in cell)


def test_a_model_is_judged_by_its_own_scores(tmp_path: Path) -> None:
    def both(cell: dict[str, Any], split: str, model: str, t: int) -> float:
        return true(cell) if model == "local" else contrary(cell)

    found = by_claim(write(tmp_path, both))
    for claim in paper_claims.ABOUT_SCORES:
        assert found[claim, "local"].answer == "holds"
        assert found[claim, "global"].answer == "does not hold"


def test_one_seed_decides_nothing_about_scores(tmp_path: Path) -> None:
    found = by_claim(write(tmp_path, true, grid={"seeds": [4]}))
    for claim in paper_claims.ABOUT_SCORES:
        verdict = found[claim, "local"]
        assert verdict.answer == "undecided"
        assert verdict.seeds == 1
        assert "one seed does not show" in verdict.reason
        assert "3 seeds (grid.seeds)" in verdict.needed
        assert verdict.p_alone == 1
    assert "p = " not in claims.describe(found["c1", "local"])
    assert found["d", None].answer == found["f", None].answer == "holds"


@pytest.mark.parametrize(
    ("config", "lost", "reason"),
    [
        (
            {"grid": {"client_opt": ["adam", "prox"]}},
            "abe",
            "no AdamAMS, ProxAdam (grid.client_opt)",
        ),
        ({"grid": {"sharing": ["P1", "P2"]}}, ["b", "c2", "e"], "local training"),
        ({"grid": {"sharing": ["P1", "P3"]}}, "bcde", "PL-FL (shares body)"),
        ({"data": {"states": ["NY"]}}, ["e1", "e2"], "no state"),
    ],
    ids=["clients", "no P3", "no P2", "states"],
)
def test_a_grid_without_the_cells_says_so(
    config: dict[str, Any], lost: list[str], reason: str, tmp_path: Path
) -> None:
    for verdict in of_paper(write(tmp_path, true, **config)):
        missing = any(verdict.claim.startswith(name) for name in lost)
        assert (verdict.answer == "not in this study") == missing, verdict
        assert (reason in verdict.reason) == missing


def test_another_model_has_another_share(tmp_path: Path) -> None:
    verdict = by_claim(write(tmp_path, true, sent={"P1": 239104, "P2": 12000, "P3": 0}))["d", None]
    assert verdict.answer == "not in this study"
    assert "59,776 parameters" in verdict.reason
    assert "5.02%" in verdict.reason


def test_who_sends_everything_in_double_precision_saves_nothing(tmp_path: Path) -> None:
    everything = 8 * 60276
    sent = dict.fromkeys(["P1", "P2", "P3"], everything)
    tables = write(tmp_path, true, sent=sent, grid={"method": ["authors_code"]})
    verdict = by_claim(tables)["d", None]
    assert (verdict.answer, verdict.effect) == ("does not hold", 1)


@pytest.mark.parametrize(
    ("optimiser", "answer"), [("adam", "undecided"), ("prox", "holds")], ids=str
)
def test_diverged_cells_are_named(optimiser: str, answer: str, tmp_path: Path) -> None:
    def broken(cell: dict[str, Any], *_: object) -> float:
        lost = cell["client_opt"] == optimiser and cell["seed"] == 2
        return np.nan if lost and cell["sharing"] == "P1" else true(cell)

    found = by_claim(write(tmp_path, broken, data={"states": ["CA"]}))
    verdict = found["a", "local"]
    assert verdict.answer == answer
    assert verdict.diverged == (f"CA-P1-fedopt-{optimiser}-fedavg",)
    assert found["c1", "local"].answer == "holds"
    assert found["e1", "local"].answer == "holds"
    assert set(found["e1", "local"].diverged) == set(verdict.diverged)


def test_a_study_that_diverged_is_undecided(tmp_path: Path) -> None:
    for verdict in verdicts(write(tmp_path, lambda *_: np.nan)):
        if verdict.claim in paper_claims.ABOUT_SCORES:
            assert verdict.answer == "undecided"
            assert "diverged" in verdict.reason
            assert verdict.diverged
            assert "finite scores" in verdict.needed


def test_two_names_of_one_training_are_left_out(tmp_path: Path) -> None:
    def without(cell: dict[str, Any], *_: object) -> float:
        local_ams = cell["sharing"] == "P3" and cell["client_opt"] == "adamams"
        return true(cell) * (0.8 if local_ams else 1.0)

    tables = write(tmp_path, without)
    records = pd.read_parquet(tmp_path / "records.parquet")
    split, optimiser = records["sharing"] == "P3", records["client_opt"]
    # With nothing shared, ProxAdam has nothing to be drawn to.
    same = records[split & (optimiser == "adam")]["mase"].to_numpy()
    records.loc[split & (optimiser == "proxadam"), "mase"] = same
    errors.write(tmp_path, records, pd.read_parquet(tmp_path / "baselines.parquet"), 1)
    verdict = by_claim(Tables(tables.folder))["a", "local"]
    assert verdict.answer == "holds"
    assert "3 pairs have identical results" in verdict.reason


def test_spread_of_loads_has_its_textbook_interval(good: Tables) -> None:
    verdict = by_claim(good)["f", None]
    assert verdict.effect == pytest.approx(np.exp(1.5))
    ends = 1.5 * np.sqrt(11 / stats.chi2.ppf([0.975, 0.025], 11))
    assert [verdict.low, verdict.high] == pytest.approx(np.exp(ends))


def test_text_and_json_say_the_same(good: Tables) -> None:
    found = verdicts(good)
    text = claims.as_text(good.study, found)
    assert text.startswith("constructed (sample data)")
    data = claims.as_json(good.study, found)
    assert data["sample_data"] is True
    for entry, verdict in zip(data["verdicts"], found, strict=True):
        assert f"({entry['claim']}) {entry['text']}" in text
        assert verdict.effect is None or claims.describe(verdict) in text
        assert entry["effect"] == verdict.effect
        assert entry["state"] == verdict.state
        assert entry["needed"] == verdict.needed
        assert verdict.needed in text


@pytest.mark.parametrize("shock", [0.0, 0.2], ids=["clients' noise", "variation over trainings"])
def test_no_effect_no_verdict(shock: float) -> None:
    """At most the nominal rate, by simulation; docs/claims.md has longer ones."""
    grid = {"server_opt": ["fedavg"], "seeds": [1, 2, 3]}
    study = Study.parse({"data": {"source": "sample"}, "grid": grid}, "null")
    found = wrong_verdicts(study, 30, noise=0.1, shock=shock, between=0.3)
    assert sum(map(bool, found)) <= stats.binom.ppf(0.99, 30, ALPHA)


def test_the_interval_of_a_factor_over_a_few_clients_is_readable() -> None:
    verdict = Verdict("f", None, effect=5.884, low=2.52, high=6.86e4, unit="factor")
    assert claims.estimate(verdict) == "5.88-fold [2.52, over 1,000]"
