"""Mean test MASE of every combination of optimisers (PL-FL Fig. 3), of both models."""

from itertools import product
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from plfl.figures.style import ACCENT, PAGE, SEQUENTIAL, fit, panels
from plfl.results.tables import MODELS, Model, Tables, server_label
from plfl.study import Study

OUTPUTS = ("fig3_mase_local", "fig3_mase_global")
CAPTION = (
    "Test MASE of every combination of optimisers at the last round, mean over clients (and seeds);"
    " below 1 a forecast beats persistence. Local models are the clients' own after their last"
    " steps, global models have the shared part from the server. Boxed: the least of each panel;"
    " hatched: diverged. Both figures have the same colours; an arrow on the scale means that some"
    " scores lie beyond it."
)


def draw(tables: Tables) -> dict[str, Figure]:
    """A heat map per state and split for the local models and one for the global models.

    Both have the same colours, so they can be laid side by side.
    """
    scores = {model: tables.scores(model, "last") for model in MODELS}
    norm = scale(np.concatenate([table["mase_mean"].to_numpy() for table in scores.values()]))
    return {f"fig3_mase_{model}": _heatmaps(tables, model, scores[model], norm) for model in MODELS}


def _heatmaps(tables: Tables, model: Model, scores: pd.DataFrame, norm: Normalize) -> Figure:
    study = tables.study
    states, splits, clients = (
        study.data.states,
        study.grid.personalization,
        list(product(study.grid.method, study.grid.client_opt)),
    )
    # Without a server the ServerOpts are one and the same run: one column stands for all.
    grid = study.grid
    alone = [s for s in splits if all(study.trains_alone(s, method) for method in grid.method)]
    servers = {s: grid.server_opt[:1] if s in alone else grid.server_opt for s in splits}
    counts = [len(servers[split]) for split in splits]
    width = min(1.9 + sum(max(0.42 * count, 0.95) for count in counts), PAGE)
    height = max(len(states) * (0.21 * len(clients) + 0.16) + 1.2, 2.0)
    figure, axes = panels(
        len(states),
        len(splits),
        (width, height),
        sharex="col",
        sharey=True,
        gridspec_kw={"width_ratios": counts},
    )
    cmap = matplotlib.colormaps[SEQUENTIAL].with_extremes(bad="0.88")
    for i, state in enumerate(states):
        for j, split in enumerate(splits):
            axis = axes[i, j]
            here = scores.xs((state, split))
            wanted = [(*row, server) for row, server in product(clients, servers[split])]
            values, diverged = (
                here[column].reindex(wanted, fill_value=absent).to_numpy().reshape(len(clients), -1)
                for column, absent in (("mase_mean", np.nan), ("diverged", False))
            )
            mesh = _heatmap(axis, values, diverged, cmap, norm)
            axis.set_yticks(
                np.arange(len(clients)) + 0.5, [tables.client_side(*row) for row in clients]
            )
            names = ["none"] if split in alone else map(server_label, servers[split])
            axis.set_xticks(
                np.arange(counts[j]) + 0.5, names, rotation=40, ha="right", rotation_mode="anchor"
            )
            if i == 0:
                axis.set_title(f"{fit(split, 36)}\n{tables.split_label(split)}")
        axes[i, 0].set_ylabel(f"{fit(state, 18, lines=2)}\nClientOpt", fontsize=8)
    figure.supxlabel("ServerOpt", fontsize=7)
    bar = figure.colorbar(
        mesh, ax=axes, aspect=30, pad=0.01, extend=_extend(norm, scores["mase_mean"])
    )
    bar.set_label(f"Test MASE\n{_mean(study)}\n({model} models, last round)")
    bar.outline.set_visible(False)
    if isinstance(norm, LogNorm):
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7)))
    bar.ax.yaxis.set_major_formatter("{x:g}")
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    if scores["mase_mean"].isna().all():
        bar.set_ticks([])
    return figure


def _mean(study: Study) -> str:
    seeds = len(study.grid.seeds)
    return "mean over clients" + (f" and {seeds} seeds" if seeds > 1 else "")


def _heatmap(
    axis: Axes,
    values: NDArray[Any],
    diverged: NDArray[Any],
    cmap: Colormap,
    norm: Normalize,
) -> QuadMesh:
    mesh = axis.pcolormesh(
        np.ma.masked_invalid(values), cmap=cmap, norm=norm, edgecolors="white", linewidth=0.5
    )
    # The only score of a panel is no winner.
    lowest = np.nanmin(values) if np.isfinite(values).sum() > 1 else None
    for (y, x), value in np.ndenumerate(values):
        finite, best = np.isfinite(value), value == lowest
        axis.text(
            x + 0.5,
            y + 0.5,
            number(value) if finite else "div." if diverged[y, x] else "n/a",
            ha="center",
            va="center_baseline",
            fontsize=6.5,
            color=_ink(cmap(norm(value))) if finite else "0.1",
            weight="bold" if best else "normal",
        )
        if not finite:
            axis.add_patch(
                Rectangle((x, y), 1, 1, fill=False, hatch="////", edgecolor="0.72", linewidth=0)
            )
        if best:
            axis.add_patch(
                Rectangle((x + 0.05, y + 0.05), 0.9, 0.9, fill=False, edgecolor=ACCENT, lw=1.5)
            )
    axis.set_ylim(len(values), 0)
    axis.tick_params(length=0, pad=2)
    axis.spines[:].set_visible(False)
    return mesh


def number(value: float) -> str:
    """A score with two decimals as long as it is short enough for its square."""
    return f"{value:.2f}" if value < 100 else f"{value:.0f}" if value < 1e4 else f"{value:.0e}"


def scale(values: NDArray[Any]) -> Normalize:
    """Colours from the best score to the worst, or to where outliers start.

    The scale ends where a score is further above the median than one and a half times as far as
    the best is below it (as ratios): an optimiser that fails must not make all others look alike.
    """
    values = values[np.isfinite(values)]
    if not values.size:
        return Normalize(0, 1)
    logs = np.log(np.maximum(values, 1e-6))
    low, median, high = np.quantile(logs, [0, 0.5, 1])
    top = max(min(high, median + 1.5 * (median - low)), low + np.log(1.1))
    kind = LogNorm if top - low > np.log(2.5) else Normalize
    return kind(float(np.exp(low)), float(np.exp(top)))


def _extend(norm: Normalize, scores: "pd.Series[float]") -> str:
    return "max" if scores.max() > (norm.vmax or np.inf) * (1 + 1e-9) else "neither"


def _ink(background: tuple[float, float, float, float]) -> str:
    """Black or white, whichever reads better on `background` (WCAG relative luminance)."""
    rgb = np.array(background[:3])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return "black" if linear @ [0.2126, 0.7152, 0.0722] > 0.179 else "white"
