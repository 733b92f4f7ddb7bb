"""The interface of baselines: they are fitted to a dataset and then forecast windows."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plfl.data.dataset import Dataset

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]
Predict: TypeAlias = Callable[[int, Rows], Floats]
"""Forecasts, in kWh, for windows of a client, given its number and the windows' start rows. NaN if
there is no forecast."""
Fit: TypeAlias = Callable[[Dataset], Predict]
"""Trains on the training set of every client. Only the choice of settings may use the validation
set."""


Arrays: TypeAlias = dict[str, NDArray[Any]]
"""What a client needs of a baseline to forecast later readings; see
`plfl.experiments.stored_baselines`."""


class Trained(NamedTuple):
    """A fitted baseline, and its costs."""

    predict: Predict
    sent: list[int]
    """Bytes that each client has to send."""
    of: tuple[str, ...] = ()
    """The baselines whose messages these are; empty: its own."""
    stored: Callable[[int], Arrays] | None = None
    """What a client needs of it, given the client's number; None: it cannot be stored."""


def mean_of(predicts: Sequence[Predict]) -> Predict:
    """The mean of forecasts."""

    def mean(client: int, starts: Rows) -> Floats:
        return np.asarray(np.mean([predict(client, starts) for predict in predicts], axis=0), float)

    return mean


def per_client(fit_one: Callable[[Dataset, int], Callable[[Rows], Floats]]) -> Fit:
    """Fit one model per client, given a function that fits the model of one client."""

    @wraps(fit_one)
    def fit(dataset: Dataset) -> Predict:
        models = [fit_one(dataset, client) for client in range(len(dataset.clients))]
        return lambda client, starts: models[client](starts)

    return fit


def again(fit: Fit) -> Fit:
    """If the end of the history is held out, fit again, to the whole history, for the test."""

    @wraps(fit)
    def fit_twice(dataset: Dataset) -> Predict:
        stages = [dataset, dataset.refit()] if dataset.is_rehearsal else [dataset]
        return by_set(dataset, *map(fit, stages))

    return fit_twice


def by_set(dataset: Dataset, *stages: Predict) -> Predict:
    """Forecasts of test windows by the last stage, and of all other windows by the first."""
    if len(stages) == 1:
        return stages[0]

    def predict(client: int, starts: Rows) -> Floats:
        test = starts >= dataset.bounds[client, 2]
        assert test.all() or not test.any(), "windows of one set at a time"
        return stages[-1 if test.all() else 0](client, starts)

    return predict
