"""Fits a forecaster to the readings of a new meter.

A network starts with the parameters that the server sends, or with their mean if they differ
between clients, and trains its personal part, or everything if everything is shared. The number of
passes is chosen on the last fifth of the readings. With less than two weeks of readings, a model
that is shared as a whole stays as received (docs/map.md).

A baseline is fitted anew to all readings, but for trees that others have grown. Its settings, too,
are chosen on the last fifth. So are the own trees of a meter, on the shared ones, which stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem
from plfl.baselines.storage import baseline_arrays, fit_to_new, settings_of
from plfl.config.federation import Calibration
from plfl.data.dataset import Dataset, Split, held_out_rows
from plfl.data.windows import Scaling, build_later, scaling_of_new
from plfl.experiments.training_setup import TrainingSetup, network_of
from plfl.federated.calibration import calibrate
from plfl.forecast.contents import AS_RECEIVED, Contents
from plfl.methods.boosting import Boosting
from plfl.results.records import MODELS, ConformalWidths, Models
from plfl.study import Cell

C = TypeVar("C", bound=Contents)
PASSES = (0, 1, 2, 4, 8, 16)
"""Numbers of passes over its windows from which a meter chooses; 0: the model as it is."""


def adapt_to_new(model: C, client: str, table: pd.DataFrame, epochs: int | None) -> tuple[C, int]:
    """The model of a new meter, see `ForecastModel.adapt`, and its number of passes. The readings
    in the `table` have the columns that the clients had; NaN in gaps. DataError: the clients shared
    nothing, or there are too few readings."""
    study, scalings = model.study, model.scalings
    scaling = scaling_of_new(table, study.windows, next(iter(scalings.values())))
    if model.baseline:
        return _refit(model, client, table, scaling), 0
    if "global" not in model.models:
        raise DataError(
            Problem(
                model.name,
                "its clients shared nothing that a new meter could begin with",
                "use a model of a scheme that shares parameters, such as P1 or P2",
            )
        )
    start = np.asarray(model.models["global"].mean(axis=0), np.float32)
    shared_mask = study.plan.layout.mask(study.plan.schemes.patterns[model.cell.sharing])
    is_all_shared = study.plan.layout.is_whole(shared_mask)
    trained_parameters = np.ones_like(shared_mask) if is_all_shared else ~shared_mask
    if study.model.grows_trees:  # a mean of trees is no tree, and own trees are no start
        empty = network_of(study, study.plan.window_shape).initial(0).numpy()
        start, trained_parameters = (
            np.where(shared_mask, model.models["global"][0], empty),
            ~shared_mask,
        )
    dataset = build_later(client, table, study.windows, scaling, are_for_training=True)
    steps = OwnSteps(model.cell, TrainingSetup.for_study(study, dataset), start, trained_parameters)
    if epochs is None:
        is_as_received = is_all_shared and len(table) * model.interval < AS_RECEIVED
        epochs = 0 if is_as_received else steps.choose_passes()
    models: Models = {"local": steps.train_passes(epochs), "global": start[None]}
    widths: ConformalWidths = {}
    if model.widths:
        widths = dict.fromkeys(MODELS, model.widths["global"].mean(axis=0, keepdims=True))
    new_model = replace(model, scalings={client: scaling}, models=models, widths=widths)
    return new_model, epochs


def _refit(model: C, client: str, table: pd.DataFrame, scaling: Scaling) -> C:
    """A baseline of this meter alone, fitted to all its readings."""
    study = model.study
    dataset = _hold_out(build_later(client, table, study.windows, scaling, are_for_training=True))
    first, cut = dataset.view.bounds[0, :2].tolist()
    sets: tuple[Split, ...] = ("train", "validation")
    baselines, name, settings = study.baselines, model.baseline, settings_of(study)
    needs_training = baselines.find(name).needs_training or bool(model.widths)
    if needs_training and (
        cut == first or not all(len(dataset.starts(0, split)) for split in sets)
    ):
        raise DataError(
            Problem(client, f"has too few readings to fit {model.name} to them", "add earlier ones")
        )
    received_arrays = next(iter(model.fitted_arrays.values()))
    fitted_baselines = fit_to_new(baselines, name, received_arrays, dataset, settings)
    arrays = baseline_arrays(baselines, name, fitted_baselines, 0)
    widths: ConformalWidths = {}
    if model.widths:
        forecasts = fitted_baselines[name].predict(0, dataset.starts(0, "validation"))
        widths["local"] = study.task.conformal_widths(dataset, 0, forecasts)[None]
    return replace(model, scalings={client: scaling}, fitted_arrays={client: arrays}, widths=widths)


def _hold_out(dataset: Dataset) -> Dataset:
    """A meter's dataset with the last fifth of its training set held out, at least a day."""
    first, _, _, end = dataset.view.bounds[0].tolist()
    held_count = min(held_out_rows(end - first, dataset.interval), end - first)
    return replace(dataset, views={"usual": dataset.view.hold_out(np.array([held_count]))})


