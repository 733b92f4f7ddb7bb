"""Validation MASE over the rounds: how fast each ClientOpt learns with its best ServerOpt."""

from dataclasses import astuple
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plfl.figures.style import COLUMN, PAGE, colour, log_if_wide, panels
from plfl.results.records import CELL
from plfl.results.tables import MODELS, Tables, client_label

OUTPUTS = ("convergence",)
_LINES: dict[str, Any] = {"local": "-", "global": (0, (2.5, 1.5))}


def draw(tables: Tables) -> dict[str, Figure]:
    """A panel per state and split; a line per ClientOpt and model, the mean over the clients.

    Of each ClientOpt it shows the cell (ServerOpt and seed) of least validation MASE of the local
    models at the last round; one of which every cell diverged has no line.
    """
    study = tables.study
    states, splits, optimisers = (
        study.data.states,
        study.grid.personalization,
        study.grid.client_opt,
    )
    records = tables.records([*CELL, "round", "model", "mae", "mase"], split="validation")
    records["finite"] = np.isfinite(records["mae"])
    rounds = records.groupby([*CELL, "model", "round"])
    # A client without persistence error has no MASE; one without a finite error has diverged.
    curves = rounds["mase"].mean().where(rounds["finite"].all())
    figure, axes = panels(
        len(states),
        len(splits),
        (PAGE if len(splits) > 1 else COLUMN, 1.4 * len(states) + 0.7),
        sharex=True,
        sharey="row",
    )
    for (i, state), (j, split) in product(enumerate(states), enumerate(splits)):
        axis = axes[i, j]
        for k, optimiser in enumerate(optimisers):
            cell = tables.best("local", state=state, personalization=split, client_opt=optimiser)
            if cell is None:
                continue
            for model in MODELS:
                curve = curves.loc[(*astuple(cell), model)]
                axis.plot(
                    curve.index,
                    curve.to_numpy(),
                    linestyle=_LINES[model],
                    markevery=max(1, len(curve) // 8),
                    **colour(k),
                )
        axis.grid(axis="y")
        if i == 0:
            axis.set_title(f"{split}\n{tables.split_label(split)}")
        axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True))
    for i, state in enumerate(states):
        drawn = [line.get_ydata() for axis in axes[i] for line in axis.get_lines()]
        if drawn:
            log_if_wide(axes[i], np.concatenate(drawn), 4, ticks=(1, 1.5, 2, 3, 5, 7))
        axes[i, 0].set_ylabel(f"{state}\nValidation MASE")
    for axis in axes[-1]:
        axis.set_xlabel("Round (global epoch)")
    lines = [
        Line2D([], [], label=client_label(name), **colour(k)) for k, name in enumerate(optimisers)
    ]
    models = [
        Line2D([], [], color="0.3", linestyle=_LINES[model], label=f"{model} model")
        for model in MODELS
    ]
    figure.legend(
        handles=[*lines, *models],
        loc="outside lower center",
        ncols=6 if len(splits) > 1 else 3,
        title="ClientOpt with its best ServerOpt (chosen on validation)",
        title_fontsize=7,
    )
    return {"convergence": figure}
