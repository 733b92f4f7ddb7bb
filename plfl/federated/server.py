"""The server of a federation: the shared parameters, the ServerOpt, and an average over rounds."""

import torch
from torch import Tensor

from plfl.optimizers.server import ServerOpt
from plfl.training.task import decay_at


class Server:
    """The shared parameters, at first `x0` (d_s,), and how they step. `ema`: see
    `federation.server_ema`."""

    def __init__(self, opt: ServerOpt, x0: Tensor, clients: int, ema: float | None):
        self.opt, self.ema = opt, ema
        self.state = opt.init(x0, clients)
        """The state of the ServerOpt, see `plfl.optimizers.server`."""
        self.average: Tensor | None = None
        """Average of x over the rounds, (1, d_s), or (N, d_s) if the method keeps one x per client;
        None before round 1."""

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
        """Step along the `updates` (n, d_s) of `clients`, whose `weights` (n,) sum to one.

        Raises:
            ValueError: it is not one update and one weight per client.
        """
        expected = (len(clients), self.x.shape[-1]), (len(clients),)
        if (updates.shape, weights.shape) != expected:
            raise ValueError(
                f"the server receives updates and weights of shapes {expected[0]} and "
                f"{expected[1]}, not {tuple(updates.shape)} and {tuple(weights.shape)}"
            )
        self.opt.receive(self.state, clients, updates, weights, t)

    def step(self, mean: Tensor) -> None:
        """Step along a mean update (d_s,)."""
        self.opt.step(self.state, mean)

    def average_in(self, t: int, x: Tensor, x0: Tensor) -> None:
        """Take x (N, d_s) after round `t` into the average, which starts from `x0` (d_s,)."""
        assert self.ema is not None
        now = x[:1] if x.stride(0) == 0 else x  # the same for all clients
        before = x0[None] if self.average is None else self.average
        decay = decay_at(torch.tensor(t, dtype=torch.float64), self.ema).item()
        self.average = decay * before + (1 - decay) * now
