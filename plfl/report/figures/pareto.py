"""Accuracy against cost: test MASE against bytes and, if time is simulated, against time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import SymmetricalLogLocator
from numpy.typing import NDArray

from plfl.baselines import BASELINE
from plfl.report.figures.style import (
    COLOURS,
    PAGE,
    REFERENCE,
    fit,
    log_if_wide,
    note,
    panels,
)
from plfl.results.records import CELL
from plfl.results.tables import Tables
from plfl.results.words import (
    baseline_label,
    client_label,
    method_label,
    server_label,
    shares,
)
from plfl.study import Cell

OUTPUTS = ("pareto",)
CAPTION = (
    "Test MASE at the last round, mean over clients (and seeds), against the bytes that each"
    " client exchanges in all rounds, both directions together, and, if the study simulates time,"
    " against the simulated time of all rounds. One point per combination of sharing scheme,"
    " method and optimisers; circles: local models, crosses: global models. A scheme that shares"
    " nothing has 0 bytes and one point for all ServerOpts. Diamonds are the baselines: they have 0"
    " bytes, except the pooled one, whose bytes are the clients' raw data; their time is not"
    " simulated. The line is the Pareto front of everything in the panel; the points on it have"
    " numbers, which the list beside them explains. Dotted: persistence."
)
_COSTS = {"megabytes": "Megabytes per client", "hours": "Simulated hours"}
_MARKERS = {"local": "o", "global": "X", BASELINE: "D"}
_FRONT: dict[str, Any] = {"color": "0.25", "linewidth": 0.8}


def draw(tables: Tables) -> dict[str, Figure]:
    """One row per state: test MASE against megabytes and, if time is simulated, against hours."""
    table, states = points(tables), tables.study.data.states
    costs = [cost for cost in _COSTS if cost in table]
    size = PAGE, 1.7 * len(states) + 0.8
    figure, axes = panels(len(states), len(costs), size, sharex="col", sharey="row")
    schemes = {
        scheme: fit(f"{scheme}: {shares(tables.study, scheme)}", 34)
        for scheme in tables.study.grid.sharing
    }
    table = table.assign(scheme=table["sharing"].map(schemes).fillna(BASELINE))
    handles: dict[str, Any] = {}
    palette = dict(zip(schemes.values(), itertools.cycle(COLOURS)))
    for row, state in zip(axes, states, strict=True):
        here = table[table["state"] == state]
        for axis, cost in zip(row, costs, strict=True):
            shown = here.dropna(subset=cost)
            sns.scatterplot(
                shown,
                x=cost,
                y="mase",
                hue="scheme",
                style="model",
                palette=palette | {BASELINE: "black"},
                markers=_MARKERS,
                s=22,
                ax=axis,
            )
            dots, names = axis.get_legend_handles_labels()
            handles |= dict(zip(names, dots, strict=True))
            axis.get_legend().remove()
            _front(axis, shown, cost)
            axis.axhline(1, **REFERENCE)
            axis.set(xlabel=_COSTS[cost], ylabel=f"{fit(state, 20)}\nTest MASE")
            axis.label_outer()
            axis.grid(axis="y")
        cells = here[here["model"] != BASELINE]
        if lost := int(cells["mase"].isna().sum()):
            note(row[0], f"{lost} of {len(cells)} points diverged")
        log_if_wide(row, here["mase"].to_numpy(), 2.5, ticks=(1, 1.5, 2, 3, 5, 7))
    for axis, cost in zip(axes[-1], costs, strict=True):
        _cost_axis(axis, table[cost].dropna().to_numpy())
    lines = {"Pareto front": _FRONT, "persistence": REFERENCE}
    handles |= {text: Line2D([], [], **look) for text, look in lines.items()}
    named = {text: handle for text, handle in handles.items() if text not in ("scheme", "model")}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=4)
    return {"pareto": figure}


def points(tables: Tables) -> pd.DataFrame:
    """One row per cell without its seed and model, then one per state and baseline with a score.

    Columns: the axes, `model`, `mase`, costs and `label`. The costs are `megabytes` and, if the
    study simulates time, `hours`. `mase` is NaN where a seed diverged. Clients that train alone are
    one point for all methods, ServerOpts and models. The `model` of a baseline is "baseline";
    persistence is left out, which the dotted line shows.
    """
    study, summary = tables.study, tables.summary
    axes = [*CELL[:-1], "model"]
    cells = summary[summary["chosen"] == "last"].groupby(axes, sort=False)
    table = cells[["mase_mean", "bytes_down", "bytes_up"]].mean()
    table["mase"] = table.pop("mase_mean").mask(cells["diverged"].any())
    table["bytes"] = table.pop("bytes_down") + table.pop("bytes_up")
    if "seconds" in summary:
        table["hours"] = cells["seconds"].mean() / 3600
    table = table.reset_index()
    named = [
        Cell(**dict(zip(CELL[:-1], map(str, row), strict=True)), seed=study.grid.seeds[0])
        for row in table[CELL[:-1]].to_numpy()
    ]
    table["label"] = [_name(tables, cell) for cell in named]
    alone = pd.Series([study.is_alone(cell) for cell in named])
    same = ["state", "sharing", "client_opt", "alone"]
    table = table[~(table.assign(alone=alone).duplicated(same) & alone)]
    beside = tables.baseline_scores.drop("persistence", level=1, errors="ignore").reset_index()
    beside = beside.dropna(subset="mase_mean").rename(columns={"mase_mean": "mase"})
    beside["label"] = beside["baseline"].map(baseline_label)
    beside = beside.rename(columns={"baseline": "method"})
    beside = beside.assign(model=BASELINE, sharing=BASELINE, client_opt="none", server_opt="none")
    table = pd.concat([table, beside.reindex(columns=table.columns)], ignore_index=True)
    clients = table["state"].map(study.data.clients_of).astype(int)
    return table.assign(megabytes=table.pop("bytes") / clients / 1e6)


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
    """Label of a point: its values on the axes that the study varies."""
    grid, alone = tables.study.grid, tables.study.is_alone(cell)
    method = [method_label(cell.method)] if len(grid.method) > 1 and not alone else []
    optimisers = [client_label(cell.client_opt)] if len(grid.client_opt) > 1 else []
    if len(grid.server_opt) > 1 and not alone:
        optimisers.append(server_label(cell.server_opt))
    named = [*method, " + ".join(optimisers)]
    return fit(" · ".join(filter(None, [cell.sharing, *named])), 32)


def _front(axis: Axes, here: pd.DataFrame, cost: str) -> None:
    """Draw the Pareto front as a staircase; number its points, and list their names beside."""
    best = here[front(here[cost], here["mase"])].sort_values(cost)
    if best.empty:
        return
    ends = [*best[cost], here[cost].max()]
    axis.step(ends, [*best["mase"], best["mase"].iloc[-1]], where="post", **_FRONT)
    lines = []
    for number, (x, y, name) in enumerate(best[[cost, "mase", "label"]].to_numpy(), 1):
        place: dict[str, Any] = {"textcoords": "offset points", "weight": "bold"}
        axis.annotate(str(number), (x, y), (3, 2), fontsize=6, **place)
        lines.append(f"{number}  {name}")
    text = "\n".join(lines)
    axis.annotate(text, (1.01, 1), xycoords="axes fraction", va="top", fontsize=6)


def _cost_axis(axis: Axes, values: NDArray[Any]) -> None:
    """Make the cost axis logarithmic if costs are more than a factor of 10 apart; linear near 0."""
    positive = values[values > 0]
    if positive.size and positive.max() / positive.min() > 10:
        linear = 10 ** np.floor(np.log10(positive.min()))
        axis.set_xscale("symlog", linthresh=linear, linscale=0.4)
        locator = SymmetricalLogLocator(base=10, linthresh=linear, subs=[1, 2, 5])
        axis.xaxis.set_major_locator(locator)
    scale = axis.xaxis.get_transform()
    least, most = scale.transform([values.min(), values.max()])
    margin = 0.06 * ((most - least) or 1.0)
    axis.set_xlim(*scale.inverted().transform([least - margin, most + margin]).tolist())
    axis.xaxis.set_major_formatter("{x:g}")
