"""The clients' mean update from a masked sum of whole numbers.

client:  q_i = the whole numbers near w_i D_i / g, at random without bias;  up: q_i, masked
server:  D̄ = g Σ q_i / Σ w_i over those whose numbers have arrived;  x ← ServerOpt(x, D̄)

w_i is 1, or a client's number of windows. The step g of the grid is a power of two, such that no
sum of updates between −`LARGEST_UPDATE` and `LARGEST_UPDATE` exceeds `BITS` bits; larger ones are
clipped.

With `federation.privacy` each client clips its update to the norm C, as without masks, and adds
Gaussian noise, rounded to the grid. The noise of those who neither collude with the server nor drop
out (`neighbours.COLLUDING`, `neighbours.DROPPING`) has together the standard deviation z C. If more
drop out, the round has no update. That clients share the noise of a masked sum is from Peter
Kairouz, Ziyu Liu and Thomas Steinke, "The Distributed Discrete Gaussian Mechanism for Federated
Learning with Secure Aggregation", ICML 2021, https://arxiv.org/abs/2102.06387; its discrete
Gaussians are not used.

ε is that of the continuous Gaussian mechanism with the same sum of noise. A sum of m rounded
Gaussians does not follow from the rounded sum, but has its distribution with a little more noise,
that of m − 1 uniform numbers between −½ and ½ steps, which is post-processing (Dwork and Roth, "The
Algorithmic Foundations of Differential Privacy", 2014, proposition 2.1). By Poisson's summation
formula no probability differs by more than 5 m exp(−π² s² / 2), where s is a client's deviation in
steps: for s ≥ `FEWEST_STEPS` below 1e-200, far below any δ.
"""

from __future__ import annotations

import logging
import math
import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.base.errors import ConfigError, Problem
from plfl.base.keys import Key
from plfl.federated.secure.masks import CHECK_BYTES
from plfl.federated.secure.neighbours import COLLUDING, DROPPING, degree_of
from plfl.federated.secure.shares import SHARE_BYTES as SHARE
from plfl.federated.secure.sums import PUBLIC_KEYS_BYTES, SEALED_BYTES

log = logging.getLogger(__name__)

BITS = 32
"""Bits of a number of a sum."""
LARGEST_UPDATE = 64.0
"""Largest magnitude of a parameter's update without `federation.privacy`."""
NOISE_DEVIATIONS = 40
"""Standard deviations of noise that a sum has room for."""
FEWEST_STEPS = 10
"""Steps of the grid in the deviation of a client's noise, at least."""

NumberedNormals = Callable[[int, int], NDArray[np.float64]]
"""Returns, for the number of a client and a count, that many standard normal numbers."""


_CROWD = struct.Struct("<id")
CROWD_BYTES = _CROWD.size
"""Bytes of a packed crowd."""


class Crowd(NamedTuple):
    """Those who take part in a sum, as the server tells them."""

    clients: int
    """Their number."""
    weight: float
    """The sum of the weights of all clients of the federation."""

    def pack(self) -> bytes:
        """Both as bytes."""
        return _CROWD.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> Crowd:
        """The inverse of `pack`, of the first bytes of a message.

        Raises:
            struct.error: there are too few.
        """
        return cls(*_CROWD.unpack(data[: _CROWD.size]))


