"""Mean test MASE of every combination of optimisers (PL-FL, arXiv 2404.01517, Fig. 3)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from plfl.report.figures.style import ACCENT, PAGE_WIDTH, SEQUENTIAL, fit, panels
from plfl.results.records import MODELS, ModelKind
from plfl.results.tables import Tables
from plfl.results.words import baseline_label, client_side, server_label
from plfl.results.words import word_scheme as scheme_label

_ROW, _LABELS, _LETTER = 0.21, 3.4, 0.058
"""Inches: height of a row of the grid, width of all labels beside it, width of a letter."""
_BRIGHT = 0.179
"""Relative luminance (WCAG) above which black text has more contrast than white text."""


def draw(tables: Tables) -> dict[str, Figure]:
    """One figure per model, with a heat map per state and sharing scheme and one of the baselines.
    Those of a state have the same colour scale in both figures, that of its local models."""
    baseline_means = tables.baseline_scores["mase_mean"].drop(
        "persistence", level=1, errors="ignore"
    )
    baselines = baseline_means.unstack(sort=False).dropna(axis=1, how="all")
    local_means = tables.scores("local")["mase_mean"]
    scales = {
        state: scale(local_means[[state]].to_numpy(float)) for state in tables.study.data.states
    }
    return {f"fig3_mase_{model}": _heat_maps(tables, model, baselines, scales) for model in MODELS}


def scale(scores: NDArray[np.float64]) -> Normalize:
    """A colour scale from the lowest score to the highest, without outliers. If the highest is more
    than 1.5 times the (lower) median, the scale ends, on a logarithmic axis, above the median at
    1.5 times the distance from the lowest score to the median. Otherwise one failed optimiser would
    make all others look alike."""
    # One training under several names counts once.
    logs = np.log(np.maximum(np.unique(scores[np.isfinite(scores)]), 1e-6))
    if not logs.size:
        return Normalize(0, 1)
    low, median, high = np.quantile(logs, [0, 0.5, 1], method="lower")
    fence = median + 1.5 * (median - low) if high > median + np.log(1.5) else high
    top = max(min(high, fence), low + np.log(1.1))
    kind = LogNorm if top - low > np.log(2.5) else Normalize
    return kind(float(np.exp(low)), float(np.exp(top)))


def _heat_maps(
    tables: Tables, model: ModelKind, baselines: pd.DataFrame, scales: Mapping[str, Normalize]
) -> Figure:
    study, scores = tables.study, tables.scores(model)
    grid, schemes, states = study.grid, study.grid.sharing, study.data.states
    clients = list(product(grid.method, grid.client_opt))
    # Without a server, all ServerOpts are the same training: one column stands for all.
    is_local = {
        s: all(study.plan.combinations.trains_alone(s, m) for m in grid.method) for s in schemes
    }
    servers = {s: grid.server_opt[:1] if is_local[s] else grid.server_opt for s in schemes}
    widths = [max(len(servers[scheme]), 2) for scheme in schemes] + [1.6] * (len(baselines) > 0)
    height = max(len(clients) * _ROW, 0.14 * len(baselines.columns)) + 0.15
    width = min(_LABELS + 0.42 * sum(widths), PAGE_WIDTH)
    inches = (width - _LABELS) / sum(widths)
    figure, axes = panels(
        len(states), len(widths), (width, height * len(states) + 1.5), width_ratios=widths
    )
    for (i, state), (j, scheme) in product(enumerate(states), enumerate(schemes)):
        axis, names = axes[i, j], [server_label(name) for name in servers[scheme]]
        row_keys = [(*row, server) for row, server in product(clients, servers[scheme])]
        state_scores = scores.xs((state, scheme)).reindex(row_keys)
        values, diverged = (
            state_scores[column].to_numpy(float).reshape(len(clients), -1)
            for column in ("mase_mean", "diverged")
        )
        table = pd.DataFrame(values, [client_side(study, *row) for row in clients], names)
        _heat_map(axis, table, scales[state], np.where(diverged == 1, "div.", "n/a"))
        if table.count().sum() > 1:  # a single score is not marked as the lowest
            _frame(axis, *divmod(int(np.nanargmin(values)), values.shape[1]))
        axis.set_ylabel(f"{fit(state, 18, lines=2)}\nClientOpt" if j == 0 else "")
        axis.tick_params(labelleft=j == 0, labeltop=i == 0 and not is_local[scheme])
        if i == 0:
            letters = max(int(inches * widths[j] / _LETTER), 11)
            title = fit(scheme_label(study, scheme), letters, lines=8)
            axis.set_title(title, fontsize=7)
            axis.xaxis.set_label_position("top")
            axis.set_xlabel("" if is_local[scheme] else "ServerOpt", fontsize=7)
    for axis, (place, row) in zip(axes[:, len(schemes) :].flat, baselines.iterrows(), strict=False):
        table = row.rename(baseline_label).to_frame()
        _heat_map(axis, table, scales[str(place)], np.full(table.shape, "n/a"))
        if best := tables.best_baseline(str(place)):
            _frame(axis, list(row.index).index(best), 0)
        axis.yaxis.tick_right()
        axis.tick_params(axis="y", labelsize=6)
        axis.tick_params(axis="x", labeltop=False)
    if len(baselines):
        axes[0, -1].set_title("Baselines", fontsize=7)
    figure.align_titles(list(axes[0]))
    seeds = f" and {len(grid.seeds)} seeds" if len(grid.seeds) > 1 else ""
    for row, state in zip(axes, states, strict=True):
        _colour_bar(figure, list(row), scales[state])
    label = f"Test MASE, mean over clients{seeds} ({model} models, last round)"
    figure.supxlabel(label, fontsize=7)
    return figure


def _colour_bar(figure: Figure, axes: list[Axes], norm: Normalize) -> None:
    """Draw the colour scale of a row of heat maps beside it."""
    shades = ScalarMappable(norm, SEQUENTIAL)
    bar = figure.colorbar(shades, ax=axes, location="right", aspect=18, extend="both", pad=0.01)
    bar.outline.set_visible(False)
    if isinstance(norm, LogNorm):
        span = float(norm.vmax or 1) / float(norm.vmin or 1)
        # Over a wider span, more labels would overlap.
        digits = (1, 1.5, 2, 3, 5, 7) if span < 10 else (1, 2, 5) if span < 100 else (1,)
        bar.ax.yaxis.set_major_locator(LogLocator(subs=digits))
    bar.ax.yaxis.set_major_formatter("{x:g}")
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    bar.ax.tick_params(labelsize=6)


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
    colours = colormaps[SEQUENTIAL](norm(table.to_numpy(float)))
    for text in axis.texts:
        x, y = map(int, text.get_position())
        rgb = colours[y, x, :3]
        linear = np.where(rgb > 0.04045, ((rgb + 0.055) / 1.055) ** 2.4, rgb / 12.92)
        text.set_color("black" if linear @ [0.2126, 0.7152, 0.0722] > _BRIGHT else "white")
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
