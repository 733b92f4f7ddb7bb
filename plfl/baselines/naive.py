"""Forecasts without training: a past reading, or the mean of several."""

import numpy as np

from plfl.baselines.model import Fit, Floats, Predict, Rows
from plfl.config.named import STANDARD
from plfl.data.dataset import WEEK, Dataset

DAY = WEEK // 7
"""Minutes in a day."""


def persistence(dataset: Dataset) -> Predict:
    """The load of the last input row."""
    return lambda client, starts: dataset.persistence(starts)


def seasonal(name: str) -> Fit:
    """The mean of the loads some days before the target: those of the baseline of this name."""

    def fit(dataset: Dataset) -> Predict:
        def predict(client: int, starts: Rows) -> Floats:
            seasons = [days * DAY for days in STANDARD[name].days]
            loads = [last_season(dataset, client, starts, season) for season in seasons]
            return np.asarray(np.mean(loads, axis=0), float)

        return predict

    return fit


naive_day = seasonal("naive_day")
naive_week = seasonal("naive_week")
naive_mean = seasonal("naive_mean")
naive_weeks = seasonal("naive_weeks")


def last_season(dataset: Dataset, client: int, starts: Rows, season: int) -> Floats:
    """The loads, in the shape of `Dataset.truth`, a `season` (minutes) before the targets. If that
    reading is missing, the load a season earlier is used, and so on. NaN as in `before`."""
    loads = before(dataset, client, starts, season)
    rows = dataset.target_rows(starts) - season // dataset.interval
    gaps = np.isnan(loads) & (rows <= _last(dataset, starts))
    earlier = season
    while (gaps & (rows >= dataset.bounds[client, 0])).any():
        earlier, rows = earlier + season, rows - season // dataset.interval
        loads = np.where(gaps, before(dataset, client, starts, earlier), loads)
        gaps &= np.isnan(loads)
    return loads


def before(dataset: Dataset, client: int, starts: Rows, season: int) -> Floats:
    """The loads, in the shape of `Dataset.truth`, a `season` (minutes) before the targets; NaN if
    this is after the last input row, before the client's first row, or in a gap."""
    rows = dataset.target_rows(starts) - season // dataset.interval
    last = _last(dataset, starts)
    known = (rows >= dataset.bounds[client, 0]) & (rows <= last)
    return np.where(known, dataset.load[np.where(known, rows, last)], np.nan)


def _last(dataset: Dataset, starts: Rows) -> Rows:
    """The last input rows (W,), or (W, 1) if windows have several targets."""
    last = dataset.persistence_rows(starts)
    return last if dataset.horizons == 1 else last[:, None]
