"""LightGBM (Ke et al. 2017) with early stopping on the validation set.

A baseline of one model per client is an `OwnTrees`; one model of several clients is trained by
`fit_pooled`. Both return a `TreesFit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from plfl.base.errors import DataError, Problem
from plfl.base.lazy import lightgbm
from plfl.baselines import features
from plfl.baselines.fitting import join_sent
from plfl.config.windows import Calendar, Lags, Level, Windows
from plfl.data import covariates
from plfl.data.dataset import Dataset, Split, split_targets, turns_of
from plfl.data.features import Unit
from plfl.federated.lightgbm_text import check_model, load_booster
from plfl.interfaces.baseline import Arrays, Baseline, FitSettings, FittedBaseline, Floats, Starts
from plfl.interfaces.program import ProgramPart, ProgramParts, TreeInputs
from plfl.training.tree_kernel import Forest

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
BAGGING: dict[str, Any] = {
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.8,
    "use_quantized_grad": False,
}
"""Parameters of a model that draws the rows and columns of each tree."""
PATIENT_TREES = 30
"""Training stops after this many trees without a smaller error on validation: the L1 error, or the
pinball loss of a quantile."""
MOST_ROWS = 10_000
"""Approximate maximum of pairs of a window and a target on which a client's model is trained. If
windows have several targets, only every second, third, … window is used to keep to it."""
MOST_POOLED_ROWS = 4_000_000
"""The same of a model of several clients together: the features of so many rows take 2 GB, and
those of the validation set as much."""


@dataclass(frozen=True)
class ArrayInputs:
    """The `TreeInputs` of windows (W,) of a client, with one target."""

    dataset: Dataset
    client: int
    starts: Starts
    unit: Unit

    @cached_property
    def _last_loads(self) -> Floats:
        return features.last_loads(self.dataset, self.starts)

    def _changes(self, loads: Floats) -> Floats:
        """Loads (W, K) in the unit of the client, so that they are comparable."""
        return np.asarray((loads - self._last_loads[:, None]) / self.unit.change, float)

    @property
    def look_back(self) -> Floats:
        return features.look_back(self.dataset, self.starts)

    @property
    def changes(self) -> Floats:
        return self._changes(self.look_back)

    @property
    def season_changes(self) -> Floats:
        return self._changes(features.season_lags(self.dataset, self.client, self.starts))

    @property
    def level(self) -> Floats:
        return self.unit.level(self._last_loads)

    @property
    def calendar(self) -> Floats:
        times = features.target_time_of_day(self.dataset, self.starts, harmonics=4)
        days = features.target_weekday(self.dataset, self.starts)
        return np.concatenate([times, days], axis=1)

    @property
    def covariates(self) -> Floats:
        row_numbers = self.dataset.persistence_rows(self.starts)
        return np.asarray(self.dataset.covariates[row_numbers], float)

    @property
    def inputs(self) -> Floats:
        return features.inputs(self.dataset, self.starts, range(1, len(self.dataset.columns)))

    @property
    def extra_inputs(self) -> Floats:
        columns = features.extra_columns(self.dataset)
        return features.inputs(self.dataset, self.starts, columns)


class Design(NamedTuple):
    """What trees read of a window, and what they forecast: a `TreeDesign`."""

    read_inputs: Callable[[TreeInputs], Sequence[Any]]
    forecasts_changes: bool = True
    """Whether the target is the change from a base load, in the client's unit, instead of the
    load."""
    base: Callable[[Dataset], FittedBaseline] | None = None
    """Of a dataset: the forecaster of this base load, with one forecast for a target; None: the
    last load."""
    read_members: Callable[[ArrayInputs], Floats] | None = None
    """Forecasts of other baselines, which the trees read, too."""

    def features(self, dataset: Dataset, client: int, starts: Starts, unit: Unit) -> Floats:
        """Features (W, K) of windows with one target, given the client's number, start rows and its
        unit."""
        windows = ArrayInputs(dataset, client, starts, unit)
        parts = [*self.read_inputs(windows)]
        if self.read_members is not None:
            parts.append(self.read_members(windows))
        return np.concatenate(parts, axis=1)


def unit_of(dataset: Dataset, client: int) -> Unit:
    """The unit of the loads of a client's training set."""
    first, end = dataset.view.bounds[client, :2]
    return Unit.from_load(dataset.load[first:end], dataset.look_ahead, dataset.horizons)


OWN_INPUTS = Design(lambda windows: [windows.look_back, windows.inputs], forecasts_changes=False)
LAGGED = Design(
    lambda windows: [
        windows.changes,
        windows.season_changes,
        windows.level,
        windows.calendar,
        windows.extra_inputs,
    ]
)
COVARIATES = Design(lambda windows: [windows.changes, windows.covariates, windows.extra_inputs])


