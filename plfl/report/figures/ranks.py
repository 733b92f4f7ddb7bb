"""Critical-difference diagrams of sharing schemes and ClientOpts (Demšar, JMLR 7, 2006, Fig. 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import scikit_posthocs
from matplotlib.figure import Figure
from scipy import stats

from plfl.report.figures.style import ACCENT, PAGE, fit, panels
from plfl.results.records import MODELS
from plfl.results.scores import AXES, Forecaster, scores, select
from plfl.results.statistics import ALPHA
from plfl.results.tables import Tables
from plfl.results.validation import best
from plfl.results.words import VALUE_LABELS
from plfl.study import Study


def draw(tables: Tables) -> dict[str, Figure]:
    """One diagram for the local models and one for the global models below it."""
    rankings = [ranking(blocks(tables.study, scores(tables, model))) for model in MODELS]
    size = PAGE, len(MODELS) * (0.9 + 0.11 * len(rankings[0].ranks))
    figure, axes = panels(len(MODELS), 1, size)
    for axis, model, ranked in zip(axes[:, 0], MODELS, rankings, strict=True):
        # Numbers instead of names: the order of sets of names differs from process to process.
        names, numbers = list(ranked.ranks.index), range(len(ranked.ranks))
        artists = scikit_posthocs.critical_difference_diagram(
            ranked.ranks.set_axis(numbers),
            ranked.p.set_axis(numbers).set_axis(numbers, axis=1),
            alpha=ALPHA,
            ax=axis,
            marker_props={"color": "0.15", "s": 12},
            elbow_props={"color": "0.3", "linewidth": 0.7},
            crossbar_props={"color": ACCENT, "linewidth": 2.6},
            label_fmt_left="{label} {rank:.2f}",
            label_fmt_right="{label} {rank:.2f}",
        )
        for text in artists["labels"]:
            number, rank = text.get_text().split()
            words = [names[int(number)], rank, ""]
            text.set_text(
                "\N{NO-BREAK SPACE}".join(words if text.get_ha() == "right" else words[::-1])
            )
        p = f"= {ranked.friedman:.2g}" if ranked.friedman >= 1e-4 else "< 0.0001"
        clients = f"{ranked.clients} client" + "s" * (ranked.clients > 1)
        axis.set_title(
            f"{model} models, {clients}: mean rank, the best on the left\n"
            f"critical difference (CD) {ranked.critical_difference:.2f}, Friedman p {p}"
        )
    return {"ranks": figure}


def blocks(study: Study, scores_by_state: dict[str, list[Forecaster]]) -> pd.DataFrame:
    """MASE, mean over seeds: one row per client, one column per scheme and ClientOpt (`P2 Adam`)
    and method, if the study has several. NaN where all ServerOpts diverged. Clients without a MASE
    are left out."""
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
            values = {a: v for a, v in zip(AXES, forecaster.axes, strict=True) if a in axes}
            best_cells = best(select(forecasters, **values))
            mase = np.nan if best_cells is None else best_cells.mase.mean(axis=1)
            words = [VALUE_LABELS.get(axis, str)(value) for axis, value in values.items()]
            columns[" ".join(fit(word, 18) for word in words)] = mase
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


def ranking(blocks: pd.DataFrame) -> Ranking:
    """Rank methods within every client (Demšar 2006), given the MASE with a row per client and a
    column per method; NaN (diverged) ranks last."""
    count, methods = blocks.shape
    ranks = blocks.fillna(np.inf).rank(axis=1)
    means = ranks.mean().sort_values(kind="stable")
    p = scikit_posthocs.posthoc_nemenyi_friedman(ranks[means.index])
    friedman = 1.0
    if methods > 2 and count > 1 and ranks.nunique(axis=1).max() > 1:
        friedman = float(stats.friedmanchisquare(*ranks.to_numpy().T).pvalue)
    scale = np.sqrt(methods * (methods + 1) / (12 * count))
    distance = float(stats.studentized_range.ppf(1 - ALPHA, methods, np.inf) * scale)
    return Ranking(means, p, friedman, distance, count)
