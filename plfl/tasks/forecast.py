"""Forecasts of a load: a number for each target of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

import numpy as np
from numpy.typing import NDArray

from plfl.tasks import (
    CorrectedDistillation,
    Distillation,
    Floats,
    NotTrueDistillation,
    Objective,
    Restriction,
    Task,
    Term,
)

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from plfl.data.dataset import Dataset, Split


class Forecast(Task):
    """What is predicted. `name` selects a task; by default a forecast of the load, trained with
    `federation.loss`.

    For a squared error a teacher reduces to other targets and a factor of the loss:

    - `Distillation`: (ŷ − y)² + λ(ŷ − ŷ_T)² is, but for a constant, (1 + λ) · (ŷ − y')² with
      y' = (y + λŷ_T) / (1 + λ).
    - `CorrectedDistillation`: (1 − λ)(ŷ − y)² + λ(ŷ − y*)² is, but for a constant, (ŷ − y')² with
      y' = (1 − λ)y + λy*. Here y* = y + (1 − ρ_b(ŷ_T)) · (ŷ_T − y), or y where teacher and target
      fall into the same bin b: a client listens to the teacher the more, the rarer the bin is among
      its own targets.
    """

    name = "forecast"
    selection = "mase"
    # The MASE is the same but for a factor, and undefined where the load never changes.
    own_selection = "mae"

    def outputs(self, horizons: int) -> int:
        return horizons

    def refuses_teacher(self, loss: str) -> str | None:
        if loss == "mse":
            return None
        return (
            f"needs a squared error, but federation.loss is {loss}; remove the method, or set "
            "federation.loss to mse"
        )

    def objective(self, loss: str, term: Term | None = None) -> Objective:
        from plfl.tasks.losses import POINT

        scale = 1 + term.weight if isinstance(term, Distillation) else 1.0
        return Objective(POINT[loss], scale)

    def taught(
        self, term: Term, outputs: Tensor | None, targets: Tensor, clients: Tensor
    ) -> Tensor:
        assert outputs is not None
        match term:
            case Distillation(weight, _):
                return (targets + weight * outputs) / (1 + weight)
            case CorrectedDistillation():
                return _corrected(term, outputs, targets, clients)
            case NotTrueDistillation() | Restriction():
                raise ValueError("forecasts have no classes")
            case _:
                assert_never(term)

    def agreed_bins(self, targets: Sequence[Tensor], bins: int) -> tuple[Tensor, Tensor]:
        """Quantiles of the targets of all clients, and ρ of each."""
        import torch

        edges = quantile_edges(torch.cat(list(targets)), bins)
        return edges, torch.stack([bin_ratios(own, edges) for own in targets])

    def histograms(self, targets: Sequence[Floats], bins: int) -> Floats:
        """Fractions of each client's targets in the quantile bins of all targets together."""
        edges = np.quantile(np.concatenate(targets), np.linspace(0, 1, bins + 1)[1:-1])
        found = [np.searchsorted(edges, some, side="right").ravel() for some in targets]
        return np.stack([np.bincount(which, minlength=bins) / len(which) for which in found])

    def predictions(
        self, dataset: Dataset, client: int, starts: NDArray[np.int64], outputs: Floats
    ) -> Floats:
        """Loads in kWh per interval."""
        return dataset.in_kwh(client, starts, outputs)

    def exported(self, loads: Tensor, margins: Tensor | None) -> Tensor:
        """Loads (B,) or (B, H)."""
        return loads

    def scores(
        self, dataset: Dataset, client: int, split: Split, predictions: Floats
    ) -> dict[str, float]:
        from plfl.tasks import metrics

        return metrics.of_split(dataset, client, split, predictions)

    def week(self, dataset: Dataset, client: int) -> NDArray[np.int64]:
        return dataset.first_week(client)

    def shown(
        self,
        dataset: Dataset,
        client: int,
        starts: NDArray[np.int64],
        predictions: Mapping[str, Floats],
    ) -> pd.DataFrame:
        """A row per target: `client`, `stamp`, `truth`, `persistence`, the forecasts by model."""
        import pandas as pd

        columns = {"truth": dataset.truth(starts), "persistence": dataset.persistence(starts)}
        for model, found in predictions.items():
            columns |= self.columns(model, found)
        keys = {
            "client": str(dataset.clients[client]),
            "stamp": dataset.stamps[dataset.target_rows(starts)].ravel(),
        }
        return pd.DataFrame(keys | {n: c.ravel().astype(np.float32) for n, c in columns.items()})

    def columns(self, name: str, predictions: Floats) -> dict[str, Floats]:
        """Predictions (W, ...) as columns (W,) or (W, H) of a table, which begin with a `name`."""
        return {name: predictions}


def _corrected(
    term: CorrectedDistillation, taught: Tensor, targets: Tensor, clients: Tensor
) -> Tensor:
    import torch

    bins = torch.bucketize(taught, term.edges)
    ratios = term.ratios[clients].gather(1, bins.flatten(1)).view_as(bins)
    moved = term.weight * (1 - ratios) * (taught - targets)
    same = bins == torch.bucketize(targets, term.edges)
    return torch.where(same, targets, targets + moved)


def quantile_edges(targets: Tensor, bins: int) -> Tensor:
    """Inner edges (bins − 1,) that cut `targets` into bins of the same size."""
    import torch

    inner = np.arange(1, bins) / bins
    edges = np.quantile(targets.double().cpu().numpy(), inner)
    return torch.from_numpy(edges).to(targets)


def bin_ratios(targets: Tensor, edges: Tensor) -> Tensor:
    """ρ (bins,): how many of `targets` fall into each bin, relative to the fullest."""
    import torch

    counts = torch.bincount(torch.bucketize(targets, edges).flatten(), minlength=len(edges) + 1)
    return counts.to(targets.dtype) / counts.max()
