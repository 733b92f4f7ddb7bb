"""Accuracy against cost: test MASE against bytes and, if time is simulated, against time."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator, SymmetricalLogLocator
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from plfl.baselines import BASELINE
from plfl.config.study import Cell
from plfl.report.figures.style import COLUMN, PAGE, colour, fit, log_if_wide, note, panels
from plfl.results.labels import baseline_label, client_label, method_label, server_label
from plfl.results.records import CELL, MODELS
from plfl.results.tables import Tables

OUTPUTS = ("pareto",)
CAPTION = (
    "Test MASE at the last round, mean over clients (and seeds), against the bytes that each"
    " client exchanges in all rounds, both directions together, and, if the study simulates time,"
    " against the simulated time of all rounds. One point per combination of sharing scheme,"
    " method and optimisers; filled: local models, open: global models. A scheme that shares"
    " nothing has 0 bytes and one point for all ServerOpts. Stars are the baselines: they have 0"
    " bytes, except the pooled one, whose bytes are the clients' raw data; their time is not"
    " simulated. The line is the Pareto front of everything in the panel; the points on it are"
    " named. Dotted: persistence."
)
_COSTS = {"megabytes": "Megabytes per client", "hours": "Simulated hours"}
_STAR: dict[str, Any] = {
    "color": "black",
    "marker": "*",
    "linestyle": "",
    "markersize": 6,
    "markeredgewidth": 0,
    "zorder": 1.5,
}
_PLAIN = {"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none"}
_THIN = {"arrowstyle": "-", "color": "0.5", "linewidth": 0.5, "shrinkB": 3}
"""Box and leader of a label."""
_NAMES = 2.0
"""Width in inches of the names of baselines, left of the points of cost 0."""
_ROOM = {1: PAGE - 0.8, 2: 0.6 * (PAGE - 1)}
"""Approximate width in inches of the first panel of a wide figure, by the number of panels."""
_GRID = 3
"""Pixels between the positions tried for a label."""
_GAP = 6
"""Smallest distance in pixels between a label and the centre of a marker, a line or a label."""
_LINE = 8.5
"""Distance in points between the centres of two names, one below the other."""
_LEADER = 12
"""Distance in pixels beyond which a line connects a label with its point."""


def draw(tables: Tables) -> dict[str, Figure]:
    """One row per state: test MASE against megabytes and, if time is simulated, against hours."""
    study = tables.study
    cells, beside = points(tables), baseline_points(tables)
    table = pd.concat([cells, beside], ignore_index=True) if len(beside) else cells
    states, schemes = study.data.states, study.grid.sharing
    costs = [cost for cost in _COSTS if cost in table]
    wide = len(costs) > 1 or len(beside) > 0
    figure, axes = panels(
        len(states),
        len(costs),
        (PAGE if wide else COLUMN, 1.7 * len(states) + (0.7 if wide else 1.0)),
        sharex="col",
        sharey="row",
        # The names of the baselines are in the first column.
        width_ratios=[1.5 if len(beside) else 1, 1][: len(costs)],
    )
    for row, state in zip(axes, states, strict=True):
        here = table[table["state"] == state]
        for axis, cost in zip(row, costs, strict=True):
            _scatter(axis, here, cost, schemes)
        cell = here[here["model"] != BASELINE]
        if lost := int(cell["mase"].isna().sum()):
            note(row[-1], f"{lost} of {len(cell)} points diverged")
        log_if_wide(row, here["mase"].to_numpy(), 2.5, ticks=(1, 1.5, 2, 3, 5, 7))
        row[0].set_ylabel(f"{fit(state, 20)}\nTest MASE")
    for axis, cost in zip(axes[-1], costs, strict=True):
        names = _NAMES if len(beside) and cost == "megabytes" else 0
        _cost_axis(axis, table[cost].dropna().to_numpy(), names / _ROOM[len(costs)])
        axis.set_xlabel(_COSTS[cost])
    _legend(figure, tables, wide, stars=len(beside) > 0)
    figure.draw_without_rendering()  # labels are placed once the layout of the panels is known
    for row, state in zip(axes, states, strict=True):
        here = table[table["state"] == state]
        for axis, cost in zip(row, costs, strict=True):
            _name_free(axis, here, cost)
            _label(axis, here.dropna(subset=cost), cost)
    return {"pareto": figure}


def points(tables: Tables) -> pd.DataFrame:
    """One row per cell without its seed and model: the axes, `model`, `mase`, costs and `label`.

    The costs are `megabytes` and, if the study simulates time, `hours`. `mase` is NaN where a seed
    diverged. Clients that train alone are one point for all methods, ServerOpts and models.
    """
    study, summary = tables.study, tables.summary
    axes = [*CELL[:-1], "model"]
    cells = summary[summary["chosen"] == "last"].groupby(axes, sort=False)
    table = cells[["mase_mean", "bytes_down", "bytes_up"]].mean()
    table["mase"] = table["mase_mean"].mask(cells["diverged"].any())
    clients = table.index.get_level_values("state").map(study.data.clients_of).astype(int)
    table["megabytes"] = (table["bytes_down"] + table["bytes_up"]) / clients / 1e6
    if "seconds" in summary:
        table["hours"] = cells["seconds"].mean() / 3600
    table = table.drop(columns=["mase_mean", "bytes_down", "bytes_up"]).reset_index()
    named = [
        Cell(**dict(zip(CELL[:-1], map(str, row), strict=True)), seed=study.grid.seeds[0])
        for row in table[CELL[:-1]].to_numpy()
    ]
    table["label"] = [_name(tables, cell) for cell in named]
    alone = pd.Series([study.is_alone(cell) for cell in named])
    same = ["state", "sharing", "client_opt", "alone"]
    repeated = table.assign(alone=alone).duplicated(same) & alone
    return table[~repeated].reset_index(drop=True)


def baseline_points(tables: Tables) -> pd.DataFrame:
    """One row per state and baseline with a score: `state`, `model`, `mase`, `megabytes`, `label`.

    `model` is "baseline". Persistence is left out; the dotted line shows it.
    """
    table = tables.baseline_scores.drop("persistence", level=1, errors="ignore")
    table = table.reset_index().dropna(subset="mase_mean")
    clients = table["state"].map(tables.study.data.clients_of).astype(int)
    return pd.DataFrame(
        {
            "state": table["state"],
            "model": BASELINE,
            "mase": table["mase_mean"],
            "megabytes": table["bytes"] / clients / 1e6,
            "label": [baseline_label(name) for name in table["baseline"]],
        }
    )


def front(cost: pd.Series[float], error: pd.Series[float]) -> NDArray[np.bool_]:
    """Mask of the points on the Pareto front; of equal points, only the first."""
    values = error.to_numpy()
    order = np.lexsort((values, cost.to_numpy()))
    chosen, least = np.zeros(len(values), dtype=np.bool_), np.inf
    for i in order:
        if values[i] < least:
            chosen[i], least = True, values[i]
    return chosen


def _name(tables: Tables, cell: Cell) -> str:
    """Label of a point: its values on the axes that the study varies, except the sharing scheme."""
    grid, alone = tables.study.grid, tables.study.is_alone(cell)
    method = [method_label(cell.method)] if len(grid.method) > 1 and not alone else []
    optimisers = [client_label(cell.client_opt)] if len(grid.client_opt) > 1 else []
    if len(grid.server_opt) > 1 and not alone:
        optimisers.append(server_label(cell.server_opt))
    named = " · ".join(filter(None, [*method, " + ".join(optimisers)]))
    return fit(named or cell.sharing, 32)


def _look(k: int, model: str, on_front: bool) -> dict[str, Any]:
    look = colour(k)
    return {
        **look,
        "linestyle": "",
        "markerfacecolor": look["color"] if model == "local" else "white",
        "markersize": 4.5 if on_front else 3,
        "alpha": 1 if on_front else 0.5,
        "zorder": 3 if on_front else 2,
    }


def _scatter(axis: Axes, here: pd.DataFrame, cost: str, schemes: list[str]) -> None:
    """Draw all points of a state that have a value of this cost, and their Pareto front as a
    staircase."""
    here = here.dropna(subset=cost)
    on_front = front(here[cost], here["mase"])
    for (k, scheme), model, best in product(enumerate(schemes), MODELS, (False, True)):
        alike = (here["sharing"] == scheme) & (here["model"] == model) & (on_front == best)
        axis.plot(here.loc[alike, cost], here.loc[alike, "mase"], **_look(k, model, best))
    beside = here[here["model"] == BASELINE]
    axis.plot(beside[cost], beside["mase"], **_STAR)
    axis.plot(
        *_stairs(here[on_front], cost, here[cost].max()), color="0.25", linewidth=0.8, zorder=1.4
    )
    axis.axhline(1, color="0.55", linewidth=0.8, linestyle=":", zorder=1)
    axis.grid(axis="y")
    axis.margins(x=0.1, y=0.16)


def _stairs(best: pd.DataFrame, cost: str, end: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Corners of the staircase up to the cost `end`.

    Each MASE extends to the cost of the next lower MASE.
    """
    best = best.sort_values(cost)
    x, y = np.repeat(best[cost].to_numpy(), 2), np.repeat(best["mase"].to_numpy(), 2)
    return np.append(x[1:], end)[: len(y)], y


