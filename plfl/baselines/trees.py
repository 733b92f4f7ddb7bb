"""LightGBM (Ke et al. 2017) with early stopping on the validation part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from plfl.baselines import features
from plfl.baselines.model import Floats, Predict, Rows, per_client
from plfl.data.units import Unit
from plfl.data.windows import Dataset, Split

PARAMETERS: dict[str, Any] = {
    "objective": "l1",
    "num_leaves": 31,
    "min_child_samples": 20,
    "seed": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    # Faster, and exact here: the gradients of the L1 error are -1, 0 and 1.
    "use_quantized_grad": True,
    "verbosity": -1,
}
"""All other parameters have LightGBM's defaults."""
PATIENCE = 30
"""Training stops after this many trees without a smaller L1 error on validation."""


@dataclass(frozen=True)
class Boosting:
    """How a LightGBM is trained."""

    trees: int = 400
    """Maximum number of trees; without `early_stopping`, the number of trees."""
    learning_rate: float = 0.1
    max_bin: int = 255
    """Maximum number of histogram bins per feature."""
    early_stopping: bool = True
    """Keep the number of trees that is best on validation; otherwise validation is not used."""


DEFAULT = Boosting()
Design: TypeAlias = Callable[[Dataset, int, Rows, Unit], Floats]
"""Features (W, K) of windows of a client, given its number, their start rows and its units."""


def own_inputs(dataset: Dataset, boosting: Boosting = DEFAULT) -> Predict:
    """Forecasts the load from the study's own inputs, with one model per client.

    The inputs are the loads of the look-back and the other features at the last input row.
    """
    return per_client(lambda data, client: _own_inputs(data, client, boosting))(dataset)


def _own_inputs(dataset: Dataset, client: int, boosting: Boosting) -> Callable[[Rows], Floats]:
    def design(starts: Rows) -> Floats:
        others = features.inputs(dataset, starts, range(1, len(dataset.columns)))
        return np.concatenate([features.look_back(dataset, starts), others], axis=1)

    def part(split: Split) -> tuple[Floats, Floats]:
        starts = dataset.starts(client, split)
        return design(starts), features.truth(dataset, starts)

    model = _train(part, boosting)
    return lambda starts: model(design(starts))


def with_lags(dataset: Dataset, boosting: Boosting = DEFAULT) -> Predict:
    """Forecasts the change from the last load, with one model per client.

    Additional inputs are day and week lags and the target's calendar.
    """
    return _of_each_client(dataset, boosting, _lagged)


def with_context(dataset: Dataset, boosting: Boosting = DEFAULT) -> Predict:
    """Forecasts the change from the last load from the study's look-back and its context.

    There is one model per client.
    """
    return _of_each_client(dataset, boosting, _in_context)


def pooled(dataset: Dataset, boosting: Boosting = DEFAULT) -> Predict:
    """Like `with_lags`, but one model for all clients."""
    return _of_changes(dataset, range(len(dataset.clients)), boosting, _lagged)


def _of_each_client(dataset: Dataset, boosting: Boosting, design: Design) -> Predict:
    models = [_of_changes(dataset, [i], boosting, design) for i in range(len(dataset.clients))]
    return lambda client, starts: models[client](client, starts)


def _of_changes(
    dataset: Dataset, clients: Sequence[int], boosting: Boosting, design: Design
) -> Predict:
    """One model for some clients, which forecasts the change in the units of each."""
    units = {client: _unit(dataset, client) for client in clients}

    def part(split: Split) -> tuple[Floats, Floats]:
        starts = {client: dataset.starts(client, split) for client in clients}
        designs = [design(dataset, c, s, units[c]) for c, s in starts.items()]
        targets = [
            (features.truth(dataset, s) - features.last(dataset, s)) / units[c].change
            for c, s in starts.items()
        ]
        return np.concatenate(designs), np.concatenate(targets)

    model = _train(part, boosting)

    def predict(client: int, starts: Rows) -> Floats:
        change = model(design(dataset, client, starts, units[client]))
        return features.last(dataset, starts) + units[client].change * change

    return predict


def _unit(dataset: Dataset, client: int) -> Unit:
    first, end = dataset.bounds[client, :2]
    return Unit.of(dataset.load[first:end], dataset.look_ahead)


def _lagged(dataset: Dataset, client: int, starts: Rows, unit: Unit) -> Floats:
    """Features of windows in the units of their client, so that they are comparable."""
    last = features.last(dataset, starts)
    lags = [features.look_back(dataset, starts), features.season_lags(dataset, client, starts)]
    parts = [
        (np.concatenate(lags, axis=1) - last[:, None]) / unit.change,
        unit.level(last),
        features.target_time_of_day(dataset, starts, harmonics=4),
        features.target_weekday(dataset, starts),
        features.inputs(dataset, starts, features.further(dataset)),
    ]
    return np.concatenate(parts, axis=1)


def _in_context(dataset: Dataset, client: int, starts: Rows, unit: Unit) -> Floats:
    """The look-back in the units of the client, the study's context and its further inputs."""
    rows = dataset.persistence_rows(starts)
    changes = features.look_back(dataset, starts) - features.last(dataset, starts)[:, None]
    parts = [
        changes / unit.change,
        np.asarray(dataset.context[rows], float),
        features.inputs(dataset, starts, features.further(dataset)),
    ]
    return np.concatenate(parts, axis=1)


def _train(
    part: Callable[[Split], tuple[Floats, Floats]], boosting: Boosting
) -> Callable[[Floats], Floats]:
    """A model trained on the features and targets that `part` returns for each split."""
    import lightgbm  # here, because it takes a second to load

    rate = {"learning_rate": boosting.learning_rate, "max_bin": boosting.max_bin}
    parameters = PARAMETERS | rate
    data = lightgbm.Dataset(*part("train"), params=parameters)
    stopping: dict[str, Any] = {}
    if boosting.early_stopping:
        stopping["valid_sets"] = [data.create_valid(*part("validation"))]
        stopping["callbacks"] = [lightgbm.early_stopping(PATIENCE, verbose=False)]
    booster = lightgbm.train(parameters, data, num_boost_round=boosting.trees, **stopping)
    return lambda design: np.asarray(booster.predict(design, num_threads=1), float)
