"""SCAFFOLD (Karimireddy et al., ICML 2020): control variates against the clients' drift.

The server keeps c, client i keeps c_i, both 0 at first: estimates of the mean gradient and of its
own. The difference turns its local steps from its own minimum towards the common one.

down: x, c;  client: K steps of its ClientOpt along g + c − c_i, then
    `i`:   c_i⁺ = gradient at x, over the minibatches of this round
    `ii`:  c_i⁺ = c_i − c + (x − y) / (K η)
up: D = y − x, Δc_i = c_i⁺ − c_i;  c_i ← c_i⁺
server: x ← x + η_g D̄;  c ← c + (1/N) Σ_S Δc_i

So c stays the mean of all c_i, whoever takes part. With `sgd` option ii is the mean of the
minibatch gradients g of the round; for any other ClientOpt that mean is what is taken (an
adaptation), since its steps are not η times a gradient. Where clients weigh by their windows, that
mean over all N weighs them too. Option i costs the clients a second gradient for every step.
"""

from typing import TYPE_CHECKING, Literal

from plfl.methods import Done, Local
from plfl.methods.fedopt import FedOpt
from plfl.servers import weighted_sum

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.clients import ClientOpt
    from plfl.federation import Federation
    from plfl.servers import ServerOpt


class Scaffold(FedOpt):
    """FedAvg with control variates; its fixed points are those of the common objective."""

    name = "scaffold"
    label = "SCAFFOLD"

    option: Literal["i", "ii"] = "ii"
    """How a client renews its control variate (the paper's experiments: ii)."""

    def refuses(self, client_opt: "ClientOpt", server_opt: "ServerOpt") -> str | None:
        if server_opt.name != "fedavg":
            return "it has a server step of its own; take fedavg, whose lr is η_g"
        return None

    def begin(self, f: "Federation") -> None:
        zero = f.x0.new_zeros(f.x0.shape)
        f.memory |= {"c": zero, "c_i": zero.expand(len(f.everyone), -1).clone()}

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        c = f.memory["c"].expand(len(clients), -1)
        x, (c,) = f.channel.send("down", clients, f.server_opt.send(f.server_state, clients), [c])
        constant = c - f.memory["c_i"][clients]
        if self.option == "i":
            return Local(x, constant=constant, gradients="start")
        return Local(
            x, constant=constant, gradients="none" if f.client_opt.name == "sgd" else "steps"
        )

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        change = self._renewed(f, t, clients, done) - f.memory["c_i"][clients]
        f.memory["c_i"][clients] += change
        D, (change,) = f.channel.send("up", clients, done.displacement, [change])
        f.server_opt.receive(f.server_state, clients, D, f.weights_of(clients), t)
        f.memory["c"] += weighted_sum(f.weights_of(f.everyone)[clients], change)

    def _renewed(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> "Tensor":
        """The clients' next control variates c_i⁺ (n, d_s)."""
        if self.option == "i":
            f.clock.work(clients.cpu().numpy(), done.steps.cpu().double().numpy())
        if done.gradients is not None:
            return done.gradients
        gradient = -done.displacement / done.steps[:, None] / f.client_opt.lr
        assert done.local.constant is not None
        return gradient - done.local.constant
