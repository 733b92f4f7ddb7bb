"""How models forecast: their scores on validation and test, and a week to look at."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.data.windows import Dataset, Split
from plfl.federated.federation import Federation
from plfl.results import metrics
from plfl.training.task import Engine

EVALUATED: tuple[Split, ...] = ("validation", "test")


@dataclass(frozen=True)
class Evaluation:
    """How the models of a federation forecast at the end of a round."""

    scores: pd.DataFrame
    """One row a `model`, `split` and `client`, in this order: `mae`, `rmse` and `mase`."""
    week: pd.DataFrame
    """Truth, persistence and forecasts of the first week of every client's test part."""


class Evaluator:
    """Forecasts every evaluation window of every client of a dataset."""

    def __init__(self, dataset: Dataset, engine: Engine):
        self.dataset, self.engine = dataset, engine
        self.clients = range(len(dataset.clients))
        starts = [np.concatenate([dataset.starts(i, s) for s in EVALUATED]) for i in self.clients]
        self.starts = [torch.from_numpy(s).to(engine.device) for s in starts]

    def examine(self, f: Federation, received: torch.Tensor | None, is_last: bool) -> Evaluation:
        """Score the clients' own models, and those of `received` (N, P) as `evaluate` does.

        Clients that keep their best models compare these with them; in the last round (`is_last`)
        the best ones are scored.
        """
        own = f.own_models(received)
        examined = self.evaluate(own, received)
        if not f.keeps_best:
            return examined
        scores = examined.scores
        local = scores[(scores["model"] == "local") & (scores["split"] == "validation")]
        # The MASE is the same but for a factor, and undefined where the load never changes.
        f.keep_best(own, torch.tensor(local["mae"].to_list(), dtype=torch.float64))
        return self.evaluate(f.best["rows"], received) if is_last else examined

    def evaluate(self, local: torch.Tensor, received: torch.Tensor | None) -> Evaluation:
        """Score the models (N, P) as the clients hold them, and as the server would send them.

        Where nothing is shared (None) the two are the same.
        """
        loads = {"local": self._forecast(local)}
        loads["global"] = loads["local"] if received is None else self._forecast(received)
        rows = [
            {"client": str(self.dataset.clients[i]), "split": split, "model": model}
            | self._scores(i, split, forecasts[i])
            for model, forecasts in loads.items()
            for split in EVALUATED
            for i in self.clients
        ]
        week = pd.concat(self._week(i, loads) for i in self.clients)
        return Evaluation(pd.DataFrame(rows), week)

    def _forecast(self, rows: torch.Tensor) -> list[NDArray[np.float64]]:
        """Loads in kWh of a client's validation windows, then its test windows."""
        d = self.dataset
        return [
            d.in_kwh(i, self.starts[i].cpu().numpy(), scaled.double().cpu().numpy())
            for i, scaled in enumerate(self.engine.predict(rows, self.starts))
        ]

    def _scores(self, i: int, split: Split, loads: NDArray[np.float64]) -> dict[str, float]:
        windows = len(self.dataset.starts(i, split))
        part = loads[:windows] if split == "validation" else loads[-windows:]
        return metrics.of_split(self.dataset, i, split, part)

    def _week(self, i: int, loads: dict[str, list[NDArray[np.float64]]]) -> pd.DataFrame:
        d = self.dataset
        starts, shown = d.starts(i, "test"), d.first_week(i)
        columns = {
            "truth": d.load[d.target_rows(shown)],
            "persistence": d.load[d.persistence_rows(shown)],
            **{model: all_of[i][-len(starts) :][: len(shown)] for model, all_of in loads.items()},
        }
        keys = {"client": str(d.clients[i]), "stamp": d.stamps[d.target_rows(shown)]}
        return pd.DataFrame(keys | {n: c.astype(np.float32) for n, c in columns.items()})
