"""ServerOpt: how the server turns the clients' updates into its next parameters.

There is one sign convention: a client uploads its update D_i = y_i − x of the shared parameters,
and the server *adds* a step along the weighted mean D̄. Every state has the width d_s of the shared
parameters. If nothing is shared (P3), the server is never called.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import ClassVar

from plfl.base import Tensor
from plfl.plugins import registry
from plfl.plugins.registry import Algorithm

SUMMED_ROWS = 16
"""Number of rows that are summed at a time."""


class ServerOpt(Algorithm):
    """A server optimiser. Subclasses define its hyperparameters and its step."""

    lr: float
    ignores_weights: ClassVar[bool] = False
    """Whether all clients count equally, so that it refuses `federation.weighting: samples`."""

    def init(self, x: Tensor, client_count: int) -> dict[str, Tensor]:
        """The state before round 1, for shared parameters `x` (d_s,) and a number of clients."""
        return {"x": x.clone()}

    def send(self, state: dict[str, Tensor], clients: Tensor) -> Tensor:
        """What is sent to `clients` (indices), one row per client: (n, d_s)."""
        return state["x"].expand(len(clients), -1)

    def receive(
        self, state: dict[str, Tensor], clients: Tensor, updates: Tensor, weights: Tensor, t: int
    ) -> None:
        """Update `state` in place at the end of round `t` (from 1). `updates` are the D_i (n, d_s)
        of `clients`, `weights` (n,) sum to one."""
        self.step(state, weighted_sum(weights, updates))

    def step(self, state: dict[str, Tensor], mean: Tensor) -> None:
        """Update `state` in place along the mean update (d_s,)."""
        raise NotImplementedError

    def follow_rate(self, state: dict[str, Tensor], ratio: float) -> None:
        """Update `state` in place before a round in which the clients' learning rate is `ratio`
        times that of the round before (`federation.schedule`)."""


class ServerState:
    """The shared parameters, at first `x0` (d_s,), and how they step."""

    def __init__(self, opt: ServerOpt, x0: Tensor, client_count: int):
        self.opt = opt
        self.state = opt.init(x0, client_count)
        """The state of the ServerOpt, see `plfl.optimizers.server`."""

    @property
    def x(self) -> Tensor:
        """The server's parameters, in most methods (d_s,)."""
        return self.state["x"]

    @x.setter
    def x(self, x: Tensor) -> None:
        self.state["x"] = x

    def send(self, clients: Tensor) -> Tensor:
        """Parameters (n, d_s) for `clients` (n,)."""
        return self.opt.send(self.state, clients)

    def receive(self, clients: Tensor, updates: Tensor, weights: Tensor, t: int) -> None:
        """Step along the `updates` (n, d_s) of `clients`, whose `weights` (n,) sum to one;
        ValueError if there is not one of each per client."""
        expected = (len(clients), self.x.shape[-1]), (len(clients),)
        if (updates.shape, weights.shape) != expected:
            raise ValueError(
                f"the server receives updates and weights of shapes {expected[0]} and "
                f"{expected[1]}, not {tuple(updates.shape)} and {tuple(weights.shape)}"
            )
        self.opt.receive(self.state, clients, updates, weights, t)

    @contextmanager
    def substitute(self, x: Tensor) -> Iterator[None]:
        """A context in which the parameters are `x`."""
        actual, self.x = self.x, x
        try:
            yield
        finally:
            self.x = actual

    def step(self, mean: Tensor) -> None:
        """Step along a mean update (d_s,)."""
        self.opt.step(self.state, mean)


def weighted_sum(weights: Tensor, rows: Tensor) -> Tensor:
    """The sum (d,) of `rows` (n, d), each multiplied by its weight: in double precision, so that
    the order of the clients does not matter, and over a few rows at a time, because a
    double-precision copy of all would not fit into any cache."""
    total = rows.new_zeros(rows.shape[1]).double()
    for block_weights, block in zip(
        weights.double().split(SUMMED_ROWS), rows.split(SUMMED_ROWS), strict=True
    ):
        total += block_weights @ block.double()
    return total.to(rows.dtype)


available = partial(registry.available, __name__, ServerOpt)
