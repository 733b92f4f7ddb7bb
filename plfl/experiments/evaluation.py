"""How models predict: their scores on validation and test, and something to look at."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.data.windows import Dataset, Split
from plfl.federated.federation import Federation
from plfl.results.records import Models
from plfl.tasks import Task
from plfl.training.task import Engine

EVALUATED: tuple[Split, ...] = ("validation", "test")


@dataclass(frozen=True)
class Evaluation:
    """How the models of a federation forecast at the end of a round."""

    scores: pd.DataFrame
    """One row a `model`, `split` and `client`, in this order, with the scores of the task."""
    week: pd.DataFrame
    """Predictions for a part of every client's test part, see `Task.shown`."""


class Evaluator:
    """Forecasts every evaluation window of every client of a dataset."""

    def __init__(self, dataset: Dataset, engine: Engine, task: Task):
        self.dataset, self.engine, self.task = dataset, engine, task
        self.clients = range(len(dataset.clients))
        starts = [np.concatenate([dataset.starts(i, s) for s in EVALUATED]) for i in self.clients]
        self.starts = [torch.from_numpy(s).to(engine.device) for s in starts]

    def examine(self, f: Federation, received: torch.Tensor | None, is_last: bool) -> Evaluation:
        """Score the clients' own models, and those of `received` (N, P) as `evaluate` does.

        Clients that keep their best models compare these with them; in the last round (`is_last`)
        the best ones are scored.
        """
        if not f.keeps_best:
            return self.score(f, received)
        own = f.own_models(received)
        examined = self.evaluate(own, received)
        scores = examined.scores
        local = scores[(scores["model"] == "local") & (scores["split"] == "validation")]
        errors = local[self.task.own_selection].to_list()
        f.keep_best(own, torch.tensor(errors, dtype=torch.float64))
        return self.evaluate(f.best["rows"], received) if is_last else examined

    def score(self, f: Federation, received: torch.Tensor | None) -> Evaluation:
        """Score what the clients forecast with, and `received` as `evaluate` does."""
        if received is not None:
            mixed = f.method.mixed(f, received, self.starts)
            if mixed is not None:
                return self._examined(mixed, self.engine.predict(received, self.starts))
        return self.evaluate(f.own_models(received), received)

    def evaluate(self, local: torch.Tensor, received: torch.Tensor | None) -> Evaluation:
        """Score the models (N, P) as the clients hold them, and as the server would send them.

        Where nothing is shared (None) the two are the same.
        """
        return self._examined(
            self.engine.predict(local, self.starts),
            None if received is None else self.engine.predict(received, self.starts),
        )

    def test_forecasts(self, models: Models) -> pd.DataFrame:
        """Truth, persistence and the forecasts of `models` for every window of the test parts."""
        e = self.engine
        outputs = {
            str(model): e.predict(torch.from_numpy(rows).to(e.device, e.dtype), self.starts)
            for model, rows in models.items()
        }
        found = {model: self._predictions(of) for model, of in outputs.items()}
        shown = (self._shown(i, found, whole=True) for i in self.clients)
        return pd.concat(shown, ignore_index=True)

    def _examined(
        self, local: list[torch.Tensor], received: list[torch.Tensor] | None
    ) -> Evaluation:
        """Scores of the outputs of both models of every client."""
        found = {"local": self._predictions(local)}
        found["global"] = found["local"] if received is None else self._predictions(received)
        rows = [
            {"client": str(self.dataset.clients[i]), "split": split, "model": model}
            | self.task.scores(self.dataset, i, split, self._part(i, split, predictions[i]))
            for model, predictions in found.items()
            for split in EVALUATED
            for i in self.clients
        ]
        week = pd.concat(self._shown(i, found) for i in self.clients)
        return Evaluation(pd.DataFrame(rows), week)

    def _predictions(self, outputs: list[torch.Tensor]) -> list[NDArray[np.float64]]:
        """Predictions for a client's validation windows, then for its test windows."""
        return [
            self.task.predictions(
                *(self.dataset, i, self.starts[i].cpu().numpy()), own.double().cpu().numpy()
            )
            for i, own in enumerate(outputs)
        ]

    def _part(self, i: int, split: Split, predictions: NDArray[np.float64]) -> NDArray[np.float64]:
        windows = len(self.dataset.starts(i, split))
        return predictions[:windows] if split == "validation" else predictions[-windows:]

    def _shown(
        self, i: int, found: dict[str, list[NDArray[np.float64]]], whole: bool = False
    ) -> pd.DataFrame:
        every = self.dataset.starts(i, "test")
        starts = every if whole else self.task.week(self.dataset, i)
        rows = np.searchsorted(every, starts)
        shown = {model: self._part(i, "test", of[i])[rows] for model, of in found.items()}
        return self.task.shown(self.dataset, i, starts, shown)
