"""How a claim is judged: it holds if all its comparisons come out in its favour.

`plfl.results.claims` describes the rules. The claims are in `baseline_claims`, `paper_claims` and
`method_claims`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from plfl.config.study import Study
from plfl.results.labels import VALUE_LABELS
from plfl.results.pooling import Piece, pooled
from plfl.results.power import FEWEST, Spread, advice
from plfl.results.records import Model
from plfl.results.scores import Forecaster, Scores, best
from plfl.results.statistics import ALPHA, Comparison, holm

Answer = Literal["holds", "does not hold", "undecided", "not in this study"]


@dataclass(frozen=True)
class Verdict:
    """The verdict of a study on a claim."""

    claim: str
    """Name of the claim."""
    model: Model | None
    """The scored model; None for claims that are not about a model (d, f)."""
    state: str | None = None
    """The state of the verdict; None if the claim is about all states or itself names its
    states."""
    where: str = ""
    """Further subjects of the verdict, such as a variant of the study and a score."""
    answer: Answer = "undecided"
    effect: float | None = None
    """Effect of the deciding comparison; positive differences of MASE support the claim."""
    low: float | None = None
    high: float | None = None
    """95 % interval of the effect over clients, weeks and seeds; of classifiers, over seeds; for
    bytes, the range over all cells."""
    unit: str = "MASE"
    """Kind of the effect: a difference of `MASE`, of accuracy in `points` or of `rounds`,
    `doublings` of a value, a `share` or a `factor`."""
    p: float | None = None
    """P value of the answer, corrected by Holm's method over all claims and models."""
    p_alone: float | None = None
    """The p value before this correction, but corrected for the number of comparisons if any one of
    them is sufficient."""
    without_one_state: tuple[float, float] | None = None
    """The lowest and the highest effect with one of the states left out."""
    seeds: int = 0
    clients: int = 0
    """Number of clients in the effect."""
    states: int = 0
    """Number of states in it."""
    origins: int = 0
    """Number of origins of the test sets in it."""
    metered: bool = False
    """Whether clients are called meters, and states sites."""
    weeks: int = 0
    """Number of weeks of the test set in it; 0 if the comparison has no weeks."""
    cells: tuple[str, ...] = ()
    """The deciding cells, without their seeds."""
    diverged: tuple[str, ...] = ()
    """Cells of the claim that diverged and therefore have no score."""
    reason: str = ""
    """The evidence for the answer, in words."""
    needed: str = ""
    """What would decide an undecided claim about scores, in words; see `plfl.results.power`."""
    spread: Spread | None = None
    """The parts of the variance of the effect; None for counted quantities."""
    text: str = ""
    """The claim in words."""


@dataclass(frozen=True)
class Evidence:
    """The comparisons of a claim."""

    comparisons: Sequence[Comparison]
    """All of them must be positive for the claim to hold."""
    blocking: tuple[str, ...] = ()
    """Diverged cells that the claim calls better: the claim cannot hold."""
    excused: tuple[str, ...] = ()
    """Diverged cells that the claim calls worse: they count neither way."""
    witness: Comparison | None = None
    """The only comparison that may contradict the claim, selected on validation; None: any may,
    with a correction for their number."""
    denied: bool = False
    """Whether the claim is that *not* all comparisons are positive."""

    @classmethod
    def of(cls, parts: Sequence[Evidence]) -> Evidence:
        """Several pieces of evidence as one."""
        return cls(
            [comparison for part in parts for comparison in part.comparisons],
            tuple(cell for part in parts for cell in part.blocking),
            tuple(cell for part in parts for cell in part.excused),
        )


FINITE = "Train the diverged cells to finite scores, for instance with lower learning rates."
"""What would decide a claim with a diverged cell."""
UNWITNESSED = (
    "More seeds or clients alone would not decide it: the cell selected on validation is on one "
    "side of persistence, other cells are on the other side."
)
"""What would decide claim (e) if some cells have a MASE below 1, but not the one selected on
validation."""

Question = Callable[[Study, Mapping[str, Scores]], Evidence]
"""A function that finds the evidence for a claim about scores, from a study and the scores of its
states."""


class NotInStudyError(Exception):
    """The study lacks something that a claim is about."""


