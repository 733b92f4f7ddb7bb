"""What accuracy costs: test MASE against bytes and, where it was simulated, against time."""

from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import SymmetricalLogLocator
from numpy.typing import NDArray

from plfl.figures.style import COLUMN, PAGE, colour, fit, log_if_wide, note, panels
from plfl.results.records import CELL
from plfl.results.tables import MODELS, Tables, client_label, method_label, server_label
from plfl.study import Cell

OUTPUTS = ("pareto",)
CAPTION = (
    "Test MASE at the last round, mean over clients (and seeds), against all bytes that crossed the"
    " channel, per client and in both directions, and against the simulated time of all rounds"
    " where the study simulates time. A point is a method with its optimisers and split; filled:"
    " local models, open: global models. The line is the Pareto front: what lies on it, and is"
    " named, has the least MASE for its cost. A split that shares nothing stands at 0 bytes, once"
    " for all servers. Dotted: persistence."
)
_COSTS = {"megabytes": "Megabytes per client", "hours": "Simulated hours"}
_GRID = 3
"""Pixels between the places that are tried for a label."""
_GAP = 4
"""Pixels that a label keeps from everything else."""
_LEADER = 12
"""Pixels from a point beyond which a line leads to its label."""


def draw(tables: Tables) -> dict[str, Figure]:
    """A row a state: test MASE against megabytes and, if time was simulated, against hours."""
    study, table = tables.study, points(tables)
    states, splits = study.data.states, study.grid.personalization
    costs = [cost for cost in _COSTS if cost in table]
    wide = len(costs) > 1
    figure, axes = panels(
        len(states),
        len(costs),
        (PAGE if wide else COLUMN, 1.7 * len(states) + (0.7 if wide else 1.0)),
        sharex="col",
        sharey="row",
    )
    for row, state in zip(axes, states, strict=True):
        here = table[table["state"] == state]
        for axis, cost in zip(row, costs, strict=True):
            _scatter(axis, here, cost, splits)
        if lost := int(here["mase"].isna().sum()):
            note(row[-1], f"{lost} of {len(here)} points diverged")
        log_if_wide(row, here["mase"].to_numpy(), 2.5, ticks=(1, 1.5, 2, 3, 5, 7))
        row[0].set_ylabel(f"{fit(state, 20)}\nTest MASE")
    for axis, cost in zip(axes[-1], costs, strict=True):
        _cost_axis(axis, table[cost].to_numpy())
        axis.set_xlabel(_COSTS[cost])
    _legend(figure, tables, wide)
    figure.draw_without_rendering()  # labels find their places when the panels have theirs
    for row, state in zip(axes, states, strict=True):
        here = table[table["state"] == state]
        for axis, cost in zip(row, costs, strict=True):
            _label(axis, here[front(here[cost], here["mase"])], cost, here)
    return {"pareto": figure}


def points(tables: Tables) -> pd.DataFrame:
    """A row a point: the cell without its seed, `model`, `mase`, `megabytes`, `label`, `hours`.

    `mase` is NaN where a seed diverged. `hours` is there if the study simulates time. Clients that
    train by themselves are one point, whatever the method, the server and the model.
    """
    study, summary = tables.study, tables.summary
    axes = [*CELL[:-1], "model"]
    cells = summary[summary["chosen"] == "last"].groupby(axes, sort=False)
    table = cells[["mase_mean", "bytes_down", "bytes_up"]].mean()
    table["mase"] = table["mase_mean"].mask(cells["diverged"].any())
    table["megabytes"] = (table["bytes_down"] + table["bytes_up"]) / study.data.clients / 1e6
    if "seconds" in summary:
        table["hours"] = cells["seconds"].mean() / 3600
    table = table.drop(columns=["mase_mean", "bytes_down", "bytes_up"]).reset_index()
    named = [
        Cell(**dict(zip(CELL[:-1], map(str, row), strict=True)), seed=study.grid.seeds[0])
        for row in table[CELL[:-1]].to_numpy()
    ]
    table["label"] = [_name(tables, cell) for cell in named]
    alone = pd.Series([study.is_alone(cell) for cell in named])
    same = ["state", "personalization", "client_opt", "alone"]
    repeated = table.assign(alone=alone).duplicated(same) & alone
    return table[~repeated].reset_index(drop=True)


def front(cost: "pd.Series[float]", error: "pd.Series[float]") -> NDArray[np.bool_]:
    """Which points no other point equals or betters in both; one of equal points is enough."""
    values = error.to_numpy()
    order = np.lexsort((values, cost.to_numpy()))
    chosen, least = np.zeros(len(values), dtype=np.bool_), np.inf
    for i in order:
        if values[i] < least:
            chosen[i], least = True, values[i]
    return chosen


