"""FedAdam (Reddi et al. 2021): v ← β₂ v + (1 − β₂) D̄², otherwise as FedAdagrad."""

from plfl.base import Tensor
from plfl.optimizers.server.fedadagrad import FedAdagrad


class FedAdam(FedAdagrad):
    """Server Adam."""

    name = "fedadam"

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        return self.beta2 * v + (1 - self.beta2) * square
