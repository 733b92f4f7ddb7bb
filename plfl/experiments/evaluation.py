"""Evaluates models: their scores on validation and test, and predictions to show."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.base.array_types import Floats as Floats
from plfl.data.dataset import EVALUATED_SPLITS, Dataset, Split
from plfl.federated.federation import Federation
from plfl.interfaces.task import Task
from plfl.results.records import ConformalWidths, ModelKind, Models
from plfl.results.totals import Totals
from plfl.tasks import check_calibration
from plfl.tasks.loads import LoadTask, first_week
from plfl.training.work import Engine

PredictionsByClient: TypeAlias = list[Floats]
"""Predictions for the validation windows and then the test windows of each client."""


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
        self, f: Federation, received_rows: torch.Tensor | None, is_last: bool
    ) -> Evaluation:
        """Score the clients' own models and `received_rows` (N, P), the models with what the server
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
        self, f: Federation, received_rows: torch.Tensor | None, is_last: bool
    ) -> Evaluation:
        """Score the models of a federation after a round, as `score_federation` does. Clients that
        keep their best models compare the current ones with them; in the last round (`is_last`)
        the best ones are scored."""
        if f.best is None:
            return self.score_federation(f, received_rows)
        own_models = f.own_models(received_rows)
        evaluation = self.score_models(own_models, received_rows)
        scores = evaluation.scores
        local = scores[(scores["model"] == "local") & (scores["split"] == "validation")]
        errors = local[self.task.own_choosing_score].to_list()
        f.best.keep(own_models, torch.tensor(errors, dtype=torch.float64))
        return self.score_models(f.best.rows, received_rows) if is_last else evaluation

    def score_federation(self, f: Federation, received_rows: torch.Tensor | None) -> Evaluation:
        """Score what the clients of a federation forecast with: their own models, or mixed outputs;
        and `received_rows` (N, P), the models with what the server would send."""
        if received_rows is not None:
            mixed_outputs = f.method.mix_outputs(f, f.state, received_rows, self.starts)
            if mixed_outputs is not None:
                return self._score_outputs(
                    mixed_outputs, self.engine.predict(received_rows, self.starts)
                )
        return self.score_models(f.own_models(received_rows), received_rows)

    def score_models(self, local: torch.Tensor, received_rows: torch.Tensor | None) -> Evaluation:
        """Score models (N, P) as the clients hold them, and as the server would send them. Where
        nothing is shared (None) the two are the same."""
        return self._score_outputs(
            self.engine.predict(local, self.starts),
            None if received_rows is None else self.engine.predict(received_rows, self.starts),
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
        return {} if self.task.widening == "none" else self._widths(self._forecast(models))

    def _forecast(self, models: Models) -> dict[ModelKind, PredictionsByClient]:
        e = self.engine
        return {
            model: self._predictions(
                e.predict(torch.from_numpy(rows).to(e.device, e.dtype), self.starts)
            )
            for model, rows in models.items()
        }

    def _score_outputs(
        self, local: list[torch.Tensor], received_outputs: list[torch.Tensor] | None
    ) -> Evaluation:
        """Scores of the outputs of both models, local and global, of every client."""
        forecasts: dict[ModelKind, PredictionsByClient] = {"local": self._predictions(local)}
        if received_outputs is not None:
            forecasts["global"] = self._predictions(received_outputs)
        widths = self._widths(forecasts)
        forecasts = {
            model: self._widen(forecasts_of_model, widths.get(model))
            for model, forecasts_of_model in forecasts.items()
        }
        forecasts.setdefault("global", forecasts["local"])
        rows = [
            {"client": str(self.dataset.clients[i]), "split": split, "model": model}
            | self.task.scores(self.dataset, i, split, self._part(i, split, predictions[i]))
            for model, predictions in forecasts.items()
            for split in EVALUATED_SPLITS
            for i in self.clients
        ]

        def week() -> pd.DataFrame:
            tables = []
            for i in self.clients:
                starts = first_week(self.dataset, i)
                rows = np.searchsorted(self.dataset.starts(i, "test"), starts)
                week_forecasts = {
                    str(m): self._part(i, "test", forecasts_of_model[i])[rows]
                    for m, forecasts_of_model in forecasts.items()
                }
                tables.append(self.task.week_table(self.dataset, i, starts, week_forecasts))
            return pd.concat(tables)

        def errors() -> pd.DataFrame:
            return pd.concat(
                pd.DataFrame({"client": str(self.dataset.clients[i]), "model": model, **by_day})
                for model, predictions in forecasts.items()
                for i in self.clients
                for part in [self._part(i, "test", predictions[i])]
                for by_day in [self.task.errors(self.dataset, i, part)]
            )

        return Evaluation(pd.DataFrame(rows), week, errors, widths)

    def _widths(self, forecasts: Mapping[ModelKind, PredictionsByClient]) -> ConformalWidths:
        """Conformal widths (N, ...) of each model, given its predictions; empty without widths."""
        if self.task.widening == "none":
            return {}
        task, model_widths = self.task, dict[ModelKind, Floats]()
        for model, forecasts_of_model in forecasts.items():
            validation = [self._part(i, "validation", forecasts_of_model[i]) for i in self.clients]
            widths = [task.conformal_widths(self.dataset, i, x) for i, x in enumerate(validation)]
            model_widths[model] = np.stack(widths)
        return model_widths

    def _widen(
        self, predictions: PredictionsByClient, widths: Floats | None
    ) -> PredictionsByClient:
        if widths is None:
            return predictions
        return [
            self.task.widen(self.dataset, i, self._starts(i), prediction, widths[i])
            for i, prediction in enumerate(predictions)
        ]

    def _predictions(self, outputs: list[torch.Tensor]) -> PredictionsByClient:
        """Predictions for a client's validation windows, then for its test windows."""
        return [
            self.task.predictions(self.dataset, i, self._starts(i), output.double().cpu().numpy())
            for i, output in enumerate(outputs)
        ]

    def _starts(self, i: int) -> NDArray[np.int64]:
        starts: NDArray[np.int64] = self.starts[i].cpu().numpy()
        return starts

    def _part(self, i: int, split: Split, predictions: Floats) -> Floats:
        windows = self.validation_windows[i]
        return predictions[:windows] if split == "validation" else predictions[windows:]
