"""Evaluates models: their scores on validation and test, and predictions to show."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.data.dataset import EVALUATED_SPLITS, Dataset
from plfl.experiments.evaluated_forecasts import (
    EvaluatedForecasts,
    PredictionsBySplit,
    divide,
    fit_widths,
)
from plfl.federated.federation import Federation
from plfl.interfaces.task import Task
from plfl.results.records import ConformalWidths, ModelKind, Models
from plfl.results.totals import Totals
from plfl.tasks import check_calibration
from plfl.tasks.loads import LoadTask
from plfl.training.work import Engine


@dataclass(frozen=True)
class Evaluation:
    """How the models of a federation forecast at the end of a round."""

    scores: pd.DataFrame
    """One row per `model`, `split` and `client`, in this order, with the scores of the task."""
    week: Callable[[], pd.DataFrame] = pd.DataFrame
    """Makes a table of predictions for a part of every client's test set, see `Task.week_table`. It
    is a function because the table takes half as long as the scores, and only the last round's is
    used.
    """
    errors: Callable[[], pd.DataFrame] = pd.DataFrame
    """Makes a table of the errors on the test set, one row per `model`, `client` and day, see
    `Task.errors`. Only the last round's is used."""
    widths: ConformalWidths = field(default_factory=dict)
    """The widths that were added to the intervals, by model; empty without widths."""


class Evaluator(Protocol):
    """Scores the models of a round."""

    def score_round(
        self, f: Federation, global_models: torch.Tensor | None, is_last: bool
    ) -> Evaluation:
        """Score the clients' own models and `global_models` (N, P), the models with what the server
        would send."""


class ForecastEvaluator:
    """Forecasts every evaluation window of every client of a dataset. If the task has conformal
    widths, they are fitted to the validation set whenever models are scored."""

    def __init__(self, dataset: Dataset, engine: Engine, task: Task):
        self.dataset, self.engine, self.task = dataset, engine, task
        check_calibration(task, dataset)
        self.clients = range(len(dataset.clients))
        parts = [[dataset.starts(i, split) for split in EVALUATED_SPLITS] for i in self.clients]
        self.validation_windows = [len(validation) for validation, _ in parts]
        self.starts = [torch.from_numpy(np.concatenate(part)).to(engine.device) for part in parts]

    def score_round(
        self, f: Federation, global_models: torch.Tensor | None, is_last: bool
    ) -> Evaluation:
        """Score the models of a federation after a round, as `score_federation` does. Clients that
        keep their best models compare the current ones with them; in the last round (`is_last`)
        the best ones are scored."""
        if f.best is None:
            return self.score_federation(f, global_models)
        own_models = f.own_models(global_models)
        evaluation = self.score_models(own_models, global_models)
        scores = evaluation.scores
        local = scores[(scores["model"] == "local") & (scores["split"] == "validation")]
        errors = local[self.task.own_choosing_score].to_list()
        f.best.keep(own_models, torch.tensor(errors, dtype=torch.float64))
        return self.score_models(f.best.rows, global_models) if is_last else evaluation

    def score_federation(self, f: Federation, global_models: torch.Tensor | None) -> Evaluation:
        """Score what the clients of a federation forecast with: their own models, or mixed outputs;
        and `global_models` (N, P), the models with what the server would send."""
        if global_models is not None:
            mixed_outputs = f.method.mix_outputs(f, f.state, global_models, self.starts)
            if mixed_outputs is not None:
                return self._score_outputs(
                    mixed_outputs, self.engine.predict(global_models, self.starts)
                )
        return self.score_models(f.own_models(global_models), global_models)

    def score_models(self, local: torch.Tensor, global_models: torch.Tensor | None) -> Evaluation:
        """Score models (N, P) as the clients hold them, and as the server would send them. Where
        nothing is shared (None) the two are the same."""
        return self._score_outputs(
            self.engine.predict(local, self.starts),
            None if global_models is None else self.engine.predict(global_models, self.starts),
        )

    def totals(self, name: str, rows: NDArray[np.float32] | None) -> Totals:
        """What the forecasts of the test set by the clients' models (N, P) come to, under the name
        of a forecaster; without models nothing. The task must predict loads."""
        assert isinstance(self.task, LoadTask)
        totals = Totals([name], self.dataset.horizons)
        if rows is not None:
            for i in self.clients:
                totals.add(self.dataset, i, {name: self.forecast_test(i, rows[i])})
        return totals

    def forecast_test(self, client: int, parameters: NDArray[np.float32]) -> NDArray[np.float64]:
        """The forecasts of the test windows of a client by a model with these parameters (P,), in
        the shape of `Dataset.truth`. The task must predict loads."""
        assert isinstance(self.task, LoadTask)
        starts, e = self.dataset.starts(client, "test"), self.engine
        row = torch.from_numpy(parameters[None]).to(e.device, e.dtype)
        (outputs,) = e.predict(row, [torch.from_numpy(starts).to(e.device)])
        predictions = self.task.predictions(
            self.dataset, client, starts, outputs.double().cpu().numpy()
        )
        return self.task.point(self.dataset, predictions)

    def widths(self, models: Models) -> ConformalWidths:
        """The widths of the intervals of `models`; empty without widths."""
        if self.task.widening == "none":
            return {}
        e, model_widths = self.engine, ConformalWidths()
        for model, rows in models.items():
            outputs = e.predict(torch.from_numpy(rows).to(e.device, e.dtype), self.starts)
            predictions = self._predictions(outputs)
            model_widths[model] = fit_widths(self.dataset, self.task, predictions)
        return model_widths

    def _score_outputs(
        self, local: list[torch.Tensor], global_outputs: list[torch.Tensor] | None
    ) -> Evaluation:
        """Scores of the outputs of both models, local and global, of every client."""
        outputs_by_model: dict[ModelKind, list[torch.Tensor]] = {"local": local}
        if global_outputs is not None:
            outputs_by_model["global"] = global_outputs
        forecasts = {
            model: EvaluatedForecasts.with_widths(
                self.dataset, self.task, self._predictions(outputs)
            )
            for model, outputs in outputs_by_model.items()
        }
        widths = {m: x.widths for m, x in forecasts.items() if x.widths is not None}
        forecasts.setdefault("global", forecasts["local"])
        rows = [
            {"client": client, "split": split, "model": model} | scores
            for model, forecasts_of_model in forecasts.items()
            for split in EVALUATED_SPLITS
            for client, scores in forecasts_of_model.scores(split)
        ]

        def errors() -> pd.DataFrame:
            return pd.concat(
                pd.DataFrame({"client": client, "model": model, **by_day})
                for model, forecasts_of_model in forecasts.items()
                for client, by_day in forecasts_of_model.errors()
            )

        week = partial(EvaluatedForecasts.join_weeks, {str(m): x for m, x in forecasts.items()})
        return Evaluation(pd.DataFrame(rows), week, errors, widths)

    def _predictions(self, outputs: list[torch.Tensor]) -> list[PredictionsBySplit]:
        """The predictions of every client."""
        predictions = []
        for i, output in enumerate(outputs):
            starts, values = self.starts[i].cpu().numpy(), output.double().cpu().numpy()
            joined = self.task.predictions(self.dataset, i, starts, values)
            predictions.append(divide(joined, self.validation_windows[i]))
        return predictions
