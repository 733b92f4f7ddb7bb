"""FedADC (Ozfatura et al. 2021, arXiv 2012.09102): the server's momentum, spent in local steps.

The server keeps m, 0 at first, in units of a gradient.

down: x, m;  client: m̄ = β_l m / K, then K steps of its ClientOpt with its gradients g,
    `heavy_ball` (blue):  y ← y − η g(y), then y ← y − η m̄
    `nesterov` (red):     y ← y − η m̄, then y ← y − η g(y)
up: D = y − x
server: m ← −D̄/η + (β_g − β_l) m;  x ← x − α η m,  where α is the rate η_g of `fedavg`

With β_l = β_g, the published choice, x ← x + α D̄. One who was there when x last moved knows it
from before and after: m = (x_before − x_after) / (α η). With `downlink: tracking` only x is sent to
such a client, and m to those who missed it.

The displacement −η m̄ is outside of whatever a ClientOpt makes of its gradients (an adaptation
where that is not SGD). FedADC accelerates and regularises; its fixed points are FedAvg's.
"""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from plfl.methods import Done, Local
from plfl.methods.fedopt import FedOpt
from plfl.servers import weighted_sum

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.clients import ClientOpt
    from plfl.federation import Federation
    from plfl.servers import ServerOpt


class FedADC(FedOpt):
    """Accelerated distributed computing: momentum that all clients follow in every local step."""

    name = "fedadc"

    beta_l: float = Field(0.9, ge=0, lt=1)
    """Momentum β_l that the clients follow (the paper: 0.6 to 0.9)."""
    beta_g: float = Field(0.9, ge=0, lt=1)
    """Momentum β_g in all; what the clients do not follow of it is the server's (paper: β_l)."""
    variant: Literal["heavy_ball", "nesterov"] = "heavy_ball"
    """Gradients before (blue) or after (red) following the momentum."""
    downlink: Literal["momentum", "tracking"] = "momentum"
    """Whether m is always sent or rebuilt by clients who can."""

    def refuses(self, client_opt: "ClientOpt", server_opt: "ServerOpt") -> str | None:
        if server_opt.name != "fedavg":
            return "it has a server step of its own; take fedavg, whose lr is α"
        return None

    @property
    def simulation_only(self) -> str | None:
        if self.downlink == "momentum":
            return None
        return "with downlink 'tracking' the server must know which messages arrived"

    def begin(self, f: "Federation") -> None:
        zero = f.x0.new_zeros(f.x0.shape)
        f.memory |= {"m": zero, "server_steps": f.everyone.new_zeros(())}
        if self.downlink == "tracking":
            # Before the first step everybody knows x, and that nothing has moved.
            f.memory["known"] = f.x0.expand(len(f.everyone), -1).clone()
            f.memory["known_steps"] = f.everyone * 0 - 1

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        x, m = self._sent(f, clients)
        eta = f.client_opt.lr
        displacement = -eta * self.beta_l / f.fleet.settings.local_steps * m
        first = self.variant == "nesterov"
        return Local(x, displacement=displacement, displaced_first=first)

    def _sent(self, f: "Federation", clients: "Tensor") -> "tuple[Tensor, Tensor]":
        """The x and m (n, d_s) that `clients` have, once they were sent what they need."""
        sent = f.server_opt.send(f.server_state, clients)
        m = f.memory["m"].expand(len(clients), -1)
        if self.downlink == "momentum":
            x, (m,) = f.channel.send("down", clients, sent, [m])
            return x, m
        steps, before = f.memory["server_steps"], f.memory["known"][clients]
        can = f.memory["known_steps"][clients] == steps - 1
        rate = f.server_opt.lr * f.client_opt.lr
        x, m = sent.clone(), m.clone()
        for some, extras in ((can, []), (~can, [m[~can]])):
            if some.any():
                x[some], told = f.channel.send("down", clients[some], sent[some], extras)
                m[some] = told[0] if told else (before[some] - x[some]) / rate
        f.memory["known"][clients], f.memory["known_steps"][clients] = x, steps
        return x, m

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        D, _ = f.channel.send("up", clients, done.displacement)
        mean = weighted_sum(f.weights_of(clients), D)
        eta = f.client_opt.lr
        m = f.memory["m"].mul_(self.beta_g - self.beta_l).sub_(mean, alpha=1 / eta)
        f.server_opt.step(f.server_state, -eta * m)
        f.memory["server_steps"] += 1
