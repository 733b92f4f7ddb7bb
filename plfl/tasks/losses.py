"""Losses of outputs and targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Loss(Protocol):
    """A loss as the engines use it. Equal losses compare equal and have the same hash.

    Outputs are (..., B), or (..., B, O) if a window has several. A loss says which trailing
    dimensions its targets have.
    """

    @property
    def name(self) -> str:
        """A short name, such as `mae`."""

    def of(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Losses (..., B) of the windows, or (..., B, H) of their targets; a row's is the mean."""

    def slope(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The derivative of the sum of these losses by the outputs, in their shape."""

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean of these losses, in double precision."""


@dataclass(frozen=True)
class OfErrors:
    """A loss of each error ŷ − y, where outputs and targets have the same shape."""

    name: str
    curve: Callable[[Tensor], Tensor]
    """The loss of each error."""
    derivative: Callable[[Tensor], Tensor]

    def of(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.curve(outputs - targets)

    def slope(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.derivative(outputs - targets)

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.curve((outputs - targets).double()).mean()


POINT = {
    loss.name: loss
    for loss in (
        OfErrors("mse", torch.square, lambda errors: 2 * errors),
        OfErrors("mae", torch.abs, torch.sign),
        OfErrors(
            "huber",
            lambda errors: torch.where(errors.abs() < 1, 0.5 * errors.square(), errors.abs() - 0.5),
            lambda errors: errors.clamp(-1, 1),
        ),
    )
}
"""The losses of `federation.loss`, for forecasts of a load."""
