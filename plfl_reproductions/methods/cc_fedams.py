"""CC-FedAMS is CC-FedAdam with AMSGrad's second moment: the server divides by its largest value so
far, so that its effective rate never grows.

Source: Jianhui Sun, Xidong Wu, Heng Huang and Aidong Zhang, "Client-Centric Federated Adaptive
Optimization", 2025, https://arxiv.org/abs/2501.09946.

v ← γ v + (1 − γ) Δ²;  v̂ ← max(v̂, v), otherwise as in `cc_fedadam`.
"""

from dataclasses import dataclass

from plfl.base import Tensor
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import Sizes
from plfl_reproductions.methods import cc_fedadagrad
from plfl_reproductions.methods.cc_fedadam import CCFedAdam


@dataclass
class CCFedAMSState(cc_fedadagrad.CCFedAdagradState):
    v: Tensor
    """Second moment (d_s,) whose largest value so far is v̂."""


class CCFedAMS(CCFedAdam):
    """Client-centric server AMSGrad: the second moment never falls."""

    name = "cc_fedams"
    sends = Sizes("d_s + 1", "d_s + 1")

    def init(self, f: Federation) -> CCFedAMSState:
        return CCFedAMSState(**vars(super().init(f)), v=f.x0.new_zeros(f.x0.shape))

    def second_moment(self, state: CCFedAMSState, square: Tensor) -> Tensor:  # type: ignore[override]
        v = state.v.mul_(self.gamma).add_(square, alpha=1 - self.gamma)
        return state.v_hat.maximum(v)
