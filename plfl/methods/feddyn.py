"""FedDyn (Acar et al., ICLR 2021): a regulariser for each client that makes their minima agree.

Client i keeps h_i, the server h, both 0 at first.

down: x;  client: K steps of its ClientOpt along g − h_i + α (y − x);  h_i ← h_i − α D;
up: D = y − x
server: h ← h − (α/N) Σ_S D_i;  x ← x + η_g (D̄ − h/α), as published with η_g = 1

So h stays the mean of all h_i, whoever takes part, and the only fixed points are those of the
common objective. Where clients weigh by their windows, that mean over all N weighs them too.
Meant for clients that come near the minimum of their regularised loss in a round: h/α holds all
displacements so far, so with small local steps x swings long, and what the h_i mend of the clients'
drift in a round is a share of about K η α.
"""

from typing import TYPE_CHECKING

from pydantic import Field

from plfl.methods import Done, Local
from plfl.methods.fedopt import FedOpt
from plfl.servers import weighted_sum

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.clients import ClientOpt
    from plfl.federation import Federation
    from plfl.servers import ServerOpt


class FedDyn(FedOpt):
    """FedAvg with dynamic regularisation."""

    name = "feddyn"

    alpha: float = Field(0.01, gt=0)
    """Strength α of the regulariser, in loss per parameter² (FedADC's baselines: 0.1, 0.01 or
    0.001)."""

    def refuses(self, client_opt: "ClientOpt", server_opt: "ServerOpt") -> str | None:
        if server_opt.name != "fedavg":
            return "it has a server step of its own; take fedavg, whose lr is η_g"
        return None

    def begin(self, f: "Federation") -> None:
        zero = f.x0.new_zeros(f.x0.shape)
        f.memory |= {"h": zero, "h_i": zero.expand(len(f.everyone), -1).clone()}

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        local = super().down(f, t, clients)
        local.pull, local.constant = self.alpha, f.memory["h_i"][clients].neg_()
        return local

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        f.memory["h_i"][clients] -= self.alpha * done.displacement
        D, _ = f.channel.send("up", clients, done.displacement)
        weights = f.weights_of(f.everyone)[clients]
        share = weighted_sum(weights, D)
        h = f.memory["h"].sub_(share, alpha=self.alpha)
        mean = (share.double() / weights.sum()).to(h)
        f.server_opt.step(f.server_state, mean - h / self.alpha)