def add_forecasts(
    design: Design, members: Sequence[FittedBaseline], dataset: Dataset, client: int
) -> Design:
    """A design with the members' forecasts of the same target, as changes from the last load in the
    client's unit, as further features of this client's windows."""

    def read_members(windows: ArrayInputs) -> Floats:
        part, starts = windows.dataset, windows.starts
        target = part.look_ahead - dataset.look_ahead
        last = features.last_loads(part, starts)[:, None]
        loads = [
            member.predict(client, starts).reshape(len(starts), dataset.horizons, -1)[:, target]
            for member in members
        ]
        return np.concatenate([(load - last) / windows.unit.change for load in loads], axis=1)

    return design._replace(read_members=read_members)


@dataclass(frozen=True)
class TreeWindows:
    """The windows of a dataset as features and targets of trees."""

    dataset: Dataset
    design: Design
    known_units: tuple[Unit, ...] = ()
    """The units of the clients; empty: those of their training sets."""

    @cached_property
    def _units(self) -> dict[int, Unit]:
        return dict(enumerate(self.known_units))

    def unit(self, client: int) -> Unit:
        """The unit of a client, by its number."""
        if client not in self._units:
            self._units[client] = unit_of(self.dataset, client)
        return self._units[client]

    @cached_property
    def datasets_by_target(self) -> list[Dataset]:
        """For each target, the dataset with only this target."""
        return split_targets(self.dataset)

    def features(self, h: int, client: int, starts: Starts) -> Floats:
        """Features (W, K). If windows have several targets, the number of the target is a
        feature."""
        design = self.design.features(self.datasets_by_target[h], client, starts, self.unit(client))
        if len(self.datasets_by_target) == 1:
            return design
        return np.concatenate([np.full((len(design), 1), float(h)), design], axis=1)

    def all_features(self, client: int, starts: Starts) -> list[Floats]:
        """The features for each target."""
        return [self.features(h, client, starts) for h in range(len(self.datasets_by_target))]

    def scale_loads(self, client: int, starts: Starts, loads: Floats, h: int) -> Floats:
        """Loads (W,) in kWh of a target, as trees forecast them."""
        if not self.design.forecasts_changes:
            return loads
        return np.asarray((loads - self._base(client, starts, h)) / self.unit(client).change, float)

    def in_kwh(self, client: int, starts: Starts, targets: Floats) -> Floats:
        """Loads (W, H, Q) in kWh of outputs of the same shape."""
        if not self.design.forecasts_changes:
            return targets
        bases = [self._base(client, starts, h) for h in range(len(self.datasets_by_target))]
        unit = self.unit(client).change
        return np.asarray(np.stack(bases, axis=1)[..., None] + unit * targets, float)

    def _base(self, client: int, starts: Starts, h: int) -> Floats:
        """The base loads (W,) of a target; the last load where the forecaster has none."""
        last = features.last_loads(self.dataset, starts)
        if self._base_forecaster is None:
            return last
        key = client, starts.tobytes()
        if key not in self._base_forecasts:
            forecasts = self._base_forecaster.predict(client, starts)
            self._base_forecasts[key] = forecasts.reshape(len(starts), self.dataset.horizons)
        forecasts = self._base_forecasts[key][:, h]
        return np.where(np.isfinite(forecasts), forecasts, last)

    @cached_property
    def _base_forecaster(self) -> FittedBaseline | None:
        return None if self.design.base is None else self.design.base(self.dataset)

    @cached_property
    def _base_forecasts(self) -> dict[tuple[int, bytes], Floats]:
        return {}

    def stack_windows(
        self, split: Split, clients: Sequence[int] | None = None
    ) -> tuple[Floats, Floats]:
        """Features and targets of all windows in a split, or of those of some clients."""
        client_numbers = range(len(self.dataset.clients)) if clients is None else clients
        starts = {i: self._thin_windows(self.dataset.starts(i, split)) for i in client_numbers}
        pairs = [
            (h, *client_starts)
            for h in range(len(self.datasets_by_target))
            for client_starts in starts.items()
        ]
        targets = [
            self.scale_loads(i, s, self.datasets_by_target[h].truth(s), h) for h, i, s in pairs
        ]
        ends = np.cumsum([0, *map(len, targets)]).tolist()
        first = self.features(*pairs[0])
        # Pooled windows are many: there is one copy of their features.
        inputs = np.empty((ends[-1], first.shape[1]))
        for k, pair in enumerate(pairs):
            inputs[ends[k] : ends[k + 1]] = self.features(*pair) if k else first
        return inputs, np.concatenate(targets)

    def _thin_windows(self, starts: Starts) -> Starts:
        """The windows of a client that are used."""
        targets = len(self.datasets_by_target)
        if targets == 1:
            return starts
        most_rows = min(MOST_ROWS, MOST_POOLED_ROWS // len(self.dataset.clients))
        return starts[:: max(1, -(-len(starts) * targets // most_rows))]

    def public(self, row_count: int) -> Floats:
        """Values (rows, K) of the features of `LAGGED` from public knowledge alone."""
        transforms = [Lags(name="lags"), Level(name="level"), Calendar(name="calendar")]
        windows = Windows(look_back=self.dataset.look_back, covariates=transforms)
        columns = [covariates.public_values(windows, 1, row_count)]
        if len(self.datasets_by_target) > 1:
            columns.insert(
                0, np.arange(row_count, dtype=float)[:, None] % len(self.datasets_by_target)
            )
        extra_columns = len(features.extra_columns(self.dataset))
        columns.append(np.linspace(0, 1, row_count)[:, None].repeat(extra_columns, axis=1))
        return np.concatenate(columns, axis=1)


class TreeChoice(NamedTuple):
    """The settings that were chosen for a model."""

    leaves: int
    rate: float
    trees: int

    @classmethod
    def from_booster(cls, booster: Any) -> TreeChoice:
        """The choice of `boost`."""
        parameters, trees = booster.params, booster.best_iteration
        trees = trees if trees > 0 else booster.num_trees()  # without validation there is no choice
        return cls(parameters["num_leaves"], parameters["learning_rate"], trees)


@dataclass(frozen=True)
class BinnedWindows:
    """The windows of a dataset as LightGBM reads them, with the bins of their features: made once
    for all models that are trained on them."""

    windows: TreeWindows
    parameters: Mapping[str, Any]
    """Those that determine the bins."""
    public: Floats | None = None
    """Values (R, K) of the features from which bins are made, instead of those of the training
    set."""

    @cached_property
    def training_set(self) -> Any:
        """The training set. LightGBM reads it when the first model is trained."""
        bins, parameters = None, {**PARAMETERS, **self.parameters}
        if self.public is not None:
            targets = np.zeros(len(self.public))
            bins = lightgbm.Dataset(self.public, targets, params=dict(parameters)).construct()
        return lightgbm.Dataset(
            *self.windows.stack_windows("train"), params=parameters, reference=bins
        )

    @cached_property
    def validation(self) -> Any:
        """The validation set, in the bins of the training set."""
        return self.training_set.create_valid(*self.windows.stack_windows("validation"))


def boost(
    binned: BinnedWindows,
    settings: FitSettings,
    tree_choices: Sequence[TreeChoice],
    draw: int = 0,
) -> list[Any]:
    """Models of the training set, one for each of `settings.levels` or a single one.

    Without `tree_choices`, the settings with the least error on validation are used. `draw`: seed
    with which the rows and columns of each tree are drawn; 0: all are used.
    """
    stops = not tree_choices

    def model(k: int, objective: dict[str, Any]) -> Any:
        parameters = {**PARAMETERS, **objective, **binned.parameters}
        if draw:
            parameters |= BAGGING | {"seed": draw}

        def train(choice: TreeChoice) -> tuple[float, Any]:
            own_parameters = parameters | {
                "num_leaves": choice.leaves,
                "learning_rate": choice.rate,
            }
            stopping: dict[str, Any] = {}
            if stops:
                stopping["valid_sets"] = [binned.validation]
                stopping["callbacks"] = [lightgbm.early_stopping(PATIENT_TREES, verbose=False)]
            booster = lightgbm.train(
                own_parameters, binned.training_set, num_boost_round=choice.trees, **stopping
            )
            errors = booster.best_score["valid_0"].values() if stops else [0.0]
            return next(iter(errors)), booster

        pairs = product(settings.leaves, settings.learning_rate)
        options = tree_choices[k : k + 1] or [TreeChoice(*pair, settings.trees) for pair in pairs]
        return min(map(train, options), key=lambda trained: trained[0])[1]

    # The gradients of a quantile are not whole numbers.
    exact = {"objective": "quantile", "use_quantized_grad": False}
    objectives = [exact | {"alpha": level} for level in settings.levels] or [{}]
    return [model(k, objective) for k, objective in enumerate(objectives)]


def boost_all(
    windows: TreeWindows, settings: FitSettings, tree_choices: Sequence[TreeChoice]
) -> list[Any]:
    """`boost` on all rows and features, with the bins of the training set."""
    return boost(BinnedWindows(windows, {"max_bin": settings.max_bin}), settings, tree_choices)


@dataclass(frozen=True)
class TreeModel:
    """A trained model, which forecasts windows of a dataset."""

    windows: TreeWindows
    """Of the clients that it forecasts."""
    boosters: Sequence[Any]
    """LightGBM's models, one for each level of quantiles or a single one."""
    has_levels: bool
    """Whether it forecasts quantiles."""

    @cached_property
    def _forests(self) -> list[Forest]:
        return [Forest(booster) for booster in self.boosters]

    @property
    def texts(self) -> list[str]:
        """The model in the format in which LightGBM writes it, one text for each level."""
        return [booster.model_to_string() for booster in self.boosters]

    @property
    def tree_choices(self) -> list[TreeChoice]:
        """The settings that were chosen for it, for each level."""
        return [TreeChoice.from_booster(booster) for booster in self.boosters]

    def predict(
        self, client: int, starts: Starts, features: Sequence[Floats] | None = None
    ) -> Floats:
        """Loads in kWh of windows of a client, (W,) or (W, H); quantiles (W, H, Q). `features`: the
        result of `all_features` of its windows, if it is known."""
        windows = self.windows
        inputs = windows.all_features(client, starts) if features is None else features
        forecasts = np.array([[forest.predict(x) for forest in self._forests] for x in inputs])
        loads = windows.in_kwh(client, starts, np.moveaxis(forecasts, -1, 0))  # (W, H, Q)
        if self.has_levels:
            return np.sort(loads, axis=-1)
        return loads[..., 0] if len(inputs) > 1 else loads[:, 0, 0]


Grow: TypeAlias = Callable[[TreeWindows, FitSettings, Sequence[TreeChoice]], list[Any]]
"""Trains models, as `boost_all` does."""


def train(
    training_dataset: Dataset,
    scored_dataset: Dataset,
    settings: FitSettings,
    design: Design = LAGGED,
    tree_choices: Sequence[TreeChoice] = (),
    grow: Grow = boost_all,
) -> TreeModel:
    """One model, trained on the windows of `training_dataset`, that forecasts those of
    `scored_dataset`. Its settings are `tree_choices`; without any, it chooses them."""
    boosters = grow(TreeWindows(training_dataset, design), settings, tree_choices)
    return TreeModel(TreeWindows(scored_dataset, design), boosters, bool(settings.levels))


@dataclass(frozen=True)
class TreesFit(FittedBaseline):
    """Models of clients, which forecast by their mean; NaN for a client without a model."""

    dataset: Dataset
    levels: int
    """Levels of quantiles; 0: a single forecast."""
    models: Mapping[int, Sequence[TreeModel]]
    """The models of each client, by its number."""
    sent_bytes: Mapping[str, Sequence[int]] | None = None

    def predict(self, client: int, starts: Starts) -> Floats:
        if client not in self.models:
            shape = self.dataset.truth(starts).shape
            if self.levels:
                shape = (len(starts), self.dataset.horizons, self.levels)
            return np.full(shape, np.nan)
        return mean_of(self.models[client], client, starts)

    def save(self, client: int) -> Arrays:
        models = self.models.get(client, ())
        texts = [text for model in models for text in model.texts]
        return model_arrays(
            texts, models[0].windows.unit(client) if models else unit_of(self.dataset, client)
        )


def mean_of(models: Sequence[TreeModel], client: int, starts: Starts) -> Floats:
    """The mean of the forecasts (W,) of several models of a client."""
    if len(models) == 1:
        return models[0].predict(client, starts)
    # Models that were read from a file have the same windows, and so the same features.
    windows = models[0].windows
    inputs = windows.all_features(client, starts)
    forecasts = [
        model.predict(client, starts, inputs if model.windows is windows else None)
        for model in models
    ]
    return np.asarray(np.mean(forecasts, axis=0), float)


def model_arrays(texts: Sequence[str], unit: Unit) -> Arrays:
    """What is saved of models, given as texts, and of the unit of a client's loads."""
    arrays = {f"trees_{k}": np.frombuffer(text.encode(), np.uint8) for k, text in enumerate(texts)}
    return {**arrays, "unit": np.array(astuple(unit))}


def texts_of(arrays: Arrays) -> list[str]:
    """The models among saved arrays, as LightGBM writes them.

    Raises:
        DataError: an array is missing, or is no model that plfl could have made.
    """
    texts = []
    for k in range(sum(key.startswith("trees_") for key in arrays)):
        if f"trees_{k}" not in arrays:
            raise DataError(Problem("", f"the models have no array trees_{k}", "train them again"))
        texts.append(arrays[f"trees_{k}"].tobytes().decode("ascii", "backslashreplace"))
        check_model(texts[-1], f"trees_{k}")
    return texts


def restore(
    arrays: Arrays,
    dataset: Dataset,
    settings: FitSettings,
    design: Design = LAGGED,
    members: Sequence[FittedBaseline] = (),
) -> TreesFit:
    """The saved models of the only client of a dataset."""
    if members:
        design = add_forecasts(design, members, dataset, 0)
    windows = TreeWindows(dataset, design, (Unit(*arrays["unit"].tolist()),))
    boosters = [load_booster(text, f"trees_{k}") for k, text in enumerate(texts_of(arrays))]
    levels = len(settings.levels)
    size = max(levels, 1)
    models = [
        TreeModel(windows, boosters[k : k + size], levels > 0)
        for k in range(0, len(boosters), size)
    ]
    return TreesFit(dataset, levels, {0: models} if models else {})


class TreeBaseline(Baseline):
    """A baseline of LightGBMs."""

    has_quantiles: ClassVar[bool] = True
    forecasts_medians: ClassVar[bool] = True

    @property
    def is_for_others(self) -> bool:
        """Whether clients train its models for others, on all of their history."""
        return False

    def count_trees(self) -> int:
        return 1


class OwnTrees(TreeBaseline):
    """A baseline with models of each client alone."""

    design: ClassVar[Design] = LAGGED
    """What the trees read."""

    @property
    def draws(self) -> Sequence[int]:
        """The seeds with which the models of a client draw rows and columns; 0: of one that uses
        all."""
        return (0,)

    def count_trees(self) -> int:
        return len(self.draws)

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> TreesFit:
        return self._fit_trees({}, dataset, settings, members)

    def refit(
        self,
        fitted_baseline: TreesFit,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> TreesFit:
        return self._fit_trees(fitted_baseline.models, dataset, settings, members)

    def _fit_trees(
        self,
        earlier: Mapping[int, Sequence[TreeModel]],
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> TreesFit:
        models = {}
        for client in range(len(dataset.clients)):
            design, own_dataset = self.design, dataset.select(np.array([client]))
            if members:
                design = add_forecasts(design, [*members.values()], dataset, client)
            tree_choices = [model.tree_choices for model in earlier.get(client, ())] or [[]] * len(
                self.draws
            )
            max_bin = {"max_bin": settings.max_bin}
            binned = BinnedWindows(TreeWindows(own_dataset, design), max_bin)
            windows = TreeWindows(dataset, design)
            models[client] = [
                TreeModel(windows, boost(binned, settings, choices, draw), bool(settings.levels))
                for draw, choices in zip(self.draws, tree_choices, strict=True)
            ]
        return TreesFit(dataset, len(settings.levels), models, join_sent(members))

    def restore(
        self,
        arrays: Arrays,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> TreesFit:
        return restore(arrays, dataset, settings, self.design, [*members.values()])

    def program(self, arrays: Arrays, parts: ProgramParts) -> ProgramPart:
        return parts.trees(self.design, arrays, self.needs)


def iterate_pools(dataset: Dataset, turns: int | None) -> Iterator[tuple[Dataset, Starts, Starts]]:
    """The clients that train each model together, as a dataset and as their indices, and the
    indices of those that get it.

    Without `turns` these are the clients of a federation. Otherwise they join late in `turns`
    groups and get a model of those not in their group; if there are none, they get no model.
    """
    for clients in dataset.clients_of_federations():
        if turns is None:
            yield dataset.select(clients), clients, clients
            continue
        for late in turns_of(clients, turns):
            if len(early := np.setdiff1d(clients, late)):
                yield dataset.with_view("whole").select(early), early, late


def fit_pooled(
    dataset: Dataset,
    settings: FitSettings,
    turns: int | None,
    sent_bytes: Sequence[int],
    fitted_baseline: TreesFit | None = None,
) -> TreesFit:
    """Models of pooled raw data (see `iterate_pools`), of which each client sent so many
    `sent_bytes`. Their settings are those of `fitted_baseline`; without it, they choose them."""
    earlier = fitted_baseline.models if fitted_baseline else {}
    models: dict[int, list[TreeModel]] = {}
    for pooled_dataset, _, clients in iterate_pools(dataset, turns):
        tree_choices = earlier[int(clients[0])][0].tree_choices if earlier else []
        model = train(pooled_dataset, dataset, settings, tree_choices=tree_choices)
        models |= {client: [model] for client in clients.tolist()}
    return TreesFit(dataset, len(settings.levels), models, {"raw data": sent_bytes})
