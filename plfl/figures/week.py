"""A week of forecasts against the truth, for one ordinary client of each state."""

from dataclasses import asdict

import pandas as pd
from matplotlib.dates import DateFormatter, DayLocator
from matplotlib.figure import Figure

from plfl.errors import ResultsError
from plfl.figures.style import COLOURS, PAGE, panels
from plfl.results.tables import Tables
from plfl.study import Cell

OUTPUTS = ("week",)


def draw(tables: Tables) -> dict[str, Figure]:
    """A panel per state: truth, the local model's forecast, and persistence.

    The cell is the state's best one of P2 (of all splits when the study has no P2), chosen on
    validation; the client is the one whose test MASE is the median of its clients'.
    """
    states = tables.study.data.states
    figure, axes = panels(len(states), 1, (PAGE, 1.45 * len(states) + 0.35))
    for axis, state in zip(axes[:, 0], states, strict=True):
        axis.set_ylabel(f"Load ({tables.load_unit})")
        cell = _cell(tables, state)
        if cell is None:
            axis.set_title(f"{state}: every cell diverged", loc="left")
            continue
        client, mase = _median_client(tables, cell)
        week = tables.forecasts(
            ["stamp", "truth", "persistence", "local"], client=client, **asdict(cell)
        ).set_index("stamp")
        if week.empty:
            raise ResultsError(
                f"{tables.folder / 'forecasts.parquet'}: has no rows of client {client} in cell "
                f"{cell}; run the study again"
            )
        axis.plot(week["persistence"], color="0.65", linewidth=0.6, label="persistence")
        axis.plot(week["truth"], color="black", linewidth=0.9, label="truth")
        axis.plot(week["local"], color=COLOURS[2], linewidth=0.9, label="forecast (local model)")
        axis.set_title(
            f"{state}, client {client}: {cell.personalization}, "
            f"{tables.optimisers(cell)}, test MASE {mase:.2f}",
            loc="left",
        )
        axis.xaxis.set_major_locator(DayLocator())  # type: ignore[no-untyped-call]
        axis.xaxis.set_major_formatter(DateFormatter("%a %d %b"))  # type: ignore[no-untyped-call]
        axis.margins(x=0)
        axis.set_ylim(bottom=min(0, week.min().min()))
        axis.grid()
    handles, labels = axes[-1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return {"week": figure}


def _cell(tables: Tables, state: str) -> Cell | None:
    if "P2" in tables.study.grid.personalization:
        return tables.best("local", state=state, personalization="P2")
    return tables.best("local", state=state)


def _median_client(tables: Tables, cell: Cell) -> tuple[str, float]:
    """The client whose local test MASE at the last round is the (lower) median, and its MASE.

    A client without persistence error has no MASE and is passed over.
    """
    scores: pd.DataFrame = (
        tables.records(
            ["client", "mase"],
            split="test",
            model="local",
            round=tables.study.federation.rounds,
            **asdict(cell),
        )
        .dropna()
        .sort_values("mase", kind="stable")
    )
    middle = scores.iloc[(len(scores) - 1) // 2]
    return str(middle["client"]), float(middle["mase"])
