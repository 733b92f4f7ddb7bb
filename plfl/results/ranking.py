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
    from scipy.stats import studentized_range  # see `widest`

    count, methods = blocks.shape
    ranks = blocks.fillna(np.inf).rank(axis=1)
    means = ranks.mean().sort_values(kind="stable")
    compared = max(methods, 2)
    scale = np.sqrt(methods * (methods + 1) / (12 * count))
    apart = np.abs(np.subtract.outer(means.to_numpy(), means.to_numpy())) / scale
    p = studentized_range.sf(apart, compared, np.inf)
    friedman, off = 1.0, ranks.to_numpy() - (methods + 1) / 2
    if methods > 2 and count > 1 and off.any():
        squares = (methods - 1) * (off.sum(axis=0) ** 2).sum() / (off**2).sum()
        friedman = float(special.chdtrc(methods - 1, squares))
    distance = float(widest(1 - ALPHA, compared) * scale)
    table = pd.DataFrame(p, index=means.index, columns=means.index)
    return Ranking(means, table, friedman, distance, count)


def widest(probability: float, count: int) -> float:
    """With this probability, the means of that many methods span less than this width.

    It is a quantile of the studentized range with infinitely many degrees of freedom.
    """
    from scipy.stats import studentized_range  # here, because it takes half a second to load

    return float(studentized_range.ppf(probability, count, np.inf))
