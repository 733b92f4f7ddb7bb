"""Mean test MASE of every combination of optimisers (PL-FL, arXiv 2404.01517, Fig. 3)."""

from __future__ import annotations

from itertools import product
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Colormap, LogNorm, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from plfl.config.study import Study
from plfl.report.figures.style import ACCENT, PAGE, SEQUENTIAL, fit
from plfl.results.labels import baseline_label, server_label
from plfl.results.records import MODELS, Model
from plfl.results.tables import Tables

OUTPUTS = ("fig3_mase_local", "fig3_mase_global")
CAPTION = (
    "Test MASE of every combination of optimisers at the last round, mean over clients (and"
    " seeds). A forecast with a MASE below 1 beats persistence. A local model is a client's own"
    " model after its last local steps; a global model has the shared parameters of the server."
    " Below the grid of each state: baselines that need no federation, without persistence, whose"
    " MASE is 1. Boxed: the lowest MASE of each panel, and the baseline of lowest validation MASE"
    " among those that send no data. Hatched: diverged (div.) or no score (n/a). Both figures use"
    " the same colour scale; an arrow at its end means that some scores lie beyond it."
)
_ABSENT = "0.88"
"""Grey of a square without a score."""
_ASIDE = 1.9
"""Width in inches of the names of the ClientOpts, if these are short, and of the colour scale."""
_NAMED = 2.25
"""Width in inches of a baseline's name and score."""
_LETTER = 0.07
"""Width in inches of a letter of a title."""
_TITLE = len("nothing shared")
"""Letters in a line of a title above a narrow panel."""
_ROW = 0.21
"""Height in inches of a row of the grid."""
_BASELINE_ROW = 0.165
"""Height in inches of a row of baselines."""
_GAP = 0.6
"""Space after the baselines of a state, in rows of baselines."""


def draw(tables: Tables) -> dict[str, Figure]:
    """One figure per model, with a heat map per state and sharing scheme and one of the baselines.

    Both figures use the same colour scale, so that they can be compared.
    """
    scores = {model: tables.scores(model, "last") for model in MODELS}
    baselines = _baselines(tables)
    every = [*(table["mase_mean"] for table in scores.values()), *baselines.values()]
    norm = scale(np.concatenate(every))
    return {
        f"fig3_mase_{model}": _heatmaps(tables, model, scores[model], baselines, norm)
        for model in MODELS
    }


def _baselines(tables: Tables) -> dict[str, pd.Series[float]]:
    """Test MASE of the baselines by state and name, without persistence; empty without baselines.

    Baselines without a score in any state are left out.
    """
    scores = tables.baseline_scores["mase_mean"].drop("persistence", level=1, errors="ignore")
    table = scores.unstack(sort=False).dropna(axis=1, how="all")
    return {str(state): row for state, row in table.iterrows()}


