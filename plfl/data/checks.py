"""Checks that the series of every source must pass before training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import DataError, Place, Problem
from plfl.base.lazy import pandas as pd
from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.base.text import count_in_words

CONSTANT_FROM = MINUTES_PER_WEEK
"""Minutes from which on a load that never changes is refused. A shorter one may be right, such as
that of the first hours in a file that begins anew every month."""
ENOUGH_CHANGES = 20
"""Changes that tell whether a load that also falls is a register."""
SWAPS = 3
"""A register may fall this often, such as when it is swapped."""
RARE = 0.1
"""Other falls of a register are at most this fraction of its rises, by number or by size."""
_TURNS = 0.01
"""Two registers take turns in more than this part of the steps: twice in 96 quarter hours."""


def check_stamps(place: Path | Place | str, stamps: pd.DatetimeIndex, interval: int) -> None:
    """Refuse stamps that do not advance in steps of `interval` minutes with a DataError, which
    names the file, the first wrong one, their number and the remedy."""
    if len(stamps) == 0:
        raise DataError(
            Problem(place, "has no rows", "replace the file or leave this building out")
        )
    is_wrong = np.asarray(stamps[1:] - stamps[:-1] != pd.Timedelta(minutes=interval))
    if is_wrong.any():
        row = int(is_wrong.argmax())
        raise DataError(
            Problem(
                place,
                f"{stamps[row]} is followed by {stamps[row + 1]} "
                f"({_count(is_wrong, 'such step')}), but rows must be {interval} minutes apart",
                "sort them, keep one for each time, and fill gaps with empty rows",
            )
        )


def check_load(
    place: Path | Place | str,
    load: pd.Series,
    *,
    allow_negative: bool = False,
    allow_constant: bool = False,
    may_have_gaps: bool = False,
) -> None:
    """Refuse a load series (kWh per interval) that is empty or constant (unless allowed), or has
    infinite, missing (unless it `may_have_gaps`) or negative values (unless allowed), like
    `check_finite`."""
    check_finite(place, load, may_have_gaps=may_have_gaps)
    if not allow_negative:
        _refuse(place, load, load.to_numpy() < 0, "negative", "remove them, or allow negative load")
    is_known = pd.notna(load.to_numpy())
    values = load.to_numpy()[is_known]
    if not len(values):
        raise DataError(
            Problem(
                place,
                f"column {load.name!r} has no values",
                "replace the file or leave this building out",
            )
        )
    if (values == values[0]).all() and not allow_constant:
        raise DataError(
            Problem(
                place,
                f"column {load.name!r} is constant, all {len(values)} values from "
                f"{load.index[is_known][0]} on are {values[0]:g}",
                "there is nothing to forecast, leave this building out",
            )
        )


def is_register(load: pd.Series) -> bool:
    """Whether a load looks like the readings of a cumulative register.

    It rises, and falls at most `SWAPS` times; or rarely, and almost to zero, such as a register
    that is reset every day; or but for the largest steps, falls are small, such as noise.
    """
    return _are_of_register(load.dropna().to_numpy())


def _are_of_register(values: NDArray[np.float64]) -> bool:
    steps = np.diff(values)
    falls, rises = np.sort(-steps[steps < 0]), np.sort(steps[steps > 0])
    if not len(falls) or len(falls) + len(rises) < ENOUGH_CHANGES:
        return len(rises) > 0 and not len(falls)
    if len(falls) <= RARE * len(rises):
        share_left = np.median(values[1:][steps < 0] / values[:-1][steps < 0])
        return len(falls) <= SWAPS or bool(abs(share_left) <= RARE)
    return bool(falls[:-SWAPS].sum() < RARE * rises[:-SWAPS].sum())


def rises_like_register(readings: pd.Series) -> bool:
    """Whether known readings are those of a register, and rise often enough to tell."""
    return _rise_like_register(readings.dropna().to_numpy())


def _rise_like_register(values: NDArray[np.float64]) -> bool:
    rises = (np.diff(values) > 0).sum()
    return bool(rises >= ENOUGH_CHANGES) and _are_of_register(values)


def are_two_registers(values: NDArray[np.float64]) -> bool:
    """Whether known readings are those of two registers in turns: those in even and odd rows,
    those below and above the widest step between values, or two series that never fall."""
    if len(values) <= 2 * ENOUGH_CHANGES:
        return False
    ordered = np.sort(values)
    is_high = values > ordered[np.diff(ordered).argmax()]
    is_odd = np.arange(len(values)) % 2 > 0
    return any(
        (np.diff(is_first) != 0).mean() > _TURNS
        and all(_rise_like_register(part) for part in (values[is_first], values[~is_first]))
        for is_first in (is_high, is_odd, _is_in_first_series(values))
    )


def _is_in_first_series(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values are in the first of two series that never fall and make up all values; all of
    them if there are no two such series, as in any load, whose values soon fall twice."""
    is_first = np.ones(len(values), dtype=bool)
    last_first = last_second = -np.inf
    for row, value in enumerate(values):
        # The higher of the two last values that this one is not below.
        if value >= last_first and not last_first < last_second <= value:
            last_first = value
        elif value >= last_second:
            last_second, is_first[row] = value, False
        else:
            return np.ones(len(values), dtype=bool)
    return is_first


def check_finite(
    place: Path | Place | str, column: pd.Series, *, may_have_gaps: bool = False
) -> None:
    """Refuse a column, indexed by timestamps, with infinite values or, unless it `may_have_gaps`,
    with NaN. The DataError names the file, the column, the first stamp, the number of values and
    the remedy.
    """
    values = column.to_numpy(dtype=float)
    if not may_have_gaps:
        missing = np.isnan(values)
        _refuse(place, column, missing, "missing (NaN)", "fill them or leave this file out")
    _refuse(place, column, np.isinf(values), "infinite", "correct them or leave this file out")


def _refuse(
    place: Path | Place | str,
    column: pd.Series,
    wrong: np.ndarray,
    description: str,
    remedy: str,
) -> None:
    if wrong.any():
        text = (
            f"column {column.name!r}: {_count(wrong, 'value')} {description}, first at "
            f"{column.index[int(wrong.argmax())]}"
        )
        raise DataError(Problem(place, text, remedy))


def _count(wrong: np.ndarray, noun: str) -> str:
    return count_in_words(int(wrong.sum()), noun)
