"""Mean test MASE of every combination of optimisers (PL-FL, arXiv 2404.01517, Fig. 3)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from plfl.report.figures.style import ACCENT, PAGE, SEQUENTIAL, fit, panels
from plfl.results.records import MODELS, Model
from plfl.results.tables import Tables
from plfl.results.words import baseline_label, server_label, shares

_ROW = 0.21
"""Height in inches of a row of the grid."""


def draw(tables: Tables) -> dict[str, Figure]:
    """One figure per model, with a heat map per state and sharing scheme and one of the baselines,
    all with the same colour scale."""
    scores = {model: tables.scores(model) for model in MODELS}
    of_baselines = tables.baseline_scores["mase_mean"].drop("persistence", level=1, errors="ignore")
    baselines = of_baselines.unstack(sort=False).dropna(axis=1, how="all")
    every = [*(table["mase_mean"].to_numpy(float) for table in scores.values())]
    every.append(baselines.to_numpy(float).ravel())
    known = np.concatenate(every)
    known = known[np.isfinite(known)]
    norm = Normalize(known.min(), np.quantile(known, 0.9)) if known.size else Normalize(0, 1)
    return {
        f"fig3_mase_{model}": _heat_maps(tables, model, scores[model], baselines, norm)
        for model in MODELS
    }


def _heat_maps(
    tables: Tables, model: Model, scores: pd.DataFrame, baselines: pd.DataFrame, norm: Normalize
) -> Figure:
    study = tables.study
    grid, schemes, states = study.grid, study.grid.sharing, study.data.states
    clients = list(product(grid.method, grid.client_opt))
    # Without a server, all ServerOpts are the same training: one column stands for all.
    alone = {s: all(study.combinations.trains_alone(s, m) for m in grid.method) for s in schemes}
    servers = {s: grid.server_opt[:1] if alone[s] else grid.server_opt for s in schemes}
    widths = [max(len(servers[scheme]), 2) for scheme in schemes] + [1.6] * (len(baselines) > 0)
    height = max(len(clients) * _ROW, 0.14 * len(baselines.columns)) + 0.15
    figure, axes = panels(
        len(states),
        len(widths),
        (min(3.2 + 0.42 * sum(widths), PAGE), height * len(states) + 1.5),
        width_ratios=widths,
    )
    for (i, state), (j, scheme) in product(enumerate(states), enumerate(schemes)):
        axis, names = axes[i, j], [server_label(name) for name in servers[scheme]]
        wanted = [(*row, server) for row, server in product(clients, servers[scheme])]
        here = scores.xs((state, scheme)).reindex(wanted)
        values, lost = (
            here[column].to_numpy(float).reshape(len(clients), -1)
            for column in ("mase_mean", "diverged")
        )
        table = pd.DataFrame(values, [tables.client_side(*row) for row in clients], names)
        _heat_map(axis, table, norm, np.where(lost == 1, "div.", "n/a"))
        if table.count().sum() > 1:  # a single score is not marked as the lowest
            _frame(axis, *divmod(int(np.nanargmin(values)), values.shape[1]))
        axis.set_ylabel(f"{fit(state, 18, lines=2)}\nClientOpt" if j == 0 else "")
        axis.tick_params(labelleft=j == 0, labeltop=i == 0 and not alone[scheme])
        if i == 0:
            letters = max(4 * len(names) + 2, 14)
            title = fit(f"{scheme}: {shares(study, scheme)}", letters, lines=3)
            axis.set_title(title, fontsize=7)
    for axis, (place, row) in zip(axes[:, len(schemes) :].flat, baselines.iterrows(), strict=False):
        table = row.rename(baseline_label).to_frame()
        _heat_map(axis, table, norm, np.full(table.shape, "n/a"))
        if best := tables.best_baseline(str(place)):
            _frame(axis, list(row.index).index(best), 0)
        axis.yaxis.tick_right()
        axis.tick_params(axis="y", labelsize=6)
        axis.tick_params(axis="x", labeltop=False)
    if len(baselines):
        axes[0, -1].set_title("Baselines", fontsize=7)
    seeds = f" and {len(grid.seeds)} seeds" if len(grid.seeds) > 1 else ""
    label = f"Test MASE, mean over clients{seeds} ({model} models, last round)"
    shades = ScalarMappable(norm, SEQUENTIAL)
    bar = figure.colorbar(
        shades, ax=axes, location="bottom", aspect=50, shrink=0.6, extend="max", label=label
    )
    bar.outline.set_visible(False)
    return figure


def _heat_map(axis: Axes, table: pd.DataFrame, norm: Normalize, absent: NDArray[np.str_]) -> None:
    """Draw scores with their numbers; where there is none, the word of `absent`."""
    numbers = table.map(number)
    sns.heatmap(
        table,
        annot=numbers,
        fmt="",
        norm=norm,
        cmap=SEQUENTIAL,
        cbar=False,
        linewidths=0.5,
        annot_kws={"fontsize": 6},
        ax=axis,
    )
    axis.set(xlabel="", ylabel="", facecolor="0.88")
    axis.tick_params(length=0, pad=2, labelbottom=False)
    axis.tick_params(axis="y", rotation=0)
    axis.set_xticks(
        axis.get_xticks(), table.columns, rotation=40, ha="left", rotation_mode="anchor"
    )
    for y, x in np.argwhere(~np.isfinite(table.to_numpy())):
        axis.text(x + 0.5, y + 0.5, absent[y, x], ha="center", va="center", fontsize=6, color="0.1")


def _frame(axis: Axes, row: int, column: int) -> None:
    """Draw a frame around a square, above its neighbours."""
    frame = Rectangle((column, row), 1, 1, fill=False, edgecolor=ACCENT, lw=1.5, zorder=4)
    frame.set_clip_on(False)
    axis.add_patch(frame)


def number(value: float) -> str:
    """A score in print: two decimals, or fewer if it would not fit into its square."""
    return f"{value:.2f}" if value < 100 else f"{value:.0f}" if value < 1e4 else f"{value:.0e}"
