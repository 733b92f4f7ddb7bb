"""LightGBM (Ke et al. 2017) with early stopping on the validation set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from plfl.baselines import features
from plfl.baselines.model import Arrays, Floats, Predict, Rows, by_set, mean_of
from plfl.config.sections import Baselines, Calendar, Lags, Level, Windows
from plfl.data import covariates
from plfl.data.dataset import Dataset, Split, turns_of
from plfl.data.features import Unit
from plfl.federated.trees import PUBLIC

PARAMETERS: dict[str, Any] = {
    "objective": "l1",
    "min_child_samples": 20,
    "seed": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    # Faster, and exact here, because the gradients of the L1 error are -1, 0 and 1. Never together
    # with drawn rows or columns: these can then end LightGBM in a failed check, `right_count > 0`.
    "use_quantized_grad": True,
    "verbosity": -1,
}
"""All other parameters have LightGBM's defaults."""
DRAWN: dict[str, Any] = {
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.8,
    "use_quantized_grad": False,
}
"""Parameters of a model that draws the rows and columns of each tree."""
PATIENCE = 30
"""Training stops after this many trees without a smaller error on validation: the L1 error, or the
pinball loss of a quantile."""
MOST = 10_000
"""Approximate maximum of pairs of a window and a target on which a client's model is trained. If
windows have several targets, only every second, third, … window is used to keep to it."""


@dataclass(frozen=True)
class TreeSettings:
    """How a LightGBM is trained."""

    trees: int = 400
    """Maximum number of trees. Their number and the settings to try are chosen on validation."""
    learning_rate: tuple[float, ...] = (0.1,)
    """Learning rates to try."""
    leaves: tuple[int, ...] = (31,)
    """Numbers of leaves of a tree to try, each with each learning rate."""
    max_bin: int = 255
    """Maximum number of histogram bins per feature."""
    levels: tuple[float, ...] = ()
    """Levels of the quantiles to forecast, with one model for each; empty: a single forecast."""
    draw: int = 0
    """Seed with which the rows and columns of each tree are drawn; 0: all are used."""

    @classmethod
    def of(cls, settings: Baselines) -> TreeSettings:
        """The settings of a study."""
        search = settings.search
        return cls(
            settings.trees,
            tuple(search.learning_rate or [settings.learning_rate]),
            tuple(search.leaves or [settings.leaves]),
            settings.max_bin,
        )


DEFAULT = TreeSettings()
Design: TypeAlias = Callable[[Dataset, int, Rows, Unit], Floats]
"""Features (W, K) of windows with one target, given the client's number, start rows and units."""


class TreeModel(NamedTuple):
    """A trained model."""

    stages: tuple[Predict, ...]
    """Forecasts by a model of the training set and, if the end of the history is held out, by a
    model of the whole history."""
    texts: tuple[str, ...]
    """The last model, one text for each level, in the format in which LightGBM writes models."""

    @property
    def size(self) -> int:
        """Bytes of the last model."""
        return sum(map(len, self.texts))


def lightgbm(dataset: Dataset, boosting: TreeSettings = DEFAULT) -> Predict:
    """Forecasts the load from the study's own inputs, with one model per client.

    The inputs are the loads of the look-back and the other features at the last input row.
    """
    return forecasts(dataset, of_each_client("lightgbm", dataset, boosting), boosting)


def lightgbm_lags(dataset: Dataset, boosting: TreeSettings = DEFAULT) -> Predict:
    """Forecasts the change from the last load, with one model per client.

    Additional inputs are day and week lags and the target's calendar.
    """
    return forecasts(dataset, of_each_client("lightgbm_lags", dataset, boosting), boosting)


def lightgbm_covariates(dataset: Dataset, boosting: TreeSettings = DEFAULT) -> Predict:
    """Forecasts the change from the last load from the study's look-back and its covariates.

    There is one model per client.
    """
    return forecasts(dataset, of_each_client("lightgbm_covariates", dataset, boosting), boosting)


def lightgbm_pooled(dataset: Dataset, boosting: TreeSettings = DEFAULT) -> Predict:
    """Like `lightgbm_lags`, but one model for all clients of a federation."""
    return forecasts(dataset, of_pooled(dataset, boosting, None), boosting)


