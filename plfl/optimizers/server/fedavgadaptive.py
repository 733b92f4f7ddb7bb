"""FedAvgAdaptive, as PL-FL calls its variant of FAFED (Wu et al., AAAI 2023).

The server keeps parameters x_c and a second moment v_c for every client c and sends it x_c.
v_c ← β₂ v_c + (1 − β₂) D_c²;  s_c = η_g D_c / (√v_c + ε)
`code`:  x_c ← x_c + s_c; in every q-th round x_c ← mean_j x_j + s_c, with the mean over all copies
         before the steps of this round
`paper`: x_c ← mean_j (x_j + s_j) in every round (Fig. 5, line 8)

The first step of a parameter is η_g / √(1 − β₂), later ones are about η_g, however large D_c is. On
sample data the best rates between 10⁻⁵ and 1 are 0.001 to 0.01 for most local models.

Clients that do not take part make no step and keep their copy, which still counts in the mean. All
copies count equally, as in the authors' code: `federation.weighting: samples` is refused.
"""

from typing import ClassVar, Literal

from pydantic import Field

from plfl.base import Tensor
from plfl.optimizers.server import ServerOpt


class FedAvgAdaptive(ServerOpt):
    """Adaptive steps per client with a periodic average."""

    name = "fedavgadaptive"
    ignores_weights: ClassVar[bool] = True

    lr: float = Field(0.01, gt=0)
    """Server learning rate η_g (authors' code: 0.01)."""
    beta2: float = Field(0.9, ge=0, lt=1)
    """Decay β₂ of the second moment (authors' code: 0.9)."""
    eps: float = Field(1e-8, gt=0)
    """ε in the denominator (authors' code: 1e-8)."""
    q: int = Field(5, ge=1)
    """Rounds between averages (authors' code: 5)."""
    v0: float = Field(0.0, ge=0)
    """Initial second moment (authors' code: 1)."""
    variant: Literal["code", "paper"] = "code"
    """The averaging of the authors' code or of the paper's Fig. 5."""

    def init(self, x: Tensor, client_count: int) -> dict[str, Tensor]:
        copies = x.expand(client_count, -1).clone()
        return {"x": copies, "v": copies.new_full(copies.shape, self.v0)}

    def send(self, state: dict[str, Tensor], clients: Tensor) -> Tensor:
        return state["x"][clients]

    def receive(
        self, state: dict[str, Tensor], clients: Tensor, updates: Tensor, weights: Tensor, t: int
    ) -> None:
        x, v = state["x"], state["v"]
        moment = self.beta2 * v[clients] + (1 - self.beta2) * updates**2
        v[clients] = moment
        steps = self.lr * updates / (moment.sqrt() + self.eps)
        if self.variant == "paper":
            x[clients] += steps
            x.copy_(_mean(x).expand_as(x))
        elif t % self.q:
            x[clients] += steps
        else:
            x.copy_(_mean(x).expand_as(x))
            x[clients] += steps


def _mean(rows: Tensor) -> Tensor:
    return rows.double().mean(0).to(rows.dtype)