def shared_schemes(study: Study) -> list[str]:
    """The sharing schemes of a study that share parameters, but no raw data.

    Raises:
        NotInStudyError: the study has none.
    """
    if study.federated:
        return study.federated
    raise NotInStudyError("the grid has no sharing scheme that shares parameters")


def need(study: Study, axis: str, names: Iterable[str]) -> None:
    """Refuse a study whose grid lacks some values on an axis.

    Raises:
        NotInStudyError: it lacks them.
    """
    missing = [name for name in dict.fromkeys(names) if name not in getattr(study.grid, axis)]
    if missing:
        labels = ", ".join(map(VALUE_LABELS[axis], missing))
        raise NotInStudyError(f"the grid has no {labels} (grid.{axis})")


def contest(
    of_states: Mapping[str, Scores],
    better: Mapping[str, str | list[str]],
    worse: Mapping[str, str | list[str]],
) -> Evidence:
    """The best of the cells of one side against the best of the other, over all states. A side is
    given by its values on the axes; see `Scores.where`."""
    return best_of((s.those(**better), s.those(**worse)) for s in of_states.values())


def best_of(
    sides: Iterable[tuple[list[Forecaster], list[Forecaster]]], margin: float = 0
) -> Evidence:
    """The best of some forecasters against the best of others, each chosen on validation. `sides`
    has a pair for each state and origin; they become one comparison.

    With a `margin` m, (1 + m) times the MASE of the others minus that of the better ones.
    """
    names: list[str] = []
    pieces: list[Piece] = []
    lost: tuple[list[str], list[str]] = ([], [])
    trained = False
    for both in sides:
        ours, theirs = chosen = [best(side) for side in both]
        for side, one, to in zip(both, chosen, lost, strict=True):
            to += [] if one else [of.name for of in side]
        if ours and theirs:
            names += [ours.name, theirs.name]
            pieces.append(ours.lead(theirs, margin))
            trained |= not (ours.is_baseline and theirs.is_baseline)
    comparison = pooled(names, pieces, trained)
    blocking, excused = (tuple(dict.fromkeys(side)) for side in lost)
    return Evidence([comparison] if comparison.scored else [], blocking, excused)


def judge(blank: Verdict, evidence: Evidence) -> Verdict:
    """Judge whether all comparisons are positive, or one is clearly negative."""
    diverged = tuple(dict.fromkeys([*evidence.blocking, *evidence.excused]))
    blank = replace(blank, diverged=diverged)
    if not evidence.comparisons:
        return replace(blank, reason="every cell of the claim diverged", needed=FINITE)
    comparisons = [c for c in evidence.comparisons if not c.identical]
    same = [c.cells for c in evidence.comparisons if c.identical]
    if not comparisons:
        return replace(
            blank,
            cells=tuple(cell for pair in same for cell in pair),
            reason="the cells of the claim have identical results",
            needed="Nothing would: they are the same.",
        )
    positive = all(c.effect > 0 for c in comparisons)
    deciding, p = _weakest(comparisons) if positive else _contrary(comparisons, evidence.witness)
    said = [_counted(deciding, comparisons, evidence.denied)]
    if same:
        pairs = "1 pair has" if len(same) == 1 else f"{len(same)} pairs have"
        said.append(f"{pairs} identical results, such as {' and '.join(same[0])}")
    # A denied claim says that not all comparisons are positive: its answers are exchanged.
    answer: Answer = "holds" if positive != evidence.denied else "does not hold"
    needed = ""
    if positive and evidence.blocking:
        answer, needed = "undecided", FINITE
        said.append("the side that should be better has diverged")
    if not positive and evidence.witness not in (None, deciding):
        needed = UNWITNESSED
    reason = "; ".join(filter(None, said))
    sufficient = 1 if positive or evidence.witness else len(comparisons)
    return _with_effect(
        replace(blank, answer=answer, reason=reason, needed=needed, p=p, p_alone=p),
        deciding,
        -1 if evidence.denied else 1,
        sufficient,
    )


def _weakest(comparisons: Sequence[Comparison]) -> tuple[Comparison, float]:
    """The least certain of comparisons that are all positive, and its p value."""
    weakest = max(comparisons, key=lambda c: (c.p, -c.effect))
    return weakest, weakest.p


