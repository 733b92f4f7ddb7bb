"""Experimental: the equations have not been checked against the text of the paper. FAFED combines
adaptive steps with variance-reduced momentum. Each client corrects its momentum with gradients at
two points on the same minibatch, as in STORM. All clients scale their steps by the
same matrix, so that adaptivity does not pull them apart.

Source: Xidong Wu, Feihu Huang, Zhengmian Hu and Heng Huang, "Faster Adaptive Federated Learning",
AAAI 2023, https://arxiv.org/abs/2212.00974.

The server keeps m and v. The matrix A = diag(√v + ρ) only changes from round to round. ξ is a
minibatch.

before round 1: up: g_i(x; ξ), its square;  m = mean g_i;  v = (1 − β) mean g_i²
server: x̄ ← x;  x ← x̄ − η A⁻¹ m
down: x, m, v;  client: m_i = m, v_i = v, y⁻ = x + η A⁻¹ m (which is x̄), y = x, and K times
    m_i ← g(y; ξ) + (1 − a) (m_i − g(y⁻; ξ));  v_i ← β v_i + (1 − β) g(y; ξ)²
    y⁻ ← y;  y ← y − η A⁻¹ m_i, except the last time: that step is the server's
up: D = y − x, m_i, v_i
server: x̄ ← x + D̄;  m ← mean m_i;  v ← mean v_i;  x ← x̄ − η A⁻¹ m

η is the rate of `sgd`; with `federation.schedule`, in y⁻ that of the server's last step.

Deviations: when this file was written only the abstract of the paper was available. The defaults,
the initial m and v, and the plain steps −η g of personal parameters are ours. A published program
starts from v = mean g_i² and takes its first step without A⁻¹, x − η m; we do not know which of the
two is in the paper. Each step computes two gradients and counts as two.

Where gradients are small A is ρ, so that a step is as long as a plain SGD step with rate η/ρ. FAFED
diverges when that step is too long, and sooner the smaller a is. Whether the training loss stays
finite on sample data (New York, P1, 12 clients, ten rounds of 125 steps, one seed):

| η/ρ | plain SGD at that rate | a = 1 | a = 0.5 | a = 0.1 |
|---|---|---|---|---|
| 0.05 | finite | not run | not run | finite, in 40 rounds too; also with η = 0.0005 |
| 0.1 | not run | not run | not run | finite |
| 0.25 | not run | not run | not run | diverges in round 5 or before |
| 0.5 | finite | finite | finite | diverges (η of 0.005, 0.05 and 0.5) |
| 5 | diverges | diverges | diverges | diverges (η of 0.005, 0.05 and 0.5) |

Under P2 only plain SGD at rate 5 diverges. The default ρ is therefore 1, with which rates of 0.05
are safe; A is then nearly the same for all parameters. For more adaptivity lower ρ and, in
proportion, η.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.federated.instructions import Routine, RoutineResult, TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation, Session
from plfl.interfaces.method import MethodState, Sizes
from plfl.methods.fedopt import FedOpt
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server import ServerOpt, weighted_sum


@dataclass
class FaFedState(MethodState):
    m: Tensor
    """Mean (d_s,) of the participants' momenta."""
    v: Tensor
    """Mean (d_s,) of the participants' second moments."""
    m_i: Tensor
    """Momentum (N, d_s) of each client after its last round."""
    v_i: Tensor
    """Second moment (N, d_s) of each client after its last round."""
    last_eta: Tensor
    """The clients' rate η in the server's last step, in float64."""