@dataclass(frozen=True)
class OwnSteps:
    """A meter with its readings, and the model from which it takes steps of its own."""

    cell: Cell
    setup: TrainingSetup
    start: NDArray[np.float32]
    """Parameters (P,)."""
    is_trained: NDArray[np.bool_]
    """Whether each of them (P,) is trained."""

    def train_passes(self, epochs: int) -> NDArray[np.float32]:
        """Parameters (1, P) after this number of passes over all windows."""
        if epochs == 0:
            return self.start[None]
        return self._calibrate(self.setup.series_dataset, epochs).cpu().numpy().astype(np.float32)

    def choose_passes(self) -> int:
        """The number in `PASSES` with the least error in the last fifth of the readings, at least a
        day, after training on the readings before it; 0 if there are too few."""
        part, task, engine = (
            _hold_out(self.setup.series_dataset),
            self.setup.task,
            self.setup.engine,
        )
        first, cut = part.view.bounds[0, :2].tolist()
        if cut == first or not len(starts := part.starts(0, "validation")):
            return 0
        if len(part.starts(0, "train")) < self.setup.study.federation.batch_size:
            return 0
        errors: dict[int, float] = {}
        for epochs in self._numbers:
            model = self._calibrate(part, epochs)
            (outputs,) = engine.predict(model, [torch.from_numpy(starts).to(engine.device)])
            forecasts = task.predictions(part, 0, starts, outputs.double().cpu().numpy())
            scores = task.scores(part, 0, "validation", forecasts)
            errors[epochs] = float(scores[task.own_choosing_score])
        return list(errors)[int(np.nanargmin([*errors.values()]))]

    @property
    def _numbers(self) -> list[int]:
        """The numbers of passes to try; of trees, those that are a meter's own."""
        study = self.setup.study
        if not study.model.grows_trees:
            return [*PASSES]
        is_own = self.is_trained[study.plan.layout.mask(["head"])].all()
        leaf_limit = study.plan.layout.shapes["head.value"][1] if is_own else 0
        return [*range(leaf_limit + 1)]

    def _calibrate(self, dataset: Dataset, epochs: int) -> torch.Tensor:
        study, engine = self.setup.study, self.setup.engine
        row = torch.from_numpy(self.start)[None].to(engine.device, engine.dtype)
        trained_mask = torch.from_numpy(self.is_trained).to(engine.device)
        data = self.setup.client_data(self.cell.seed, dataset)
        method = study.hyperparameters.find_method(self.cell.method)
        if isinstance(method, Boosting):
            number = min(epochs, self._numbers[-1])
            return method.own_trees(data, study.plan.layout, row, number)
        return calibrate(
            row,
            data,
            trained_mask,
            study.hyperparameters.find_client_opt(self.cell.client_opt),
            Calibration(epochs=epochs),
        )
