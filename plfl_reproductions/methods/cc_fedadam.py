"""CC-FedAdam is CC-FedAdagrad with Adam's second moment: old updates fade from it, so that the
server's steps do not shrink for ever.

Source: Jianhui Sun, Xidong Wu, Heng Huang and Aidong Zhang, "Client-Centric Federated Adaptive
Optimization", 2025, https://arxiv.org/abs/2501.09946.

v̂ ← γ v̂ + (1 − γ) Δ², otherwise as in `cc_fedadagrad`.
"""

from pydantic import Field

from plfl.base import Tensor
from plfl.interfaces.method import Sizes
from plfl_reproductions.methods.cc_fedadagrad import CCFedAdagrad, CCFedAdagradState


class CCFedAdam(CCFedAdagrad):
    """Client-centric server Adam."""

    name = "cc_fedadam"
    sends = Sizes("d_s + 1", "d_s + 1")

    gamma: float = Field(0.99, ge=0, lt=1)
    """Decay γ of the second moment (ours; the paper names none)."""

    def second_moment(self, state: CCFedAdagradState, square: Tensor) -> Tensor:
        return self.gamma * state.v_hat + (1 - self.gamma) * square
