"""A week of forecasts and the actual load, for the median client of each state."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pandas as pd
from matplotlib.dates import DateFormatter, DayLocator
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from plfl.base.errors import ResultsError
from plfl.report.figures.style import COLOURS, PAGE, best_baselines, fit, note, panels
from plfl.results.records import REMEDY
from plfl.results.tables import Tables
from plfl.results.words import baseline_label
from plfl.study import Cell

OUTPUTS = ("week",)
CAPTION = (
    "First week of the test set: load, forecast of the local model of the last round, and"
    " persistence, in each state's federation of lowest validation MASE, for the client of median"
    " test MASE. Also shown: the forecast of the state's best baseline,"
    " which is the one of lowest validation MASE among those that send no data, with its test MASE"
    " for the same client. Where a window has several targets, forecasts follow each other without"
    " overlap. Intervals are shaded. Times are local standard time."
)
LINES: dict[str, dict[str, Any]] = {
    "baseline": {"color": COLOURS[0], "linewidth": 0.9, "label": "best baseline"},
    "persistence": {"color": "0.65", "linewidth": 0.6, "label": "persistence"},
    "truth": {"color": "black", "linewidth": 0.9, "label": "load"},
    "local": {"color": COLOURS[2], "linewidth": 0.9, "label": "forecast (local model)"},
}
"""The lines from back to front; persistence may be the best baseline."""
_FAN: dict[str, Any] = {"color": COLOURS[2], "alpha": 0.22, "linewidth": 0, "zorder": 1.5}


def draw(tables: Tables) -> dict[str, Figure]:
    """One panel per state: load, persistence, and forecasts of a local model and a baseline.

    The cell is the federation of lowest validation MASE in the state. The client is the one of
    median test MASE. The baseline is the state's best one.
    """
    states, best = tables.study.data.states, tables.best_baselines
    ends = tables.intervals
    figure, axes = panels(len(states), 1, (PAGE, 1.6 * len(states) + 0.4))
    for axis, state in zip(axes[:, 0], states, strict=True):
        axis.set_ylabel(f"Load ({tables.load_unit})")
        cell = tables.shown_cell(state)
        if cell is None:
            axis.set_title(state, loc="left")
            axis.set(xticks=[], yticks=[])
            note(axis, "every cell diverged")
            continue
        client, mase = _median_client(tables, cell)
        week = forecasts(tables, cell, best.get(state), client=client)
        week = unbroken(week, tables.study.data.interval)
        for name in LINES:
            if name in week:
                axis.plot(week["stamp"], week[name], **LINES[name])
        for low, high in ends.values():
            axis.fill_between(week["stamp"], week[low], week[high], **_FAN)
        title = f"{state}, {client}: {tables.name(cell)}, test MASE {mase:.2f}"
        if state in best:
            scores = tables.baselines.set_index(["state", "baseline", "client", "split"])["mase"]
            score = scores[state, best[state], client, "test"]
            title += f"; {baseline_label(best[state])}, test MASE {score:.2f}"
        axis.set_title(fit(title, 110, lines=2), loc="left")
        axis.xaxis.set_major_locator(DayLocator())  # type: ignore[no-untyped-call]
        axis.xaxis.set_major_formatter(DateFormatter("%a %d %b"))  # type: ignore[no-untyped-call]
        axis.margins(x=0)
        axis.set(xlabel="", ylabel=f"Load ({tables.load_unit})")
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
        axis.grid()
    handles: list[Any] = [Line2D([], [], **LINES[n]) for n in ("persistence", "truth", "local")]
    if ends:
        listed = ", ".join(f"{percent} %" for percent in ends)
        handles.append(Patch(label=f"intervals of the forecast: {listed}", **_FAN))
    labels = best_baselines(tables)
    handles += [Line2D([], [], **(LINES["baseline"] | {"label": label})) for label in labels]
    figure.legend(handles=handles, loc="outside lower center", ncols=4 if len(handles) < 5 else 3)
    return {"week": figure}


def forecasts(tables: Tables, cell: Cell, baseline: str | None, **client: str) -> pd.DataFrame:
    """A week of all clients of a cell's state, or of one `client`: `client`, `stamp`, the `LINES`
    that there are, and the ends of intervals.

    Raises:
        ResultsError: the tables lack the week.
    """
    columns = [column for pair in tables.intervals.values() for column in pair]
    wanted = ["client", "stamp", "persistence", "truth", "local", *columns]
    week = tables.forecasts(wanted, **client, **asdict(cell))
    about = "".join(f"client {name} and " for name in client.values())
    if week.empty:
        path = tables.folder / "forecasts.parquet"
        raise ResultsError(f"{path}: has no rows for {about}cell {cell}; {REMEDY}")
    if baseline is None:
        return week
    equal = {"state": cell.state, "baseline": baseline, **client}
    other = tables.baseline_forecasts(["client", "stamp", "forecast"], **equal)
    if other.empty:
        path = tables.folder / "baseline_forecasts.parquet"
        raise ResultsError(f"{path}: has no rows for {about}baseline {baseline}; {REMEDY}")
    other = other.rename(columns={"forecast": "baseline"})
    return week.merge(other, on=["client", "stamp"], how="left")


def unbroken(week: pd.DataFrame, minutes: int) -> pd.DataFrame:
    """A week with a row for every interval, so that lines stop where windows touch a gap."""
    return week.set_index("stamp").asfreq(f"{minutes}min").reset_index()


def _median_client(tables: Tables, cell: Cell) -> tuple[str, float]:
    """The client of (lower) median test MASE of the local model at the last round, and its MASE.

    A client whose persistence error is zero has no MASE and comes last.
    """
    scores = tables.test_scores(cell).sort_values(kind="stable")
    middle = max(scores.count() - 1, 0) // 2
    return str(scores.index[middle]), float(scores.iloc[middle])
