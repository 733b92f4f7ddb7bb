"""Validation MASE over the rounds: how fast each ClientOpt learns with its best ServerOpt."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plfl.report.figures.best_baseline import legend_labels
from plfl.report.figures.style import (
    COLOURS,
    COLUMN,
    PAGE,
    colour,
    fit,
    log_if_wide,
    note,
    panels,
    scheme_title,
)
from plfl.results.records import CELL, MODELS, Model
from plfl.results.tables import Tables

OUTPUTS = ("convergence",)
CAPTION = (
    "Validation MASE over the rounds, mean over clients (and seeds), of each ClientOpt with the"
    " ServerOpt of lowest validation MASE at the last round. Solid: local models; dashed: global"
    " models. Clients that share nothing have one model, drawn solid. Curves that coincide are"
    " drawn as one line in alternating colours. What diverged, or is left out of the study, has no"
    " curve. Horizontal lines: persistence (dotted) and the"
    " baseline of lowest validation MASE among those that send no data (dash-dotted)."
)
MOST = len(COLOURS)
"""Largest number of optimisers that can be told apart."""
_DASHES = {"local": (6.0, 0.0), "global": (2.5, 1.5)}
"""Lengths of the dashes of each model's curves and of the gaps between them, in line widths."""
_SAME = 2e-3
"""Largest relative difference of curves that coincide in print: less than the width of a line."""
_PERSISTENCE: dict[str, Any] = {"color": "0.55", "linewidth": 0.8, "linestyle": ":", "zorder": 1}
_BASELINE: dict[str, Any] = {"color": "0.15", "linewidth": 0.9, "linestyle": "-.", "zorder": 1.5}


def draw(tables: Tables) -> dict[str, Figure]:
    """One panel per state and sharing scheme, with one line per ClientOpt and model.

    Lines are means over clients and seeds. Each ClientOpt is shown with the ServerOpt of lowest
    validation MASE of its local models at the last round. A ClientOpt that diverged with every
    ServerOpt has no line; the panel names it. A ClientOpt that the study leaves out has no line,
    either. Horizontal lines are persistence and the state's best baseline.
    """
    study = tables.study
    states, schemes = study.data.states, study.grid.sharing
    curves = _curves(tables)
    last = tables.scores("local", "last")["validation_mase"]
    every = list(dict.fromkeys((cell.method, cell.client_opt) for cell in study.cells))
    optimisers = _best(last, every)
    best, baselines = tables.best_baselines, tables.baseline_scores["validation_mase"]
    some = f"the {MOST} best of {len(every)}, " if len(every) > MOST else ""
    labels = legend_labels(best, states)
    wide = len(schemes) > 1
    columns = 2 if not wide else 4 if len(labels) < 2 else 3
    rows = -(-(len(optimisers) + len(MODELS) + 1 + len(labels)) // columns)
    figure, axes = panels(
        len(states),
        len(schemes),
        (PAGE if wide else COLUMN, 1.4 * len(states) + 0.5 + 0.15 * (rows + bool(some))),
        sharex=True,
        sharey="row",
    )
    for (i, state), (j, scheme) in product(enumerate(states), enumerate(schemes)):
        axis = axes[i, j]
        here = curves.xs((state, scheme)), last.xs((state, scheme))
        _panel(axis, tables, here, scheme, optimisers)
        if state in best:
            axis.axhline(baselines[state, best[state]], **_BASELINE)
        if i == 0:
            shared = tables.scheme_label(scheme)
            axis.set_title(scheme_title(scheme, shared, len(schemes)))
    for i, state in enumerate(states):
        drawn = [np.asarray(line.get_ydata()) for axis in axes[i] for line in axis.get_lines()]
        log_if_wide(axes[i], np.concatenate(drawn), 4, ticks=(1, 1.5, 2, 3, 5, 7))
        axes[i, 0].set_ylabel(f"{fit(state, 20)}\nValidation MASE")
    for axis in axes[-1]:
        axis.set_xlabel("Round")
    figure.legend(
        handles=_handles(tables, optimisers, [fit(x, 52 if wide else 30, lines=2) for x in labels]),
        loc="outside lower center",
        ncols=columns,
        title=f"ClientOpt with its best ServerOpt ({some}chosen on validation)",
        title_fontsize=7,
    )
    return {"convergence": figure}


def _panel(
    axis: Axes,
    tables: Tables,
    here: tuple[pd.Series, pd.Series],
    scheme: str,
    optimisers: list[tuple[str, str]],
) -> None:
    """Draw a panel, given all curves and the last scores of its state and sharing scheme."""
    curves, last = (scores.sort_index() for scores in here)
    # A study may leave a method out of some of its sharing schemes (`grid.refused: skip`).
    trained = {optimiser for optimiser in optimisers if optimiser in last}
    lost = [o for o in optimisers if o in trained and last.loc[o].isna().all()]
    for model in MODELS:
        shown = {
            k: curves.loc[*optimiser, last.loc[optimiser].idxmin(), model]
            for k, optimiser in enumerate(optimisers)
            if optimiser in trained.difference(lost)
            and not (
                model == "global" and tables.study.combinations.trains_alone(scheme, optimiser[0])
            )
        }
        _draw(axis, shown, model)
    axis.axhline(1, **_PERSISTENCE)
    if lost:
        names = ", ".join(tables.client_side(*optimiser) for optimiser in lost)
        note(axis, fit(f"diverged: {names}", 40, lines=2))
    axis.grid(axis="y")
    axis.set_xlim(0, tables.study.federation.rounds * 1.03)
    axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True))


