"""AdamW: Adam with weight decay that does not pass through the moments.

Source: Ilya Loshchilov and Frank Hutter, "Decoupled Weight Decay Regularization", ICLR 2019,
https://arxiv.org/abs/1711.05101.

y ← (1 − η λ) y, then the step of Adam:
m ← β₁ m + (1 − β₁) g;  v ← β₂ v + (1 − β₂) g²
m̂ = m / (1 − β₁ᵏ);  v̂ = v / (1 − β₂ᵏ);  y ← y − η m̂ / (√v̂ + ε)
"""

from pydantic import Field

from plfl.base import Tensor
from plfl.optimizers.client.adam import Adam


class AdamW(Adam):
    """Adam with decoupled weight decay."""

    name = "adamw"

    beta1: float = Field(0.9, ge=0, lt=1)
    """Decay β₁ of the first moment (PyTorch: 0.9)."""
    beta2: float = Field(0.999, ge=0, lt=1)
    """Decay β₂ of the second moment (PyTorch: 0.999)."""
    weight_decay: float = Field(1e-2, ge=0)
    """λ of the weight decay (PyTorch: 1e-2). It shrinks the parameters directly."""

    @property
    def coupled_decay(self) -> float:
        return 0.0

    def step(self, y: Tensor, g: Tensor, state: dict[str, Tensor], k: int | Tensor) -> None:
        y.mul_(1 - self.lr * self.weight_decay)
        super().step(y, g, state, k)
