"""ServerOpt: how the server turns the clients' updates into its next parameters.

There is one sign convention: a client uploads its update D_i = y_i − x of the shared parameters,
and the server *adds* a step along the weighted mean D̄. Every state has the width d_s of the shared
parameters. If nothing is shared (P3), the server is never called.
"""

from functools import partial

from plfl.base.lazy import Tensor
from plfl.plugins import registry
from plfl.plugins.registry import Algorithm

SOME = 16
"""Number of rows that are summed at a time."""


class ServerOpt(Algorithm):
    """A server optimiser. Subclasses define its hyperparameters and its step."""

    lr: float

    def init(self, x: Tensor, clients: int) -> dict[str, Tensor]:
        """The state before round 1, for shared parameters `x` (d_s,) and a number of clients."""
        return {"x": x.clone()}

    def send(self, state: dict[str, Tensor], clients: Tensor) -> Tensor:
        """What is sent to `clients` (indices), one row per client: (n, d_s)."""
        return state["x"].expand(len(clients), -1)

    def receive(
        self,
        state: dict[str, Tensor],
        clients: Tensor,
        updates: Tensor,
        weights: Tensor,
        t: int,
    ) -> None:
        """Update `state` in place at the end of round `t` (from 1).

        `updates` are the D_i (n, d_s) of `clients`, `weights` (n,) sum to one.
        """
        self.step(state, weighted_sum(weights, updates))

    def step(self, state: dict[str, Tensor], mean: Tensor) -> None:
        """Update `state` in place along the mean update (d_s,)."""
        raise NotImplementedError


def weighted_sum(weights: Tensor, rows: Tensor) -> Tensor:
    """The sum (d,) of `rows` (n, d), each multiplied by its weight.

    The sum is in double precision, so that the order of the clients does not matter. It takes a few
    rows at a time, because a double-precision copy of all rows would not fit into any cache.
    """
    total = rows.new_zeros(rows.shape[1]).double()
    for some, of in zip(weights.double().split(SOME), rows.split(SOME), strict=True):
        total += some @ of.double()
    return total.to(rows.dtype)


available = partial(registry.available, __name__, ServerOpt)
