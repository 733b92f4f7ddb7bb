"""FedAdagrad (Reddi et al. 2021): adaptive server step with an ever-growing second moment.

m ← β₁ m + (1 − β₁) D̄;  v ← v + D̄²;  x ← x + η_g m / (√v + τ)
"""

from typing import Literal

from pydantic import Field

from plfl.base import Tensor
from plfl.optimizers.server import ServerOpt


class FedAdagrad(ServerOpt):
    """Server Adagrad.

    It is also the base class of FedAdam and FedYogi, which differ only in v.
    """

    name = "fedadagrad"

    lr: float = Field(0.01, gt=0)
    """Server learning rate η_g (APPFL and the authors' code: 0.01)."""
    beta1: float = Field(0.9, ge=0, lt=1)
    """Decay β₁ of the first moment (APPFL: 0.9; Reddi et al.: 0 for FedAdagrad)."""
    beta2: float = Field(0.99, ge=0, lt=1)
    """Decay β₂ of the second moment (Reddi et al., APPFL: 0.99). The second moment of FedAdagrad is
    a sum, so β₂ only matters there if the bias is corrected."""
    tau: float = Field(1e-3, gt=0)
    """Adaptivity τ in the denominator (Reddi et al., APPFL: 1e-3)."""
    v0: float | None = Field(None, ge=0)
    """Initial second moment; null: τ² (Reddi et al.)."""
    bias_correction: bool = False
    """Divide the moments by 1 − β₁ᵗ and 1 − β₂ᵗ, as Adam does (Reddi et al. do not)."""
    eps_mode: Literal["outside", "inside"] = "outside"
    """Position of τ: √v + τ (`outside`) or √(v + τ) (`inside`)."""

    def init(self, x: Tensor, client_count: int) -> dict[str, Tensor]:
        v0 = self.tau**2 if self.v0 is None else self.v0
        return super().init(x, client_count) | {
            "m": x.new_zeros(x.shape),
            "v": x.new_full(x.shape, v0),
            "t": x.new_zeros(()).double(),
        }

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """The next v, given v and D̄²."""
        return v + square

    def step(self, state: dict[str, Tensor], mean: Tensor) -> None:
        t = state["t"].add_(1)
        m = state["m"].mul_(self.beta1).add_(mean, alpha=1 - self.beta1)
        v = state["v"].copy_(self.second_moment(state["v"], mean * mean))
        if self.bias_correction:
            m, v = m / (1 - self.beta1**t), v / (1 - self.beta2**t)
        is_outside = self.eps_mode == "outside"
        denominator = v.sqrt() + self.tau if is_outside else (v + self.tau).sqrt()
        state["x"].addcdiv_(m, denominator, value=self.lr)
