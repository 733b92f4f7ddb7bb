"""AdamAMS: Adam whose second moment never shrinks (PL-FL Fig. 4; Reddi et al. 2018).

`paper`: v̄ ← max(v̄, v̂), the maximum of the bias-corrected moment;  y ← y − η m̂ / (√v̄ + ε)
`torch`: v̄ ← max(v̄, v), corrected afterwards: √(v̄ / (1 − β₂ᵏ)) + ε, as torch.optim does
`reddi`: v̄ ← max(v̄, v) without any bias correction, as AMSGrad was published
"""

from typing import Literal

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.optimizers.client import bias_correction
from plfl.optimizers.client.adam import Adam


class AdamAMS(Adam):
    """Adam with the running maximum of the second moment in its denominator."""

    name = "adamams"

    variant: Literal["paper", "torch", "reddi"] = "paper"
    """Which moment the maximum is taken of, and where its bias is corrected."""

    def init(self, y: Tensor) -> dict[str, Tensor]:
        return super().init(y) | {"vmax": y.new_zeros(y.shape)}

    def step(self, y: Tensor, g: Tensor, state: dict[str, Tensor], k: int | Tensor) -> None:
        m = state["m"].mul_(self.beta1).add_(g, alpha=1 - self.beta1)
        v = state["v"].mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)
        bias1, bias2 = bias_correction(self.beta1, k, y), bias_correction(self.beta2, k, y)
        vmax = state["vmax"]
        second_moment = torch.div(v, bias2, out=g) if self.variant == "paper" else v
        torch.maximum(vmax, second_moment, out=vmax)
        root = torch.div(vmax, bias2, out=g) if self.variant == "torch" else g.copy_(vmax)
        denominator = root.sqrt_().add_(self.eps)
        if self.variant != "reddi":
            denominator *= bias1
        y.addcdiv_(m, denominator, value=-self.lr)
