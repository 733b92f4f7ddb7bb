"""In client-centric federated learning each client follows a clock of its own: it decides when to
join, takes as many local steps as it likes, and its update may arrive rounds later. The server
divides each update by its number of steps, so that fast clients have no more influence than slow
ones, and takes an adaptive step (Adagrad) along the mean of the updates that have arrived. This
file is the base of its family.

Source: Jianhui Sun, Xidong Wu, Heng Huang and Aidong Zhang, "Client-Centric Federated Adaptive
Optimization", 2025, https://arxiv.org/abs/2501.09946.

down: x and its round μ;  client: K_i SGD steps from x_μ;  up: D_i / K_i and K_i, at some t ≥ μ
server in round t, over the updates S_t that arrive; without any it waits:
    Δ = mean_{S_t} D_i / K_i;  m ← β m + (1 − β) Δ;  v̂ ← v̂ + Δ²;  x ← x + η_g m / (√v̂ + ε)

A client that has joined stays busy until its update has arrived. η_g is the rate of `fedavg`.

Deviations: the equations follow a secondary summary of the paper. The paper's Algorithm 2 divides
the sum over S_t by m, its nominal number of participants, however many updates arrive. Here the sum
is divided by the number of updates that arrive, so that the size of a step does not depend on it.
With everyone present and no delay, the defaults, the two are the same.

Clocks tick in rounds. In each round an idle client joins with some probability, draws its number of
steps, and draws its delay uniformly up to the longest one. The paper names no defaults; here
everyone joins, without delay, with the study's number of steps. In seconds
(`federation.simulation`) a round still lasts until all clients that train in it have finished.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from pydantic import Field, model_validator

from plfl.base import Tensor
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import MethodState, Sizes
from plfl.methods.fedopt import FedOpt
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server import ServerOpt


@dataclass
class CCFedAdagradState(MethodState):
    m: Tensor
    """First moment (d_s,)."""
    v_hat: Tensor
    """Second moment v̂ (d_s,) by which the server divides."""
    update: Tensor
    """Each client's last normalised update D_i / K_i (N, d_s)."""
    due: Tensor
    """Round (N,) at the end of which that update arrives; 0 if none is under way."""


class CCFedAdagrad(FedOpt):
    """Client-centric server Adagrad: updates arrive whenever clients finish."""

    name = "cc_fedadagrad"
    sends = Sizes("d_s + 1", "d_s + 1")
    own_server = "it has its own server step"
    server_lr = "η_g"

    beta: float = Field(0.9, ge=0, lt=1)
    """Decay β of the first moment (ours; the paper names none)."""
    eps: float = Field(1e-3, gt=0)
    """ε in the denominator (ours; the paper names none)."""
    join: float = Field(1.0, gt=0, le=1)
    """Probability that an idle client joins in a round."""
    max_delay: int = Field(0, ge=0)
    """Longest delay in rounds from joining to arrival; delays are uniformly distributed."""
    steps: tuple[int, int] | None = None
    """Least and most local steps, uniformly distributed; null: `federation.local_steps`."""

    @model_validator(mode="after")
    def _check_steps(self) -> Self:
        if self.steps and not 1 <= self.steps[0] <= self.steps[1]:
            raise ValueError(f"steps {self.steps} must be [least, most] with 1 ≤ least ≤ most")
        return self

    def reasons_against_optimizers(
        self, client_opt: ClientOpt, server_opt: ServerOpt
    ) -> Iterator[str]:
        if not isinstance(client_opt, Sgd):
            yield "its normalisation assumes plain gradient steps; use sgd or prox"
        yield from super().reasons_against_optimizers(client_opt, server_opt)

    def init(self, f: Federation) -> CCFedAdagradState:
        zero = f.x0.new_zeros(f.x0.shape)
        rows = zero.expand(len(f.everyone), -1).clone()
        return CCFedAdagradState(m=zero, v_hat=zero.clone(), update=rows, due=f.everyone * 0)

    def draws(self, f: Federation, t: int, clients: Tensor) -> Tensor:
        """For each of `clients` in round `t`: whether it joins (0 or 1), its delay and its steps,
        (n, 3).

        The number of steps is 0 where `federation.local_steps` applies.
        """
        fewest_steps, most_steps = self.steps or (0, 0)
        step_counts = [
            (
                random.random() < self.join,
                random.integers(self.max_delay, endpoint=True),
                random.integers(fewest_steps, most_steps, endpoint=True),
            )
            for random in f.client_data.streams("client-centric", clients.tolist(), t)
        ]
        return f.everyone.new_tensor(step_counts).reshape(len(clients), 3)

    def select(self, f: Federation, state: CCFedAdagradState, t: int, drawn: Tensor) -> Tensor:
        # If no client stayed to the end of the last round, `aggregate` was not called.
        self._take_in(f, state, t - 1)
        idle = drawn[state.due[drawn] == 0]
        joining = idle[self.draws(f, t, idle)[:, 0] == 1]
        if not len(joining):
            # Without participants `aggregate` is not called, but earlier updates still arrive.
            self._take_in(f, state, t)
        return joining

    def broadcast(
        self, f: Federation, state: CCFedAdagradState, t: int, clients: Tensor
    ) -> TrainInstructions:
        x = f.server.send(clients)
        x, _ = f.channel.send("down", clients, x, [float(t)])
        return TrainInstructions(x, steps=self.draws(f, t, clients)[:, 2] if self.steps else None)

    def aggregate(
        self, f: Federation, state: CCFedAdagradState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        normalised = result.update / result.steps[:, None]
        # The bytes of an update count in the round in which it is computed.
        extras = [result.steps.int()]
        state.update[clients], _ = f.channel.send("up", clients, normalised, extras)
        state.due[clients] = t + self.draws(f, t, clients)[:, 1]
        self._take_in(f, state, t)

    def _take_in(self, f: Federation, state: CCFedAdagradState, t: int) -> None:
        """Step along the updates that have arrived by the end of round `t`."""
        has_arrived = (state.due > 0) & (state.due <= t)
        if not has_arrived.any():
            return
        # Summed in double precision, so that the order of the clients does not matter.
        mean = state.update[has_arrived].double().mean(0).to(f.x0.dtype)
        m = state.m.mul_(self.beta).add_(mean, alpha=1 - self.beta)
        v_hat = state.v_hat.copy_(self.second_moment(state, mean * mean))
        f.server.step(m / (v_hat.sqrt() + self.eps))
        state.due[has_arrived] = 0

    def second_moment(self, state: CCFedAdagradState, square: Tensor) -> Tensor:
        """The next v̂ (d_s,), given Δ² (d_s,)."""
        return state.v_hat + square