class FaFed(FedOpt):
    """Experimental, since its equations are not checked against the paper: adaptive federated
    learning with momentum-based variance reduction."""

    name = "fafed"
    label = "FAFED (experimental)"
    sends = Sizes("3 d_s", "3 d_s", before_up="2 d_s")
    takes_own_steps = True
    needs_equal_steps = False
    own_server = "it has its own server step"
    simulation_only = "all clients send a gradient before round 1"

    a: float = Field(0.1, gt=0, le=1)
    """Weight a of the new gradient in the momentum (ours); 1: plain gradients."""
    beta: float = Field(0.9, ge=0, lt=1)
    """Decay β of the second moment (ours)."""
    rho: float = Field(1.0, gt=0)
    """ρ, the least value on the diagonal of A, in units of a gradient (ours). With a = 0.1,
    keep the client's lr at a tenth of ρ or less."""

    def reasons_against_optimizers(
        self, client_opt: ClientOpt, server_opt: ServerOpt
    ) -> Iterator[str]:
        if type(client_opt) is not Sgd:
            yield "its clients have their own local steps; use sgd, whose lr is η"
        if client_opt.weight_decay:
            yield "its momentum has no weight decay; set that of sgd to 0"
        yield from super().reasons_against_optimizers(client_opt, server_opt)

    def init(self, f: Federation) -> FaFedState:
        gradients = f.client_data.gradients(f.local, f.everyone, 0, 1)[:, f.columns]
        f.charge(f.everyone, 1.0)
        g, square = f.channel.send_extras("up", f.everyone, [gradients, gradients**2])
        weights = f.weights_of(f.everyone)
        v = weighted_sum(weights, (1 - self.beta) * square)
        state = FaFedState(
            m=weighted_sum(weights, g),
            v=v,
            m_i=gradients,
            v_i=gradients**2,
            last_eta=torch.tensor(f.client_opt.lr, dtype=torch.float64),
        )
        self._step(f, state, f.x0)
        return state

    def _step(self, f: Federation, state: FaFedState, x: Tensor) -> None:
        """Let the server step from x̄ (d_s,)."""
        f.server.x = x - f.client_opt.lr * state.m / self._root(state.v)
        state.last_eta.fill_(f.client_opt.lr)

    def _root(self, v: Tensor) -> Tensor:
        """Diagonal of A."""
        return v.sqrt() + self.rho

    def broadcast(
        self, f: Federation, state: FaFedState, t: int, clients: Tensor
    ) -> TrainInstructions:
        x, m, v = (row.expand(len(clients), -1) for row in (f.server.x, state.m, state.v))
        x, (m, v) = f.channel.send("down", clients, x, [m, v])
        eta, K = f.client_opt.lr, int(f.client_data.steps(clients).max())
        last_eta = float(state.last_eta)

        def run(session: Session) -> RoutineResult:
            y = session.start.clone()
            m_i, v_i = (f.full(rows[session.among]).clone() for rows in (m, v))
            size = torch.where(f.shared_mask, eta / self._root(v_i), eta)
            y_before = torch.where(f.shared_mask, y + last_eta / self._root(v_i) * m_i, y)
            for k in range(K):
                active_rows = session.stepping_clients(k)
                g, old = (
                    session.gradient(y, k, active_rows),
                    session.gradient(y_before, k, active_rows),
                )
                for i in session.slices(active_rows):
                    m_i[i].sub_(old[i]).mul_(1 - self.a).add_(g[i])
                    v_i[i].mul_(self.beta).addcmul_(g[i], g[i], value=1 - self.beta)
                    y_before[i] = y[i]
                    y[i].addcmul_(size[i], torch.where(f.shared_mask, m_i[i], g[i]), value=-1)
            # The server takes the last step of the shared parameters.
            rows = torch.where(f.shared_mask, y_before, y)
            return RoutineResult(rows, kept={"m_i": m_i[:, f.columns], "v_i": v_i[:, f.columns]})

        return TrainInstructions(x, routine=Routine(run, minibatches=K))

    def aggregate(
        self, f: Federation, state: FaFedState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        mine = [state.m_i[clients], state.v_i[clients]]
        D, (m, v) = f.channel.send("up", clients, result.update, mine)
        weights = f.weights_of(clients)
        state.m, state.v = weighted_sum(weights, m), weighted_sum(weights, v)
        self._step(f, state, f.server.x + weighted_sum(weights, D))