def _cost_axis(axis: Axes, values: NDArray[Any], names: float) -> None:
    """Scale the cost axis: logarithmic for costs more than a factor of 10 apart, linear near 0.

    Args:
        axis: a panel of the last row.
        values: the costs.
        names: part of the axis kept free for names, left of the lowest cost.
    """
    positive = values[values > 0]
    if positive.size and positive.max() / positive.min() > 10:
        linear = 10 ** np.floor(np.log10(positive.min()))
        axis.set_xscale("symlog", linthresh=linear, linscale=0.4)
        locator = SymmetricalLogLocator(base=10, linthresh=linear, subs=[1, 2, 5])
        axis.xaxis.set_major_locator(locator)
    # The default margins would extend below 0, but costs are never negative.
    scale = axis.xaxis.get_transform()
    least, most = scale.transform([values.min(), values.max()])
    span = most - least or 1.0
    ends = least - span * max(0.1, 1.1 * names / (1 - names)), most + 0.1 * span
    axis.set_xlim(*scale.inverted().transform(ends).tolist())
    if names:
        axis.set_xticks([tick for tick in axis.get_xticks() if 0 <= tick <= axis.get_xlim()[1]])
        axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter("{x:g}")


def _legend(figure: Figure, tables: Tables, wide: bool, stars: bool) -> None:
    of_schemes = [
        Line2D(
            [],
            [],
            label=fit(f"{fit(scheme, 16)}: {tables.scheme_label(scheme)}", 32),
            **_look(k, "local", True),
        )
        for k, scheme in enumerate(tables.study.grid.sharing)
    ]
    of_models = [
        Line2D([], [], color="0.3", marker="o", linestyle="", mfc=face, label=f"{model} model")
        for model, face in zip(MODELS, ("0.3", "white"), strict=True)
    ]
    of_baselines = [Line2D([], [], label="baseline", **_STAR)] if stars else []
    lines = [
        Line2D([], [], color="0.25", linewidth=0.8, label="Pareto front"),
        Line2D([], [], color="0.55", linewidth=0.8, linestyle=":", label="persistence"),
    ]
    figure.legend(
        handles=[*of_schemes, *of_models, *of_baselines, *lines],
        loc="outside lower center",
        ncols=4 if wide else 2,
    )


