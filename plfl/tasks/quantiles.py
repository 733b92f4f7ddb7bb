"""Quantiles of the load at each target of a window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.config.error_messages import refusal
from plfl.interfaces.annotations import Dataset, Split
from plfl.interfaces.task import Floats, Widening
from plfl.interfaces.terms import Objective, Term
from plfl.tasks import metrics
from plfl.tasks.loads import LoadTask
from plfl.tasks.losses import Pinball

MEDIAN = 0.5


class Quantiles(LoadTask):
    """Quantiles of the load at each target, trained with the pinball loss instead of
    `federation.loss`.

    A model's quantiles of one target may cross. They are sorted, which never makes them worse
    (Chernozhukov, Fernández-Val and Galichon, "Quantile and Probability Curves Without Crossing",
    Econometrica 2010). The median is the point forecast.
    """

    name = "quantiles"
    own_loss = "the pinball loss"

    levels: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.05, 0.25, 0.5, 0.75, 0.95)
    """Levels, ascending, with 0.5 among them. Two that add up to 1, such as 0.05 and 0.95, are the
    ends of an interval (here of 90 %)."""
    conformal: Widening = "none"
    """Conformal widths of the intervals, as of the task `forecast`."""

    @model_validator(mode="after")
    def _check_levels(self) -> Quantiles:
        if list(self.levels) != sorted(set(self.levels)):
            raise refusal(f"{list(self.levels)} must increase; sort them, each once", key="levels")
        if MEDIAN not in self.levels:
            raise refusal(
                f"{list(self.levels)} lack 0.5, the median, which is the point forecast; add it",
                key="levels",
            )
        return self

    @model_validator(mode="after")
    def _check_intervals(self) -> Quantiles:
        if self.conformal != "none" and not self.intervals:
            raise refusal(
                f"{self.conformal!r} widens intervals, but levels {list(self.levels)} have none; "
                "add two levels that add up to 1, such as 0.05 and 0.95",
                key="conformal",
            )
        return self

    @property
    def quantile_levels(self) -> tuple[float, ...]:
        return self.levels

    @property
    def widening(self) -> Widening:
        return self.conformal

    def outputs(self, horizons: int) -> int:
        return horizons * len(self.levels)

    def reasons_against_teacher(self, loss: str) -> Iterator[str]:
        yield "needs a squared error, but quantiles have the pinball loss; remove the method"

    def objective(self, loss: str, term: Term | None = None) -> Objective:
        return Objective(Pinball(self.levels))

    @property
    def shares(self) -> dict[str, float]:
        return {
            percent: self.levels[high] - self.levels[low]
            for percent, (low, high) in self.intervals.items()
        }

    @property
    def intervals(self) -> dict[str, tuple[int, int]]:
        intervals = {}
        for low, level in enumerate(self.levels):
            for high in range(low + 1, len(self.levels)):
                if abs(level + self.levels[high] - 1) < 1e-9:
                    intervals[f"{100 * (self.levels[high] - level):g}"] = (low, high)
        return intervals

    @property
    def middle(self) -> int:
        return self.levels.index(MEDIAN)

    def predictions(
        self, dataset: Dataset, client: int, starts: NDArray[np.int64], outputs: Floats
    ) -> Floats:
        """Quantiles (W, H, Q) in kWh per interval, ascending."""
        quantiles = outputs.reshape(len(starts), dataset.horizons, len(self.levels))
        return np.sort(dataset.in_kwh(client, starts, quantiles), axis=-1)

    def as_bands(self, dataset: Dataset, predictions: Floats) -> Floats:
        return predictions

    def export(self, loads: Tensor, widths: Tensor | None) -> Tensor:
        """Quantiles (B, H, Q)."""
        # Unlike len(), the shape makes an exported program accept any number of windows.
        quantiles = loads.reshape(loads.shape[0], -1, len(self.levels)).sort(-1).values
        if widths is None:
            return quantiles
        widths = self.first(widths)
        ends = torch.zeros(quantiles.shape[1:], dtype=quantiles.dtype)
        for i, (low, high) in enumerate(self.intervals.values()):
            ends[:, low], ends[:, high] = -widths[:, i], widths[:, i]
        columns = [*(quantiles + ends).unbind(-1)]
        for i in range(self.middle - 1, -1, -1):  # ONNX knows no cummin
            columns[i] = torch.minimum(columns[i], columns[i + 1])
        for i in range(self.middle + 1, len(columns)):
            columns[i] = torch.maximum(columns[i], columns[i - 1])
        return torch.stack(columns, -1)

    def scores(
        self, dataset: Dataset, client: int, split: Split, predictions: Floats
    ) -> dict[str, float]:
        """Scores of the median as a forecast, and of the quantiles: `crps` in kWh per interval,
        `scaled_crps`: the same over the error of persistence, and for each interval its `coverage`
        and its `width` in kWh, as `coverage_90`. Each target has a `crps` and the `coverage` of the
        widest interval."""
        scores = metrics.score_split(dataset, client, split, self.point(dataset, predictions))
        starts = dataset.starts(client, split)
        truth = dataset.truth(starts).reshape(len(starts), dataset.horizons)
        persistence = dataset.naive_errors(client, split).persistence
        crps = metrics.crps(truth, predictions, self.levels)
        scores["crps"] = crps
        scores["scaled_crps"] = crps / persistence if persistence > 0 else float("nan")
        scores |= self.interval_scores(truth, predictions)
        for h, column in enumerate(metrics.columns_of(dataset)):
            step_predictions = predictions[:, h]
            scores[f"crps{column}"] = metrics.crps(truth[:, h], step_predictions, self.levels)
            if self.intervals:
                scores |= self.widest_coverage(truth[:, h], step_predictions, column)
        return scores

    def errors(self, dataset: Dataset, client: int, predictions: Floats) -> dict[str, Any]:
        """Errors of the medians, and the CRPS."""
        truth = dataset.truth(dataset.starts(client, "test")).reshape(predictions.shape[:2])
        crps = 2 * metrics.pinball(truth, predictions, self.levels).mean(axis=-1)
        return metrics.daily_errors(dataset, client, self.point(dataset, predictions), crps)

    def columns(self, name: str, predictions: Floats) -> dict[str, Floats]:
        """The median under the name itself, and the quantiles: `local_5` is the 5 % quantile."""
        columns = {name: predictions[..., self.middle]}
        for i, level in enumerate(self.levels):
            columns[f"{name}_{100 * level:g}"] = predictions[..., i]
        return columns

    def ends(self, name: str) -> dict[str, tuple[str, str]]:
        ends = {}
        for percent, (low, high) in self.intervals.items():
            low_level, high_level = self.levels[low], self.levels[high]
            ends[percent] = f"{name}_{100 * low_level:g}", f"{name}_{100 * high_level:g}"
        return ends
