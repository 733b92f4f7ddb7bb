"""The details of each client: facts, load, scores in every combination, and one week."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.baselines import BASELINE
from plfl.data.dataset import WEEK
from plfl.report.rendering import ticks
from plfl.results.collect import SEASONS
from plfl.results.labels import baseline_label, server_label
from plfl.results.records import MODELS
from plfl.results.tables import Tables

LEFT, WIDTH, HEIGHT = 44, 672, 120
"""Layout of the plot of a week in px: space for the axis labels, width and height of the plot."""
MOST = 60
"""Largest number of clients per state with details: a page with a thousand would open slowly."""
LINES = ("persistence", "baseline", "truth", "local")
"""Lines of a week, the last one on top; `baseline` is the best one that sends no data."""


@dataclass(frozen=True)
class Score:
    """Test MASE of a client in one combination, mean over seeds, or of one baseline."""

    scheme: str
    client_opt: str
    server_opt: str
    local: str
    global_: str


@dataclass(frozen=True)
class Week:
    """A week of the test set: an SVG path for each of `LINES`, and the labels of the axes."""

    cell: str
    baseline: str
    """Label of the best baseline; empty if there is none."""
    first: str
    last: str
    start: str
    """Time of the first point, as ISO 8601."""
    minutes: float
    """Time between two points; 0 if it varies."""
    paths: dict[str, str]
    levels: list[tuple[float, str]]
    """Positions in px and loads of the marks on the vertical axis."""
    days: list[tuple[float, str]]
    """Positions in px and labels of midnights."""


@dataclass(frozen=True)
class ClientRow:
    """A client."""

    state: str
    number: int
    name: str
    facts: dict[str, str]
    scores: list[Score]
    week: Week | None
    """None if every cell that could be shown diverged."""

    @property
    def anchor(self) -> str:
        """Id of the client's element in the page."""
        return f"client-{self.state}-{self.number}"


def clients_shown(tables: Tables) -> list[ClientRow]:
    """The clients with details, in the order of the study.

    For a state with more than `MOST` clients, these are the clients of highest test MASE in the
    cell that the figure `week` shows.

    Raises:
        ResultsError: the results are incomplete or have another format.
    """
    study = tables.study
    scored = _scores(tables)
    below = {key: _below(row) for key, row in baseline_mase(tables).iterrows()}
    shown = []
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
            scores = scored[state, name] + (below[state, name] if below else [])
            shown.append(ClientRow(state, number, name, facts, scores, weeks.get(name)))
    return shown


def baseline_mase(tables: Tables) -> pd.DataFrame:
    """Test MASE of the baselines, one column per baseline, by `state` and `client`.

    Empty for a study without baselines.
    """
    table = tables.baselines
    test = table[table["split"] == "test"]
    by_client = test.pivot(index=["state", "client"], columns="baseline", values="mase")
    return by_client[test["baseline"].unique()]


def _below(mase: pd.Series[float]) -> list[Score]:
    """Scores of the baselines, which have a single model."""
    return [
        Score(BASELINE, baseline_label(str(name)), "none", score(value), score(value))
        for name, value in mase.items()
    ]


def _drawn(tables: Tables, state: str, clients: list[str]) -> set[str]:
    cell = tables.shown_cell(state)
    if len(clients) <= MOST or cell is None:
        return set(clients[:MOST])
    return set(tables.test_scores(cell).nlargest(MOST).index)


def score(value: float, sd: float = np.nan) -> str:
    """A MASE in print, with its standard deviation if there is one."""
    text = f"{value:.3f}" if np.isfinite(value) else "n/a"
    return f"{text} ± {sd:.3f}" if np.isfinite(sd) else text


def load(value: float) -> str:
    """A load in print."""
    return f"{value:#.4g}".rstrip(".")


def left_out(windows: float, skipped: float) -> str:
    """How many windows are used, and how many touch a gap."""
    return f"{windows:,.0f}; {skipped:,.0f} more touch a gap in the readings and are left out"


def _facts(tables: Tables, row: Mapping[Any, Any]) -> dict[str, str]:
    unit = tables.load_unit
    weeks = row["rows"] * row["interval"] / WEEK
    facts = {
        "series": f"{row['rows']:,.0f} rows of {row['interval']:.0f} min, {weeks:.1f} weeks",
        "load": f"mean {load(row['mean'])}, standard deviation {load(row['std'])} {unit}",
        **({"windows": left_out(row["windows"], row["skipped"])} if row.get("skipped") else {}),
        "MAE of persistence, test set": f"{load(row['persistence_mae_test'])} {unit}",
    }
    # In a deployed study the data stay with the clients, which report these scores only.
    for naive in SEASONS if tables.baselines.empty else ():
        value = row.get(f"{naive}_mase_test", np.nan)
        if np.isfinite(value):
            facts[f"test MASE of the load one {naive.removeprefix('naive_')} earlier"] = score(
                value
            )
    return facts