def _name(tables: Tables, cell: Cell) -> str:
    """What tells a point from others of its split: the axes that the study varies."""
    grid, alone = tables.study.grid, tables.study.is_alone(cell)
    method = [method_label(cell.method)] if len(grid.method) > 1 and not alone else []
    optimisers = [client_label(cell.client_opt)] if len(grid.client_opt) > 1 else []
    if len(grid.server_opt) > 1 and not alone:
        optimisers.append(server_label(cell.server_opt))
    named = " · ".join(filter(None, [*method, " + ".join(optimisers)]))
    return fit(named or cell.personalization, 32)


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


def _scatter(axis: Axes, here: pd.DataFrame, cost: str, splits: list[str]) -> None:
    """All points of a state, and its Pareto front as a staircase."""
    on_front = front(here[cost], here["mase"])
    for (k, split), model, best in product(enumerate(splits), MODELS, (False, True)):
        alike = (here["personalization"] == split) & (here["model"] == model) & (on_front == best)
        axis.plot(here.loc[alike, cost], here.loc[alike, "mase"], **_look(k, model, best))
    axis.plot(*_stairs(here[on_front], cost), color="0.25", linewidth=0.8)
    axis.axhline(1, color="0.55", linewidth=0.8, linestyle=":", zorder=1)
    axis.grid(axis="y")
    axis.margins(x=0.1, y=0.16)


def _stairs(best: pd.DataFrame, cost: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Corners of the staircase: each MASE holds until the cost of the next better one."""
    best = best.sort_values(cost)
    x, y = np.repeat(best[cost].to_numpy(), 2), np.repeat(best["mase"].to_numpy(), 2)
    return x[1:], y[:-1]


def _cost_axis(axis: Axes, values: NDArray[Any]) -> None:
    """A logarithmic axis where costs differ much, with a place for 0 where something is free."""
    positive = values[values > 0]
    if positive.size and positive.max() / positive.min() > 10:
        linear = 10 ** np.floor(np.log10(positive.min()))
        axis.set_xscale("symlog", linthresh=linear, linscale=0.4)
        # The scale knows no margins that stop at 0, and costs are never negative.
        reach = axis.transData.transform([(values.min(), 1), (values.max(), 1)])[:, 0]
        pad = 0.1 * (reach[1] - reach[0])
        ends = axis.transData.inverted().transform([(reach[0] - pad, 1), (reach[1] + pad, 1)])
        axis.set_xlim(*ends[:, 0].tolist())
        locator = SymmetricalLogLocator(base=10, linthresh=linear, subs=[1, 2, 5])
        axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter("{x:g}")


def _legend(figure: Figure, tables: Tables, wide: bool) -> None:
    of_splits = [
        Line2D(
            [],
            [],
            label=fit(f"{fit(split, 16)}: {tables.split_label(split)}", 32),
            **_look(k, "local", True),
        )
        for k, split in enumerate(tables.study.grid.personalization)
    ]
    of_models = [
        Line2D([], [], color="0.3", marker="o", linestyle="", mfc=face, label=f"{model} model")
        for model, face in zip(MODELS, ("0.3", "white"), strict=True)
    ]
    lines = [
        Line2D([], [], color="0.25", linewidth=0.8, label="Pareto front"),
        Line2D([], [], color="0.55", linewidth=0.8, linestyle=":", label="persistence"),
    ]
    figure.legend(
        handles=[*of_splits, *of_models, *lines],
        loc="outside lower center",
        ncols=4 if wide else 2,
    )


def _label(axis: Axes, best: pd.DataFrame, cost: str, here: pd.DataFrame) -> None:
    """Name the points of the front, each at the free place that is nearest to it.

    A label that finds no free place is left out.
    """
    pixels, root = axis.transData.transform, axis.get_figure(root=True)
    assert root is not None
    steps = []
    if len(best):
        corners = pixels(np.column_stack(_stairs(best, cost)))
        steps = [np.linspace(a, b, 60) for a, b in pairwise(corners)]
    dots = np.concatenate([pixels(here[[cost, "mase"]].dropna().to_numpy()), *steps])
    remarks = [text.get_window_extent().extents for text in axis.texts]
    taken = np.vstack([np.hstack([dots, dots]), *remarks])
    inside = axis.get_window_extent().padded(-_GAP)
    for x, y, name in best[[cost, "mase", "label"]].itertuples(index=False):
        text = axis.annotate(
            name,
            (x, y),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=6.5,
            bbox={"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none"},
            arrowprops={"arrowstyle": "-", "color": "0.5", "linewidth": 0.5, "shrinkB": 3},
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
