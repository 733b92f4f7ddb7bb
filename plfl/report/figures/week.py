"""A week of forecasts and the actual load, for the median client of each state."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.dates import DateFormatter, DayLocator
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from plfl.base.errors import ResultsError
from plfl.config.study import Cell
from plfl.report import intervals
from plfl.report.figures.best_baseline import legend_labels
from plfl.report.figures.style import COLOURS, PAGE, empty, fit, note, panels
from plfl.results.labels import baseline_label
from plfl.results.records import REMEDY
from plfl.results.tables import Tables

OUTPUTS = ("week",)
CAPTION = (
    "First week of the test set: load, forecast of the local model of the last round, and"
    " persistence, in each state's federation of lowest validation MASE, for the client of median"
    " test MASE. Also shown: the forecast of the state's best baseline,"
    " which is the one of lowest validation MASE among those that send no data, with its test MASE"
    " for the same client. Where a window has several targets, forecasts follow each other without"
    " overlap. Intervals are shaded. Times are local standard time."
)
_LINES: dict[str, dict[str, Any]] = {
    "persistence": {"color": "0.65", "linewidth": 0.6, "label": "persistence"},
    "truth": {"color": "black", "linewidth": 0.9, "label": "load"},
    "local": {"color": COLOURS[2], "linewidth": 0.9, "label": "forecast (local model)"},
}
_FAN: dict[str, Any] = {"color": COLOURS[2], "alpha": 0.22, "linewidth": 0, "zorder": 1.5}
_WIDTH = 110
"""Characters in a line of a title."""
_BASELINE: dict[str, Any] = {"color": COLOURS[0], "linewidth": 0.9, "zorder": 1.9}
"""Style of the baseline's line. It is drawn below the others, because persistence may be the best
baseline."""


def draw(tables: Tables) -> dict[str, Figure]:
    """One panel per state: load, persistence, and forecasts of a local model and a baseline.

    The cell is the federation of lowest validation MASE in the state. The client is the one of
    median test MASE. The baseline is the state's best one.
    """
    states, best = tables.study.data.states, tables.best_baselines
    if not any(tables.shown_cell(state) for state in states):
        return {"week": empty("every cell diverged")}
    if not tables.keeps_forecasts:
        return {"week": empty("the readings stay with their owner")}
    figure, axes = panels(len(states), 1, (PAGE, 1.6 * len(states) + 0.4))
    baselines = {}
    for axis, state in zip(axes[:, 0], states, strict=True):
        axis.set_ylabel(f"Load ({tables.load_unit})")
        cell = tables.shown_cell(state)
        if cell is None:
            axis.set_title(state, loc="left")
            axis.set(xticks=[], yticks=[])
            note(axis, "every cell diverged")
            continue
        client, mase = _median_client(tables, cell)
        ends = intervals.columns(tables).values()
        columns = [column for pair in ends for column in pair]
        week = tables.forecasts(["stamp", *_LINES, *columns], client=client, **asdict(cell))
        if week.empty:
            raise ResultsError(
                f"{tables.folder / 'forecasts.parquet'}: has no rows for client {client} in cell "
                f"{cell}; {REMEDY}"
            )
        for column, look in _LINES.items():
            axis.plot(*_broken(week, column), **look)
        for low, high in ends:
            axis.fill_between(*_broken(week, low), _broken(week, high)[1], **_FAN)
        compared, bottom = "", min(0.0, float(np.nanmin(week[[*_LINES, *columns]])))
        if state in best:
            baselines[state] = best[state]
            forecast, compared = _of_baseline(tables, state, best[state], client)
            axis.plot(*_broken(forecast, "forecast"), **_BASELINE)
            bottom = min(bottom, float(forecast["forecast"].min()))
        own = (
            f"{state}, {client}: {tables.name(cell)}, "
            f"test\N{NO-BREAK SPACE}MASE\N{NO-BREAK SPACE}{mase:.2f}"
        )
        axis.set_title(_title(own, compared), loc="left")
        axis.xaxis.set_major_locator(DayLocator())  # type: ignore[no-untyped-call]
        axis.xaxis.set_major_formatter(DateFormatter("%a %d %b"))  # type: ignore[no-untyped-call]
        axis.margins(x=0)
        axis.set_ylim(bottom=bottom)
        axis.grid()
    shown: list[Artist] = [Line2D([], [], **look) for look in _LINES.values()]
    if covered := intervals.columns(tables):
        listed = ", ".join(f"{percent} %" for percent in covered)
        shown.append(Patch(label=f"intervals of the forecast: {listed}", **_FAN))
    labels = legend_labels(baselines, states)
    shown += [Line2D([], [], label=fit(label, 60), **_BASELINE) for label in labels]
    # Several baselines are named with their states, which takes more room.
    most = 3 if len(labels) == 1 else 2
    ncols = 4 if len(shown) < 5 else most
    figure.legend(handles=shown, loc="outside lower center", ncols=ncols)
    return {"week": figure}


def _title(own: str, compared: str) -> str:
    """The model and the baseline with their scores, on two lines if they do not fit into one."""
    whole = "; ".join(filter(None, (own, compared)))
    apart = len(whole) > _WIDTH and max(len(own), len(compared)) <= _WIDTH
    return "\n".join(fit(line, _WIDTH, lines=2) for line in ([own, compared] if apart else [whole]))


def _broken(week: pd.DataFrame, column: str) -> tuple[pd.Series, pd.Series]:
    """Stamps and values of a line that is interrupted where windows touch a gap in the readings."""
    steps = week["stamp"].diff()
    gaps = week[steps > steps.min()].index
    # A missing value just before the first reading after the gap.
    breaks = week.loc[gaps].assign(**{column: np.nan})
    line = pd.concat([breaks, week]).sort_values("stamp", kind="stable")
    return line["stamp"], line[column]


def _of_baseline(tables: Tables, state: str, name: str, client: str) -> tuple[pd.DataFrame, str]:
    """A baseline's week of a client (`stamp`, `forecast`), and its name and test MASE in print."""
    week = tables.baseline_forecasts(
        ["stamp", "forecast"], state=state, baseline=name, client=client
    )
    if week.empty:
        raise ResultsError(
            f"{tables.folder / 'baseline_forecasts.parquet'}: has no rows for client {client} and "
            f"baseline {name}; {REMEDY}"
        )
    mase = tables.baselines.set_index(["state", "baseline", "client", "split"])["mase"]
    score = f"test\N{NO-BREAK SPACE}MASE\N{NO-BREAK SPACE}{mase[state, name, client, 'test']:.2f}"
    return week, f"{baseline_label(name)}, {score}"


def _median_client(tables: Tables, cell: Cell) -> tuple[str, float]:
    """The client of (lower) median test MASE of the local model at the last round, and its MASE.

    A client whose persistence error is zero has no MASE and comes last.
    """
    scores = tables.test_scores(cell).sort_values(kind="stable")
    middle = max(scores.count() - 1, 0) // 2
    return str(scores.index[middle]), float(scores.iloc[middle])