def _scores(tables: Tables) -> dict[tuple[str, str], list[Score]]:
    """Local and global MASE at the last round, by client; one row per training."""
    study = tables.study
    axes = ["sharing", "method", "client_opt", "server_opt"]
    records = tables.records(
        ["state", "client", "model", *axes, "mae", "mase"],
        split="test",
        round=study.federation.rounds,
    )
    # A diverged seed shows as "diverged"; a client without a MASE as "n/a".
    records["diverged"] = ~np.isfinite(records["mae"])
    by_axes = records.groupby(["state", "client", *axes, "model"], sort=False)
    means = by_axes.agg(mase=("mase", "mean"), diverged=("diverged", "any"))
    texts = means["mase"].map(score).mask(means["diverged"], "diverged").unstack("model")
    scores: dict[tuple[str, str], list[Score]] = {}
    for row in texts.reset_index().to_dict("records"):
        scheme, method, client_opt, server_opt = (str(row[axis]) for axis in axes)
        if study.combinations.repeats(scheme, method, client_opt, server_opt):
            continue
        alone = study.combinations.trains_alone(scheme, method)
        scores.setdefault((str(row["state"]), str(row["client"])), []).append(
            Score(
                scheme,
                tables.client_side(method, client_opt),
                "none" if alone else server_label(server_opt),
                *(str(row[model]) for model in MODELS),
            )
        )
    return scores


def _weeks(tables: Tables, state: str) -> dict[str, Week]:
    """The week of each client of a state, in the cell that the figure `week` shows."""
    cell = tables.shown_cell(state)
    if cell is None or not tables.keeps_forecasts:
        return {}
    best = tables.best_baseline(state)
    own = tables.forecasts(["client", "stamp", *(set(LINES) - {"baseline"})], **asdict(cell))
    other = tables.baseline_forecasts(
        ["client", "stamp", "forecast"], state=state, baseline=best or ""
    )
    table = own.merge(
        other.rename(columns={"forecast": "baseline"}), on=["client", "stamp"], how="left"
    )
    name = f"{cell.sharing}, {tables.optimisers(cell)}"
    if len(tables.study.grid.seeds) > 1:
        name += f", seed {cell.seed}"
    label = "" if best is None else baseline_label(best)
    return {
        str(client): _week(week, name, label)
        for client, week in table.groupby("client", sort=False)
    }


def _week(table: pd.DataFrame, cell: str, baseline: str) -> Week:
    lines = [name for name in LINES if table[name].notna().all()]
    values = table[lines].to_numpy(float)
    levels = ticks(min(0.0, float(np.nanmin(values))), float(np.nanmax(values)))
    low, high = levels[0], levels[-1]
    y = HEIGHT * (high - values) / (high - low)
    stamps = pd.DatetimeIndex(table["stamp"])
    steps = np.diff(stamps.to_numpy()) / np.timedelta64(1, "m")
    step = steps.min(initial=np.inf)
    place = np.cumsum(np.concatenate([[0.0], steps / step]))  # in steps from the first point
    x = LEFT + WIDTH * place / max(place[-1], 1)
    midnight = np.flatnonzero(stamps == stamps.normalize())
    return Week(
        cell,
        baseline,
        f"{stamps[0]:%Y-%m-%d}",
        f"{stamps[-1]:%Y-%m-%d}",
        f"{stamps[0]:%Y-%m-%dT%H:%M}",
        float(step) if len(steps) and (steps == step).all() else 0.0,
        {name: _path(x, y[:, i], steps > step) for i, name in enumerate(lines)},
        [(round(HEIGHT * (high - level) / (high - low), 1), f"{level:g}") for level in levels],
        [(round(float(x[i]), 1), f"{stamps[i]:%a %d %b}") for i in midnight.tolist()],
    )


def _path(x: NDArray[np.float64], y: NDArray[np.float64], breaks: NDArray[np.bool_]) -> str:
    """An SVG path through points, with relative coordinates in tenths of a px.

    Where there are `breaks`, the line between two points is left out.
    """
    tenths = np.round(10 * np.column_stack([x, y])).astype(int)
    # Coordinates after a move are those of lines.
    steps = "l" + " ".join(
        f"m{dx} {dy}l" if gap else f"{dx} {dy}"
        for (dx, dy), gap in zip(np.diff(tenths, axis=0).tolist(), breaks.tolist(), strict=True)
    )
    path = f"M{tenths[0, 0]} {tenths[0, 1]}{steps.replace('l ', 'l').removesuffix('l')}"
    return path.replace(" -", "-")  # a sign separates numbers as well as a space does
