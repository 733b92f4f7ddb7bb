"""The table of intervals: CRPS or MASE, coverage and width of the forecasts."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from plfl.report.clients import load, score
from plfl.report.standings import without_seed
from plfl.results.tables import Tables
from plfl.results.words import baseline_label
from plfl.tasks.loads import Loads

SCORES = {"scaled_crps": "CRPS", "mase": "MASE"}
"""Columns that forecasters of intervals can be sorted by, and their names in print. Forecasts
without quantiles have no CRPS."""
MARGINS = {
    "none": "Intervals are as the models learnt them.",
    "personal": "Intervals have margins that every client computed from its own validation set.",
    "adaptive": "Intervals have margins that every client computed from its own validation set. In "
    "the test set they follow its loads: wider after a load outside, narrower after one inside.",
    "shared": "Intervals of federations have margins that the server chose among those of the "
    "clients; baselines, and clients that train alone, have their own.",
}
"""What the page says about `task.conformal`."""


@dataclass(frozen=True)
class Interval:
    """Scores of one interval, in print."""

    coverage: str
    """Fraction of the test loads inside, mean over clients."""
    least: str
    """The least coverage of a client."""
    client: str
    """The name of the client with the least coverage."""
    width: str
    """Mean width in kWh per interval."""


@dataclass(frozen=True)
class Row:
    """The intervals of a forecaster."""

    scheme: str | None
    """The sharing scheme of a cell; None for a baseline."""
    name: str
    score: str
    """The test score by which the rows are sorted; see `sorted_by`."""
    intervals: list[Interval]
    """In the order of `shares`."""


def shares(tables: Tables) -> list[str]:
    """The shares that intervals should cover, in percent, the widest first; empty without
    intervals."""
    matches = [re.fullmatch(r"coverage_([\d.]+)", column) for column in tables.record_columns]
    return [match[1] for match in matches if match]


def sorted_by(tables: Tables) -> str:
    """The column of the score by which the rows are sorted, on validation."""
    return next(column for column in SCORES if column in tables.record_columns)


def columns(tables: Tables) -> dict[str, tuple[str, str]]:
    """The columns of forecasts.parquet with the lower and the upper end of each interval of local
    models, by the share that it should cover in percent, the widest first."""
    task = tables.study.task
    return task.ends("local") if isinstance(task, Loads) else {}


def intervals(tables: Tables) -> dict[str, list[Row]]:
    """The rows of each state, by score on validation; empty without intervals.

    A sharing scheme has the row of its best cell. Baselines without a forecast are left out.
    """
    if not shares(tables):
        return {}
    return {state: _of_state(tables, state) for state in tables.study.data.states}


def _of_state(tables: Tables, state: str) -> list[Row]:
    percents, by = shares(tables), sorted_by(tables)
    columns = ["split", "client", by]
    columns += [f"{name}_{percent}" for percent in percents for name in ("coverage", "width")]
    last = tables.study.federation.rounds
    rows: list[tuple[float, Row]] = []
    for scheme in tables.study.grid.sharing:
        if cell := tables.best("local", state=state, sharing=scheme):
            found = tables.records(
                ["seed", *columns], model="local", round=last, **without_seed(cell)
            )
            rows.append(_row(found, scheme, tables.optimisers(cell), by, percents))
    here = tables.baselines[tables.baselines["state"] == state]
    for name, found in here.groupby("baseline", sort=False):
        if found.loc[found["split"] == "test", "mae"].notna().all():
            # A baseline has no seed.
            of_one = found[columns].assign(seed=0)
            rows.append(_row(of_one, None, baseline_label(str(name)), by, percents))
    return [row for _, row in sorted(rows, key=lambda row: np.nan_to_num(row[0], nan=np.inf))]


def _row(
    rows: pd.DataFrame, scheme: str | None, name: str, by: str, percents: list[str]
) -> tuple[float, Row]:
    """A row, given the scores of each seed, split and client, with its score on validation."""
    validation = float(rows.loc[rows["split"] == "validation", by].mean(skipna=False))
    test = rows[rows["split"] == "test"]
    scores = test.groupby("seed")[by].mean()
    by_client = test.groupby("client")
    listed = []
    for percent in percents:
        covered = by_client[f"coverage_{percent}"].mean()
        least = covered.idxmin() if covered.notna().any() else ""
        listed.append(
            Interval(
                _percent(covered.mean()),
                _percent(covered.min()),
                str(least),
                load(test[f"width_{percent}"].mean()),
            )
        )
    spread = scores.std() if len(scores) > 1 else np.nan
    return validation, Row(scheme, name, score(scores.mean(), spread), listed)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if np.isfinite(share) else "n/a"
