"""Forecasts without training: a past reading, or the mean of several."""

import numpy as np

from plfl.baselines.model import Fit, Floats, Predict, Rows
from plfl.data.windows import WEEK, Dataset

DAY = WEEK // 7
"""Minutes in a day."""


def persistence(dataset: Dataset) -> Predict:
    """The load of the last input row."""
    return lambda client, starts: dataset.load[dataset.persistence_rows(starts)]


def seasonal(*seasons: int) -> Fit:
    """The mean of the loads at each of the `seasons` (minutes) before the target."""

    def fit(dataset: Dataset) -> Predict:
        def predict(client: int, starts: Rows) -> Floats:
            loads = [last_season(dataset, client, starts, season) for season in seasons]
            return np.asarray(np.mean(loads, axis=0), float)

        return predict

    return fit


def last_season(dataset: Dataset, client: int, starts: Rows, season: int) -> Floats:
    """The loads a `season` (minutes) before the targets of a client's windows.

    Where that reading is missing, the load a season earlier takes its place, and so on. NaN as in
    `before`.
    """
    loads = before(dataset, client, starts, season)
    rows = dataset.target_rows(starts) - season // dataset.interval
    gaps = np.isnan(loads) & (rows <= dataset.persistence_rows(starts))
    earlier = season
    while (gaps & (rows >= dataset.bounds[client, 0])).any():
        earlier, rows = earlier + season, rows - season // dataset.interval
        loads = np.where(gaps, before(dataset, client, starts, earlier), loads)
        gaps &= np.isnan(loads)
    return loads


def before(dataset: Dataset, client: int, starts: Rows, season: int) -> Floats:
    """The loads a `season` (minutes) before the targets of a client's windows.

    NaN where this is after the last input row, before the client's first row, or in a gap.
    """
    rows = dataset.target_rows(starts) - season // dataset.interval
    known = (rows >= dataset.bounds[client, 0]) & (rows <= dataset.persistence_rows(starts))
    return np.where(known, dataset.load[np.where(known, rows, starts)], np.nan)
