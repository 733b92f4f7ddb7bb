"""Stochastic gradient descent: y ← y − η g."""

from pydantic import Field

from plfl.base import Tensor
from plfl.optimizers.client import ClientOpt


class Sgd(ClientOpt):
    """Plain minibatch gradient descent."""

    name = "sgd"
    label = "SGD"

    lr: float = Field(1e-3, gt=0)
    """Client learning rate η (authors' code: 1e-3)."""

    @property
    def adds_up(self) -> bool:
        return type(self) is Sgd and not self.weight_decay  # subclasses take other steps

    def step(self, y: Tensor, g: Tensor, state: dict[str, Tensor], k: int | Tensor) -> None:
        y.add_(g, alpha=-self.lr)
