"""Classification: which of some classes an image belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

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

ELSEWHERE = "plfl.experiments.image_evaluation scores classifiers"


class Classify(Task):
    """The label of an image, trained with the cross entropy.

    A term of a method becomes a distribution over the classes, or a scale of each logit, beside the
    label in a target; see `plfl.tasks.softmax`.
    """

    name = "classify"
    own_loss = "the cross entropy"
    selection = "error"
    own_selection = "error"

    target: float = Field(0.8, gt=0, lt=1)
    """Test accuracy of the global models. The rounds and bytes needed to reach it are reported
    (FedADC: 0.8)."""

    def outputs(self, horizons: int) -> int:
        raise NotImplementedError("the number of classes follows from the data")

    def refuses_teacher(self, loss: str) -> str | None:
        return None

    def objective(self, loss: str, term: Term | None = None) -> Objective:
        """The loss; `federation.loss`, which is about forecasts, has no effect."""
        from plfl.tasks import softmax

        match term:
            case None:
                return Objective(softmax.CrossEntropy())
            case Distillation(weight, T):
                return Objective(softmax.Taught(1.0, weight * T * T, T))
            case CorrectedDistillation(weight=weight, temperature=T):
                return Objective(softmax.Taught(1 - weight, weight * T * T, T))
            case NotTrueDistillation(label, weight, T):
                return Objective(softmax.NotTrue(label, weight * T * T, T))
            case Restriction():
                return Objective(softmax.Restricted())
            case _:
                assert_never(term)

    def taught(
        self, term: Term, outputs: Tensor | None, targets: Tensor, clients: Tensor
    ) -> Tensor:
        """Targets (n, K, B, 1 + C): the label and what the term needs."""
        import torch

        from plfl.tasks import softmax

        def of_clients(table: Tensor) -> Tensor:
            return table[clients][:, None, None].expand(*targets.shape, -1)

        if isinstance(term, Restriction):
            scale = torch.where(of_clients(term.present), 1.0, term.alpha)
            return softmax.packed(targets, scale.to(targets.dtype))
        assert outputs is not None
        match term:
            case Distillation(_, T):
                numbers = torch.softmax(outputs / T, -1)
            case CorrectedDistillation(ratios=ratios, temperature=T):
                numbers = softmax.corrected(outputs, targets, of_clients(ratios), T)
            case NotTrueDistillation(_, _, T):
                numbers = softmax.without_label(outputs, targets, T)
            case _:
                assert_never(term)
        return softmax.packed(targets, numbers)

    def agreed_bins(self, targets: Sequence[Tensor], bins: int) -> tuple[Tensor, Tensor]:
        """No edges, and ρ (N, classes) of each client; `bins` has no effect."""
        import torch

        classes = 1 + int(max(own.max() for own in targets))
        counts = torch.stack([torch.bincount(own.long(), minlength=classes) for own in targets])
        return targets[0].new_empty(0), (counts / counts.amax(1, keepdim=True)).to(targets[0])

    def histograms(self, targets: Sequence[Floats], bins: int) -> Floats:
        """Shares (N, classes) of the labels of each client; `bins` has no effect."""
        classes = 1 + int(max(own.max() for own in targets))
        counts = [np.bincount(own.astype(np.int64), minlength=classes) for own in targets]
        return np.stack([own / own.sum() for own in counts])

    def predictions(
        self, dataset: Dataset, client: int, starts: NDArray[np.int64], outputs: Floats
    ) -> Floats:
        raise NotImplementedError(ELSEWHERE)

    def scores(
        self, dataset: Dataset, client: int, split: Split, predictions: Floats
    ) -> dict[str, float]:
        raise NotImplementedError(ELSEWHERE)

    def week(self, dataset: Dataset, client: int) -> NDArray[np.int64]:
        raise NotImplementedError(ELSEWHERE)

    def shown(
        self,
        dataset: Dataset,
        client: int,
        starts: NDArray[np.int64],
        predictions: Mapping[str, Floats],
    ) -> pd.DataFrame:
        raise NotImplementedError(ELSEWHERE)
