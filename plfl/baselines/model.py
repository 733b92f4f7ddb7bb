"""The interface of baselines: they are fitted to a dataset and then forecast windows."""

from collections.abc import Callable
from functools import wraps
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from plfl.data.dataset import Dataset

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]
Predict: TypeAlias = Callable[[int, Rows], Floats]
"""Forecasts, in kWh, for windows of a client, given its number and the windows' start rows. NaN if
there is no forecast."""
Fit: TypeAlias = Callable[[Dataset], Predict]
"""Trains on the training set of every client. Only early stopping may use the validation set."""


def per_client(fit_one: Callable[[Dataset, int], Callable[[Rows], Floats]]) -> Fit:
    """Fit one model per client, given a function that fits the model of one client."""

    @wraps(fit_one)
    def fit(dataset: Dataset) -> Predict:
        models = [fit_one(dataset, client) for client in range(len(dataset.clients))]
        return lambda client, starts: models[client](starts)

    return fit
