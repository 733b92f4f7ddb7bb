"""Whether a public model was trained on a meter: marks of the days that it has read.

A mark is a digest of a day of 24 hourly loads. No load can be computed from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import DataError
from plfl.data.features import resample
from plfl.public.inputs import HOURS_PER_DAY, Floats, HourlyLoads

DIGITS = 4
"""Significant digits of a load that count."""
DAYS_BETWEEN_MARKS = 28
"""Days from one mark of a meter to the next."""


def marks_of(meters: Iterable[HourlyLoads], stamps: NDArray[np.datetime64]) -> NDArray[np.uint64]:
    """The marks, ascending, of meters with the same ends of hours: of one day in
    `DAYS_BETWEEN_MARKS`."""
    row_numbers = _midnights(stamps)
    row_numbers = row_numbers[
        stamps[row_numbers].astype("datetime64[D]").astype(int) % DAYS_BETWEEN_MARKS == 0
    ]
    days = (
        meter.load[row : row + HOURS_PER_DAY] for meter in meters for row in row_numbers.tolist()
    )
    return np.unique(np.array([_mark(day) for day in days if _is_usable(day)], np.uint64))


def is_meter_seen(load: pd.Series, minutes: int, marks: NDArray[np.uint64]) -> bool:
    """The same of a meter's loads every `minutes` minutes, indexed by the ends of the intervals in
    local standard time."""
    if minutes > 60 or 60 % minutes or len(load) < 2:
        return False
    try:
        hours = resample(load.to_frame("load"), 60)["load"] if minutes < 60 else load
    except DataError:  # its hours begin at other minutes than those of any mark
        return False
    stamps = pd.DatetimeIndex(hours.index).to_numpy("datetime64[s]")
    return is_seen(hours.to_numpy(float), stamps, marks)


def is_seen(load: Floats, stamps: NDArray[np.datetime64], marks: NDArray[np.uint64]) -> bool:
    """Whether a day of hourly loads, whose ends are given in local standard time, has a mark."""
    days = (load[row : row + HOURS_PER_DAY] for row in _midnights(stamps).tolist())
    own_marks = np.array([_mark(day) for day in days if _is_usable(day)], np.uint64)
    return len(own_marks) > 0 and bool(np.isin(own_marks, marks).any())


def _midnights(stamps: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Rows of the first hours of days, which end at one o'clock."""
    hours = stamps.astype("datetime64[h]").astype(np.int64)
    return np.flatnonzero(hours % HOURS_PER_DAY == 1)


def _is_usable(day: Floats) -> bool:
    """Whether a day tells meters apart: all 24 loads are known, and most are different."""
    return (
        len(day) == HOURS_PER_DAY
        and bool(np.isfinite(day).all())
        and len(np.unique(day)) > HOURS_PER_DAY // 2
    )


def _mark(day: Floats) -> int:
    text = " ".join(f"{load:.{DIGITS - 1}e}" for load in day)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
