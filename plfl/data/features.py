"""The model's inputs as the columns of a table."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def calendar(stamps: pd.DatetimeIndex) -> pd.DataFrame:
    """The columns `time_index`, int(4 · hour + minute / 15), and `weekday` (Monday = 0)."""
    return pd.DataFrame(
        {
            "time_index": np.asarray(4 * stamps.hour + stamps.minute // 15, dtype=float),
            "weekday": np.asarray(stamps.day_of_week, dtype=float),
        },
        index=stamps,
    )


def resampled(series: pd.DataFrame, minutes: int) -> pd.DataFrame:
    """Readings over longer intervals of `minutes` minutes: the sum of the loads, and the mean of
    all other columns.

    Stamps are the ends of the intervals. An interval with a missing reading is missing. Incomplete
    intervals at both ends are left out.
    """
    groups = series.resample(f"{minutes}min", closed="right", label="right")
    each = round(pd.Timedelta(minutes=minutes) / (series.index[1] - series.index[0]))
    found: pd.DataFrame = groups.mean().where(groups.count() == each)
    found["load"] *= each
    whole = groups.size() == each
    found = found.loc[whole.cummax() & whole[::-1].cummax()[::-1]]
    found.attrs = dict(series.attrs)
    return found


def assemble(series: pd.DataFrame, features: Sequence[str]) -> pd.DataFrame:
    """The table of a client: the available `features`, in order, as float64.

    `series` is indexed by local timestamps at the end of each interval. It has `load` and the other
    columns of its source; the columns of the calendar are added.
    """
    table = pd.concat([series, calendar(pd.DatetimeIndex(series.index))], axis=1)
    table = table[[name for name in features if name in table]].astype(float)
    table.attrs = dict(series.attrs)
    return table


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
