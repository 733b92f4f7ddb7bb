"""SCAFFOLD corrects the drift of clients with control variates. The server and each client keep an
estimate of their mean gradient; adding the difference of the two to every local step turns the
client from its own minimum towards the common one.

Source: Sai Praneeth Karimireddy, Satyen Kale, Mehryar Mohri, Sashank J. Reddi, Sebastian U. Stich
and Ananda Theertha Suresh, "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
ICML 2020, https://arxiv.org/abs/1910.06378.

The server keeps c, client i keeps c_i, all 0 at first.

down: x, c;  client: K steps of its ClientOpt along g + c − c_i, then
    `i`:   c_i⁺ = gradient at x, over the minibatches of this round
    `ii`:  c_i⁺ = c_i − c + (x − y) / (K η)
up: D = y − x, Δc_i = c_i⁺ − c_i;  c_i ← c_i⁺
server: x ← x + η_g D̄;  c ← c + (1/N) Σ_S Δc_i

c remains the mean of all c_i, whichever clients take part. Option `i` costs the clients a second
gradient in every step.

Deviations: with `sgd`, option `ii` is the mean of the minibatch gradients g of the round. With
weight decay, and for any other ClientOpt, whose steps are not η times a gradient, that mean is
used. Where clients are weighted by their training windows, so is the mean over all N. A deployed
server counts a client that has never joined as one of average size.
"""

from dataclasses import dataclass, field
from typing import Literal

from plfl.base import Tensor
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import MethodState, Sizes
from plfl.methods.fedopt import FedOpt
from plfl.optimizers.server import weighted_sum


@dataclass
class MeanState(MethodState):
    """State of a method whose server keeps a mean over all N clients."""

    total: Tensor | None = field(default=None, kw_only=True)
    """Sum () of all clients' weights when the mean was last updated; None before that."""


def reweigh_mean(f: Federation, state: MeanState, clients: Tensor, mean: Tensor) -> Tensor:
    """Weights (n,) of `clients` in `mean` (d_s,), the server's mean over all N clients. The weights
    of all N sum to one. Where clients are weighted by their windows, a client that joins late
    changes the sum of their windows; `mean` is then rescaled in place, so that it remains the mean
    under the new weights. A client that has never taken part contributes 0."""
    weights = f.weights_of_all()
    total = weights.sum()
    if state.total is not None:
        mean *= state.total / total
    state.total = total
    return weights[clients] / total


@dataclass
class ScaffoldState(MeanState):
    c: Tensor
    """The server's control variate (d_s,), the mean of all c_i."""
    c_i: Tensor
    """Control variate (N, d_s) of each client."""


class Scaffold(FedOpt):
    """FedAvg with control variates, whose fixed points are those of the common objective."""

    name = "scaffold"
    label = "SCAFFOLD"
    sends = Sizes("2 d_s", "2 d_s")
    own_server = "it has its own server step"
    server_lr = "η_g"

    option: Literal["i", "ii"] = "ii"
    """Whether a client renews its control variate by the gradient at the server's model (`i`) or by
    its own local steps (`ii`, the paper's experiments)."""

    def init(self, f: Federation) -> ScaffoldState:
        zero = f.x0.new_zeros(f.x0.shape)
        return ScaffoldState(c=zero, c_i=zero.expand(len(f.everyone), -1).clone())

    def broadcast(
        self, f: Federation, state: ScaffoldState, t: int, clients: Tensor
    ) -> TrainInstructions:
        c = state.c.expand(len(clients), -1)
        x, (c,) = f.channel.send("down", clients, f.server.send(clients), [c])
        constant = c - state.c_i[clients]
        if self.option == "i":
            return TrainInstructions(x, constant=constant, gradients="start")
        is_known = f.client_opt.adds_up  # the update says what the mean of the gradients is
        return TrainInstructions(x, constant=constant, gradients="none" if is_known else "steps")

    def aggregate(
        self, f: Federation, state: ScaffoldState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        change = self._renew_variates(f, result) - state.c_i[clients]
        state.c_i[clients] += change
        D, (change,) = f.channel.send("up", clients, result.update, [change])
        f.server.receive(clients, D, f.weights_of(clients), t)
        weights = reweigh_mean(f, state, clients, state.c)
        state.c += weighted_sum(weights, change)

    def _renew_variates(self, f: Federation, result: TrainResult) -> Tensor:
        """The clients' next control variates c_i⁺ (n, d_s)."""
        if result.gradients is not None:
            return result.gradients
        gradient = -result.update / result.steps[:, None] / f.client_opt.lr
        assert result.instructions.constant is not None
        return gradient - result.instructions.constant