def _name_free(axis: Axes, here: pd.DataFrame, cost: str) -> None:
    """Name the baselines of cost 0 in a column to their left, in their order."""
    free = here[(here["model"] == BASELINE) & (here[cost] == 0)].sort_values("mase", kind="stable")
    if free.empty:
        return
    root = axis.get_figure(root=True)
    assert root is not None
    points_per_pixel = 72 / root.dpi
    heights = axis.transData.transform(free[[cost, "mase"]].to_numpy())[:, 1] * points_per_pixel
    panel = axis.get_window_extent()
    ends = panel.y0 * points_per_pixel, panel.y1 * points_per_pixel
    shifts = spread(heights, _LINE, *ends) - heights
    for (mase, name), shift in zip(free[["mase", "label"]].to_numpy(), shifts, strict=True):
        axis.annotate(
            name,
            (0, mase),
            xytext=(-14, shift),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=6.5,
            bbox=_PLAIN,
            arrowprops=_THIN | {"shrinkA": 0, "relpos": (1, 0.5)},
        )


def spread(heights: NDArray[Any], gap: float, low: float, high: float) -> NDArray[Any]:
    """Heights at least `gap` apart, between `low` and `high`, as close as possible to `heights`.

    `heights` are sorted. The gap is reduced if it does not fit.
    """
    gap = min(gap, (high - low) / len(heights))
    steps = gap * np.arange(len(heights))
    nearest = isotonic_regression(heights - steps).x
    found: NDArray[Any] = np.clip(nearest, low + gap / 2, high - gap / 2 - steps[-1]) + steps
    return found


