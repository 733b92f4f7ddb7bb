"""Validation MASE over the rounds: how fast each ClientOpt learns with its best ServerOpt."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plfl.figures.style import COLOURS, COLUMN, PAGE, colour, fit, log_if_wide, note, panels
from plfl.results.records import CELL
from plfl.results.tables import MODELS, Tables

OUTPUTS = ("convergence",)
CAPTION = (
    "Validation MASE over the rounds, mean over clients (and seeds): each ClientOpt with the"
    " ServerOpt that did best on validation at the last round. Solid: local models, dashed: global"
    " models, dotted: persistence."
)
MOST = len(COLOURS)
"""Most optimisers that can be told apart."""
_LINES: dict[str, Any] = {"local": "-", "global": (0, (2.5, 1.5))}


def draw(tables: Tables) -> dict[str, Figure]:
    """A panel per state and split; a line per ClientOpt and model, mean over clients and seeds.

    Of each ClientOpt it shows the ServerOpt of least validation MASE of the local models at the
    last round; the panel names a ClientOpt that diverged with every ServerOpt, which has no line.
    """
    study = tables.study
    states, splits = study.data.states, study.grid.personalization
    curves = _curves(tables)
    last = tables.scores("local", "last")["validation_mase"]
    every = list(dict.fromkeys((cell.method, cell.client_opt) for cell in study.cells))
    optimisers = _best(last, every)
    some = f"the {MOST} best of {len(every)}, " if len(every) > MOST else ""
    wide = len(splits) > 1
    figure, axes = panels(
        len(states),
        len(splits),
        (PAGE if wide else COLUMN, 1.4 * len(states) + (0.7 if wide else 0.9) + 0.7 * bool(some)),
        sharex=True,
        sharey="row",
    )
    for (i, state), (j, split) in product(enumerate(states), enumerate(splits)):
        axis = axes[i, j]
        lost = []
        for k, optimiser in enumerate(optimisers):
            by_server = last.loc[state, split, *optimiser]
            if by_server.isna().all():
                lost.append(tables.client_side(*optimiser))
                continue
            for model in MODELS:
                curve = curves.loc[state, split, *optimiser, by_server.idxmin(), model]
                axis.plot(
                    curve.index,
                    curve.to_numpy(),
                    linestyle=_LINES[model],
                    markevery=max(1, len(curve) // 8),
                    **colour(k),
                )
        axis.axhline(1, color="0.55", linewidth=0.8, linestyle=":", zorder=1)
        if lost:
            note(axis, fit(f"diverged: {', '.join(lost)}", 40, lines=2))
        axis.grid(axis="y")
        if i == 0:
            axis.set_title(f"{fit(split, 40)}\n{tables.split_label(split)}")
        axis.set_xlim(0, study.federation.rounds * 1.03)
        axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True))
    for i, state in enumerate(states):
        drawn = [np.asarray(line.get_ydata()) for axis in axes[i] for line in axis.get_lines()]
        log_if_wide(axes[i], np.concatenate(drawn), 4, ticks=(1, 1.5, 2, 3, 5, 7))
        axes[i, 0].set_ylabel(f"{fit(state, 20)}\nValidation MASE")
    for axis in axes[-1]:
        axis.set_xlabel("Round (global epoch)")
    lines = [
        Line2D([], [], label=tables.client_side(*optimiser), **colour(k))
        for k, optimiser in enumerate(optimisers)
    ]
    models = [
        Line2D([], [], color="0.3", linestyle=_LINES[model], label=f"{model} model")
        for model in MODELS
    ]
    persistence = Line2D([], [], color="0.55", linewidth=0.8, linestyle=":", label="persistence")
    figure.legend(
        handles=[*lines, *models, persistence],
        loc="outside lower center",
        ncols=(7 if study.grid.method == ["fedopt"] else 4) if wide else 2,
        title=f"ClientOpt with its best ServerOpt ({some}chosen on validation)",
        title_fontsize=7,
    )
    return {"convergence": figure}


def _best(last: "pd.Series[float]", optimisers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The optimisers that fit into the figure, in their order: those of least mean rank.

    `last` is the validation MASE of every combination; ranks are within a state and split.
    """
    least = last.groupby(level=[0, 1, 2, 3]).min()
    ranks = least.groupby(level=[0, 1]).rank(na_option="bottom").groupby(level=[2, 3]).mean()
    kept = sorted(optimisers, key=lambda optimiser: ranks[optimiser])[:MOST]
    return [optimiser for optimiser in optimisers if optimiser in kept]


def _curves(tables: Tables) -> "pd.Series[float]":
    """Validation MASE, mean over clients and seeds, by cell without seed, model and round.

    A client without persistence error has no MASE and is left out; where the error of any client
    is not finite, the cell has diverged and there is no mean.
    """
    records = tables.records([*CELL, "model", "round", "mae", "mase"], split="validation")
    records["finite"] = np.isfinite(records["mae"])
    rounds = records.groupby([*CELL[:-1], "model", "round"])
    return rounds["mase"].mean().where(rounds["finite"].all())
