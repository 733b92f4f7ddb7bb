"""The first questions of a reader: which forecaster is best, and what does a federation beat?

The best federated cell of each state is compared with every kind of forecaster that needs no
federation, each side selected on validation. The comparisons are judged as claims are
(`plfl.results.verdict`). They are a family of their own: their p values are corrected for the
number of these comparisons, not for that of `plfl.results.claims`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from plfl.baselines import BASELINE
from plfl.config.study import Cell, Study
from plfl.results.baseline_claims import LIGHTGBM
from plfl.results.records import Model
from plfl.results.scores import AXES, Scores, best, scores
from plfl.results.statistics import Comparison
from plfl.results.tables import Tables, fitting
from plfl.results.verdict import (
    Evidence,
    NotInStudyError,
    Verdict,
    contest,
    judge,
    settle,
    shared_schemes,
)

MODEL: Model = "local"
"""The model of the cells: the one that a client holds after its own steps."""
PERSISTENCE, LOCAL_TRAINING = "persistence", "local training"
BASELINES = {
    "the best seasonal naive": ["naive_day", "naive_week", "naive_mean", "naive_weeks"],
    "the best ridge": ["ridge", "ridge_lags"],
    "the best LightGBM": LIGHTGBM,
}
"""Kinds of baselines and their members; the best member of a kind is the rival."""
RIVALS = (PERSISTENCE, *BASELINES, LOCAL_TRAINING)
"""The rivals that a federation is compared with, the simplest first."""


@dataclass(frozen=True)
class Best:
    """The forecaster of lowest validation MASE among several of a state."""

    state: str
    cell: Cell | None
    """The cell, of the first seed; None for a baseline."""
    baseline: str | None
    """The baseline; None for a cell."""
    mase: float
    """Test MASE, mean over clients and seeds."""
    low: float
    high: float
    """Ends of its 95 % interval over clients, weeks and seeds; NaN with a single client."""


@dataclass(frozen=True)
class Findings:
    """What the study found, state by state."""

    best: list[Best]
    """The best forecaster of each state; states in which none has a score are left out."""
    federated: list[Best]
    """The best federated cell of each state; states in which all diverged are left out."""
    verdicts: list[Verdict]
    """Whether the best federated cell beats each of `RIVALS`, which `claim` and `text` name; by
    rival, then by state. Rivals that the study lacks are left out."""


def findings(tables: Tables) -> Findings:
    """What the study found about federations at the last round."""
    with fitting(tables.folder):
        of_states = scores(tables, MODEL, baselines=True)
        try:
            shared = shared_schemes(tables.study)
        except NotInStudyError:
            shared = []
        judged = [
            _judged(rival, state, evidence, tables.study.participant == "meter")
            for rival in RIVALS
            for state, of_state in of_states.items()
            if shared and (evidence := _against(tables.study, rival, of_state, shared))
        ]
        every = [_best(of_state) for of_state in of_states.values()]
        federated = [_best(of_state, sharing=shared) for of_state in of_states.values()]
    return Findings(list(filter(None, every)), list(filter(None, federated)), settle(judged))


def _judged(rival: str, state: str, evidence: Evidence, metered: bool) -> Verdict:
    verdict = judge(Verdict(rival, MODEL, state, metered=metered), evidence)
    # If the effect is known, the reason would only repeat it, for persistence with the opposite
    # sign.
    reason = verdict.reason if verdict.effect is None else ""
    return replace(verdict, text=rival, reason=reason)


def _best(of_state: Scores, **among: str | list[str]) -> Best | None:
    found = best(of_state.those(**among))
    if found is None:
        return None
    axes = dict(zip(AXES, found.axes, strict=True))
    own = {found.state: found.weekly}
    scored = Comparison((found.name,), own, trained=not found.is_baseline)
    if not scored.scored:  # a constant load has no MASE
        return None
    cell = Cell(state=found.state, **axes, seed=found.seeds[0])
    return Best(
        found.state,
        None if found.is_baseline else cell,
        axes["method"] if found.is_baseline else None,
        scored.effect,
        *scored.interval,
    )


def _against(study: Study, rival: str, of_state: Scores, shared: list[str]) -> Evidence | None:
    """The best federated cell of a state against one rival; None if there is no such rival."""
    if rival == PERSISTENCE:
        return _against_persistence(of_state, shared)
    if rival == LOCAL_TRAINING:
        alone = [
            scheme for scheme in study.grid.sharing if study.combinations.shares_nothing(scheme)
        ]
        worse: Mapping[str, str | list[str]] = {"sharing": alone}
    else:
        worse = {"sharing": BASELINE, "method": BASELINES[rival]}
    if not of_state.where(**worse).any():
        return None
    return contest({of_state.state: of_state}, {"sharing": shared}, worse)


def _against_persistence(of_state: Scores, shared: list[str]) -> Evidence:
    """The MASE against 1, which is the MASE of persistence by definition, even in a study without
    baselines."""
    cells = of_state.those(sharing=shared)
    found = best(cells)
    if found is None:
        return Evidence([], blocking=tuple(one.name for one in cells))
    # As in claim (e2): the claim is that the MASE is below 1.
    comparison = Comparison((found.name,), {found.state: found.over_persistence})
    return Evidence([comparison], witness=comparison, denied=True)
