"""Validation MASE over the rounds: how fast each ClientOpt learns with its best ServerOpt."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plfl.report.figures.style import (
    BASELINE,
    COLOURS,
    COLUMN,
    PAGE,
    REFERENCE,
    best_baselines,
    fit,
    heading,
    log_if_wide,
    note,
    panels,
)
from plfl.results.records import CELL, MODELS
from plfl.results.tables import Tables

OUTPUTS = ("convergence",)
CAPTION = (
    "Validation MASE over the rounds, mean over clients (and seeds), of each ClientOpt with the"
    " ServerOpt of lowest validation MASE at the last round. Solid: local models; dashed: global"
    " models. Clients that share nothing have one model, drawn solid. What diverged, or is left out"
    " of the study, has no curve. Horizontal lines: persistence (dotted) and the"
    " baseline of lowest validation MASE among those that send no data (dash-dotted)."
)
MOST = len(COLOURS)
"""Largest number of optimisers that can be told apart."""


def draw(tables: Tables) -> dict[str, Figure]:
    """One panel per state and sharing scheme, with one line per ClientOpt and model.

    A ClientOpt that diverged with every ServerOpt has no line; the panel names it.
    """
    study, table = tables.study, curves(tables)
    states, schemes = study.data.states, study.grid.sharing
    every = list(dict.fromkeys(table["optimiser"]))
    # Those of lowest mean rank at the last round, within each state and sharing scheme.
    last = table[(table["round"] == table["round"].max()) & (table["model"] == "local")]
    ranks = last.pivot_table("mase", ["state", "sharing"], "optimiser", dropna=False, sort=False)
    ranks = ranks.rank(axis=1, na_option="bottom").mean()
    kept = [name for name in every if name in set(ranks.sort_values(kind="stable").index[:MOST])]
    some = f"the {MOST} best of {len(every)}, " if len(every) > MOST else ""
    wide = len(schemes) > 1
    labels, columns = best_baselines(tables), 4 if wide else 2
    rows = -(-(len(kept) + len(MODELS) + 1 + len(labels)) // columns)
    size = PAGE if wide else COLUMN, 1.4 * len(states) + 0.5 + 0.15 * (rows + bool(some))
    figure, axes = panels(len(states), len(schemes), size, sharex=True, sharey="row")
    palette = dict(zip(kept, COLOURS, strict=False))
    dashes: dict[str, Any] = {"local": (), "global": (3, 1.5)}
    best, baselines = tables.best_baselines, tables.baseline_scores["validation_mase"]
    for (i, state), (j, scheme) in product(enumerate(states), enumerate(schemes)):
        axis = axes[i, j]
        here = table[(table["state"] == state) & (table["sharing"] == scheme)]
        here = here[here["optimiser"].isin(kept)]
        ends = here[(here["round"] == here["round"].max()) & (here["model"] == "local")]
        lost = list(ends.loc[ends["mase"].isna(), "optimiser"])
        here = here[~here["optimiser"].isin(lost)]
        sns.lineplot(
            here,
            x="round",
            y="mase",
            hue="optimiser",
            style="model",
            errorbar=None,
            style_order=MODELS,
            palette=palette if len(here) else None,
            dashes=dashes,
            legend=False,
            ax=axis,
        )
        axis.axhline(1, **REFERENCE)
        if state in best:
            axis.axhline(baselines[state, best[state]], **BASELINE)
        if lost:
            note(axis, fit(f"diverged: {', '.join(lost)}", 40, lines=2))
        if i == 0:
            axis.set_title(heading(tables, scheme, 120 // max(len(schemes), 3)))
        axis.grid(axis="y")
        axis.set(xlabel="Round", xlim=(0, study.federation.rounds * 1.03))
        axis.set_ylabel(f"{fit(state, 20)}\nValidation MASE")
        axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True))
        axis.label_outer()
    for row in axes:
        shown = [np.asarray(line.get_ydata(), float) for axis in row for line in axis.get_lines()]
        log_if_wide(row, np.concatenate(shown), 4, ticks=(1, 1.5, 2, 3, 5, 7))
    handles = [Line2D([], [], label=name, color=palette[name]) for name in kept]
    handles += [
        Line2D(
            [],
            [],
            color="0.3",
            dashes=dashes[model],
            label=f"{model} model",
        )
        for model in MODELS
    ]
    handles.append(Line2D([], [], label="persistence", **REFERENCE))
    handles += [Line2D([], [], label=label, **BASELINE) for label in labels]
    title = f"ClientOpt with its best ServerOpt ({some}chosen on validation)"
    below: dict[str, Any] = {"loc": "outside lower center", "ncols": columns}
    figure.legend(handles=handles, title=title, title_fontsize=7, **below)
    return {"convergence": figure}


def curves(tables: Tables) -> pd.DataFrame:
    """Validation MASE over the rounds of each ClientOpt with its best ServerOpt, by `state`,
    `sharing`, `optimiser` (method and ClientOpt in print), `model` and `round`.

    `mase` is the mean over clients and seeds; NaN from the round in which a client's error is not
    finite. A client whose persistence error is zero has no MASE and is left out. `server_opt` is
    the one of lowest validation MASE of the local models at the last round. Where clients train
    alone, there are local models only.
    """
    study, keys = tables.study, [*CELL[:-1], "model", "round"]
    records = tables.records([*CELL, "model", "round", "mae", "mase"], split="validation")
    rounds = records.assign(finite=np.isfinite(records["mae"])).groupby(keys)
    table = rounds["mase"].mean().where(rounds["finite"].all()).reset_index()
    last = tables.scores("local")["validation_mase"].fillna(np.inf)
    names = [name for name in CELL[:-1] if name != "server_opt"]
    best = last.loc[last.groupby(names, sort=False).idxmin()].reset_index()[CELL[:-1]]
    table = best.merge(table, on=CELL[:-1])  # in the order of the study
    alone = [
        study.combinations.trains_alone(*pair)
        for pair in table[["sharing", "method"]].itertuples(index=False)
    ]
    table = table[~(np.array(alone, bool) & (table["model"] == "global"))]
    sides = table[["method", "client_opt"]].itertuples(index=False)
    return table.assign(optimiser=[tables.client_side(*side) for side in sides])
