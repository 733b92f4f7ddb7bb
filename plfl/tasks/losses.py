"""Losses of outputs and targets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from plfl.base import Tensor
from plfl.base.lazy import torch


class Loss(Protocol):
    """A loss as the engines use it. Equal losses compare equal and have the same hash. Outputs are
    (..., B), or (..., B, O) if a window has several. A loss says which trailing dimensions its
    targets have."""

    @property
    def name(self) -> str:
        """A short name, such as `mae`."""

    def evaluate(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Losses (..., B) of the windows, or (..., B, H) of their targets; a row's loss is their
        mean."""

    def slope(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The derivative of the sum of these losses by the outputs, in the shape of the outputs."""

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean of these losses, in double precision."""


@dataclass(frozen=True)
class ErrorLoss:
    """A loss of each error ŷ − y, where outputs and targets have the same shape."""

    name: str
    curve: Callable[[Tensor], Tensor]
    """The loss of each error."""
    derivative: Callable[[Tensor], Tensor]

    def evaluate(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.curve(outputs - targets)

    def slope(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.derivative(outputs - targets)

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.curve((outputs - targets).double()).mean()


POINT = {
    loss.name: loss
    for loss in (
        ErrorLoss("mse", lambda errors: errors.square(), lambda errors: 2 * errors),
        ErrorLoss("mae", lambda errors: errors.abs(), lambda errors: errors.sign()),
        ErrorLoss(
            "huber",
            lambda errors: torch.where(errors.abs() < 1, 0.5 * errors.square(), errors.abs() - 0.5),
            lambda errors: errors.clamp(-1, 1),
        ),
    )
}
"""The losses of `federation.loss`, for forecasts of a load."""


@dataclass(frozen=True)
class Pinball:
    """The pinball loss of quantiles (Koenker and Bassett 1978), the mean over levels and targets.
    Outputs are the quantiles of each target, target by target, as many as `levels`."""

    levels: tuple[float, ...]
    """Levels τ, ascending."""
    name: str = "pinball"

    def evaluate(self, outputs: Tensor, targets: Tensor) -> Tensor:
        errors, levels = self._errors(outputs, targets)
        return torch.maximum(levels * errors, (levels - 1) * errors)

    def slope(self, outputs: Tensor, targets: Tensor) -> Tensor:
        errors, levels = self._errors(outputs, targets)
        return torch.where(errors > 0, -levels, 1 - levels).view_as(outputs)

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.evaluate(outputs.double(), targets.double()).mean()

    def _errors(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """y − q, of shape (..., Q) if there are several levels, and the levels."""
        # Made on the device of the outputs, because a CUDA graph cannot copy there.
        levels = torch.cat([outputs.new_full((1,), level) for level in self.levels])
        if len(self.levels) == 1:
            return targets - outputs, levels
        if outputs.dim() == targets.dim():  # several targets
            outputs = outputs.unflatten(-1, (-1, len(self.levels)))
        return targets[..., None] - outputs, levels
