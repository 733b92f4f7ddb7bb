"""Who shares masks with whom: a random graph in which each client has k neighbours, as few as keep
the promise of `SAFE`.

The clients stand in a circle in random order; neighbours are the k/2 next ones on both sides
(Harary's graph). What could go wrong, if a fifth of the clients tell the server all they know and a
twentieth drops out:

- **The others fall apart** into groups without an edge between them, so that the server learns the
  sum of each group. For that, two separate runs of k/2 clients must all be missing.
- **A client's key is known**: at least t of its k neighbours, who have shares of it, tell them.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

COLLUDING = 1 / 5
"""Share of the clients that may tell the server all they know."""
DROPPING = 1 / 20
"""Share of the clients that may drop out."""
SAFE = 2.0**-40
"""Most probability, over the draw of the circle, that the promise is broken."""
FEWEST_NEIGHBOURS = 20
"""Neighbours of a client at least, if there are so many others."""


def threshold_of(degree: int) -> int:
    """Shares t that recover a key: more than two thirds, so that nobody can get the two keys of a
    client from different neighbours."""
    return 2 * degree // 3 + 1


def probability_apart(count: int, degree: int, missing: int) -> float:
    """A bound of the probability that `missing` clients of `count`, wherever they stand, leave the
    others in groups without an edge between them."""
    if degree >= count - 1 or missing < degree:
        return 0.0
    pairs = math.log(count * (count - 1) / 2)
    ways = _log_choose(count - degree, missing - degree) - _log_choose(count, missing)
    return math.exp(pairs + ways)


def probability_exposed(count: int, degree: int, colluding: int) -> float:
    """A bound of the probability that any client has at least t colluding neighbours."""
    degree = min(degree, count - 1)
    honest_count = count - 1 - colluding
    ways = (
        _log_choose(colluding, colluding_count)
        + _log_choose(honest_count, degree - colluding_count)
        for colluding_count in range(threshold_of(degree), min(degree, colluding) + 1)
        if degree - colluding_count <= honest_count
    )
    return count * sum(math.exp(way - _log_choose(count - 1, degree)) for way in ways)


def _log_choose(n: int, k: int) -> float:
    """The logarithm of the number of ways to choose k of n."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@cache
def degree_of(count: int, has_shares: bool) -> int:
    """Neighbours k of each of `count` clients: the fewest that are safe, or all others.
    `has_shares`: whether clients share their keys, because others may drop out."""
    colluding = int(COLLUDING * count)
    missing = colluding + (int(DROPPING * count) if has_shares else 0)
    for degree in range(FEWEST_NEIGHBOURS, count - 1, 2):
        if probability_apart(count, degree, missing) > SAFE:
            continue
        if not has_shares or probability_exposed(count, degree, colluding) <= SAFE:
            return degree
    return count - 1


def draw_neighbours(count: int, degree: int, random: np.random.Generator) -> NDArray[np.int64]:
    """The neighbours (n, k) of each client."""
    circle = random.permutation(count)
    places = np.empty(count, np.int64)
    places[circle] = np.arange(count)
    if degree >= count - 1:
        steps = np.arange(1, count)
    else:
        half = degree // 2
        steps = np.concatenate([np.arange(1, half + 1), -np.arange(1, half + 1)])
    return np.asarray(circle[(places[:, None] + steps) % count], dtype=np.int64)
