"""Ranks of methods over clients, and which of their differences are significant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from plfl.results.statistics import ALPHA


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods over clients, and the significance of their differences."""

    ranks: pd.Series[float]
    """Mean rank of each method, the best (lowest) first."""
    p: pd.DataFrame
    """P value of each pair of methods (Nemenyi's test, `scikit_posthocs`)."""
    friedman: float
    """P value of the hypothesis that all methods are equal (Friedman's test, `scipy.stats`)."""
    critical_difference: float
    """Smallest difference of mean ranks that Nemenyi's test finds significant at `ALPHA`."""
    clients: int


def ranking(blocks: pd.DataFrame) -> Ranking:
    """Rank methods within every client (Demšar 2006).

    Args:
        blocks: MASE, one row per client, one column per method; NaN (diverged) ranks last.
    """
    from scikit_posthocs import posthoc_nemenyi_friedman  # type: ignore[import-untyped]

    count, methods = blocks.shape
    ranks = blocks.fillna(np.inf).rank(axis=1)
    p = pd.DataFrame(1.0, index=blocks.columns, columns=blocks.columns)
    friedman = 1.0
    if methods > 2 and count > 1 and (ranks.to_numpy() != ranks.to_numpy().mean()).any():
        friedman = float(stats.friedmanchisquare(*ranks.to_numpy().T).pvalue)
    if methods > 1:
        p = posthoc_nemenyi_friedman(ranks.reset_index(drop=True))
    quantile = stats.studentized_range.ppf(1 - ALPHA, max(methods, 2), np.inf) / np.sqrt(2)
    distance = float(quantile * np.sqrt(methods * (methods + 1) / (6 * count)))
    means = ranks.mean().sort_values(kind="stable")
    return Ranking(means, p.loc[means.index, means.index], friedman, distance, count)
