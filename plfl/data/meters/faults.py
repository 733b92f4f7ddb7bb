"""Turns faults of a meter into gaps: outages that are recorded as zero, and outliers."""

import numpy as np
import pandas as pd

from plfl.data.meters.gaps import runs

BEFORE = 5
"""A reading is compared with the median of this many readings before it."""


def without_outages(load: pd.Series, minutes: int, hours: float) -> pd.Series:
    """The load with a gap wherever it is zero for `hours` or longer.

    Args:
        load: readings on a regular grid.
        minutes: its step.
        hours: shortest duration of an outage.
    """
    starts, lengths = runs((load == 0).to_numpy())
    kept = load.copy()
    for start, length in zip(starts, lengths, strict=True):
        if length * minutes >= hours * 60:
            kept.iloc[start : start + length] = np.nan
    return kept


def without_jumps(load: pd.Series, limit: float) -> pd.Series:
    """The load with a gap wherever it jumps.

    A reading jumps if its distance from the median of the five readings before it exceeds `limit`
    times the median size of the meter's readings (without zeros). Later readings do not matter, so
    new readings are judged like past ones. After a lasting change of the level, the first three
    readings become a gap.

    Args:
        load: readings on a regular grid; NaN in gaps.
        limit: largest jump, as a multiple of the median size.
    """
    known = load.dropna()
    usual = known[known != 0].abs().median()
    before = known.shift().rolling(BEFORE, min_periods=1).median()
    jumps = known.index[((known - before).abs() > limit * usual).to_numpy()]
    return load.mask(load.index.isin(jumps))