def shared_by(dataset: Dataset, turns: int | None) -> Iterator[tuple[Dataset, Rows, Rows]]:
    """The members that train each model together, as a dataset and as numbers of clients, and the
    clients that get it.

    Without `turns` these are the clients of a federation. Otherwise they join late in `turns`
    groups and get a model of those not in their group; if there are none, they get no model.
    """
    for some in dataset.federations():
        if turns is None:
            yield dataset.of(some), some, some
            continue
        for late in turns_of(some, turns):
            if len(others := np.setdiff1d(some, late)):
                yield dataset.whole.of(others), others, late


def of_pooled(dataset: Dataset, boosting: TreeSettings, turns: int | None) -> dict[int, TreeModel]:
    """For each client, a model of pooled raw data (see `shared_by`)."""
    models: dict[int, TreeModel] = {}
    for members, _, some in shared_by(dataset, turns):
        models |= dict.fromkeys(some.tolist(), trained(members, dataset, boosting))
    return models


def of_each_client(
    name: str, dataset: Dataset, boosting: TreeSettings, received: Sequence[Predict] = ()
) -> dict[int, TreeModel]:
    """The models of a baseline that trains one for each client, by the client's number."""
    design, changes = _OWN[name]
    models = {}
    for i in range(len(dataset.clients)):
        inputs = _with_received(design, received, dataset, i) if received else design
        models[i] = trained(dataset.of(np.array([i])), dataset, boosting, inputs, changes)
    return models


def _with_received(
    design: Design, received: Sequence[Predict], dataset: Dataset, client: int
) -> Design:
    """Features of a client's windows with the forecasts of the same target, as changes from the
    last load in the client's unit."""

    def features_of(view: Dataset, number: int, starts: Rows, unit: Unit) -> Floats:
        target = view.look_ahead - dataset.look_ahead
        last = features.last(view, starts)[:, None]
        loads = [
            predict(client, starts).reshape(len(starts), dataset.horizons, -1)[:, target]
            for predict in received
        ]
        changes = [(load - last) / unit.change for load in loads]
        return np.concatenate([design(view, number, starts, unit), *changes], axis=1)

    return features_of


def stored(texts: Sequence[str], unit: Unit) -> Arrays:
    """What a client needs of models, given as texts, and the unit of its loads."""
    arrays = {f"trees_{k}": np.frombuffer(text.encode(), np.uint8) for k, text in enumerate(texts)}
    return {**arrays, "unit": np.array(astuple(unit))}


def restored(
    name: str, stored: Arrays, dataset: Dataset, levels: int, received: Sequence[Predict] = ()
) -> Predict:
    """Forecasts of the later windows of a client, a `dataset` of its own, by what is stored of its
    models, which are of a baseline with this name: their mean, if there are several for each of the
    `levels`; NaN without any."""
    import lightgbm

    design, changes = _OWN[name]
    if received:
        design = _with_received(design, received, dataset, 0)
    windows = TreeWindows(dataset, design, changes, (Unit(*stored["unit"].tolist()),))
    models = [lightgbm.Booster(model_str=text) for text in texts_of(stored)]
    if not models:
        return partial(_missing, dataset, levels)
    size = max(levels, 1)
    each = [models[k : k + size] for k in range(0, len(models), size)]
    return mean_of([partial(_predict, windows, boosters, levels > 0) for boosters in each])


def texts_of(stored: Arrays) -> list[str]:
    """The models among stored arrays, as LightGBM writes them."""
    count = sum(key.startswith("trees_") for key in stored)
    return [stored[f"trees_{k}"].tobytes().decode() for k in range(count)]


def forecasts(dataset: Dataset, models: Mapping[int, TreeModel], boosting: TreeSettings) -> Predict:
    """Forecasts by the models of clients, given by number; NaN for a client without a model."""

    def of_stage(stage: int, client: int, starts: Rows) -> Floats:
        if client not in models:
            return _missing(dataset, len(boosting.levels), client, starts)
        return models[client].stages[stage](client, starts)

    return by_set(dataset, *[partial(of_stage, k) for k in range(1 + dataset.is_rehearsal)])


def _missing(dataset: Dataset, levels: int, _client: int, starts: Rows) -> Floats:
    """The forecasts of a client without a model."""
    shape = (len(starts), dataset.horizons, levels) if levels else dataset.truth(starts).shape
    return np.full(shape, np.nan)


