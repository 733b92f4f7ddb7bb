"""The model's inputs as columns of a table, and units that make loads of clients comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from plfl.base.array_types import Floats as Floats
from plfl.base.errors import DataError, Problem
from plfl.base.lazy import pandas as pd

RowsOverTime = TypeVar("RowsOverTime", "pd.DataFrame", "pd.Series[float]")


def calendar(stamps: pd.DatetimeIndex) -> pd.DataFrame:
    """The columns `time_index`, int(4 · hour + minute / 15), and `weekday` (Monday = 0)."""
    return pd.DataFrame(
        {
            "time_index": np.asarray(4 * stamps.hour + stamps.minute // 15, dtype=float),
            "weekday": np.asarray(stamps.day_of_week, dtype=float),
        },
        index=stamps,
    )


def resample(series: pd.DataFrame, minutes: int) -> pd.DataFrame:
    """Readings over longer intervals of `minutes` minutes, with the ends of these as stamps: the
    sum of the loads, and the mean of all other columns. An interval with a missing reading is
    missing. Incomplete intervals at both ends are left out; a single reading makes none.
    DataError: the readings end between the ends of these intervals, such as half hours at :15."""
    if len(series) < 2:
        return series.iloc[:0]
    first, step = series.index[0], series.index[1] - series.index[0]
    if (first - first.normalize()) % step:
        text = f"readings that end at {first:%H:%M} make no intervals of {minutes} minutes"
        raise DataError(Problem("", text, "leave this meter out, or forecast its own intervals"))
    groups = series.resample(f"{minutes}min", closed="right", label="right")
    readings_each = round(pd.Timedelta(minutes=minutes) / step)
    means: pd.DataFrame = groups.mean().where(groups.count() == readings_each)
    means["load"] *= readings_each
    is_complete = groups.size() == readings_each
    means = means.loc[is_complete.cummax() & is_complete[::-1].cummax()[::-1]]
    means.attrs = dict(series.attrs)
    return means


def drop_replaced(rows: RowsOverTime) -> RowsOverTime:
    """Rows by time, without those that a later row of the same time replaces."""
    return rows[~rows.index.duplicated(keep="last")]


def assemble(series: pd.DataFrame, features: Sequence[str]) -> pd.DataFrame:
    """The table of a client: the available `features`, in order, as float64.

    `series` is indexed by local timestamps at the end of each interval. It has `load` and the other
    columns of its source; the columns of the calendar are added.
    """
    table = series
    if any(name not in series for name in features):
        table = pd.concat([series, calendar(pd.DatetimeIndex(series.index))], axis=1)
    columns = [name for name in features if name in table]
    table = (table if [*table] == columns else table[columns]).astype(float)
    table.attrs = dict(series.attrs)
    return table


def days_of(stamps: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """The days of intervals that end at these stamps: midnight belongs to the day before.

    >>> days_of(np.array(["2024-01-02T00:00", "2024-01-02T01:00"], "datetime64[s]"))
    array(['2024-01-01', '2024-01-02'], dtype='datetime64[D]')
    """
    days: NDArray[np.datetime64] = (stamps - np.timedelta64(1, "s")).astype("datetime64[D]")
    return days


def time_of_day(stamps: NDArray[np.datetime64], harmonics: int) -> NDArray[np.float64]:
    """Sine and cosine (W, 2 · harmonics) of the time of day, to nine decimals.

    Without rounding, a tree could distinguish sin 30° from sin 150° by the last bit, and the score
    of a client would depend on how the angle is computed, by up to 0.02.
    """
    share = (stamps - stamps.astype("datetime64[D]")) / np.timedelta64(1, "D")
    angles = 2 * np.pi * share[:, None] * np.arange(1, harmonics + 1)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).round(9)


def weekday(stamps: NDArray[np.datetime64]) -> NDArray[np.float64]:
    """The day of the week (W, 7), one-hot, Monday first."""
    days = stamps.astype("datetime64[D]").astype(np.int64)
    return np.eye(7)[(days + 3) % 7]  # day 0, 1 January 1970, was a Thursday


SMALLEST = 1e-6
"""Lower limit of loads before the logarithm, as a fraction of the mean load."""


def finite_values(values: Floats) -> Floats:
    """The values that are not missing (NaN)."""
    missing = np.isnan(values)
    return values[~missing] if missing.any() else values


@dataclass(frozen=True)
class Unit:
    """The units of a client's loads, from its training set; a unit of 0 is replaced by 1."""

    change: float
    """Mean absolute change from the last input to the target, kWh: the error of persistence."""
    mean: float
    """Mean load, kWh; the absolute value if it is negative."""
    deviation: float
    """Standard deviation of the load, kWh."""

    @classmethod
    def from_load(cls, load: Floats, look_ahead: int, horizons: int = 1) -> Unit:
        """The units of a client, given the loads (R,) of its training set in kWh, NaN in gaps."""
        steps = range(look_ahead, look_ahead + horizons)
        errors = [np.abs(finite_values(load[step:] - load[:-step])) for step in steps]
        means = [error.mean() for error in errors if len(error)]
        change, load = np.mean(means) if means else 0.0, finite_values(load)
        if not len(load):
            return cls(1.0, 1.0, 1.0)
        units = (change, abs(load.mean()), load.std() if np.ptp(load) > 0 else 0.0)
        return cls(*(float(value) or 1.0 for value in units))

    def level(self, load: Floats) -> Floats:
        """Standard score, and logarithm of the ratio to the mean (W, 2), of loads (W,) in kWh."""
        share = np.maximum(load / self.mean, SMALLEST)
        return np.stack([(load - self.mean) / self.deviation, np.log(share)], axis=1)
