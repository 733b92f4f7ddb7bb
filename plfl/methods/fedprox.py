"""FedProx (Li et al., MLSys 2020): local steps drawn towards the server's parameters.

down: x;  client: K steps of its ClientOpt along g + μ (y − x);  up: D = y − x;
server: x ← ServerOpt(x, D̄)

The term is the gradient of μ/2 ‖y_shared − x‖² and goes through the ClientOpt, so with `sgd` this
is the ClientOpt `prox` and with `adam` it is `proxadam`. With μ = 0 it is `fedopt`.
"""

from typing import TYPE_CHECKING

from pydantic import Field

from plfl.methods import Local
from plfl.methods.fedopt import FedOpt

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.clients import ClientOpt
    from plfl.federation import Federation
    from plfl.servers import ServerOpt


class FedProx(FedOpt):
    """The plain round with a proximal term, for any ClientOpt."""

    name = "fedprox"

    mu: float = Field(0.01, ge=0)
    """Strength μ of the proximal term, in loss per parameter² (FedADC's baselines: 0.1, 0.01 or
    0.001)."""

    def refuses(self, client_opt: "ClientOpt", server_opt: "ServerOpt") -> str | None:
        if client_opt.proximal:
            return "its proximal term would be there twice; take sgd for prox, adam for proxadam"
        return None

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        local = super().down(f, t, clients)
        local.pull = self.mu
        return local
