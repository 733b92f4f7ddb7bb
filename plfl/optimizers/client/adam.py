"""Adam (Kingma & Ba 2015), as PL-FL's Fig. 4 uses it.

m ← β₁ m + (1 − β₁) g;  v ← β₂ v + (1 − β₂) g²
m̂ = m / (1 − β₁ᵏ);  v̂ = v / (1 − β₂ᵏ);  y ← y − η m̂ / (√v̂ + ε)
"""

from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.optimizers.client import ClientOpt, bias_correction


class Adam(ClientOpt):
    """Adam with bias correction."""

    name = "adam"

    lr: float = Field(1e-3, gt=0)
    """Client learning rate η (authors' code: 1e-3)."""
    beta1: float = Field(0.5, ge=0, lt=1)
    """Decay β₁ of the first moment (authors' code: 0.5)."""
    beta2: float = Field(0.9, ge=0, lt=1)
    """Decay β₂ of the second moment (authors' code: 0.9)."""
    eps: float = Field(1e-8, gt=0)
    """ε in the denominator (authors' code: 1e-8)."""

    def init(self, y: Tensor) -> dict[str, Tensor]:
        return {"m": y.new_zeros(y.shape), "v": y.new_zeros(y.shape)}

    def step(self, y: Tensor, g: Tensor, state: dict[str, Tensor], k: int | Tensor) -> None:
        m = state["m"].mul_(self.beta1).add_(g, alpha=1 - self.beta1)
        v = state["v"].mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)
        # Reuses the memory of g: allocating memory costs more than the arithmetic.
        denominator = torch.div(v, bias_correction(self.beta2, k, y), out=g).sqrt_().add_(self.eps)
        denominator *= bias_correction(self.beta1, k, y)
        y.addcdiv_(m, denominator, value=-self.lr)
