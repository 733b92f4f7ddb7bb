"""FedSplit (Pathak & Wainwright, NeurIPS 2020): Peaceman–Rachford splitting for min Σ_i f_i.

Each client keeps a z_i, x_0 at first, and asks for prox_i(v) = argmin_u f_i(u) + ‖u − v‖² / (2s):

down: x;  client: v = 2x − z_i;  u ≈ prox_i(v) by its local steps from u = x;
    U_i = 2 (u − x);  z_i ← z_i + U_i;  up: U_i
server: x ← x + (1/N) Σ_S U_i, which keeps x at the mean of all z_i, whoever takes part

Unlike FedAvg and FedProx it stays only where Σ_i ∇f_i(x) = 0. Local steps that began at v would
lose that. The guarantees are for convex f_i; personal parameters take ordinary steps beside u,
which is an adaptation. All clients weigh the same, whatever `federation.weighting` says.
"""

from typing import TYPE_CHECKING

from pydantic import Field

from plfl.methods import Done, Local
from plfl.methods.fedopt import FedOpt

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.clients import ClientOpt
    from plfl.federation import Federation
    from plfl.servers import ServerOpt


class FedSplit(FedOpt):
    """Operator splitting: exact fixed points with any number of local steps."""

    name = "fedsplit"

    s: float = Field(1.0, gt=0)
    """Step size s of the proximal operator, in units of parameters² per loss (in theory 1/√(ℓL) of
    an ℓ-convex, L-smooth loss; of a network neither is known, so tune it)."""

    def refuses(self, client_opt: "ClientOpt", server_opt: "ServerOpt") -> str | None:
        if client_opt.proximal:
            return "its proximal term would be there twice; take sgd or adam"
        if server_opt.name != "fedavg" or server_opt.lr != 1:
            return "its server holds the mean of the z_i; take fedavg with lr 1"
        return None

    def begin(self, f: "Federation") -> None:
        f.memory["z"] = f.x0.expand(len(f.everyone), -1).clone()

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        x, _ = f.channel.send("down", clients, f.server_opt.send(f.server_state, clients))
        # (u − v) / s is a pull towards the start x and a constant.
        return Local(x, pull=1 / self.s, constant=(f.memory["z"][clients] - x) / self.s)

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        U = 2 * done.displacement
        f.memory["z"][clients] += U
        U, _ = f.channel.send("up", clients, U)
        # Summed in double precision, so that the order of the clients does not show.
        mean = (U.double().sum(0) / len(f.everyone)).to(U.dtype)
        f.server_opt.step(f.server_state, mean)