def _handles(
    tables: Tables, optimisers: list[tuple[str, str]], baselines: list[str]
) -> list[Line2D]:
    """The entries of the legend: optimisers, models, persistence, and the labels of `baselines`."""
    lines = [
        Line2D([], [], label=tables.client_side(*optimiser), **colour(k))
        for k, optimiser in enumerate(optimisers)
    ]
    models = [
        Line2D([], [], color="0.3", linestyle=_dashes(model, 0, 1), label=f"{model} model")
        for model in MODELS
    ]
    persistence = Line2D([], [], label="persistence", **_PERSISTENCE)
    beside = [Line2D([], [], label=label, **_BASELINE) for label in baselines]
    return [*lines, *models, persistence, *beside]


def _draw(axis: Axes, curves: dict[int, pd.Series[float]], model: Model) -> None:
    """Draw curves of one model, each in the colour of its key.

    Curves that coincide share one line, drawn in alternating colours.
    """
    for group in _alike(curves):
        for turn, k in enumerate(group):
            curve = curves[k]
            step = max(1, len(curve) // 8)
            axis.plot(
                curve.index,
                curve.to_numpy(),
                linestyle=_dashes(model, turn, len(group)),
                markevery=(turn * step, len(group) * step),
                **colour(k),
            )


def _alike(curves: dict[int, pd.Series[float]]) -> list[list[int]]:
    """The keys of `curves`, grouped where the curves coincide in print."""
    groups: list[list[int]] = []
    for k, curve in curves.items():
        for group in groups:
            if np.allclose(curve, curves[group[0]], rtol=_SAME, atol=0):
                group.append(k)
                break
        else:
            groups.append([k])
    return groups


def _dashes(model: Model, turn: int, turns: int) -> Any:
    """Line style of the `turn`-th of `turns` curves that share one line."""
    dash, gap = _DASHES[model]
    period = dash + gap
    if turns == 1 and not gap:
        return "-"
    return (-turn * period, (dash, gap + (turns - 1) * period))


def _best(last: pd.Series[float], optimisers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The optimisers of lowest mean rank, as many as the figure can show, in their order.

    `last` is the validation MASE of every combination. Optimisers are ranked within each state and
    sharing scheme.
    """
    least = last.groupby(level=[0, 1, 2, 3]).min()
    ranks = least.groupby(level=[0, 1]).rank(na_option="bottom").groupby(level=[2, 3]).mean()
    kept = sorted(optimisers, key=lambda optimiser: ranks[optimiser])[:MOST]
    return [optimiser for optimiser in optimisers if optimiser in kept]


def _curves(tables: Tables) -> pd.Series[float]:
    """Validation MASE, mean over clients and seeds, by cell without seed, model and round.

    A client whose persistence error is zero has no MASE and is left out. A cell with a client whose
    error is not finite has diverged, and its mean is NaN.
    """
    records = tables.records([*CELL, "model", "round", "mae", "mase"], split="validation")
    records["finite"] = np.isfinite(records["mae"])
    rounds = records.groupby([*CELL[:-1], "model", "round"])
    return rounds["mase"].mean().where(rounds["finite"].all())
