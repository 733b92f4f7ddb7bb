"""Choosing among the candidates of a cell by their scores on validation."""

from collections.abc import Iterable, Sequence

import numpy as np


def least(scores: Iterable[float]) -> int:
    """Which of the candidates has the least score; the first where none is finite."""
    values = np.array(list(scores))
    return int(np.where(np.isnan(values), np.inf, values).argmin())


def better_half(scores: Sequence[Sequence[float]]) -> list[int]:
    """The half of the candidates, rounded up, that goes on in successive halving.

    Args:
        scores: one row per scored model, one column per candidate. A candidate is ranked by the
            better of its ranks, so the best of each model goes on. A score that is not finite ranks
            last.

    Returns:
        Their numbers, ascending.
    """
    table = np.array(scores)
    ranks = np.argsort(np.argsort(table, axis=1, kind="stable"), axis=1, kind="stable")
    ranks[~np.isfinite(table)] = table.shape[1]
    order = np.argsort(ranks.min(axis=0), kind="stable")
    return sorted(order[: -(-len(order) // 2)].tolist())
