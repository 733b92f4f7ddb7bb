"""FAFED (Wu et al., AAAI 2023, arXiv 2212.00974): variance-reduced momentum, a shared matrix.

Every client's momentum m_i corrects itself by gradients at two points on the same minibatch ξ, as
in STORM, and all precondition their steps alike, by A = diag(√v + ρ), so that adaptivity does not
pull the clients apart. The server keeps m and v; A changes from round to round alone.

before round 1: up: g_i(x; ξ), its square;  m = mean g_i;  v = (1 − β) mean g_i²
server: x̄ ← x;  x ← x̄ − η A⁻¹ m
down: x, m, v;  client: m_i = m, v_i = v, y⁻ = x + η A⁻¹ m (which is x̄), y = x, and K times
    m_i ← g(y; ξ) + (1 − a) (m_i − g(y⁻; ξ));  v_i ← β v_i + (1 − β) g(y; ξ)²
    y⁻ ← y;  y ← y − η A⁻¹ m_i, but for the last time, which is the server's step
up: D = y − x, m_i, v_i
server: x̄ ← x + D̄;  m ← mean m_i;  v ← mean v_i;  x ← x̄ − η A⁻¹ m

η is the rate of `sgd`. The equations are from memory: of the paper only the abstract could be read
when this was written. Ours are the defaults, where m and v begin, and that personal parameters take
plain steps −η g. Each step costs two gradients but counts as one: on the simulated clock it takes
twice as long, and half of the client-steps per second of other methods is the most it could reach.
"""

from typing import TYPE_CHECKING

from pydantic import Field

from plfl.clients.sgd import Sgd
from plfl.methods import Done, Local
from plfl.methods.fedopt import FedOpt
from plfl.servers import weighted_sum

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.clients import ClientOpt
    from plfl.federation import Federation
    from plfl.servers import ServerOpt


class FaFed(FedOpt):
    """Adaptive federated learning with momentum-based variance reduction."""

    name = "fafed"
    label = "FAFED"

    a: float = Field(0.1, gt=0, le=1)
    """Share a of the new gradient in the momentum (ours); 1: plain gradients."""
    beta: float = Field(0.9, ge=0, lt=1)
    """Decay β of the second moment (ours)."""
    rho: float = Field(0.01, gt=0)
    """ρ, the least number on the diagonal of A, in units of a gradient (ours)."""

    def refuses(self, client_opt: "ClientOpt", server_opt: "ServerOpt") -> str | None:
        if type(client_opt) is not Sgd:
            return "its clients have steps of their own; take sgd, whose lr is η"
        if server_opt.name != "fedavg" or server_opt.lr != 1:
            return "it has a server step of its own; take fedavg with lr 1"
        return None

    @property
    def simulation_only(self) -> str | None:
        return "all clients send a gradient before round 1"

    def begin(self, f: "Federation") -> None:
        gradients = f.fleet.gradients(f.local, f.everyone, 0, 1)[:, f.columns]
        f.clock.work(f.everyone.cpu().numpy(), f.everyone.cpu().double().numpy() * 0 + 1)
        g, square = f.channel.send_extras("up", f.everyone, [gradients, gradients**2])
        self._step(f, f.everyone, f.x0, g, (1 - self.beta) * square)

    def _step(
        self, f: "Federation", clients: "Tensor", x: "Tensor", m: "Tensor", v: "Tensor"
    ) -> None:
        """Keep the means of what `clients` sent, and step from x̄ (d_s,)."""
        weights = f.weights_of(clients)
        f.memory |= {"m": weighted_sum(weights, m), "v": weighted_sum(weights, v)}
        f.server_state["x"] = x - f.client_opt.lr * f.memory["m"] / self._root(f.memory["v"])

    def _root(self, v: "Tensor") -> "Tensor":
        """The diagonal of A."""
        return v.sqrt() + self.rho

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        from plfl.training import Recursion

        x, m, v = (
            row.expand(len(clients), -1)
            for row in (f.server_state["x"], f.memory["m"], f.memory["v"])
        )
        x, (m, v) = f.channel.send("down", clients, x, [m, v])
        scale = f.client_opt.lr / self._root(v)
        return Local(x, recursion=Recursion(m, v, scale, self.a, self.beta))

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        # Half of the gradients are taken at the point before.
        f.clock.work(clients.cpu().numpy(), done.steps.cpu().double().numpy())
        assert done.recursion is not None
        mine = [done.recursion.momentum, done.recursion.square]
        D, (m, v) = f.channel.send("up", clients, done.displacement, mine)
        x = f.server_state["x"] + weighted_sum(f.weights_of(clients), D)
        self._step(f, clients, x, m, v)
