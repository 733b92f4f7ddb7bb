"""Ranks of sharing schemes and ClientOpts over clients (Demšar, JMLR 7, 2006)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from plfl.results.best import best
from plfl.results.scores import AXES, ForecasterScores, select
from plfl.results.statistics import ALPHA
from plfl.results.words import VALUE_LABELS
from plfl.study import Study


def mase_by_client(
    study: Study,
    scores_by_state: dict[str, list[ForecasterScores]],
    shorten: Callable[[str], str] = str,
) -> pd.DataFrame:
    """MASE, mean over seeds: one row per client, one column per scheme and ClientOpt (`P2 Adam`)
    and method, if the study has several. NaN where all ServerOpts diverged. Clients without a MASE
    are left out. `shorten`: what is done to each word of the names of columns."""
    axes = [
        axis
        for axis in AXES
        if axis in ("sharing", "client_opt")
        or (axis != "server_opt" and len(getattr(study.grid, axis)) > 1)
    ]
    parts = []
    for forecasters in scores_by_state.values():
        columns = {}
        for forecaster in forecasters:
            values = {axis: getattr(forecaster.combination, axis) for axis in axes}
            best_cells = best(select(forecasters, **values))
            mase = np.nan if best_cells is None else best_cells.mase.mean(axis=1)
            words = [VALUE_LABELS.get(axis, str)(value) for axis, value in values.items()]
            columns[" ".join(map(shorten, words))] = mase
        table = pd.DataFrame(columns, index=list(forecasters[0].clients))
        parts.append(table if table.isna().all(axis=None) else table.dropna(how="all"))
    return pd.concat(parts)


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


def rank_methods(mase: pd.DataFrame) -> Ranking:
    """Rank methods within every client (Demšar 2006), given the MASE with a row per client and a
    column per method; NaN (diverged) ranks last."""
    import scikit_posthocs  # of the extra `study`

    count, methods = mase.shape
    ranks = mase.fillna(np.inf).rank(axis=1)
    means = ranks.mean().sort_values(kind="stable")
    p = scikit_posthocs.posthoc_nemenyi_friedman(ranks[means.index])
    friedman = 1.0
    if methods > 2 and count > 1 and ranks.nunique(axis=1).max() > 1:
        friedman = float(stats.friedmanchisquare(*ranks.to_numpy().T).pvalue)
    scale = np.sqrt(methods * (methods + 1) / (12 * count))
    distance = float(stats.studentized_range.ppf(1 - ALPHA, methods, np.inf) * scale)
    return Ranking(means, p, friedman, distance, count)