def _contrary(
    comparisons: Sequence[Comparison], witness: Comparison | None
) -> tuple[Comparison, float]:
    """The most clearly negative comparison, and its p value.

    With a `witness`, only that comparison is considered; otherwise all, corrected for their number
    (Bonferroni).
    """
    if witness is not None and witness.effect < 0:
        return witness, witness.p
    lowest = min(comparisons, key=lambda c: (c.p if c.effect < 0 else 1.0, c.effect))
    return lowest, 1.0 if witness is not None else min(1.0, len(comparisons) * lowest.p)


def _with_effect(verdict: Verdict, deciding: Comparison, sign: int, sufficient: int) -> Verdict:
    """The verdict with the effect of the deciding comparison, times `sign`, and its evidence.

    `sufficient`: of how many comparisons any one could have decided the claim.
    """
    low, high = sorted(sign * end for end in deciding.interval)
    levels = {factor: part.levels for factor, part in deciding.parts.items()}
    left = deciding.without_one_state
    if left is not None and sign < 0:
        left = -left[1], -left[0]
    return replace(
        verdict,
        effect=sign * deciding.effect,
        low=finite_or_none(low),
        high=finite_or_none(high),
        without_one_state=left,
        cells=deciding.cells,
        spread=Spread.of(deciding, sufficient),
        clients=levels.get("clients", 0),
        states=len(deciding.scored),
        origins=max(map(len, deciding.origins.values()), default=0),
        weeks=levels.get("weeks", 0),
        seeds=levels.get("seeds", 0),
    )


def _counted(deciding: Comparison, comparisons: Sequence[Comparison], denied: bool) -> str:
    """How many comparisons support the claim; for a single one, its effect in every state."""
    if len(comparisons) > 1:
        count = sum(c.effect < 0 if denied else c.effect > 0 for c in comparisons)
        return f"{count} of {len(comparisons)} {'cells' if denied else 'comparisons'} support it"
    if not deciding.sampled:  # the effect is said beside it
        return ""
    by_state = zip(deciding.scored, deciding.clients(), strict=True)
    return ", ".join(f"{state} {clients.mean():+.3g}" for state, clients in by_state)


def finite_or_none(value: float) -> float | None:
    """The value; None if it is infinite or not a number."""
    return float(value) if np.isfinite(value) else None


def settle(judged: Sequence[Verdict]) -> list[Verdict]:
    """Correct the p values for their number; make verdicts undecided that are not significant."""
    family = [i for i, verdict in enumerate(judged) if verdict.p is not None]
    adjusted = holm([p for verdict in judged if (p := verdict.p) is not None])
    # Holm's level for the next verdict, corrected for all that are undecided.
    level = ALPHA / max(1, int((adjusted >= ALPHA).sum()))
    settled = list(judged)
    for i, p in zip(family, adjusted.tolist(), strict=True):
        settled[i] = replace(judged[i], p=p)
        if p >= ALPHA:
            settled[i] = _undecided(settled[i], level)
    return settled


_NO_KEY = re.compile(r"(?<!\.)client")
"""Matches the word "client", but not in the key `data.clients`."""


def _undecided(verdict: Verdict, level: float) -> Verdict:
    """The verdict as undecided, with the reason and what would decide it at this `level`."""
    needed, spread = verdict.needed, verdict.spread
    if spread is not None and not needed:
        needed = advice(verdict.effect or 0.0, spread, level)
    doubt = _doubt(verdict)
    if verdict.metered:
        needed, doubt = (_NO_KEY.sub("meter", text) for text in (needed, doubt))
    reason = "; ".join(filter(None, [verdict.reason, doubt]))
    return replace(verdict, answer="undecided", reason=reason, needed=needed)


def _doubt(verdict: Verdict) -> str:
    """Why a verdict is undecided: which variation is unknown, or which is the largest."""
    if verdict.spread is None:
        return f"the {verdict.clients} clients vary too much"
    parts = verdict.spread.parts
    if lacking := [factor for factor, part in parts.items() if not part.freedom]:
        one = (f"one {factor[:-1]} does not show the variation over {factor}" for factor in lacking)
        return ", ".join(one)
    most = max(parts, key=lambda factor: parts[factor].variance)
    levels = parts[most].levels
    if levels < FEWEST[most]:
        return f"{levels} {most} are too few to show how much they vary"
    return f"the {levels} {most} vary too much"
