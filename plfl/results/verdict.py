"""How a claim is judged: comparisons that must all come out in its favour, and what they decide.

The rules are in `plfl.results.claims`, the claims themselves in `paper_claims` and `method_claims`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from plfl.results.statistics import (
    ALPHA,
    Array,
    Comparison,
    Scores,
    holm,
    sign_flips,
)
from plfl.results.tables import Model
from plfl.study import Study

Answer = Literal["holds", "does not hold", "undecided", "not in this study"]


@dataclass(frozen=True)
class Verdict:
    """What a study says about a claim."""

    claim: str
    """Name of the claim."""
    model: Model | None
    """The model that was scored; None where no model is concerned (d, f)."""
    answer: Answer = "undecided"
    effect: float | None = None
    """Effect of the deciding comparison; for differences of MASE, positive speaks for the claim."""
    low: float | None = None
    high: float | None = None
    """95 % interval of the effect: over clients; for bytes, the range over all cells."""
    unit: str = "MASE"
    """What the effect is: a difference of `MASE`, a `share` or a `factor`."""
    p: float | None = None
    """P value of the answer, corrected by Holm over all claims and models."""
    p_clients: float | None = None
    """P value of the deciding comparison by itself, over clients alone."""
    p_trainings: float | None = None
    """The same over trainings (seeds), corrected for the number of comparisons where one of them
    is enough; None where no training is concerned (d, f)."""
    seeds: int = 0
    clients: int = 0
    """Clients behind the effect."""
    cells: tuple[str, ...] = ()
    """The cells that decide, without their seeds."""
    diverged: tuple[str, ...] = ()
    """Cells that the claim asks about and that have no score."""
    reason: str = ""
    """In words, what the answer rests on."""
    text: str = ""
    """The claim in words."""


@dataclass(frozen=True)
class Evidence:
    """The comparisons a claim asks for."""

    comparisons: Sequence[Comparison]
    """All of them must be positive for the claim to hold."""
    blocking: tuple[str, ...] = ()
    """Diverged cells that the claim says to be the better ones: it cannot hold."""
    excused: tuple[str, ...] = ()
    """Diverged cells that the claim says to be the worse ones: they speak neither way."""
    witness: Comparison | None = None
    """The one chosen on validation to contradict; None: any may, and is corrected for."""
    denied: bool = False
    """The claim is that *not* all of them are positive."""


Question = Callable[[Study, Mapping[str, Scores]], Evidence]
"""What a claim about scores asks of a study and the scores of its states."""


class NotInStudyError(Exception):
    """The study lacks what a claim speaks of."""


def contest(
    of_states: Mapping[str, Scores],
    better: Mapping[str, str | list[str]],
    worse: Mapping[str, str | list[str]],
) -> Evidence:
    """The best of some cells against the best of others, over all states.

    Args:
        of_states: the scores of every state.
        better: values on the axes of the cells that the claim calls better; see `Scores.where`.
        worse: the same of the others.
    """
    names: list[str] = []
    tables: dict[str, Array] = {}
    lost: tuple[list[str], list[str]] = ([], [])
    for found in of_states.values():
        among = [found.where(**better), found.where(**worse)]
        best = [found.best(cells) for cells in among]
        for cells, chosen, to in zip(among, best, lost, strict=True):
            if chosen is None:
                to.extend(found.names[k] for k in np.flatnonzero(cells).tolist())
        ours, theirs = best
        if ours is not None and theirs is not None:
            names += [found.names[ours], found.names[theirs]]
            tables[found.state] = difference(found, ours, theirs)
    comparisons = [Comparison(tuple(names), tables)] if tables else []
    return Evidence(comparisons, tuple(lost[0]), tuple(lost[1]))


def difference(found: Scores, better: int, worse: int) -> Array:
    """Shape (clients, seeds): positive where `better` has the lower MASE."""
    difference: Array = found.mase[worse] - found.mase[better]
    return difference.T


def judge(blank: Verdict, evidence: Evidence, draws: int) -> Verdict:
    """Whether all comparisons are positive, or which one contradicts that most clearly."""
    comparisons = [c for c in evidence.comparisons if not c.identical]
    same = [c.cells for c in evidence.comparisons if c.identical]
    if not comparisons:
        cells = tuple(cell for pair in same for cell in pair)
        return replace(blank, cells=cells, reason="the cells concerned have identical results")
    effects = np.array([comparison.effect for comparison in comparisons])
    alone, together = sign_flips(comparisons, draws, seeds=True)
    skewed = np.array([comparison.skewed() for comparison in comparisons])
    alone = np.maximum(alone, skewed)
    trainings = np.array([comparison.trainings() for comparison in comparisons])
    if (effects > 0).all():
        # The weakest comparison decides.
        p = np.maximum(alone, trainings)
        positive, k = True, int(np.lexsort((-effects, p))[-1])
    else:
        if evidence.witness is None:
            trainings = np.minimum(len(comparisons) * trainings, 1)
            p = np.where(effects < 0, np.maximum(together, trainings), 1)
        else:
            called = np.array([comparison is evidence.witness for comparison in comparisons])
            p = np.where(called & (effects < 0), np.maximum(alone, trainings), 1)
        positive, k = False, int(np.lexsort((effects, p))[0])
    for_claim = positive != evidence.denied
    sign = -1 if evidence.denied else 1
    ends = sorted(sign * end for end in comparisons[k].interval(draws))
    answer: Answer = "holds" if for_claim else "does not hold"
    reason = _counted(comparisons[k], effects, evidence.denied)
    if same:
        pairs = "1 pair has" if len(same) == 1 else f"{len(same)} pairs have"
        reason += f"; {pairs} identical results, such as {' and '.join(same[0])}"
    if positive and evidence.blocking:
        answer, reason = "undecided", f"{reason}; cells that it names as better diverged"
    some = next(iter(comparisons[k].differences.values()))
    return replace(
        blank,
        answer=answer,
        effect=float(sign * effects[k]),
        low=_number(ends[0]),
        high=_number(ends[1]),
        p=float(p[k]),
        p_clients=float(max(sign_flips([comparisons[k]], draws)[0][0], skewed[k])),
        p_trainings=float(trainings[k]),
        seeds=some.shape[1],
        clients=sum(map(len, comparisons[k].clients())),
        cells=comparisons[k].cells,
        reason=reason,
    )


def _counted(deciding: Comparison, effects: Array, denied: bool) -> str:
    """How many comparisons speak for the claim; of a single one, its effect in every state."""
    if len(effects) > 1:
        count = int((effects < 0).sum() if denied else (effects > 0).sum())
        return f"{count} of {len(effects)} {'cells' if denied else 'comparisons'} speak for it"
    by_state = zip(deciding.scored, deciding.clients(), strict=True)
    return ", ".join(f"{state} {clients.mean():+.3g}" for state, clients in by_state)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def settle(found: Sequence[Verdict]) -> list[Verdict]:
    """Correct the p values for their family and let stand only what is significant."""
    family = [i for i, verdict in enumerate(found) if verdict.p is not None]
    raw = [p for verdict in found if (p := verdict.p) is not None]
    settled = list(found)
    for i, p in zip(family, holm(raw).tolist(), strict=True):
        settled[i] = replace(found[i], p=p)
        if p >= ALPHA:
            said = [found[i].reason, _doubt(found[i])]
            settled[i] = replace(
                settled[i], answer="undecided", reason="; ".join(filter(None, said))
            )
    return settled


def _doubt(verdict: Verdict) -> str:
    if verdict.p_trainings is not None:
        if verdict.seeds == 1:
            return "one seed cannot tell an effect from the luck of a training; add grid.seeds"
        if verdict.p_trainings > (verdict.p_clients or 0):
            return f"{verdict.seeds} seeds do not agree enough; more of them may decide"
    return f"{verdict.clients} clients do not agree enough"
