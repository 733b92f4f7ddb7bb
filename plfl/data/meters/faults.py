"""Gaps, and faults that become gaps: outages that are recorded as zero, outliers, and what a
register shows when it is swapped, reset or not read."""

from collections import Counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.text import format_span

READINGS_BEFORE = 5
"""A reading is compared with the median of this many readings before it."""
_ENOUGH_RISES = 10
"""Rises of a register that tell how large its rises are."""
_JUMP = 30
"""A rise that is this multiple of the next largest one belongs to another register."""
_NOISE = 1e-3
"""A fall of up to this fraction of the most that a register can count is noise."""
_DIGITS = 12
"""Significant digits of a register; those beyond are rounding errors of its file."""


def fill_short(table: pd.DataFrame, longest_rows: int) -> pd.DataFrame:
    """A table with runs of up to `longest_rows` missing values filled with the value before; longer
    runs stay missing."""
    filled = table.ffill()
    for column in range(len(table.columns)):
        starts, lengths = runs(table.iloc[:, column].isna().to_numpy())
        is_long = lengths > longest_rows
        for first, length in zip(starts[is_long], lengths[is_long], strict=True):
            filled.iloc[first : first + length, column] = np.nan
    return filled


def mask_outages(load: pd.Series, minutes: int, hours: float) -> pd.Series:
    """The load, every `minutes`, with a gap wherever it is zero for `hours` or longer."""
    starts, lengths = runs((load == 0).to_numpy())
    load_with_gaps = load.copy()
    for start, length in zip(starts, lengths, strict=True):
        if length * minutes >= hours * 60:
            load_with_gaps.iloc[start : start + length] = np.nan
    return load_with_gaps


def mask_jumps(load: pd.Series, limit: float) -> pd.Series:
    """The load, on a regular grid, with a gap wherever it jumps.

    A reading jumps if its distance from the median of the five readings before it exceeds `limit`
    times the median size of the meter's readings (without zeros). Later readings do not matter, so
    new readings are judged like past ones. After a lasting change of the level, the first three
    readings become a gap.
    """
    known_loads = load.dropna()
    usual = known_loads[known_loads != 0].abs().median()
    level = known_loads.shift().rolling(READINGS_BEFORE, min_periods=1).median()
    jumps = known_loads.index[((known_loads - level).abs() > limit * usual).to_numpy()]
    return load.mask(load.index.isin(jumps))


def differences(register: pd.Series, changes: Counter[str]) -> pd.Series:
    """What a register counted since its reading before, rounded to its resolution, given the known
    readings, oldest first. What changes is counted in `changes`.

    NaN for the first reading, and where the difference says nothing: the register was swapped or
    reset, or began again, so that it falls or rises beyond measure. Zeros before a rise beyond
    measure are not readings, and are left out. A small fall is noise: nothing is counted until it
    is made up for.
    """
    largest = _largest(register[register != 0])
    is_read = ~_dropouts(register.to_numpy(), largest)
    changes["zeros of the register made gaps"] += int((~is_read).sum())
    register = register[is_read]
    values, digits = register.to_numpy(), _digits(register.to_numpy())
    noise = max(2.5 * 10.0**-digits, _NOISE * largest if largest < np.inf else 0)
    falls = np.diff(values) < -noise
    highest = register.groupby(np.cumsum([False, *falls])).cummax().to_numpy()
    counted = np.diff(highest)
    jumps = counted > largest * _spans(register)
    changes["steps back of the register made gaps"] += int(falls.sum())
    changes["jumps of the register made gaps"] += int(jumps.sum())
    counted[jumps | falls] = np.nan
    return pd.Series([np.nan, *counted.round(digits)], register.index)


def _spans(register: pd.Series) -> NDArray[np.float64]:
    """The times between readings, in units of the most common one."""
    steps = np.diff(pd.DatetimeIndex(register.index).asi8)
    return np.asarray(steps / (pd.Series(steps).mode().min() if len(steps) else 1))


def _largest(register: pd.Series) -> float:
    """The most that a register can count between two readings: twice its largest rise that is no
    jump; infinite if there are too few to tell."""
    rises = np.diff(register.to_numpy()) / _spans(register)
    rises = np.sort(rises[rises > 0])
    if len(rises) < _ENOUGH_RISES:
        return np.inf
    top = rises[-4 - len(rises) // 1000 :]
    jumps = np.flatnonzero(top[1:] > _JUMP * top[:-1])
    return 2 * float(top[jumps[0]] if len(jumps) else top[-1])


def _dropouts(values: NDArray[np.float64], largest: float) -> NDArray[np.bool_]:
    """Zeros after which a register shows more than it can have counted, or nothing more at all."""
    dropouts = np.zeros(len(values), bool)
    for start, length in zip(*runs(values == 0), strict=True):
        end = start + length
        dropouts[start:end] = (values[end] if end < len(values) else np.inf) > largest
    return dropouts


def _digits(values: NDArray[np.float64]) -> int:
    """Decimal places of a register's readings."""
    most_digits = _DIGITS - int(np.ceil(np.log10(max(np.abs(values).max(initial=0), 1))))
    exact = (
        d
        for d in range(most_digits)
        if (np.abs(values - values.round(d)) < 10.0**-most_digits).all()
    )
    return next(exact, most_digits)


def longest_gap(values: pd.Series, minutes: int) -> str:
    """The longest gap of a series every `minutes` in words, such as `58.5 days from 2017-01-31
    23:45`, in the time of its index, the ends of intervals; empty if there is none."""
    starts, lengths = runs(values.isna().to_numpy())
    return longest(values.index, starts, lengths, minutes) if len(starts) else ""


def longest(index: pd.Index, starts: np.ndarray, lengths: np.ndarray, minutes: int) -> str:
    """The longest of some gaps in words: from the beginning of its first interval."""
    position = int(lengths.argmax())
    step = pd.Timedelta(minutes=minutes)
    begin = index[starts[position]] - step
    return f"{format_span(int(lengths[position]) * step)} from {begin:%Y-%m-%d %H:%M}"


def runs(missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start positions and lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(int)))
    return edges[::2], edges[1::2] - edges[::2]