@dataclass(frozen=True)
class TreeWindows:
    """The windows of a dataset as features and targets of trees."""

    dataset: Dataset
    design: Design
    changes: bool
    """Whether the target is the change from the last load, in the client's unit, instead of the
    load."""
    known: tuple[Unit, ...] = ()
    """The units of the clients; empty: those of their training sets."""

    @cached_property
    def _units(self) -> dict[int, Unit]:
        return dict(enumerate(self.known))

    def unit(self, client: int) -> Unit:
        """The unit of a client, by its number."""
        if client not in self._units:
            self._units[client] = unit_of(self.dataset, client)
        return self._units[client]

    @cached_property
    def views(self) -> list[Dataset]:
        """For each target, the dataset with only this target."""
        return [self.dataset.at(h) for h in range(self.dataset.horizons)]

    def features(self, h: int, client: int, starts: Rows) -> Floats:
        """Features (W, K). If windows have several targets, the number of the target is a
        feature."""
        design = self.design(self.views[h], client, starts, self.unit(client))
        return design if len(self.views) == 1 else np.insert(design, 0, h, axis=1)

    def scaled(self, client: int, starts: Rows, loads: Floats) -> Floats:
        """Loads (W, ...) in kWh, scaled like targets."""
        if not self.changes:
            return loads
        return np.asarray((loads - self._last(starts, loads)) / self.unit(client).change, float)

    def in_kwh(self, client: int, starts: Rows, targets: Floats) -> Floats:
        """Undo `scaled`."""
        if not self.changes:
            return targets
        last, unit = self._last(starts, targets), self.unit(client).change
        return np.asarray(last + unit * targets, float)

    def _last(self, starts: Rows, like: Floats) -> Floats:
        last = features.last(self.dataset, starts)
        return last.reshape(-1, *[1] * (like.ndim - 1))

    def part(self, split: Split, clients: Sequence[int] | None = None) -> tuple[Floats, Floats]:
        """Features and targets of all windows in a split, or of those of some clients."""
        some = range(len(self.dataset.clients)) if clients is None else clients
        starts = {i: self.dataset.starts(i, split) for i in some}
        if len(self.views) > 1:
            for i, client_starts in starts.items():
                starts[i] = client_starts[
                    :: max(1, -(-len(client_starts) * len(self.views) // MOST))
                ]
        pairs = [
            (h, *client_starts) for h in range(len(self.views)) for client_starts in starts.items()
        ]
        targets = [self.scaled(i, s, features.truth(self.views[h], s)) for h, i, s in pairs]
        read = [self.features(*pair) for pair in pairs]
        return np.concatenate(read), np.concatenate(targets)

    def public(self, rows: int) -> Floats:
        """Values (rows, K) of the features of `_lagged` from public knowledge alone."""
        transforms = [Lags(name="lags"), Level(name="level"), Calendar(name="calendar")]
        windows = Windows(look_back=self.dataset.look_back, covariates=transforms)
        columns = [covariates.public(windows, 1, rows)]
        if len(self.views) > 1:
            columns.insert(0, np.arange(rows, dtype=float)[:, None] % len(self.views))
        further = len(features.further(self.dataset))
        columns.append(np.linspace(0, 1, rows)[:, None].repeat(further, axis=1))
        return np.concatenate(columns, axis=1)


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


Grow: TypeAlias = Callable[[TreeWindows, TreeSettings, Sequence["Chosen"]], list[Any]]
"""A replacement of `boosted`."""


def trained(
    members: Dataset,
    scored: Dataset,
    boosting: TreeSettings,
    design: Design = _lagged,
    changes: bool = True,
    grow: Grow | None = None,
) -> TreeModel:
    """One model, trained on the windows of `members`, that forecasts windows of `scored`: loads, or
    their `changes` from the last load.

    A second model, which learns from the whole history, has the settings that were chosen on
    validation. `grow`: how to train if rows are not pooled.
    """

    def stage(k: int, chosen: list[Chosen]) -> tuple[list[Any], Predict]:
        known = [members, scored] if not k else [members.refit(), scored.refit()]
        windows, theirs = (TreeWindows(features, design, changes) for features in known)
        boosters = (grow or boosted)(windows, boosting, chosen)
        return boosters, partial(_predict, theirs, boosters, bool(boosting.levels))

    boosters, rehearsed = stage(0, [])
    stages: tuple[Predict, ...] = (rehearsed,)
    if members.is_rehearsal:
        boosters, again = stage(1, [Chosen.of(booster) for booster in boosters])
        stages = (rehearsed, again)
    return TreeModel(stages, tuple(booster.model_to_string() for booster in boosters))


def _predict(
    windows: TreeWindows,
    boosters: Sequence[Any],
    quantiles: bool,
    client: int,
    starts: Rows,
) -> Floats:
    """Loads in kWh of windows of a client, (W,) or (W, H); quantiles (W, H, Q)."""
    read = [windows.features(h, client, starts) for h in range(windows.dataset.horizons)]
    forecasts = np.array(
        [[booster.predict(x, num_threads=1) for booster in boosters] for x in read]
    )
    loads = windows.in_kwh(client, starts, np.moveaxis(forecasts, -1, 0))  # (W, H, Q)
    if quantiles:
        return np.sort(loads, axis=-1)
    return loads[..., 0] if windows.dataset.horizons > 1 else loads[:, 0, 0]


def unit_of(dataset: Dataset, client: int) -> Unit:
    first, end = dataset.bounds[client, :2]
    return Unit.of(dataset.load[first:end], dataset.look_ahead, dataset.horizons)


def _own_inputs(dataset: Dataset, _client: int, starts: Rows, _unit: Unit) -> Floats:
    """The loads of the look-back, and the other features at the last input row."""
    others = features.inputs(dataset, starts, range(1, len(dataset.columns)))
    return np.concatenate([features.look_back(dataset, starts), others], axis=1)


def _with_covariates(dataset: Dataset, _client: int, starts: Rows, unit: Unit) -> Floats:
    """The look-back in the units of the client, the study's covariates and its further inputs."""
    rows = dataset.persistence_rows(starts)
    changes = features.look_back(dataset, starts) - features.last(dataset, starts)[:, None]
    parts = [
        changes / unit.change,
        np.asarray(dataset.covariates[rows], float),
        features.inputs(dataset, starts, features.further(dataset)),
    ]
    return np.concatenate(parts, axis=1)


_OWN: dict[str, tuple[Design, bool]] = {
    "lightgbm": (_own_inputs, False),
    "lightgbm_lags": (_lagged, True),
    "lightgbm_covariates": (_with_covariates, True),
}
"""The baselines with one model per client: their features, and whether they forecast changes."""


class Chosen(NamedTuple):
    """The settings that were chosen for a model."""

    leaves: int
    rate: float
    trees: int

    @classmethod
    def of(cls, booster: Any) -> Chosen:
        """The choice of `boosted`."""
        used, trees = booster.params, booster.best_iteration
        trees = trees if trees > 0 else booster.num_trees()  # without validation there is no choice
        return cls(used["num_leaves"], used["learning_rate"], trees)


def boosted(
    windows: TreeWindows,
    boosting: TreeSettings,
    chosen: Sequence[Chosen],
    public: Floats | None = None,
) -> list[Any]:
    """Models of the training set, one for each of `boosting.levels` or a single one.

    Without `chosen`, the settings with the least error on validation are used. `public`: values
    (R, K) of the features from which bins are made, instead of those of the training set.
    """
    import lightgbm  # here, because it takes a second to load

    training = windows.part("train")
    stops = not chosen
    validation = windows.part("validation") if stops else None

    def model(k: int, objective: dict[str, Any]) -> Any:
        given = PARAMETERS | objective | {"max_bin": boosting.max_bin}
        bins = None
        if public is not None:
            given |= PUBLIC
            bins = lightgbm.Dataset(public, np.zeros(len(public)), params=given).construct()
        if boosting.draw:
            given |= DRAWN | {"seed": boosting.draw}

        data = lightgbm.Dataset(*training, params=given, reference=bins)
        stopping: dict[str, Any] = {}
        if validation is not None:
            stopping["valid_sets"] = [data.create_valid(*validation)]

        def train(tried: Chosen) -> tuple[float, Any]:
            settings = given | {"num_leaves": tried.leaves, "learning_rate": tried.rate}
            if stops:
                stopping["callbacks"] = [lightgbm.early_stopping(PATIENCE, verbose=False)]
            booster = lightgbm.train(settings, data, num_boost_round=tried.trees, **stopping)
            errors = booster.best_score["valid_0"].values() if stops else [0.0]
            return next(iter(errors)), booster

        pairs = product(boosting.leaves, boosting.learning_rate)
        tried = chosen[k : k + 1] or [Chosen(*pair, boosting.trees) for pair in pairs]
        return min(map(train, tried), key=lambda trained: trained[0])[1]

    # The gradients of a quantile are not whole numbers.
    exact = {"objective": "quantile", "use_quantized_grad": False}
    objectives = [exact | {"alpha": level} for level in boosting.levels] or [{}]
    return [model(k, objective) for k, objective in enumerate(objectives)]
