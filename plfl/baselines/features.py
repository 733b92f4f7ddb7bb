"""The inputs of the trained baselines. None uses anything after a window's last input row. Every
function takes the start rows (W,) of windows and returns an array with W rows."""

from collections.abc import Sequence

import numpy as np

from plfl.base.minutes import MINUTES_PER_DAY
from plfl.config.named import CALENDAR
from plfl.data.dataset import Dataset
from plfl.data.features import time_of_day, weekday
from plfl.interfaces.baseline import Floats, Starts

LAGS = (1, 2, 7)
"""Days before the target around which the baselines with day and week lags read loads."""
SEASON_MINUTES = tuple(days * MINUTES_PER_DAY for days in LAGS)
"""Day and week lags, in minutes before the target."""
STEPS_AROUND = range(-2, 3)
"""Offsets, in rows, around each lag."""


def last_loads(dataset: Dataset, starts: Starts) -> Floats:
    """Load (W,) of the last input row."""
    return dataset.load[dataset.persistence_rows(starts)]


def look_back(dataset: Dataset, starts: Starts) -> Floats:
    """Loads (W, T) of the input rows."""
    return np.asarray(dataset.load[starts[:, None] + np.arange(dataset.look_back)], float)


def season_lags(dataset: Dataset, client: int, starts: Starts) -> Floats:
    """Loads (W, 15) around one day, two days and a week before the target. A load that is unknown,
    because it is before the client's first row, after the last input row or in a gap, is replaced
    by the load of the last input row."""
    targets, last_rows = dataset.target_rows(starts), dataset.persistence_rows(starts)[:, None]
    steps = [
        season // dataset.interval - step for season in SEASON_MINUTES for step in STEPS_AROUND
    ]
    row_numbers = targets[:, None] - np.array(steps)
    is_known = (row_numbers >= dataset.view.bounds[client, 0]) & (row_numbers <= last_rows)
    lags = dataset.load[np.where(is_known, row_numbers, last_rows)]
    return np.where(np.isnan(lags), dataset.load[last_rows], lags)


def target_time_of_day(dataset: Dataset, starts: Starts, harmonics: int) -> Floats:
    """Sine and cosine (W, 2 · harmonics) of the target's time of day."""
    return time_of_day(dataset.stamps[dataset.target_rows(starts)], harmonics)


def target_weekday(dataset: Dataset, starts: Starts) -> Floats:
    """The target's day of the week (W, 7), one-hot."""
    return weekday(dataset.stamps[dataset.target_rows(starts)])


def extra_columns(dataset: Dataset) -> list[int]:
    """Columns of the study's inputs other than the load and the calendar."""
    columns = dataset.columns.tolist()
    return [columns.index(name) for name in further_of(columns)]


def further_of(columns: Sequence[str]) -> list[str]:
    """The names of these among the columns, of which the first is the load."""
    return [name for name in columns[1:] if name not in CALENDAR]


def inputs(dataset: Dataset, starts: Starts, columns: Sequence[int]) -> Floats:
    """Scaled inputs (W, K) of the study at the last input row."""
    return np.asarray(dataset.features[dataset.persistence_rows(starts)][:, columns], float)


def raw_bytes(dataset: Dataset) -> list[int]:
    """Bytes that each client sends if all raw data are brought to one place: four for each load of
    its training and validation sets and, for each further input, for each of these rows, or once if
    it never changes. The calendar need not be sent, and neither do gaps."""
    columns = extra_columns(dataset)
    bytes_of_clients = []
    for first, _, end, _ in dataset.view.bounds.tolist():
        part = dataset.features[first:end]
        varies = np.fmax.reduce(part) > np.fmin.reduce(part)
        numbers = np.where(varies, np.isfinite(part).sum(axis=0), 1)
        loads = np.isfinite(part[:, 0]).sum()
        bytes_of_clients.append(4 * int(loads + numbers[columns].sum()))
    return bytes_of_clients
