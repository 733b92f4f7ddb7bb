"""Forecasts of a load: a number for each target of a window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.interfaces.annotations import Dataset, Split
from plfl.interfaces.task import Floats, Widening
from plfl.interfaces.terms import (
    CorrectedDistillation,
    Distillation,
    NotTrueDistillation,
    Objective,
    Restriction,
    Term,
)
from plfl.tasks import metrics
from plfl.tasks.loads import LoadTask
from plfl.tasks.losses import POINT


class Forecast(LoadTask):
    """What is predicted. `name` selects a task; by default a forecast of the load, trained with
    `federation.loss`.

    With a squared error, a teacher only changes the targets and the factor of the loss:

    - `Distillation`: (ŷ − y)² + λ(ŷ − ŷ_T)² equals, up to a constant, (1 + λ) · (ŷ − y')² with
      y' = (y + λŷ_T) / (1 + λ).
    - `CorrectedDistillation`: (1 − λ)(ŷ − y)² + λ(ŷ − y*)² equals, up to a constant, (ŷ − y')² with
      y' = (1 − λ)y + λy*. Here y* = y + (1 − ρ_b(ŷ_T)) · (ŷ_T − y), or y where teacher and target
      fall into the same bin b: the rarer the bin is among a client's own targets, the more it
      listens to the teacher.
    """

    name = "forecast"

    conformal: Widening = "none"
    """Interval of each forecast that covers the fraction `level` of the validation loads: `none`,
    with each client's own widths (`personal`), or with own widths that follow its loads
    (`adaptive`)."""
    level: float = Field(0.9, gt=0, lt=1)
    """The fraction of loads that the interval should cover."""

    @property
    def widening(self) -> Widening:
        return self.conformal

    @property
    def shares(self) -> dict[str, float]:
        return {} if self.conformal == "none" else {f"{100 * self.level:g}": self.level}

    @property
    def intervals(self) -> dict[str, tuple[int, int]]:
        return dict.fromkeys(self.shares, (0, 2))

    @property
    def middle(self) -> int:
        return 1

    def outputs(self, horizons: int) -> int:
        return horizons

    def reasons_against_teacher(self, loss: str) -> Iterator[str]:
        if loss != "mse":
            yield (
                f"needs a squared error, but federation.loss is {loss}; remove the method, or set "
                "federation.loss to mse"
            )

    def objective(self, loss: str, term: Term | None = None) -> Objective:
        scale = 1 + term.weight if isinstance(term, Distillation) else 1.0
        return Objective(POINT[loss], scale)

    def mix_teacher(
        self, term: Term, outputs: Tensor | None, targets: Tensor, clients: Tensor
    ) -> Tensor:
        assert outputs is not None
        match term:
            case Distillation(weight, _):
                return (targets + weight * outputs) / (1 + weight)
            case CorrectedDistillation():
                return _correct_term(term, outputs, targets, clients)
            case NotTrueDistillation() | Restriction():
                raise ValueError("forecasts have no classes")
            case _:
                assert_never(term)

    def predictions(
        self, dataset: Dataset, client: int, starts: NDArray[np.int64], outputs: Floats
    ) -> Floats:
        """Loads in kWh per interval."""
        return dataset.in_kwh(client, starts, outputs)

    def as_bands(self, dataset: Dataset, predictions: Floats) -> Floats:
        """Forecasts (W,) or (W, H) as intervals of no width, (W, H, 3)."""
        return predictions.reshape(len(predictions), dataset.horizons, 1).repeat(3, axis=-1)

    def export(self, loads: Tensor, widths: Tensor | None) -> Tensor:
        """Loads (B,) or (B, H); with widths, loads between the ends of intervals (B, H, 3)."""
        if widths is None:
            return loads
        widths = self.first(widths)
        # Unlike len(), the shape makes an exported program accept any number of windows.
        forecast = loads.reshape(loads.shape[0], -1, 1)
        return torch.cat([forecast - widths, forecast, forecast + widths], -1)

    def scores(
        self, dataset: Dataset, client: int, split: Split, predictions: Floats
    ) -> dict[str, float]:
        """Scores of the forecast (W,) or (W, H) and, with widths (W, H, 3), of its interval: its
        `coverage` and its `width` in kWh, as `coverage_90`, and a `coverage` at each target."""
        if predictions.ndim < 3:
            return metrics.score_split(dataset, client, split, predictions)
        scores = metrics.score_split(dataset, client, split, self.point(dataset, predictions))
        starts = dataset.starts(client, split)
        truth = dataset.truth(starts).reshape(len(starts), dataset.horizons)
        scores |= self.interval_scores(truth, predictions)
        for h, column in enumerate(metrics.columns_of(dataset)):
            scores |= self.widest_coverage(truth[:, h], predictions[:, h], column)
        return scores

    def columns(self, name: str, predictions: Floats) -> dict[str, Floats]:
        """The forecast under the name itself and, with widths, the ends of its interval, such as
        `local_lower` and `local_upper`."""
        if predictions.ndim < 3:
            return {name: predictions}
        lower, point, upper = np.moveaxis(predictions, -1, 0)
        return {name: point, f"{name}_lower": lower, f"{name}_upper": upper}

    def ends(self, name: str) -> dict[str, tuple[str, str]]:
        return dict.fromkeys(self.shares, (f"{name}_lower", f"{name}_upper"))


def _correct_term(
    term: CorrectedDistillation, teacher: Tensor, targets: Tensor, clients: Tensor
) -> Tensor:
    bins = torch.bucketize(teacher, term.edges)
    ratios = term.ratios[clients].gather(1, bins.flatten(1)).view_as(bins)
    moved = term.weight * (1 - ratios) * (teacher - targets)
    is_same_bin = bins == torch.bucketize(targets, term.edges)
    return torch.where(is_same_bin, targets, targets + moved)
