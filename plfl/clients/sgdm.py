"""SGD with momentum, in PyTorch's form: b ← μ b + g; y ← y − η b.

Nesterov: y ← y − η (g + μ b).
"""

from typing import TYPE_CHECKING

from pydantic import Field

from plfl.clients import ClientOpt

if TYPE_CHECKING:
    from torch import Tensor


class SgdMomentum(ClientOpt):
    """Gradient descent with heavy-ball or Nesterov momentum (dampening 0)."""

    name = "sgdm"

    lr: float = Field(1e-3, gt=0)
    """Client learning rate η (authors' code: 1e-3)."""
    momentum: float = Field(0.9, ge=0, lt=1)
    """Momentum μ (FedADC's baselines: 0.9)."""
    nesterov: bool = False
    """Take the step with the gradient looked ahead."""

    def init(self, y: "Tensor") -> "dict[str, Tensor]":
        return {"b": y.new_zeros(y.shape)}

    def step(self, y: "Tensor", g: "Tensor", state: "dict[str, Tensor]", k: "int | Tensor") -> None:
        b = state["b"].mul_(self.momentum).add_(g)
        y.add_(g.add_(b, alpha=self.momentum) if self.nesterov else b, alpha=-self.lr)
