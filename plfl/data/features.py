"""The model's inputs as the columns of a table."""

from collections.abc import Sequence

import numpy as np
import pandas as pd


def calendar(stamps: pd.DatetimeIndex) -> pd.DataFrame:
    """The columns `time_index`, int(4 · hour + minute / 15), and `weekday` (Monday = 0)."""
    return pd.DataFrame(
        {
            "time_index": np.asarray(4 * stamps.hour + stamps.minute // 15, dtype=float),
            "weekday": np.asarray(stamps.day_of_week, dtype=float),
        },
        index=stamps,
    )


def assemble(series: pd.DataFrame, features: Sequence[str]) -> pd.DataFrame:
    """The table of a client: those of the `features` that are available, in order, as float64.

    `series` is indexed by local timestamps at the end of each interval. It has `load` and the other
    columns of its source; the columns of the calendar are added.
    """
    table = pd.concat([series, calendar(pd.DatetimeIndex(series.index))], axis=1)
    table = table[[name for name in features if name in table]].astype(float)
    table.attrs = dict(series.attrs)
    return table
