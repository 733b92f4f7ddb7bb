"""FedAvg (McMahan et al. 2017): x ← x + η_g D̄.

With η_g = 1, x becomes the weighted mean of the clients' parameters.
"""

from pydantic import Field

from plfl.base import Tensor
from plfl.optimizers.server import ServerOpt


class FedAvg(ServerOpt):
    """The average of the clients."""

    name = "fedavg"

    lr: float = Field(1.0, gt=0)
    """Server learning rate η_g; 1 is averaging (authors' code: 0.01)."""

    def step(self, state: dict[str, Tensor], mean: Tensor) -> None:
        state["x"].add_(mean, alpha=self.lr)
