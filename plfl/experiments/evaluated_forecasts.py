"""The forecasts of one model or baseline for all windows that are evaluated, and what is made of
them: widths of intervals, scores, a week to show, and errors by day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from plfl.base.array_types import Floats
from plfl.data.dataset import EVALUATED_SPLITS, Dataset, Split
from plfl.interfaces.task import Task
from plfl.tasks.loads import first_week

PredictionsBySplit: TypeAlias = Mapping[Split, Floats]
"""Predictions for the validation windows and for the test windows of a client."""


@dataclass(frozen=True)
class EvaluatedForecasts:
    """The forecasts of every client of a dataset."""

    dataset: Dataset
    task: Task
    predictions: Sequence[PredictionsBySplit]
    """Of each client."""
    widths: Floats | None = None
    """The widths (N, ...) that the clients' intervals have; None without widths."""

    @classmethod
    def with_widths(
        cls, dataset: Dataset, task: Task, predictions: Sequence[PredictionsBySplit]
    ) -> EvaluatedForecasts:
        """The forecasts, with widths from `fit_widths` if the task has any."""
        if task.widening == "none":
            return cls(dataset, task, predictions)
        widths, bands = fit_widths(dataset, task, predictions), []
        for i, by_split in enumerate(predictions):
            windows = np.concatenate([dataset.starts(i, split) for split in EVALUATED_SPLITS])
            joined = np.concatenate([by_split[split] for split in EVALUATED_SPLITS])
            bands.append(task.widen(dataset, i, windows, joined, widths[i]))
        ends = [len(by_split["validation"]) for by_split in predictions]
        return cls(dataset, task, [*map(divide, bands, ends)], widths)

    def scores(self, split: Split) -> Iterator[tuple[str, dict[str, float]]]:
        """The scores of each client in one split, with its name."""
        for i, client in enumerate(self.dataset.clients.tolist()):
            values = self.predictions[i][split]
            yield client, self.task.scores(self.dataset, i, split, values)

    def errors(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The errors of each client on the test set, see `Task.errors`, with its name."""
        for i, client in enumerate(self.dataset.clients.tolist()):
            yield client, self.task.errors(self.dataset, i, self.predictions[i]["test"])

    @staticmethod
    def join_weeks(forecasts: Mapping[str, EvaluatedForecasts]) -> pd.DataFrame:
        """The forecasts of several, by name, for a part of every client's test set, see
        `Task.week_table`."""
        one, tables = next(iter(forecasts.values())), []
        for i in range(len(one.dataset.clients)):
            starts = first_week(one.dataset, i)
            row_numbers = np.searchsorted(one.dataset.starts(i, "test"), starts)
            week = {name: x.predictions[i]["test"][row_numbers] for name, x in forecasts.items()}
            tables.append(one.task.week_table(one.dataset, i, starts, week))
        return pd.concat(tables)


def fit_widths(dataset: Dataset, task: Task, predictions: Sequence[PredictionsBySplit]) -> Floats:
    """The conformal widths (N, ...) of clients, from the validation set of each."""
    validation = [by_split["validation"] for by_split in predictions]
    return np.stack([task.conformal_widths(dataset, i, x) for i, x in enumerate(validation)])


def divide(predictions: Floats, validation_windows: int) -> PredictionsBySplit:
    """Predictions for a client's validation windows, of this number, and then its test windows."""
    parts = np.split(predictions, [validation_windows])
    return dict(zip(EVALUATED_SPLITS, parts, strict=True))
