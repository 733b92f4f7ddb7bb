"""Claims about the values of a key, judged on the variants of a study of forecasts.

Some claims of the methods' papers are about a hyperparameter or about the length of the history.
They compare variants of one study. They are judged like those in `method_claims`, for the `local`
models, in every sharing scheme that shares parameters and for all values of the other axes. P
values are corrected by Holm's method over these claims.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from plfl.config.axes import Axis
from plfl.config.study import Study
from plfl.results.claim import texts
from plfl.results.method_claims import AVERAGING
from plfl.results.scores import Forecaster, best
from plfl.results.statistics import Array, Comparison
from plfl.results.tables import fitting
from plfl.results.variants import Variant, grouped
from plfl.results.verdict import (
    Evidence,
    NotInStudyError,
    Verdict,
    best_of,
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
    placed = Variant.all_of(study, folder)
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

    Each side is chosen on validation, also among all values of the axes `free`.
    """

    def evidence(study: Study, placed: Sequence[Variant]) -> Evidence:
        _axis(study, key)
        found = []
        for group, sharing in _groups(study, placed, method, [key, *free]):
            sides = [
                [p for p in group if better(_value(study, p, key)) is side]
                for side in (True, False)
            ]
            if not all(sides):
                raise NotInStudyError(f"all values of the axis {key} are on one side of the claim")
            for state in study.data.states:
                ours, theirs = (
                    [one for p in side for one in _cells(p, state, sharing, method)]
                    for side in sides
                )
                found.append(best_of([(ours, theirs)]))
        return Evidence.of(found)

    return evidence


def _best_value_moves(
    key: str, method: str, grows: bool, fixed: Callable[[Study], bool] = lambda study: True
) -> Question:
    """How many doublings the value of `key` with the lowest MASE moves from the shortest history to
    the longest, for each client and seed.

    Variants with the same history have the same windows, so a client's MASE ranks them.
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
                # The best value differs between clients, so the name contains only the history.
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
    """(o18): the lead at the longest history minus that at the shortest, client by client."""
    comparisons: list[Comparison] = []
    lost: list[str] = []
    for group, sharing in _groups(study, placed, "knn_per", [HISTORY]):
        need(study, "method", [AVERAGING])
        short, long = (end[0] for end in _ends(study, group))
        for state in study.data.states:
            early, late = (
                [_chosen(p, state, sharing, method) for method in ("knn_per", AVERAGING)]
                for p in (short, long)
            )
            if not early[0].is_comparable(late[0]):
                raise NotInStudyError("persistence has another error with another history")
            gained = early[0].lead(early[1]).lead(late[0].lead(late[1]))
            names = late[0].name, early[0].name
            if np.isnan(gained.weekly).all():
                lost += names
            else:
                comparisons.append(Comparison(names, {state: gained.weekly}))
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
    columns = [axis.column for axis in study.axes if axis.key in free]
    yield from itertools.product(grouped(placed, columns), schemes)


def _ends(study: Study, group: Sequence[Variant]) -> tuple[list[Variant], list[Variant]]:
    """The variants with the shortest history and those with the longest."""
    weeks = [np.inf if v is None else float(v) for v in _axis(study, HISTORY).choices.values()]
    if min(weeks) == max(weeks):
        raise NotInStudyError(f"the axis {HISTORY} has a single value")

    def those(end: float) -> list[Variant]:
        histories = [(p, _value(study, p, HISTORY)) for p in group]
        return [p for p, value in histories if (np.inf if value is None else value) == end]

    return those(min(weeks)), those(max(weeks))


def _lowest(
    study: Study, group: Sequence[Variant], key: str, state: str, sharing: str, method: str
) -> Array:
    """Log2 of the value of `key` with the lowest MASE, for each client and seed; NaN if there is
    none."""
    mase = np.stack([_chosen(p, state, sharing, method).weekly.sum(axis=-1) for p in group])
    values = np.log2([float(_value(study, p, key)) for p in group])
    lowest: Array = values[np.where(np.isnan(mase), np.inf, mase).argmin(axis=0)]
    return np.where(np.isnan(mase).all(axis=0), np.nan, lowest)


def _value(study: Study, variant: Variant, key: str) -> Any:
    axis = _axis(study, key)
    return axis.choices[variant.place[axis.column]]


def _cells(variant: Variant, state: str, sharing: str, method: str) -> list[Forecaster]:
    """The cells of a method, with the variant in their names."""
    of_state = variant.scores["local"][state]
    cells = of_state.those(sharing=sharing, method=method, server_opt="fedavg")
    return [replace(one, name=f"{variant.label}/{one.name}") for one in cells]


def _chosen(variant: Variant, state: str, sharing: str, method: str) -> Forecaster:
    """The best cell on validation; if all diverged the first, without a score."""
    cells = _cells(variant, state, sharing, method)
    return best(cells) or replace(cells[0], weekly=cells[0].weekly * np.nan)
