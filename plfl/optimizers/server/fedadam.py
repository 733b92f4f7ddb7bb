"""FedAdam (Reddi et al. 2021): v ← β₂ v + (1 − β₂) D̄², otherwise as FedAdagrad."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plfl.optimizers.server.fedadagrad import FedAdagrad

if TYPE_CHECKING:
    from torch import Tensor


class FedAdam(FedAdagrad):
    """Server Adam."""

    name = "fedadam"

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        return self.beta2 * v + (1 - self.beta2) * square
