"""Clipped updates and noise on their sum (`federation.privacy`).

Sources: H. Brendan McMahan, Daniel Ramage, Kunal Talwar and Li Zhang, "Learning Differentially
Private Recurrent Language Models", ICLR 2018, https://arxiv.org/abs/1710.06963; the adapting bound:
Galen Andrew, Om Thakkar, H. Brendan McMahan and Swaroop Ramaswamy, "Differentially Private Learning
with Adaptive Clipping", NeurIPS 2021, https://arxiv.org/abs/1905.03871.

client:  D_i ← D_i · min(1, C / ‖D_i‖);  up: D_i, and with an adapting bound b_i = [‖D_i‖ ≤ C]
server:  D̄ = (Σ D_i + N(0, (z C)² I)) / m;  x ← ServerOpt(x, D̄)
         C ← C · exp(−η (½ + (Σ (b_i − ½) + N(0, σ_b²)) / m − γ))

m is the expected number of participants, not the actual one. Therefore one client more or less
moves the sum of D_i by at most C, and that of b_i − ½ by ½. Noise on the second sum is paid for by
more noise on the first, z_Δ > z.

Both noisy sums are computed in float64 and rounded to a grid, so that the last bits of a released
number do not tell which numbers were added (Ilya Mironov, "On Significance of the Least Significant
Bits for Differential Privacy", CCS 2012).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.base.lazy import special
from plfl.config.federation import FederationSettings
from plfl.federated.channel import Channel
from plfl.federated.secure.updates import UpdateNoise
from plfl.optimizers.server import ServerState, weighted_sum
from plfl.training.batches import stream

RoundNormals = Callable[[int, int], NDArray[np.float64]]
"""Returns, for a round t and a count, that many standard normal numbers."""


def seeded_normals(seed: int) -> RoundNormals:
    """Noise that a simulation, or anyone who knows the seed, can repeat."""
    return lambda t, count: stream(seed, "/noise", t).standard_normal(count)


ClientNormals = Callable[[str, int, int], NDArray[np.float64]]
"""Returns, for a client's name, a round t and a count, that many standard normal numbers."""


def seeded_of_clients(seed: int) -> ClientNormals:
    """As `seeded_normals`, of a client's own."""
    return lambda name, t, count: stream(seed, f"/noise/{name}", t).standard_normal(count)


def draw_system_noise(_round: int, count: int) -> NDArray[np.float64]:
    """Noise that nobody can repeat, from the operating system's entropy."""
    numbers = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(12)
    return np.asarray(special.ndtri((numbers + 0.5) / 2**52), dtype=np.float64)


def draw_own_system_noise(_name: str, t: int, count: int) -> NDArray[np.float64]:
    """As `draw_system_noise`, of a client's own."""
    return draw_system_noise(t, count)