def _heatmaps(
    tables: Tables,
    model: Model,
    scores: pd.DataFrame,
    baselines: dict[str, pd.Series[float]],
    norm: Normalize,
) -> Figure:
    study = tables.study
    states, schemes, clients = (
        study.data.states,
        study.grid.sharing,
        list(product(study.grid.method, study.grid.client_opt)),
    )
    # Without a server, all ServerOpts are the same training: one column stands for all.
    grid = study.grid
    alone = [
        s
        for s in schemes
        if all(study.combinations.trains_alone(s, method) for method in grid.method)
    ]
    servers = {s: grid.server_opt[:1] if s in alone else grid.server_opt for s in schemes}
    counts = [len(servers[scheme]) for scheme in schemes]
    names = [tables.client_side(*row) for row in clients]
    aside = _ASIDE + 0.055 * max(len(max(names, key=len)) - 8, 0)
    least = _NAMED if baselines else 0
    room = min(max(sum(max(0.42 * count, 0.95) for count in counts), least), PAGE - aside)
    columns = max(int(room / _NAMED), 1)
    figure, axes, below = _axes(
        {s: -(-len(baselines[s]) // columns) + _GAP if s in baselines else 0 for s in states},
        len(clients),
        counts,
        aside + room,
    )
    cmap = matplotlib.colormaps[SEQUENTIAL].with_extremes(bad=_ABSENT)
    for (i, state), (j, scheme) in product(enumerate(states), enumerate(schemes)):
        axis = axes[i, j]
        here = scores.xs((state, scheme))
        wanted = [(*row, server) for row, server in product(clients, servers[scheme])]
        values, diverged = (
            here[column].reindex(wanted, fill_value=absent).to_numpy().reshape(len(clients), -1)
            for column, absent in (("mase_mean", np.nan), ("diverged", False))
        )
        mesh = _heatmap(axis, values, diverged, cmap, norm)
        if j == 0:
            axis.set_yticks(np.arange(len(clients)) + 0.5, names)
            axis.set_ylabel(f"{fit(state, 18, lines=2)}\nClientOpt", fontsize=8)
        if i == 0:
            _head(axis, [] if scheme in alone else list(map(server_label, servers[scheme])))
            letters = max(int(room * counts[j] / sum(counts) / _LETTER), _TITLE)
            label = fit(tables.scheme_label(scheme), letters, lines=2)
            axis.set_title(f"{fit(scheme, letters, lines=2)}\n{label}")
    for state, axis in below.items():
        _strip(axis, baselines[state], tables.best_baseline(state), columns, cmap, norm)
    shown = np.concatenate([scores["mase_mean"], *baselines.values()])
    figure.align_titles()
    label = f"Test MASE\n{_mean(study)}\n({model} models, last round)"
    _colour_bar(figure, mesh, norm, [*axes.flat, *below.values()], shown, label)
    _explain_frame(figure, bool(below))
    return figure


def _colour_bar(
    figure: Figure,
    mesh: QuadMesh,
    norm: Normalize,
    axes: list[Axes],
    scores: NDArray[Any],
    label: str,
) -> None:
    """Add the colour scale `norm` of `mesh` beside `axes`, which show `scores`."""
    bar = figure.colorbar(
        mesh,
        ax=axes,
        aspect=max(30, 5 * figure.get_figheight()),
        pad=0.01,
        extend=_extend(norm, scores),
    )
    bar.set_label(label)
    bar.outline.set_visible(False)
    if isinstance(norm, LogNorm):
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7)))
    bar.ax.yaxis.set_major_formatter("{x:g}")
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    if not np.isfinite(scores).any():
        bar.set_ticks([])


def _explain_frame(figure: Figure, baselines: bool) -> None:
    """Explain the frames below the figure."""
    text = "lowest test MASE of its panel"
    if baselines:
        text += "; among baselines that send no data,\nthe one of lowest validation MASE"
    frame = Rectangle((0, 0), 1, 1, fill=False, edgecolor=ACCENT, lw=1.5, label=text)
    figure.legend(handles=[frame], loc="outside lower left")


def _axes(
    below: dict[str, float], rows: int, counts: list[int], width: float
) -> tuple[Figure, NDArray[Any], dict[str, Axes]]:
    """The figure, its axes (states, sharing schemes), and the axes of the baselines by state.

    Args:
        below: height of the baselines of each state, in rows of baselines.
        rows: number of rows of the grid.
        counts: number of columns of the grid for each sharing scheme.
        width: width of the figure in inches.
    """
    parts = [(rows * _ROW, height * _BASELINE_ROW) for height in below.values()]
    heights = [height for part in parts for height in part if height]
    figure = Figure(
        figsize=(width, max(sum(heights) + 0.16 * len(below) + 1.45, 2.25)), layout="constrained"
    )
    space = figure.add_gridspec(
        len(heights), len(counts), width_ratios=counts, height_ratios=heights
    )
    axes, strips, row = [], {}, 0
    for state, height in below.items():
        axes.append([figure.add_subplot(space[row, j]) for j in range(len(counts))])
        row += 1
        if height:
            strips[state] = figure.add_subplot(space[row, :])
            row += 1
    for axis in figure.axes:
        axis.set(xticks=[], yticks=[])
        axis.tick_params(length=0, pad=2)
        axis.spines[:].set_visible(False)
    return figure, np.array(axes), strips


