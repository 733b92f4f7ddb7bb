"""The loss of forecasting, and what methods add to it.

A method names a term and its weight. Only this module says what the term means for a squared
error. A task with a softmax head has the same terms over logits, and classes where this one has
bins of the target.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Loss:
    """A loss as a function of the errors ŷ − y, element by element."""

    of: Callable[[Tensor], Tensor]
    """The loss of each error."""
    slope: Callable[[Tensor], Tensor]
    """Its derivative."""


LOSSES = {
    "mse": Loss(torch.square, lambda errors: 2 * errors),
    "mae": Loss(torch.abs, torch.sign),
    "huber": Loss(
        lambda errors: torch.where(errors.abs() < 1, 0.5 * errors.square(), errors.abs() - 0.5),
        lambda errors: errors.clamp(-1, 1),
    ),
}
"""The losses of `federation.loss`."""


@dataclass(frozen=True)
class Distillation:
    """FedGKD's term: λ · (ŷ − ŷ_T)² beside (ŷ − y)².

    But for a constant that is (1 + λ) · (ŷ − (y + λŷ_T) / (1 + λ))².
    """

    weight: float
    """λ."""

    @property
    def scale(self) -> float:
        """Factor of the loss on `targets`."""
        return 1 + self.weight

    def targets(self, taught: Tensor, targets: Tensor, clients: Tensor) -> Tensor:
        """Targets (n, K, B) to train on, given the teacher's forecasts and the clients' targets."""
        return (targets + self.weight * taught) / self.scale


@dataclass(frozen=True)
class CorrectedDistillation:
    """FedADC+'s term, adapted to forecasting: (1 − λ)(ŷ − y)² + λ(ŷ − y*)².

    y* = y + (1 − ρ_b(ŷ_T)) · (ŷ_T − y), or y where teacher and target fall into the same bin b:
    a client listens to the teacher the more, the rarer the bin is among its own targets. But for
    a constant the loss is (ŷ − (1 − λ)y − λy*)².
    """

    weight: float
    """λ."""
    edges: Tensor
    """Inner edges (bins − 1,) of the bins, ascending."""
    ratios: Tensor
    """ρ (N, bins): how often a client's targets fall into a bin, relative to its fullest one."""

    def targets(self, taught: Tensor, targets: Tensor, clients: Tensor) -> Tensor:
        """Targets (n, K, B) to train on, given the teacher's forecasts and the clients' targets."""
        bins = torch.bucketize(taught, self.edges)
        ratios = self.ratios[clients].gather(1, bins.flatten(1)).view_as(bins)
        moved = self.weight * (1 - ratios) * (taught - targets)
        same = bins == torch.bucketize(targets, self.edges)
        return torch.where(same, targets, targets + moved)


def quantile_edges(targets: Tensor, bins: int) -> Tensor:
    """Inner edges (bins − 1,) that cut `targets` (n,) into bins of the same size."""
    inner = np.arange(1, bins) / bins
    edges = np.quantile(targets.double().cpu().numpy(), inner)
    return torch.from_numpy(edges).to(targets)


def bin_ratios(targets: Tensor, edges: Tensor) -> Tensor:
    """ρ (bins,): how many of `targets` (n,) fall into each bin, relative to the fullest."""
    counts = torch.bincount(torch.bucketize(targets, edges), minlength=len(edges) + 1)
    return counts.to(targets.dtype) / counts.max()


def contrastive(h: Tensor, near: Tensor, far: Tensor, temperature: float) -> Tensor:
    """MOON's −log(p / (p + n)), p = e^(cos(h, near) / T) and n = e^(cos(h, far) / T).

    The features are the last axis; the loss has the others.
    """
    gap = torch.cosine_similarity(h, far, -1) - torch.cosine_similarity(h, near, -1)
    return torch.nn.functional.softplus(gap / temperature)
