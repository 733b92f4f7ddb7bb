"""SlowMo (Wang et al., ICLR 2020): slow momentum over rounds of local steps.

As published, with the clients' learning rate η_t:   m ← β m − D̄/η_t;  x ← x − α η_t m
Here m is multiplied by −η_t:                        m ← β m η_t/η_{t−1} + D̄;  x ← x + α m
"""

from pydantic import Field

from plfl.base import Tensor
from plfl.optimizers.server import ServerOpt


class SlowMo(ServerOpt):
    """FedAvg with slow momentum."""

    name = "slowmo"

    lr: float = Field(1.0, gt=0)
    """Slow learning rate α (Wang et al.: 1)."""
    beta: float = Field(0.9, ge=0, lt=1)
    """Slow momentum β (FedADC tries 0.6, 0.7, 0.8 and 0.9)."""

    def init(self, x: Tensor, client_count: int) -> dict[str, Tensor]:
        return super().init(x, client_count) | {"m": x.new_zeros(x.shape)}

    def follow_rate(self, state: dict[str, Tensor], ratio: float) -> None:
        state["m"].mul_(ratio)

    def step(self, state: dict[str, Tensor], mean: Tensor) -> None:
        m = state["m"].mul_(self.beta).add_(mean)
        state["x"].add_(m, alpha=self.lr)
