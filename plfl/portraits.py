"""Every client by itself: what it is, its load, its score in every combination, its week."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from plfl.figures.week import shown_cell
from plfl.results.collect import SEASONS
from plfl.results.tables import MODELS, Tables, server_label

LEFT, WIDTH, HEIGHT = 44, 672, 120
"""Place of a week's drawing: room for the numbers of its axis, then width and height in px."""
MOST = 60
"""Clients of a state that are drawn: a page of a thousand would be slow to open."""
LINES = ("persistence", "truth", "local")
"""Columns of the forecasts that are drawn, the last one on top."""


@dataclass(frozen=True)
class Score:
    """Test MASE of a client in one combination, mean over seeds."""

    split: str
    client_opt: str
    server_opt: str
    local: str
    global_: str


@dataclass(frozen=True)
class Week:
    """A week of the test part as an SVG path for each of `LINES`, with what its axes say."""

    cell: str
    first: str
    last: str
    paths: dict[str, str]
    levels: list[tuple[float, str]]
    """Heights in px with their loads."""
    days: list[tuple[float, str]]
    """Left ends in px of whole days, with their names."""


@dataclass(frozen=True)
class Portrait:
    """A client."""

    state: str
    number: int
    name: str
    facts: dict[str, str]
    scores: list[Score]
    week: Week | None
    """None when every cell that could be shown has diverged."""

    @property
    def anchor(self) -> str:
        """Its place in the page."""
        return f"client-{self.state}-{self.number}"


def portraits(tables: Tables) -> list[Portrait]:
    """The clients, states and clients in the order of the study.

    Of a state with more than `MOST` there are those of the greatest test MASE in the cell that the
    figure of the week shows.

    Raises:
        ResultsError: the results are incomplete or of another format.
    """
    study = tables.study
    scored = _scores(tables)
    found = []
    for state in study.data.states:
        weeks = _weeks(tables, state)
        known = tables.about.get("sources", {}).get(state, {}).get("clients", {})
        here = tables.clients[tables.clients["state"] == state]
        drawn = _drawn(tables, state, here["client"].tolist())
        for number, row in enumerate(here.to_dict("records"), 1):
            name = str(row["client"])
            if name not in drawn:
                continue
            facts = {**known.get(name, {}), **_facts(tables, row)}
            found.append(Portrait(state, number, name, facts, scored[state, name], weeks.get(name)))
    return found


def _drawn(tables: Tables, state: str, clients: list[str]) -> set[str]:
    cell = shown_cell(tables, state)
    if len(clients) <= MOST or cell is None:
        return set(clients[:MOST])
    return set(tables.test_scores(cell).nlargest(MOST).index)


def score(value: float) -> str:
    """A MASE in print."""
    return f"{value:.3f}" if np.isfinite(value) else "n/a"


def load(value: float) -> str:
    """A load in print."""
    return f"{value:#.4g}".rstrip(".")


def _facts(tables: Tables, row: Mapping[Any, Any]) -> dict[str, str]:
    unit = tables.load_unit
    weeks = row["rows"] * row["interval"] / (7 * 24 * 60)
    facts = {
        "series": f"{row['rows']:,.0f} rows of {row['interval']:.0f} min, {weeks:.1f} weeks",
        "load": f"mean {load(row['mean'])}, standard deviation {load(row['std'])} {unit}",
        "error of persistence, test": f"{load(row['persistence_mae_test'])} {unit}",
    }
    for naive in SEASONS:
        value = row.get(f"{naive}_mase_test", np.nan)
        if np.isfinite(value):
            facts[f"test MASE of the same load a {naive.removeprefix('naive_')} before"] = score(
                value
            )
    return facts


def _scores(tables: Tables) -> dict[tuple[str, str], list[Score]]:
    """Local and global MASE of the last round, by client; a row for each training."""
    study = tables.study
    axes = ["personalization", "method", "client_opt", "server_opt"]
    records = tables.records(
        ["state", "client", "model", *axes, "mae", "mase"],
        split="test",
        round=study.federation.rounds,
    )
    # A seed that diverged leaves no mean, and says so; a client may have no MASE anyway.
    records["diverged"] = ~np.isfinite(records["mae"])
    by_axes = records.groupby(["state", "client", *axes, "model"], sort=False)
    means = by_axes.agg(mase=("mase", "mean"), diverged=("diverged", "any"))
    texts = means["mase"].map(score).mask(means["diverged"], "diverged").unstack("model")
    found: dict[tuple[str, str], list[Score]] = {}
    for row in texts.reset_index().to_dict("records"):
        split, method, client_opt, server_opt = (str(row[axis]) for axis in axes)
        if study.repeats(split, method, client_opt, server_opt):
            continue
        alone = study.trains_alone(split, method)
        found.setdefault((str(row["state"]), str(row["client"])), []).append(
            Score(
                split,
                tables.client_side(method, client_opt),
                "none" if alone else server_label(server_opt),
                *(str(row[model]) for model in MODELS),
            )
        )
    return found


def _weeks(tables: Tables, state: str) -> dict[str, Week]:
    """The week of each client of a state, in the cell that the figure of the week shows too."""
    cell = shown_cell(tables, state)
    if cell is None:
        return {}
    table = tables.forecasts(["client", "stamp", *LINES], **asdict(cell))
    name = f"{cell.personalization}, {tables.optimisers(cell)}"
    if len(tables.study.grid.seeds) > 1:
        name += f", seed {cell.seed}"
    return {str(client): _week(week, name) for client, week in table.groupby("client", sort=False)}


def _week(table: pd.DataFrame, cell: str) -> Week:
    values = table[list(LINES)].to_numpy(float)
    levels = MaxNLocator(4).tick_values(min(0.0, float(np.nanmin(values))), np.nanmax(values))
    low, high = levels[0], levels[-1]
    x = LEFT + WIDTH * np.arange(len(table)) / max(len(table) - 1, 1)
    y = HEIGHT * (high - values) / (high - low)
    stamps = pd.DatetimeIndex(table["stamp"])
    midnight = np.flatnonzero(stamps == stamps.normalize())
    return Week(
        cell,
        f"{stamps[0]:%Y-%m-%d}",
        f"{stamps[-1]:%Y-%m-%d}",
        {name: _path(x, y[:, i]) for i, name in enumerate(LINES)},
        [(round(HEIGHT * (high - level) / (high - low), 1), f"{level:g}") for level in levels],
        [(round(float(x[i]), 1), f"{stamps[i]:%a %d %b}") for i in midnight.tolist()],
    )


def _path(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    """A line through points, in steps of a tenth of a px from one to the next."""
    tenths = np.round(10 * np.column_stack([x, y])).astype(int)
    steps = " ".join(f"{dx} {dy}" for dx, dy in np.diff(tenths, axis=0).tolist())
    return f"M{tenths[0, 0]} {tenths[0, 1]}l{steps}"
