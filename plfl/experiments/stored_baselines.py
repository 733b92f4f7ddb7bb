"""Fitted baselines as arrays, which forecast later readings: data only, no code.

A client's arrays are `trees_0`, … (LightGBM's own text as bytes, one for each level of each model)
and `unit`; `coefficients`, one row for each target of a ridge regression; `residuals` (H, Q) of a
forecast without quantiles of its own; `weights` (K,) of a combination. Those of baselines that it
needs have their names before a slash. A naive forecast has none.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from plfl.baselines import linear, targets, trees
from plfl.baselines.further import Further
from plfl.baselines.model import Arrays, Floats, Predict, Rows, Trained
from plfl.config.named import STANDARD, Standard
from plfl.config.sections import Baselines
from plfl.data.dataset import Dataset
from plfl.experiments.baselines import MODULES, fits
from plfl.study import Study
from plfl.tasks import task_of
from plfl.tasks.quantiles import Quantiles

RECEIVED = "lightgbm_federated"
"""The baseline of which a meter that did not take part gets a model that others have trained."""


def storable(baselines: Baselines) -> list[str]:
    """The baselines that can be stored, for which clients send no raw data."""
    names: list[str] = []
    for name in baselines.names:
        rules = baselines.find(name)
        if rules.crosses != "raw data" and (
            isinstance(rules, Standard) or (rules.is_storable and {*rules.needs} <= {*names})
        ):
            names.append(name)
    return names


def boosting_of(study: Study) -> trees.TreeSettings:
    """How the trees of a study are trained: for its quantiles, if it forecasts any."""
    boosting, task = trees.TreeSettings.of(study.baselines), task_of(study)
    return replace(boosting, levels=task.levels) if isinstance(task, Quantiles) else boosting


def fit(
    baselines: Baselines,
    name: str,
    dataset: Dataset,
    boosting: trees.TreeSettings,
    known: dict[str, Trained],
) -> tuple[list[Arrays], Predict]:
    """Fit a baseline as `plfl.experiments.baselines.evaluate` does, and those that it needs.

    `known`: baselines that are fitted already, by name; those that are fitted here are added.
    Returns the arrays of each client, fitted to all readings that it knows before the test set, and
    the forecasts for validation and test.
    """

    def add(wanted: str) -> None:
        if wanted in known:
            return
        rules = baselines.find(wanted)
        if isinstance(rules, Further):
            for member in rules.needs:
                add(member)
            known[wanted] = rules.trained(dataset, boosting, known)
        else:
            known[wanted] = _standard(wanted, dataset, boosting)

    add(name)
    trained = known[name]
    assert trained.stored is not None
    return [trained.stored(i) for i in range(len(dataset.clients))], trained.predict


def _standard(name: str, dataset: Dataset, boosting: trees.TreeSettings) -> Trained:
    whole, clients = dataset.refit(), range(len(dataset.clients))
    sent = [0] * len(clients)
    if STANDARD[name].module == "trees":
        models = trees.of_each_client(name, dataset, boosting)
        arrays = [trees.stored(models[i].texts, trees.unit_of(whole, i)) for i in clients]
        return Trained(trees.forecasts(dataset, models, boosting), sent, (), arrays.__getitem__)
    arrays = [dict(_regression(name, whole, i)) for i in clients]
    if boosting.levels:
        predict = getattr(MODULES[STANDARD[name].module], name)(whole)
        for i in clients:
            arrays[i]["residuals"] = targets.residuals(whole, predict, i, boosting.levels)
    return Trained(fits(boosting)[name](dataset), sent, (), arrays.__getitem__)


def as_received(
    baselines: Baselines,
    name: str,
    stored: Arrays,
    dataset: Dataset,
    boosting: trees.TreeSettings,
) -> dict[str, Trained]:
    """What the one client of a dataset takes as it is from another client's arrays of a baseline:
    the trees of `RECEIVED`, in its own unit, if the baseline needs them."""
    if name != RECEIVED:
        rules = baselines.find(name)
        taken: dict[str, Trained] = {}
        for member in rules.needs if isinstance(rules, Further) else ():
            taken |= as_received(baselines, member, part_of(stored, member), dataset, boosting)
        return taken
    arrays = trees.stored(trees.texts_of(stored), trees.unit_of(dataset.refit(), 0))
    predict = trees.restored("lightgbm_lags", arrays, dataset, len(boosting.levels))
    return {RECEIVED: Trained(predict, [0], (), lambda _: arrays)}


def part_of(stored: Arrays, member: str) -> Arrays:
    """What is stored of a baseline that another one needs."""
    start = f"{member}/"
    return {key.removeprefix(start): a for key, a in stored.items() if key.startswith(start)}


def _regression(name: str, dataset: Dataset, client: int) -> Iterator[tuple[str, Floats]]:
    if name == "linear":
        yield "coefficients", linear.coefficients(name, dataset, client)
    elif STANDARD[name].module == "linear":
        each = [dataset.at(h) for h in range(dataset.horizons)]
        rows = [linear.coefficients(name, target, client) for target in each]
        yield "coefficients", np.stack(rows)


def restore(
    baselines: Baselines, name: str, stored: Arrays, dataset: Dataset, levels: int
) -> Predict:
    """Forecasts of the windows of a client, which has a dataset of its own, given its arrays and
    the number of levels."""
    rules = baselines.find(name)
    if isinstance(rules, Further):
        return rules.restored(
            stored,
            dataset,
            levels,
            lambda member: restore(baselines, member, part_of(stored, member), dataset, levels),
        )
    module = STANDARD[name].module
    if module == "trees":
        return trees.restored(name, stored, dataset, levels)
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
