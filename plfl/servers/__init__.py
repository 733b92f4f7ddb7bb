"""ServerOpt: how the server turns the clients' displacements into its next parameters.

One sign convention everywhere: a client uploads D_i = y_i − x, what it added to the shared
vector, and the server *adds* along the weighted mean of them. Every state has the width of the
shared vector; with an empty mask (P3) the server has nothing to do and is never called.
"""

import sys
from functools import partial
from typing import TYPE_CHECKING

from plfl import registry

if TYPE_CHECKING:
    from torch import Tensor


SOME = 16
"""Rows that are summed at a time."""


class ServerOpt(registry.Method):
    """A server optimiser; subclasses hold its hyperparameters and its step."""

    lr: float

    def init(self, x: "Tensor", clients: int) -> "dict[str, Tensor]":
        """State before round 1, for shared parameters `x` (d_s,) and `clients` clients."""
        return {"x": x.clone()}

    def send(self, state: "dict[str, Tensor]", clients: "Tensor") -> "Tensor":
        """What each of `clients` (indices) is sent, one row a client: (n, d_s)."""
        return state["x"].expand(len(clients), -1)

    def receive(
        self,
        state: "dict[str, Tensor]",
        clients: "Tensor",
        displacements: "Tensor",
        weights: "Tensor",
        t: int,
    ) -> None:
        """Update `state` in place at the end of round `t` (from 1).

        `displacements` are the D_i (n, d_s) of `clients`, `weights` (n,) sum to one.
        """
        self.step(state, weighted_sum(weights, displacements))

    def step(self, state: "dict[str, Tensor]", mean: "Tensor") -> None:
        """Update `state` in place along the mean displacement (d_s,)."""
        raise NotImplementedError


def weighted_sum(weights: "Tensor", rows: "Tensor") -> "Tensor":
    """Sum (d,) of `rows` (n, d), each times its weight.

    Summed in double precision, so that the order of the clients does not show; some rows at a time,
    since a copy of all of them in double precision would not fit into any cache.
    """
    total = rows.new_zeros(rows.shape[1]).double()
    for some, of in zip(weights.double().split(SOME), rows.split(SOME), strict=True):
        total += some @ of.double()
    return total.to(rows.dtype)


available = partial(registry.methods, sys.modules[__name__])
