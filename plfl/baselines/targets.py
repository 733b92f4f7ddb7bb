"""Baselines for windows with several targets, and for quantiles."""

from collections.abc import Sequence
from functools import wraps

import numpy as np

from plfl.baselines.model import Fit, Floats, Predict, Rows
from plfl.data.dataset import Dataset


def of_each(fit: Fit) -> Fit:
    """One model for each target, given a function that fits the model of one target."""

    @wraps(fit)
    def fit_all(dataset: Dataset) -> Predict:
        if dataset.horizons == 1:
            return fit(dataset)
        models = [fit(dataset.at(h)) for h in range(dataset.horizons)]
        return lambda client, starts: np.stack([model(client, starts) for model in models], axis=1)

    return fit_all


def with_residuals(fit: Fit, levels: Sequence[float]) -> Fit:
    """Quantiles (W, H, Q): a forecast plus quantiles of its errors in the client's training set,
    minus their median, so that the forecast itself is the median. Each target has its own errors.
    Windows without a forecast are left out."""

    def fit_with_errors(dataset: Dataset) -> Predict:
        predict = fit(dataset)
        errors = [residuals(dataset, predict, i, levels) for i in range(len(dataset.clients))]

        def quantiles(client: int, starts: Rows) -> Floats:
            forecast = predict(client, starts).reshape(len(starts), dataset.horizons)
            return np.asarray(forecast[..., None] + errors[client], float)

        return quantiles

    return fit_with_errors


def residuals(dataset: Dataset, predict: Predict, client: int, levels: Sequence[float]) -> Floats:
    """Quantiles (H, Q) of a forecast's errors; NaN if there is no forecast in the training set."""
    starts = dataset.starts(client, "train")
    errors = dataset.truth(starts) - predict(client, starts)
    errors = errors.reshape(len(starts), dataset.horizons)
    errors = errors[~np.isnan(errors).any(axis=1)]
    if not len(errors):
        return np.full((dataset.horizons, len(levels)), np.nan)
    return np.quantile(errors - np.median(errors, axis=0), levels, axis=0).T
