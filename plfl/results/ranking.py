"""Ranks of methods over clients, and which of their differences are significant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from plfl.results.statistics import ALPHA


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods over clients, and the significance of their differences."""

    ranks: pd.Series[float]
    """Mean rank of each method, the best (lowest) first."""
    p: pd.DataFrame
    """P value of each pair of methods (Nemenyi's test)."""
    friedman: float
    """P value of the hypothesis that all methods are equal (Friedman's test, with ties)."""
    critical_difference: float
    """Smallest difference of mean ranks that Nemenyi's test finds significant at `ALPHA`."""
    clients: int


def ranking(blocks: pd.DataFrame) -> Ranking:
    """Rank methods within every client (Demšar 2006), given the MASE with a row per client and a
    column per method; NaN (diverged) ranks last."""
    count, methods = blocks.shape
    ranks = blocks.fillna(np.inf).rank(axis=1)
    means = ranks.mean().sort_values(kind="stable")
    compared = max(methods, 2)
    scale = np.sqrt(methods * (methods + 1) / (12 * count))
    apart = np.abs(np.subtract.outer(means.to_numpy(), means.to_numpy())) / scale
    p = [[1 - narrower(width, compared) for width in row] for row in apart.tolist()]
    friedman, off = 1.0, ranks.to_numpy() - (methods + 1) / 2
    if methods > 2 and count > 1 and off.any():
        squares = (methods - 1) * (off.sum(axis=0) ** 2).sum() / (off**2).sum()
        friedman = float(special.chdtrc(methods - 1, squares))
    distance = float(widest(1 - ALPHA, compared) * scale)
    table = pd.DataFrame(p, index=means.index, columns=means.index)
    return Ranking(means, table, friedman, distance, count)


def narrower(width: float, count: int) -> float:
    """Probability that so many independent standard normal numbers span less than `width`.

    It is the distribution of the studentized range with infinitely many degrees of freedom, as in
    `scipy.stats`, whose import takes as long as a page.
    """
    lowest, step = np.linspace(-9 - width, 9, 4001, retstep=True)
    others = special.ndtr(lowest + width) - special.ndtr(lowest)
    density = np.exp(-(lowest**2) / 2) / np.sqrt(2 * np.pi)
    return float(count * step * (density * others ** (count - 1)).sum())


def widest(probability: float, count: int) -> float:
    """The width that so many numbers span less than with this probability; see `narrower`."""
    low, high = 0.0, 20.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (middle, high) if narrower(middle, count) < probability else (low, middle)
    return low
