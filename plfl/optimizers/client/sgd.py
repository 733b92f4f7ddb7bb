"""Stochastic gradient descent: y ← y − η g."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from plfl.optimizers.client import ClientOpt

if TYPE_CHECKING:
    from torch import Tensor


class Sgd(ClientOpt):
    """Plain minibatch gradient descent."""

    name = "sgd"
    label = "SGD"

    lr: float = Field(1e-3, gt=0)
    """Client learning rate η (authors' code: 1e-3)."""

    def step(self, y: Tensor, g: Tensor, state: dict[str, Tensor], k: int | Tensor) -> None:
        y.add_(g, alpha=-self.lr)
