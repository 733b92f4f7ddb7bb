"""FedAvgM (Hsu et al. 2019): momentum over rounds.

`heavy_ball`: m ← β m + D̄;  x ← x + η_g m
`ema`:        m ← β m + (1 − β) D̄;  x ← x + η_g m  (heavy ball with η_g (1 − β))
`nesterov`:   m ← β m + D̄;  x ← x + η_g (D̄ + β m)
"""

from typing import Literal

from pydantic import Field

from plfl.base import Tensor
from plfl.optimizers.server import ServerOpt


class FedAvgM(ServerOpt):
    """FedAvg with server momentum."""

    name = "fedavgm"

    lr: float = Field(1.0, gt=0)
    """Server learning rate η_g (Hsu et al.: 1)."""
    beta: float = Field(0.9, ge=0, lt=1)
    """Momentum β (Hsu et al.: 0.9)."""
    variant: Literal["heavy_ball", "ema", "nesterov"] = "heavy_ball"
    """How the momentum is formed and applied (see the equations)."""

    def init(self, x: Tensor, client_count: int) -> dict[str, Tensor]:
        return super().init(x, client_count) | {"m": x.new_zeros(x.shape)}

    def step(self, state: dict[str, Tensor], mean: Tensor) -> None:
        gain = 1 - self.beta if self.variant == "ema" else 1
        m = state["m"].mul_(self.beta).add_(mean, alpha=gain)
        direction = mean + self.beta * m if self.variant == "nesterov" else m
        state["x"].add_(direction, alpha=self.lr)