def _label(axis: Axes, here: pd.DataFrame, cost: str) -> None:
    """Name the points of the front and the baselines of cost above 0, each next to its point.

    A label goes to the nearest free position; if there is none, it is left out.
    """
    on_front, baseline = front(here[cost], here["mase"]), here["model"] == BASELINE
    named = here[(on_front & ~baseline) | (baseline & (here[cost] > 0))]
    best = here[on_front]
    pixels, root = axis.transData.transform, axis.get_figure(root=True)
    assert root is not None
    steps = []
    if len(best):
        corners = pixels(np.column_stack(_stairs(best, cost, here[cost].max())))
        steps = [np.linspace(a, b, 60) for a, b in pairwise(corners)]
    dots = np.concatenate([pixels(here[[cost, "mase"]].dropna().to_numpy()), *steps])
    remarks = [text.get_window_extent().extents for text in axis.texts]
    taken = np.vstack([np.hstack([dots, dots]), *remarks])
    inside = axis.get_window_extent().padded(-_GAP)
    for x, y, name in named[[cost, "mase", "label"]].itertuples(index=False):
        text = axis.annotate(
            name,
            (x, y),
            xytext=(0, 0),
            textcoords="offset points",
            va="bottom",
            fontsize=6.5,
            bbox=_PLAIN,
            arrowprops=_THIN,
        )
        size = text.get_window_extent().size
        across = np.arange(inside.x0, inside.x1 - size[0], _GRID)
        up = np.arange(inside.y0, inside.y1 - size[1], _GRID)
        corner = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
        places = np.hstack([corner, corner + size])
        blocked = np.zeros(len(places), dtype=np.bool_)
        for box in taken:
            blocked |= (places[:, :2] < box[2:] + _GAP).all(1) & (
                places[:, 2:] > box[:2] - _GAP
            ).all(1)
        if blocked.all():
            text.remove()
            continue
        point = pixels((x, y))
        gaps = np.maximum(0, np.maximum(places[:, :2] - point, point - places[:, 2:]))
        distances = np.where(blocked, np.inf, np.hypot(*gaps.T))
        nearest = int(distances.argmin())
        text.set_position(tuple((places[nearest, :2] - point) * 72 / root.dpi))
        assert text.arrow_patch is not None
        text.arrow_patch.set_visible(bool(distances[nearest] > _LEADER))
        taken = np.vstack([taken, places[nearest]])
