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
            loads = [before(dataset, client, starts, season) for season in seasons]
            return np.asarray(np.mean(loads, axis=0), float)

        return predict

    return fit


def before(dataset: Dataset, client: int, starts: Rows, season: int) -> Floats:
    """The loads a `season` (minutes) before the targets of a client's windows.

    NaN where this is after the last input row or before the client's first row.
    """
    rows = dataset.target_rows(starts) - season // dataset.interval
    known = (rows >= dataset.bounds[client, 0]) & (rows <= dataset.persistence_rows(starts))
    return np.where(known, dataset.load[np.where(known, rows, starts)], np.nan)