def _mean(study: Study) -> str:
    seeds = len(study.grid.seeds)
    return "mean over clients" + (f" and {seeds} seeds" if seeds > 1 else "")


def _head(axis: Axes, servers: list[str]) -> None:
    """Name the ServerOpts above their columns; without any, label the only column "none"."""
    axis.xaxis.tick_top()
    axis.xaxis.set_label_position("top")
    axis.set_xlabel("ServerOpt" if servers else "")
    names = servers or ["none"]
    axis.set_xticks(
        np.arange(len(names)) + 0.5, names, rotation=40, ha="left", rotation_mode="anchor"
    )


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
    # A single score is not marked as the lowest.
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
            _hatch(axis, x, y)
        if best:
            _box(axis, x, y)
    axis.set_ylim(len(values), 0)
    return mesh


def _strip(
    axis: Axes,
    values: pd.Series[float],
    best: str | None,
    columns: int,
    cmap: Colormap,
    norm: Normalize,
) -> None:
    """Draw the baselines of a state with their names, column by column, and a box around `best`."""
    axis.set_label("baselines")
    rows = -(-len(values) // columns)
    for k, (name, value) in enumerate(values.items()):
        x, y = divmod(k, rows)
        finite = bool(np.isfinite(value))
        colour = cmap(norm(value)) if finite else to_rgba(_ABSENT)
        axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="white", linewidth=0.5))
        if not finite:
            _hatch(axis, x, y)
        if name == best:
            _box(axis, x, y)
        shown = number(value) if finite else "n/a"
        for at, inset, side, text in (
            (x, 4, "left", baseline_label(str(name))),
            (x + 1, -4, "right", shown),
        ):
            axis.annotate(
                text,
                (at, y + 0.5),
                xytext=(inset, 0),
                textcoords="offset points",
                ha=side,
                va="center_baseline",
                fontsize=6.5,
                color=_ink(colour),
                weight="bold" if name == best else "normal",
            )
    axis.set_xlim(0, columns)
    axis.set_ylim(rows + _GAP, 0)
    axis.set_yticks([rows / 2], ["Baselines"])


def _hatch(axis: Axes, x: float, y: float) -> None:
    """Hatch the square at (x, y), which has no score."""
    axis.add_patch(Rectangle((x, y), 1, 1, fill=False, hatch="////", edgecolor="0.72", linewidth=0))


def _box(axis: Axes, x: float, y: float) -> None:
    """Draw a frame around the square at (x, y), above its neighbours."""
    axis.add_patch(
        Rectangle((x, y), 1, 1, fill=False, edgecolor=ACCENT, lw=1.5, zorder=4, clip_on=False)
    )


def number(value: float) -> str:
    """A score in print: two decimals, or fewer if it would not fit into its square."""
    return f"{value:.2f}" if value < 100 else f"{value:.0f}" if value < 1e4 else f"{value:.0e}"


def scale(values: NDArray[Any]) -> Normalize:
    """A colour scale from the lowest score to the highest, without outliers.

    On a logarithmic axis, the scale ends above the median at 1.5 times the distance from the lowest
    score to the median. Otherwise one failed optimiser would make all others look alike.
    """
    values = values[np.isfinite(values)]
    if not values.size:
        return Normalize(0, 1)
    logs = np.log(np.maximum(values, 1e-6))
    low, median, high = np.quantile(logs, [0, 0.5, 1])
    top = max(min(high, median + 1.5 * (median - low)), low + np.log(1.1))
    kind = LogNorm if top - low > np.log(2.5) else Normalize
    return kind(float(np.exp(low)), float(np.exp(top)))


def _extend(norm: Normalize, scores: NDArray[Any]) -> str:
    beyond = scores > (norm.vmax or np.inf) * (1 + 1e-9)
    return "max" if beyond.any() else "neither"


def _ink(background: tuple[float, float, float, float]) -> str:
    """Black or white, whichever reads better on `background` (WCAG relative luminance)."""
    rgb = np.array(background[:3])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return "black" if linear @ [0.2126, 0.7152, 0.0722] > 0.179 else "white"
