"""Claims about values of a key, judged on the variants of a study of forecasts.

Some claims of the methods' papers are about a hyperparameter or about the length of the history, so
that variants of one study must be compared. They are judged like those in `method_claims`, for
the `local` models, in every sharing scheme that shares parameters and at all places on the other
axes. P values are corrected by Holm's method over these claims.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from plfl.config.axes import Axis
from plfl.config.study import Study
from plfl.results.claim import texts
from plfl.results.method_claims import AVERAGING
from plfl.results.statistics import Array, Comparison
from plfl.results.tables import fitting
from plfl.results.variants import Variant, comparable, variants
from plfl.results.verdict import (
    Evidence,
    NotInStudyError,
    Verdict,
    judge,
    need,
    settle,
    shared_schemes,
)

CLAIMS = texts("variants")
"""The claims in words, by name."""
HISTORY = "windows.history"
HEAD = "hyperparameters.method.fine_tuning.head_epochs"
LAM = "hyperparameters.method.ditto.lam"
SHARE = "hyperparameters.method.apfl.alpha"
LEARNED = "hyperparameters.method.apfl.adapt_alpha"
KEYS = {"o14": HEAD, "o15": LAM, "o16": SHARE, "o17": LEARNED, "o18": HISTORY}
"""The axis that each claim is about."""


Question = Callable[[Study, Sequence[Variant]], Evidence]


def asked(study: Study) -> bool:
    """Whether a study has an axis that one of the claims is about."""
    return any(axis.key in KEYS.values() for axis in study.axes)


def verdicts(folder: Path, study: Study) -> list[Verdict]:
    """The verdict on every claim, in the order of `CLAIMS`."""
    placed = variants(study, folder)
    with fitting(*(variant.tables.folder for variant in placed)):
        return settle([judged(claim, study, placed) for claim in CLAIMS])


def judged(claim: str, study: Study, placed: Sequence[Variant]) -> Verdict:
    """The verdict on one claim, before correction for all claims."""
    unit = "doublings" if claim in ("o15", "o16") else "MASE"
    blank = Verdict(claim, "local", unit=unit, text=CLAIMS[claim])
    try:
        evidence = _ABOUT[claim](study, placed)
    except NotInStudyError as lacking:
        return replace(blank, answer="not in this study", reason=str(lacking))
    still = [comparison.identical for comparison in evidence.comparisons]
    if unit == "doublings" and still and all(still):
        reason = "the best value of every client and seed is the same at both histories"
        return replace(blank, effect=0.0, reason=reason, needed="Values in between might.")
    return judge(blank, evidence)


def _better_value(
    key: str, method: str, better: Callable[[Any], bool], free: Sequence[str] = ()
) -> Question:
    """The best variant whose value of `key` is `better`, against the best of the others.

    Each side is chosen on validation, among all values of the axes `free` as well.
    """

    def evidence(study: Study, placed: Sequence[Variant]) -> Evidence:
        _axis(study, key)
        comparisons, blocking, excused = [], [], []
        for group, sharing in _groups(study, placed, method, [key, *free]):
            sides = [
                [p for p in group if better(_value(study, p, key)) is side]
                for side in (True, False)
            ]
            if not all(sides):
                raise NotInStudyError(f"all values of the axis {key} are on one side of the claim")
            for state in study.data.states:
                ours, theirs = (_chosen(side, state, sharing, method) for side in sides)
                names = tuple(_name(p, state, sharing, method) for p in (ours, theirs))
                a, b = (_weekly(p, state, sharing, method) for p in (ours, theirs))
                if np.isnan(a).all():
                    blocking.append(names[0])
                elif np.isnan(b).all():
                    excused.append(names[1])
                else:
                    comparisons.append(Comparison(names, {state: b - a}))
        return Evidence(comparisons, tuple(blocking), tuple(excused))

    return evidence


def _best_value_moves(
    key: str, method: str, grows: bool, fixed: Callable[[Study], bool] = lambda study: True
) -> Question:
    """How far the value of `key` with the lowest MASE moves from the shortest history to the
    longest, in doublings, for each client and seed.

    The values at one history share their windows, so that each client's MASE ranks them.
    """

    def evidence(study: Study, placed: Sequence[Variant]) -> Evidence:
        if any(not value > 0 for value in _axis(study, key).choices.values()):
            raise NotInStudyError(f"{key} must be above 0 everywhere, to be compared by doublings")
        comparisons = []
        for group, sharing in _groups(study, placed, method, [key, HISTORY]):
            if not all(fixed(p.tables.study) for p in group):
                continue
            ends = _ends(study, group)
            for state in study.data.states:
                short, long = (_lowest(study, end, key, state, sharing, method) for end in ends)
                # The best value differs between clients, so the name has the history alone.
                labels = [study.places[end[0].label][HISTORY] for end in ends]
                names = tuple(f"history={x}/{state}-{sharing}-{method}-*" for x in labels)
                moved = long - short if grows else short - long
                if np.isfinite(moved).any():
                    comparisons.append(Comparison(names, {state: moved}))
        if not comparisons:
            raise NotInStudyError(f"{key} is fixed in no variant")
        return Evidence(comparisons)

    return evidence


def _more_history(study: Study, placed: Sequence[Variant]) -> Evidence:
    """(o18): the lead at the longest history less that at the shortest, client by client."""
    comparisons: list[Comparison] = []
    lost: list[str] = []
    for group, sharing in _groups(study, placed, "knn_per", [HISTORY]):
        need(study, "method", [AVERAGING])
        short, long = (end[0] for end in _ends(study, group))
        for state in study.data.states:
            if not comparable(short.tables, long.tables, state):
                raise NotInStudyError("persistence has another error with another history")
            early, late = (
                _weekly(p, state, sharing, AVERAGING) - _weekly(p, state, sharing, "knn_per")
                for p in (short, long)
            )
            names = tuple(_name(p, state, sharing, "knn_per") for p in (long, short))
            if np.isnan(late - early).all():
                lost += names
            else:
                comparisons.append(Comparison(names, {state: late - early}))
    return Evidence(comparisons, tuple(lost))


def _share_is_fixed(study: Study) -> bool:
    fixed: bool = study.hyperparameters.of("method", "apfl").adapt_alpha == "never"
    return fixed


_ABOUT: dict[str, Question] = {
    "o14": _better_value(HEAD, "fine_tuning", lambda epochs: epochs > 0),
    "o15": _best_value_moves(LAM, "ditto", grows=False),
    "o16": _best_value_moves(SHARE, "apfl", grows=True, fixed=_share_is_fixed),
    "o17": _better_value(LEARNED, "apfl", lambda when: when != "never", free=[SHARE]),
    "o18": _more_history,
}
"""The evidence for each claim, from the study and its variants."""


def _axis(study: Study, key: str) -> Axis:
    for axis in study.axes:
        if axis.key == key:
            return axis
    raise NotInStudyError(f"the study has no axis {key}")


def _groups(
    study: Study, placed: Sequence[Variant], method: str, free: Sequence[str]
) -> Iterator[tuple[list[Variant], str]]:
    """The variants that differ only on the axes `free`, with each sharing scheme."""
    need(study, "method", [method])
    need(study, "server_opt", ["fedavg"])
    schemes = [s for s in shared_schemes(study) if (method, s) not in study.unshareable]
    if not schemes:
        raise NotInStudyError("the method does not work with any sharing scheme of the grid")
    groups: dict[str, list[Variant]] = {}
    for p in placed:
        place = repr([p.place[axis.column] for axis in study.axes if axis.key not in free])
        groups.setdefault(place, []).append(p)
    for group in groups.values():
        for sharing in schemes:
            yield group, sharing


def _ends(study: Study, group: Sequence[Variant]) -> tuple[list[Variant], list[Variant]]:
    """The variants with the shortest history and those with the longest."""
    weeks = [np.inf if v is None else float(v) for v in _axis(study, HISTORY).choices.values()]
    if min(weeks) == max(weeks):
        raise NotInStudyError(f"the axis {HISTORY} has a single value")

    def those(end: float) -> list[Variant]:
        histories = [(p, _value(study, p, HISTORY)) for p in group]
        return [p for p, value in histories if (np.inf if value is None else value) == end]

    return those(min(weeks)), those(max(weeks))


def _chosen(side: Sequence[Variant], state: str, sharing: str, method: str) -> Variant:
    """The variant whose best cell has the lowest validation MASE; the first if all diverged."""

    def validation(p: Variant) -> float:
        k = _best(p, state, sharing, method)
        return np.inf if k is None else float(p.scores["local"][state].validation[k])

    return min(side, key=validation)


def _lowest(
    study: Study, group: Sequence[Variant], key: str, state: str, sharing: str, method: str
) -> Array:
    """Log2 of the value of `key` with the lowest MASE, for each client and seed; NaN without."""
    mase = np.stack([_weekly(p, state, sharing, method).sum(axis=-1) for p in group])
    values = np.log2([float(_value(study, p, key)) for p in group])
    lowest: Array = values[np.where(np.isnan(mase), np.inf, mase).argmin(axis=0)]
    return np.where(np.isnan(mase).all(axis=0), np.nan, lowest)


def _value(study: Study, variant: Variant, key: str) -> Any:
    axis = _axis(study, key)
    return axis.choices[variant.place[axis.column]]


def _best(variant: Variant, state: str, sharing: str, method: str) -> int | None:
    """The best cell on validation; None if all diverged."""
    of_state = variant.scores["local"][state]
    return of_state.best(of_state.where(sharing=sharing, method=method, server_opt="fedavg"))


def _weekly(variant: Variant, state: str, sharing: str, method: str) -> Array:
    """Test MASE (clients, seeds, weeks) of the best cell; NaN if all diverged."""
    of_state, k = variant.scores["local"][state], _best(variant, state, sharing, method)
    return of_state.by_client(0) * np.nan if k is None else of_state.by_client(k)


def _name(variant: Variant, state: str, sharing: str, method: str) -> str:
    """Name of the best cell, or of the cells of which all diverged."""
    k = _best(variant, state, sharing, method)
    of_state = variant.scores["local"][state]
    cell = f"{state}-{sharing}-{method}-*" if k is None else of_state.names[k]
    return f"{variant.label}/{cell}"
