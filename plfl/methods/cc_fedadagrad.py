"""CC-FedAdagrad, client-centric federated learning (arXiv 2501.09946); base of its family.

Clients have clocks of their own: each decides when to join, fetches x, takes as many local steps
K_i as it likes, and its update arrives when it arrives; until then it is busy. Before an update
counts it is divided by its steps, so that fast clients weigh no more than slow ones.

down: x and its round μ;  client: K_i SGD steps from x_μ;  up: D_i / K_i and K_i, at some t ≥ μ
server in round t, over the updates S_t that arrive; without any it waits:
    Δ = mean_{S_t} D_i / K_i;  m ← β m + (1 − β) Δ;  v̂ ← v̂ + Δ²;  x ← x + η_g m / (√v̂ + ε)

Clocks tick in rounds: in each, an idle client joins with a probability, draws its steps, and draws
its delay evenly up to the longest one. The paper names no defaults; those here are everyone, at
once, with the study's steps. η_g is the rate of `fedavg`, by which the server adds. In seconds
(`federation.simulation`) a round still lasts until all who train in it are done.
"""

from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from plfl.clients.sgd import Sgd
from plfl.methods import Done, Local
from plfl.methods.fedopt import FedOpt

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.clients import ClientOpt
    from plfl.federation import Federation
    from plfl.servers import ServerOpt


class CCFedAdagrad(FedOpt):
    """Adaptive server steps along updates that arrive when clients like."""

    name = "cc_fedadagrad"

    beta: float = Field(0.9, ge=0, lt=1)
    """Decay β of the first moment (the specification's; the paper names none)."""
    eps: float = Field(1e-3, gt=0)
    """ε in the denominator (the specification's; the paper names none)."""
    join: float = Field(1.0, gt=0, le=1)
    """Probability that an idle client joins in a round."""
    max_delay: int = Field(0, ge=0)
    """Longest delay in rounds from joining to arrival; all up to it are equally likely."""
    steps: tuple[int, int] | None = None
    """Least and most local steps, all between equally likely; none: `federation.local_steps`."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.steps and not 1 <= self.steps[0] <= self.steps[1]:
            raise ValueError(f"steps {self.steps} must be the least, from 1 on, and the most")
        return self

    def refuses(self, client_opt: "ClientOpt", server_opt: "ServerOpt") -> str | None:
        if not isinstance(client_opt, Sgd):
            return "dividing by the number of steps is for plain gradient steps; take sgd or prox"
        if server_opt.name != "fedavg":
            return "it has a server step of its own; take fedavg, whose lr is η_g"
        return None

    def begin(self, f: "Federation") -> None:
        zero = f.x0.new_zeros(f.x0.shape)
        rows = zero.expand(len(f.everyone), -1).clone()
        # An update is due at the end of its round; 0 says that the client has none under way.
        f.memory |= {"m": zero, "v_hat": zero.clone(), "update": rows, "due": f.everyone * 0}

    def draws(self, f: "Federation", t: int, clients: "Tensor") -> "Tensor":
        """Whether each of `clients` joins in round `t`, its delay and its steps: (n, 3).

        Steps are 0 where the study's count.
        """
        least, most = self.steps or (0, 0)
        drawn = [
            (
                random.random() < self.join,
                random.integers(self.max_delay, endpoint=True),
                random.integers(least, most, endpoint=True),
            )
            for random in f.fleet.streams("client-centric", clients.tolist(), t)
        ]
        return f.everyone.new_tensor(drawn).reshape(len(clients), 3)

    def present(self, f: "Federation", t: int, drawn: "Tensor") -> "Tensor":
        # Nobody may have stayed to the end of the last round, which then had no `up`.
        self._take_in(f, t - 1)
        idle = drawn[f.memory["due"][drawn] == 0]
        joining = idle[self.draws(f, t, idle)[:, 0] == 1]
        if not len(joining):
            # Without a participant there is no `up`, but updates arrive all the same.
            self._take_in(f, t)
        return joining

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        x = f.server_opt.send(f.server_state, clients)
        x, _ = f.channel.send("down", clients, x, [float(t)])
        return Local(x, steps=self.draws(f, t, clients)[:, 2] if self.steps else None)

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        normalised = done.displacement / done.steps[:, None]
        # The bytes of an update count now, whenever it arrives.
        f.memory["update"][clients], _ = f.channel.send(
            "up", clients, normalised, [done.steps.int()]
        )
        f.memory["due"][clients] = t + self.draws(f, t, clients)[:, 1]
        self._take_in(f, t)

    def _take_in(self, f: "Federation", t: int) -> None:
        """Step along the updates that have arrived by the end of round `t`."""
        due = f.memory["due"]
        arrived = (due > 0) & (due <= t)
        if not arrived.any():
            return
        # Summed in double precision, so that the order of the clients does not show.
        mean = f.memory["update"][arrived].double().mean(0).to(f.x0.dtype)
        m = f.memory["m"].mul_(self.beta).add_(mean, alpha=1 - self.beta)
        v_hat = f.memory["v_hat"].copy_(self.second_moment(f.memory, mean * mean))
        f.server_opt.step(f.server_state, m / (v_hat.sqrt() + self.eps))
        due[arrived] = 0

    def second_moment(self, memory: "dict[str, Tensor]", square: "Tensor") -> "Tensor":
        """The next v̂, from what the server keeps and Δ²."""
        return memory["v_hat"] + square
