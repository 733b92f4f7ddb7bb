"""Which clients take part in a round."""

import numpy as np
from numpy.typing import NDArray

from plfl.federated.rounding import share_of
from plfl.training.batches import stream


def participants(
    seed: int, t: int, clients: list[str], share: float, groups: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Indices, ascending, of the clients that take part in round `t`.

    They are a share of all `clients`, or of each of their `groups` (N,), see `drawn_of`.
    """
    if groups is None:
        groups = np.zeros(len(clients), dtype=np.int64)
    by_name = np.argsort(clients)
    order = by_name[stream(seed, "/participants", t).permutation(len(clients))]
    members = [order[groups[order] == group] for group in np.unique(groups)]
    return np.sort(np.concatenate([some[: drawn_of(len(some), share)] for some in members]))


def drawn_of(clients: int, share: float) -> int:
    """How many of so many `clients` take part in a round: the nearest number, at least one."""
    return max(1, share_of(clients, share))
