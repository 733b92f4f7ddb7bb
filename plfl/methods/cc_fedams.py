"""CC-FedAMS (arXiv 2501.09946): v ← γ v + (1 − γ) Δ², v̂ ← max(v̂, v), otherwise as CC-FedAdam."""

from typing import TYPE_CHECKING

from plfl.methods.cc_fedadam import CCFedAdam

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.federation import Federation


class CCFedAMS(CCFedAdam):
    """Client-centric server AMSGrad: the second moment never falls."""

    name = "cc_fedams"

    def begin(self, f: "Federation") -> None:
        super().begin(f)
        f.memory["v"] = f.x0.new_zeros(f.x0.shape)

    def second_moment(self, memory: "dict[str, Tensor]", square: "Tensor") -> "Tensor":
        v = memory["v"].mul_(self.gamma).add_(square, alpha=1 - self.gamma)
        return memory["v_hat"].maximum(v)