def on_grid(values: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """Values with noise of this standard `deviation`, rounded to multiples of 2⁻¹⁶ of its power of
    two. float32 has each multiple exactly up to 2⁷ deviations, and no noise has gaps this wide."""
    grid = 2.0 ** (math.floor(math.log2(deviation)) - 16)
    return np.round(values / grid) * grid


RATE = 0.2
"""η, at which the bound follows the quantile (Andrew et al.: 0.2)."""


class Privacy:
    """Makes the server's steps private in one federation of N clients, whose study sets
    `privacy.clip`. `seed`: that of the simulated noise; `x0`: shared parameters (d_s,), whose type
    the bounds have; `size`: N, if only some `clients` are here."""

    def __init__(
        self,
        settings: FederationSettings,
        client_count: int,
        seed: int,
        x0: Tensor,
        size: int | None = None,
    ):
        self.settings, self.clients = settings, size or client_count
        self.block = block = settings.privacy
        self.participants = settings.expected_participants(self.clients)
        """Expected number m of participants."""
        self.clip = torch.as_tensor(block.clip, dtype=x0.dtype, device=x0.device)
        """The server's bound C."""
        self.received_bounds = self.clip.expand(client_count).clone()
        """The bound that each client that is here has received."""
        self.normals: RoundNormals = seeded_normals(seed)
        self.client_normals: ClientNormals = seeded_of_clients(seed)
        """The noise of single clients, with `channel.secure`."""
        self.scale = self.participants / settings.expected_participants(
            block.noise_as_of or self.clients
        )
        """Factor of all noise; below 1 if that is for more clients (`privacy.noise_as_of`)."""

    @property
    def noise(self) -> float:
        """Noise on the server's sum of the updates, as a multiple of C."""
        return self.settings.update_noise(self.clients)

    # -- the client's side

    def announced_bounds(self, clients: Tensor) -> list[Tensor]:
        """What the server sends to `clients` (n,) with its parameters: its bound, if it adapts."""
        return [] if self.block.quantile is None else [self.clip.expand(len(clients))]

    def receive_bounds(self, clients: Tensor, bounds: Sequence[Tensor]) -> None:
        """Let `clients` (n,) keep the bound that they have received, if any."""
        for bound in bounds:
            self.received_bounds[clients] = bound

    def aggregate(
        self, channel: Channel, server: ServerState, t: int, clients: Tensor, updates: Tensor
    ) -> None:
        """Let `clients` (n,) clip and send their `updates` (n, d_s), and the server step."""
        bounds = self.received_bounds[clients]
        extras: list[Tensor] = []
        if self.block.quantile is not None:
            extras = [(_norms(updates) <= bounds).to(updates.dtype)]
        received_updates, counts = channel.send(
            "up", clients, clip_updates(updates, bounds), extras
        )
        self._step(server, t, received_updates, *counts)

    def clip_own(self, clients: Tensor, updates: Tensor) -> Tensor:
        """The `updates` (n, d_s) of `clients` (n,), clipped by themselves."""
        return clip_updates(updates, self.received_bounds[clients])

    def noise_of_sum(self, t: int, names: Sequence[str]) -> UpdateNoise:
        """The noise that clients of these names add to their updates of round `t`, together."""

        def normals(client: int, count: int) -> NDArray[np.float64]:
            return self.client_normals(names[client], t, count)

        return UpdateNoise(float(self.clip), self.noise * float(self.clip) * self.scale, normals)

    # -- the server's side

    def step_alone(self, server: ServerState, t: int) -> None:
        """Step in a round in which no update has arrived: along the noise alone."""
        self._step(server, t, server.x.new_zeros(0, len(server.x)), server.x.new_zeros(0))

    def _step(
        self, server: ServerState, t: int, updates: Tensor, within_bound: Tensor | None = None
    ) -> None:
        """Step along the mean of the `updates` (n, d_s) that arrived. They are clipped again, since
        a faulty client, or the decoding of its message, may exceed C."""
        mean = self.mean(t, clip_updates(updates, self.clip.expand(len(updates)))).cpu().numpy()
        noise = self.normals(t, updates.shape[1] + 1) if self.noise else None
        if noise is not None:
            deviation = self.noise * float(self.clip) * self.scale / self.participants
            mean = on_grid(mean + deviation * noise[1:], deviation)
        server.step(torch.from_numpy(mean).to(updates))
        if self.block.quantile is not None and within_bound is not None:
            count = self.excess_within(within_bound)
            if noise is not None:
                deviation = self.settings.noise_of_count(self.clients) * self.scale
                (count,) = on_grid(np.array([count + deviation * noise[0]]), deviation)
            excess = 0.5 + count / self.participants - self.block.quantile
            self.clip = self.clip * math.exp(-RATE * excess)

    def mean(self, t: int, updates: Tensor) -> Tensor:
        """The sum (d_s,) of the clipped `updates` (n, d_s) of round `t` over m, in float64."""
        shares = torch.full((len(updates),), 1 / self.participants, dtype=torch.float64)
        return weighted_sum(shares.to(updates.device), updates.double())

    def excess_within(self, flags: Tensor) -> float:
        """How many `flags` (n,) are set, less half of all."""
        return float((flags.double().clamp(0, 1).nan_to_num(0) - 0.5).sum())


def clip_updates(updates: Tensor, bounds: Tensor) -> Tensor:
    """The `updates` (n, d), each with a norm of at most its bound (n,). An update that is not
    finite becomes 0. It would make the sum NaN, and so reveal its client."""
    norms = _norms(updates)
    factors = (bounds / norms).clamp(max=1).to(updates.dtype)[:, None]
    return torch.where(norms.isfinite()[:, None], updates * factors, torch.zeros_like(updates))


def _norms(updates: Tensor) -> Tensor:
    norms: Tensor = updates.double().norm(dim=1)
    return norms
