"""CC-FedAdam (arXiv 2501.09946): v̂ ← γ v̂ + (1 − γ) Δ², otherwise as CC-FedAdagrad."""

from typing import TYPE_CHECKING

from pydantic import Field

from plfl.methods.cc_fedadagrad import CCFedAdagrad

if TYPE_CHECKING:
    from torch import Tensor


class CCFedAdam(CCFedAdagrad):
    """Client-centric server Adam."""

    name = "cc_fedadam"

    gamma: float = Field(0.99, ge=0, lt=1)
    """Decay γ of the second moment (the specification's; the paper names none)."""

    def second_moment(self, memory: "dict[str, Tensor]", square: "Tensor") -> "Tensor":
        return self.gamma * memory["v_hat"] + (1 - self.gamma) * square
