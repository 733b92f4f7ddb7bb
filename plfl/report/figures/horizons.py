"""Scores of every target of a window, for studies with several horizons."""

from dataclasses import asdict
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plfl.baselines import BASELINE
from plfl.report import intervals
from plfl.report.figures.best_baseline import legend_labels
from plfl.report.figures.style import COLOURS, PAGE, empty, fit, note, panels
from plfl.results.tables import Tables

OUTPUTS = ("horizons",)
CAPTION = (
    "Test scores of each target of a window by its time ahead, means over clients at the last"
    " round, of the local models of each state's cell of lowest validation MASE (within P2 if the"
    " study has it) and of the state's best baseline: MASE and, if intervals are forecast, the"
    " coverage of the widest interval, which is the fraction of loads inside it. The dashed lines"
    " are persistence and the nominal coverage."
)
_CELL: dict[str, Any] = {"color": COLOURS[2], "linewidth": 1.1, "label": "local model"}
_BASELINE: dict[str, Any] = {"color": COLOURS[0], "linewidth": 1.1}


def draw(tables: Tables) -> dict[str, Figure]:
    """A row of panels per state: MASE by time ahead, and the coverage of an interval."""
    study, targets = tables.study, tables.targets
    if targets is None:
        return {"horizons": empty("windows have one target")}
    states = study.data.states
    hours = targets["rows_ahead"] * study.data.interval / 60
    widest = next(iter(intervals.columns(tables)), None)
    scores = {"mase": 1.0} | ({f"coverage_{widest}": float(widest) / 100} if widest else {})
    figure, axes = panels(len(states), len(scores), (PAGE, 1.7 * len(states) + 0.5))
    whole = bool((hours % 1 == 0).all())
    steps = [1, 2, 3, 6, 10] if whole else [1, 2.5, 5, 10]
    best = {state: name for state, name in tables.best_baselines.items() if state in states}
    for row, state in zip(axes, states, strict=True):
        cell = tables.shown_cell(state)
        here = targets[targets["state"] == state]
        for axis, (score, reference) in zip(row, scores.items(), strict=True):
            axis.axhline(reference, color="0.6", linewidth=0.8, linestyle="--")
            if cell is None:
                note(axis, "every cell diverged")
                continue
            own = here[here["model"] == "local"]
            for key, value in asdict(cell).items():
                own = own[own[key] == value]
            _line(axis, own, score, study.data.interval, _CELL)
            if state in best:
                baseline = here[(here["sharing"] == BASELINE) & (here["method"] == best[state])]
                _line(axis, baseline, score, study.data.interval, _BASELINE)
            axis.set_ylabel("Test MASE" if score == "mase" else f"Coverage, {widest} % interval")
            axis.set_ylim(0, None if score == "mase" else 1)
            axis.set_xlabel("Hours ahead")
            axis.xaxis.set_major_locator(MaxNLocator(8, steps=steps, integer=whole))
            axis.grid()
        if cell is not None:
            title = f"{state}: {tables.name(cell)}"
            row[0].set_title(fit(title, 60), loc="left")
    shown = [Line2D([], [], **_CELL)]
    shown += [
        Line2D([], [], label=fit(label, 60), **_BASELINE) for label in legend_labels(best, states)
    ]
    figure.legend(handles=shown, loc="outside lower center", ncols=2)
    return {"horizons": figure}


def _line(axis: Axes, table: pd.DataFrame, score: str, interval: int, look: dict[str, Any]) -> None:
    table = table.sort_values("rows_ahead")
    axis.plot(table["rows_ahead"] * interval / 60, table[score], **look)
