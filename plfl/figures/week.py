"""A week of forecasts against the truth, for one ordinary client of each state."""

from dataclasses import asdict
from typing import Any

from matplotlib.dates import DateFormatter, DayLocator
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plfl.errors import ResultsError
from plfl.figures.style import COLOURS, PAGE, fit, note, panels
from plfl.results.tables import Tables
from plfl.study import Cell

OUTPUTS = ("week",)
CAPTION = (
    "First week of the test part: load, forecast of the local model of the last round, and"
    " persistence, for the client of median test MASE in each state's best cell, chosen on"
    " validation (of P2 where the study has it). Stamps are those of the data."
)
_LINES: dict[str, dict[str, Any]] = {
    "persistence": {"color": "0.65", "linewidth": 0.6, "label": "persistence"},
    "truth": {"color": "black", "linewidth": 0.9, "label": "truth"},
    "local": {"color": COLOURS[2], "linewidth": 0.9, "label": "forecast (local model)"},
}


def draw(tables: Tables) -> dict[str, Figure]:
    """A panel per state: truth, the local model's forecast, and persistence.

    The cell is the state's best one of P2 (of all splits when the study has no P2), chosen on
    validation; the client is the one whose test MASE is the median of its clients'.
    """
    states = tables.study.data.states
    figure, axes = panels(len(states), 1, (PAGE, 1.45 * len(states) + 0.35))
    for axis, state in zip(axes[:, 0], states, strict=True):
        axis.set_ylabel(f"Load ({tables.load_unit})")
        cell = shown_cell(tables, state)
        if cell is None:
            axis.set_title(state, loc="left")
            axis.set(xticks=[], yticks=[])
            note(axis, "every cell diverged")
            continue
        client, mase = _median_client(tables, cell)
        week = tables.forecasts(["stamp", *_LINES], client=client, **asdict(cell))
        if week.empty:
            raise ResultsError(
                f"{tables.folder / 'forecasts.parquet'}: has no rows of client {client} in cell "
                f"{cell}; run the study again"
            )
        for column, look in _LINES.items():
            axis.plot(week["stamp"], week[column], **look)
        title = (
            f"{state}, client {client}: {cell.personalization}, "
            f"{tables.optimisers(cell)}, test MASE {mase:.2f}"
        )
        axis.set_title(fit(title, 100, lines=2), loc="left")
        axis.xaxis.set_major_locator(DayLocator())  # type: ignore[no-untyped-call]
        axis.xaxis.set_major_formatter(DateFormatter("%a %d %b"))  # type: ignore[no-untyped-call]
        axis.margins(x=0)
        axis.set_ylim(bottom=min(0, week[list(_LINES)].min().min()))
        axis.grid()
    figure.legend(
        handles=[Line2D([], [], **look) for look in _LINES.values()],
        loc="outside lower center",
        ncols=3,
    )
    return {"week": figure}


def shown_cell(tables: Tables, state: str) -> Cell | None:
    """The cell whose forecasts stand for a state; None when every one diverged."""
    if "P2" in tables.study.grid.personalization:
        return tables.best("local", state=state, personalization="P2")
    return tables.best("local", state=state)


def _median_client(tables: Tables, cell: Cell) -> tuple[str, float]:
    """The client whose local test MASE at the last round is the (lower) median, and its MASE.

    A client without persistence error has no MASE and comes last.
    """
    scores = tables.test_scores(cell).sort_values(kind="stable")
    middle = max(scores.count() - 1, 0) // 2
    return str(scores.index[middle]), float(scores.iloc[middle])
