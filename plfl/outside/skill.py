"""Methods over all tasks: skill scores and win rates, as fev computes them.

Source: Oleksandr Shchur et al., "fev-bench: A Realistic Benchmark for Time Series Forecasting",
2025, https://arxiv.org/abs/2509.26468.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from plfl.base.errors import Problem, ResultsError, suggest_name
from plfl.results.words import baseline_label

YESTERDAY = baseline_label("naive_day")
"""The method in leaderboards that repeats the load of a day before."""
RATIOS = (0.01, 100.0)
"""Least and greatest ratio of errors that counts, so that no task decides alone."""


def standings(boards: Mapping[str, pd.DataFrame], baseline: str = YESTERDAY) -> pd.DataFrame:
    """All methods that have a row in each of some leaderboards, by task, the best first.

    Columns: `method`; `skill`, 1 minus the geometric mean over tasks of the ratio of its error to
    that of the `baseline`; `win_rate`, the share of pairs of a task and another method in which it
    has the lower error, where a tie counts half; `tasks`, their number.

    Raises:
        ResultsError: no leaderboard is given, or one of them has no row of the baseline.
    """
    if not boards:
        raise ResultsError("there is no leaderboard with a row of the baseline")
    errors = pd.DataFrame(
        {name: board.set_index("method")["score"].astype(float) for name, board in boards.items()}
    )
    if baseline not in errors.index or errors.loc[baseline].isna().any():
        absent = [name for name in boards if baseline not in set(boards[name]["method"])]
        raise ResultsError(
            Problem(
                ", ".join(absent),
                f"has no row of {baseline!r}",
                "name the other tasks, or another "
                f"--baseline{suggest_name(baseline, errors.index.tolist())}",
            )
        )
    common = errors.dropna()
    ratios = (common / common.loc[baseline]).clip(*RATIOS)
    skill = 1 - np.exp(np.log(ratios).mean(axis=1))
    rival_count = len(common) - 1
    wins = ratios.rank(ascending=False, method="average") - 1  # of a tie, half
    win_rate = (wins / rival_count).mean(axis=1) if rival_count else pd.Series(np.nan, common.index)
    table = pd.DataFrame({"skill": skill, "win_rate": win_rate, "tasks": len(boards)})
    table = table.sort_values(["skill", "win_rate"], ascending=False, kind="stable")
    return table.rename_axis("method").reset_index()
