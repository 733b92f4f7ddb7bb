"""Fitted baselines as arrays, which forecast later readings: data only, no code."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.baselines import linear, targets, trees
from plfl.baselines.model import Floats, Predict, Rows
from plfl.config.named import STANDARD
from plfl.data.dataset import Dataset
from plfl.data.features import Unit
from plfl.experiments.baselines import MODULES, fits
from plfl.study import Study
from plfl.tasks import task_of
from plfl.tasks.quantiles import Quantiles

Arrays = dict[str, NDArray[Any]]
"""What the forecasts of a client need: `trees_0`, … (LightGBM's own text, one for each level, as
bytes) and `unit`; `coefficients`, one row for each target of a ridge regression; `residuals` (H, Q)
of a forecast without quantiles of its own; nothing for a naive forecast."""


def storable(names: list[str]) -> list[str]:
    """The baselines that can be stored: those of every study for which clients send nothing."""
    return [name for name in names if name in STANDARD and STANDARD[name].crosses == "nothing"]


def boosting_of(study: Study) -> trees.TreeSettings:
    """How the trees of a study are trained: for its quantiles, if it forecasts any."""
    boosting, task = trees.TreeSettings.of(study.baselines), task_of(study)
    return replace(boosting, levels=task.levels) if isinstance(task, Quantiles) else boosting


def fit(name: str, dataset: Dataset, boosting: trees.TreeSettings) -> tuple[list[Arrays], Predict]:
    """Fit a baseline as `plfl.experiments.baselines.evaluate` does. Returns the arrays of each
    client, fitted to all readings that it knows before the test set, and the forecasts for
    validation and test."""
    whole, clients = dataset.refit(), range(len(dataset.clients))
    if STANDARD[name].module == "trees":
        models = trees.of_each_client(name, dataset, boosting)
        stored = [_trees(models[i], trees.unit_of(whole, i)) for i in clients]
        return stored, trees.forecasts(dataset, models, boosting)
    stored = [dict(_regression(name, whole, i)) for i in clients]
    if boosting.levels:
        predict = getattr(MODULES[STANDARD[name].module], name)(whole)
        for i in clients:
            stored[i]["residuals"] = targets.residuals(whole, predict, i, boosting.levels)
    return stored, fits(boosting)[name](dataset)


def _trees(model: trees.TreeModel, unit: Unit) -> Arrays:
    texts = {
        f"trees_{k}": np.frombuffer(text.encode(), np.uint8) for k, text in enumerate(model.texts)
    }
    return texts | {"unit": np.array([unit.change, unit.mean, unit.deviation])}


def _regression(name: str, dataset: Dataset, client: int) -> Iterator[tuple[str, Floats]]:
    if name == "linear":
        yield "coefficients", linear.coefficients(name, dataset, client)
    elif STANDARD[name].module == "linear":
        each = [dataset.at(h) for h in range(dataset.horizons)]
        rows = [linear.coefficients(name, target, client) for target in each]
        yield "coefficients", np.stack(rows)


def restore(name: str, stored: Arrays, dataset: Dataset, levels: int) -> Predict:
    """Forecasts of the windows of a client, which has a dataset of its own, given its arrays and
    the number of levels."""
    module = STANDARD[name].module
    if module == "trees":
        texts = [stored[f"trees_{k}"].tobytes().decode() for k in range(max(levels, 1))]
        return trees.restored(name, texts, Unit(*stored["unit"].tolist()), dataset, levels)
    if module == "naive":
        predict: Predict = getattr(MODULES[module], name)(dataset)
    else:
        predict = partial(_by_regression, name, stored["coefficients"], dataset)
    if not levels:
        return predict

    def quantiles(client: int, starts: Rows) -> Floats:
        forecast = predict(client, starts).reshape(len(starts), dataset.horizons)
        return np.asarray(forecast[..., None] + stored["residuals"], float)

    return quantiles


def _by_regression(
    name: str, fitted: Floats, dataset: Dataset, client: int, starts: Rows
) -> Floats:
    if name == "linear":
        return linear.restored(name, fitted, dataset, client)(starts)
    each = [
        linear.restored(name, row, dataset.at(h), client)(starts) for h, row in enumerate(fitted)
    ]
    return each[0] if dataset.horizons == 1 else np.stack(each, axis=1)