def sum_bytes(client_count: int, numbers: int) -> tuple[int, int]:
    """Bytes that each of some clients sends and receives for a masked sum of this many numbers."""
    degree = degree_of(client_count, has_shares=True)
    sent_bytes = (
        PUBLIC_KEYS_BYTES + degree * (SEALED_BYTES + SHARE) + BITS // 8 * numbers + CHECK_BYTES // 8
    )
    return sent_bytes, CROWD_BYTES + degree * (PUBLIC_KEYS_BYTES + SEALED_BYTES) + -(-degree // 8)


class UpdateNoise(NamedTuple):
    """Gaussian noise of a sum of clipped updates."""

    clip: float
    """The norm C of an update at most."""
    deviation: float
    """Standard deviation of the noise on the sum."""
    normals: NumberedNormals


def fewest_staying(count: int) -> int:
    """The fewest clients of a sum that have to send their numbers, of which a fifth may collude."""
    return count - int(DROPPING * count)


def fewest_honest(count: int) -> int:
    """The fewest clients of a sum whose noise the server does not know."""
    return fewest_staying(count) - int(COLLUDING * count)


class UpdateGrid:
    """The whole numbers of updates."""

    def __init__(self, noise: UpdateNoise | None = None):
        self.noise = noise

    def step(self, crowd: Crowd) -> float:
        """The step g."""
        if self.noise is None:
            largest = LARGEST_UPDATE * crowd.weight
        else:
            largest = self.noise.clip * crowd.weight + NOISE_DEVIATIONS * self._deviation(
                crowd.clients
            ) * math.sqrt(crowd.clients)
        return float(2.0 ** (math.floor(math.log2(largest)) + 2 - BITS))

    def _deviation(self, count: int) -> float:
        """That of the noise of one client."""
        assert self.noise is not None
        return self.noise.deviation / math.sqrt(fewest_honest(count))

    def steps_of_noise(self, crowd: Crowd) -> float:
        """The deviation of a client's noise, in steps of the grid."""
        return self._deviation(crowd.clients) / self.step(crowd)

    @property
    def has_noise(self) -> bool:
        """Whether clients add noise to their updates."""
        return self.noise is not None and self.noise.deviation > 0

    def check(self, crowd: Crowd) -> None:
        """Raise a ConfigError if the grid is too coarse for the noise, so that ε would not hold."""
        if self.has_noise and self.steps_of_noise(crowd) < FEWEST_STEPS:
            text = (
                f"the noise of each of {crowd.clients} clients has a deviation of "
                f"{self.steps_of_noise(crowd):.3g} steps of the grid, and with masks ε holds from "
                f"{FEWEST_STEPS} on"
            )
            key = Key("federation.privacy.noise")
            raise ConfigError("", [Problem(key, text, "raise it")])

    def round(
        self,
        crowd: Crowd,
        clients: list[int],
        updates: NDArray[np.float64],
        weights: NDArray[np.float64],
        random: list[np.random.Generator],
    ) -> NDArray[np.int64]:
        """The whole numbers (n, d) of `updates` (n, d) of some clients, with their noise.

        Raises:
            ConfigError: the grid is too coarse for the noise, so that ε would not hold.
        """
        self.check(crowd)
        step = self.step(crowd)
        limit = LARGEST_UPDATE if self.noise is None else self.noise.clip
        numbers = np.empty(updates.shape, np.int64)
        for i, (update, weight, generator) in enumerate(zip(updates, weights, random, strict=True)):
            finite_update = np.nan_to_num(update, nan=0, posinf=0, neginf=0)
            if not (np.abs(update) <= limit).all():  # false for NaN, too
                log.warning("client %d: updates beyond %g are clipped", clients[i], limit)
            scaled = finite_update.clip(-limit, limit) * (weight / step)
            lower = np.floor(scaled)
            near = lower + (generator.random(len(scaled)) < scaled - lower)
            if self.noise is not None and np.linalg.norm(near) > self.noise.clip / step:
                near = np.trunc(scaled)  # is never longer
            if self.noise is not None and self.has_noise:
                deviation = self.steps_of_noise(crowd)
                near += np.rint(deviation * self.noise.normals(clients[i], len(near)))
            numbers[i] = near
        return numbers

    def mean(self, crowd: Crowd, total: NDArray[np.int64], weight: float) -> Tensor:
        """The mean update (d,) of a sum (d,), in float64; `weight`: of those in the sum."""
        return torch.from_numpy(total * (self.step(crowd) / weight))
