"""SGD with momentum as in PyTorch: b ← μ b + (1 − τ) g, with b = g in the first step; y ← y − η b.

Nesterov momentum: y ← y − η (g + μ b). With dampening τ = μ, b is a moving average of the
gradients."""

from typing import Self

from pydantic import Field, model_validator

from plfl.base import Tensor
from plfl.optimizers.client import ClientOpt


class SgdMomentum(ClientOpt):
    """Gradient descent with heavy-ball or Nesterov momentum."""

    name = "sgdm"
    label = "SGD momentum"

    lr: float = Field(1e-3, gt=0)
    """Client learning rate η (authors' code: 1e-3)."""
    momentum: float = Field(0.9, ge=0, lt=1)
    """Momentum μ (FedADC's baselines: 0.9)."""
    dampening: float = Field(0.0, ge=0, lt=1)
    """Dampening τ of the gradients after the first (FedADC with double momentum: μ)."""
    nesterov: bool = False
    """Use Nesterov momentum."""

    @model_validator(mode="after")
    def _check_momentum(self) -> Self:
        if self.dampening and (self.nesterov or not self.momentum):
            raise ValueError("dampening needs a momentum above 0 and nesterov: false")
        return self

    def init(self, y: Tensor) -> dict[str, Tensor]:
        return {"b": y.new_zeros(y.shape)}

    def step(self, y: Tensor, g: Tensor, state: dict[str, Tensor], k: int | Tensor) -> None:
        gradient = self._dampen(g, k) if self.dampening else g
        b = state["b"].mul_(self.momentum).add_(gradient)
        direction = g.add_(b, alpha=self.momentum) if self.nesterov else b
        y.add_(direction, alpha=-self.lr)

    def _dampen(self, g: Tensor, k: int | Tensor) -> Tensor:
        dampened = g * (1 - self.dampening)
        if isinstance(k, int):
            return g if k == 1 else dampened
        return dampened.where(k > 1, g)
