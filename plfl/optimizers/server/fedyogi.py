"""FedYogi (Reddi et al. 2021): v ← v − (1 − β₂) D̄² sign(v − D̄²), otherwise as FedAdam."""

from plfl.base import Tensor
from plfl.optimizers.server.fedadam import FedAdam


class FedYogi(FedAdam):
    """Server Yogi: the change of the second moment depends on D̄², not on its own size."""

    name = "fedyogi"

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        return v - (1 - self.beta2) * square * (v - square).sign()
