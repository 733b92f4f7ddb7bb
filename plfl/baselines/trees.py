"""LightGBM (Ke et al. 2017) with early stopping on the validation set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from plfl.baselines import features
from plfl.baselines.model import Floats, Predict, Rows
from plfl.data.dataset import Dataset, Split
from plfl.data.units import Unit

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
"""Training stops after this many trees without a smaller error on validation: the L1 error, or the
pinball loss of a quantile."""
MOST = 10_000
"""Pairs of a window and a target on which the model of a client is trained, about as many at most.
Of windows with several targets every second, third, … is used."""


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
    levels: tuple[float, ...] = ()
    """Levels of the quantiles to forecast, with one model for each; none: a single forecast."""


DEFAULT = Boosting()
Design: TypeAlias = Callable[[Dataset, int, Rows, Unit], Floats]
"""Features (W, K) of windows with one target, given the client's number, start rows and units."""


def own_inputs(dataset: Dataset, boosting: Boosting = DEFAULT) -> Predict:
    """Forecasts the load from the study's own inputs, with one model per client.

    The inputs are the loads of the look-back and the other features at the last input row.
    """
    return _of_each_client(dataset, boosting, _own_inputs, changes=False)


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
    return _of_clients(dataset, range(len(dataset.clients)), boosting, _lagged)


def _of_each_client(
    dataset: Dataset, boosting: Boosting, design: Design, changes: bool = True
) -> Predict:
    models = [
        _of_clients(dataset, [i], boosting, design, changes) for i in range(len(dataset.clients))
    ]
    return lambda client, starts: models[client](client, starts)


def _of_clients(
    dataset: Dataset,
    clients: Sequence[int],
    boosting: Boosting,
    design: Design,
    changes: bool = True,
) -> Predict:
    """One model for some clients, which forecasts the load, or `changes` in the units of each.

    If windows have several targets, the number of the target is a further feature.
    """
    units = {client: _unit(dataset, client) for client in clients}
    views = [dataset.at(h) for h in range(dataset.horizons)]

    def read(h: int, client: int, starts: Rows) -> Floats:
        found = design(views[h], client, starts, units[client])
        return found if len(views) == 1 else np.insert(found, 0, h, axis=1)

    def target(h: int, client: int, starts: Rows) -> Floats:
        load = features.truth(views[h], starts)
        if not changes:
            return load
        return np.asarray((load - features.last(dataset, starts)) / units[client].change, float)

    def part(split: Split) -> tuple[Floats, Floats]:
        starts = {client: dataset.starts(client, split) for client in clients}
        if len(views) > 1:
            starts = {c: s[:: -(-len(s) * len(views) // MOST)] for c, s in starts.items()}
        pairs = [(h, *own) for h in range(len(views)) for own in starts.items()]
        return (
            np.concatenate([read(*pair) for pair in pairs]),
            np.concatenate([target(*pair) for pair in pairs]),
        )

    model = _train(part, boosting)

    def predict(client: int, starts: Rows) -> Floats:
        found = [model(read(h, client, starts)) for h in range(len(views))]
        loads = found[0] if len(found) == 1 and not boosting.levels else np.stack(found, axis=1)
        if changes:
            last = features.last(dataset, starts).reshape(-1, *[1] * (loads.ndim - 1))
            loads = last + units[client].change * loads
        return np.sort(loads, axis=-1) if boosting.levels else loads

    return predict


def _unit(dataset: Dataset, client: int) -> Unit:
    first, end = dataset.bounds[client, :2]
    return Unit.of(dataset.load[first:end], dataset.look_ahead, dataset.horizons)


def _own_inputs(dataset: Dataset, client: int, starts: Rows, unit: Unit) -> Floats:
    """The loads of the look-back, and the other features at the last input row."""
    others = features.inputs(dataset, starts, range(1, len(dataset.columns)))
    return np.concatenate([features.look_back(dataset, starts), others], axis=1)


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
    """A model trained on the features and targets that `part` returns for each split.

    It returns forecasts (W,), or quantiles (W, Q) of `boosting.levels`.
    """
    import lightgbm  # here, because it takes a second to load

    parameters = PARAMETERS | {
        "learning_rate": boosting.learning_rate,
        "max_bin": boosting.max_bin,
    }
    training = part("train")
    validation = part("validation") if boosting.early_stopping else None

    def train(**objective: Any) -> Any:
        given = parameters | objective
        data = lightgbm.Dataset(*training, params=given)
        stopping: dict[str, Any] = {}
        if validation is not None:
            stopping["valid_sets"] = [data.create_valid(*validation)]
            stopping["callbacks"] = [lightgbm.early_stopping(PATIENCE, verbose=False)]
        return lightgbm.train(given, data, num_boost_round=boosting.trees, **stopping)

    if not boosting.levels:
        booster = train()
        return lambda design: np.asarray(booster.predict(design, num_threads=1), float)
    # The gradients of a quantile are not whole numbers.
    exact = {"objective": "quantile", "use_quantized_grad": False}
    boosters = [train(alpha=level, **exact) for level in boosting.levels]
    return lambda design: np.stack(
        [np.asarray(one.predict(design, num_threads=1), float) for one in boosters], axis=1
    )
