"""The first table of the page: the best cell of each sharing scheme beside the baselines."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field

import pandas as pd

from plfl.report.clients import score
from plfl.results.records import MODELS, Model
from plfl.results.tables import Tables
from plfl.results.words import baseline_label, spaced
from plfl.study import Cell

IN_SAMPLE = "seasonal_mase"
NONE = "–"
"""Entry of a column that does not apply."""


@dataclass(frozen=True)
class Standing:
    """One row: a forecaster in a state."""

    scheme: str | None
    """The sharing scheme of a cell; None for a baseline."""
    name: str
    """Labels of the cell's optimisers, or of the baseline."""
    kind: str
    validation: str
    test: str
    in_sample: str
    """Test error divided by that of the seasonal naive forecast in the training set; "–" if the
    tables lack it."""
    bytes: str
    """For a cell: bytes per participant and round, both directions. For a baseline: the bytes that
    a client sends once."""
    epochs: str
    """Passes over its training windows that a client makes, mean over clients."""
    trials: str
    steps: str = NONE
    """Local steps of all clients in all trials, per seed."""
    hyperparameters: dict[Model, str] = field(default_factory=dict)
    """The values selected for each model; empty if nothing was tuned."""
    test_global: str = NONE
    """The test score of the global model."""


def standings(tables: Tables) -> dict[str, list[Standing]]:
    """The rows of each state in the order of validation MASE.

    A sharing scheme whose cells all diverged comes last.
    """
    return {state: _ordered(tables, state) for state in tables.study.data.states}


def without_seed(cell: Cell) -> dict[str, str]:
    """The axes of a cell and their values, without the seed."""
    return {axis: value for axis, value in asdict(cell).items() if axis != "seed"}


def of_cell(summary: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    """The rows of a table that belong to a cell, for all its seeds."""
    axes = without_seed(cell)
    return summary[(summary[list(axes)] == pd.Series(axes)).all(axis=1)]


def _ordered(tables: Tables, state: str) -> list[Standing]:
    schemes = tables.study.grid.sharing
    rows = [_of_scheme(tables, state, scheme) for scheme in schemes] + _of_baselines(tables, state)
    rows.sort(key=lambda row: math.inf if math.isnan(row[0]) else row[0])
    return [row for _, row in rows]


def _of_scheme(tables: Tables, state: str, scheme: str) -> tuple[float, Standing]:
    """The row of the best cell of a sharing scheme, with its validation MASE."""
    kind = "no exchange" if tables.study.combinations.shares_nothing(scheme) else "federated"
    if tables.study.joins(scheme) == "raw":
        kind = "raw data pooled"
    cell = tables.best("local", state=state, sharing=scheme)
    if cell is None:
        return math.nan, Standing(
            scheme, NONE, kind, "diverged", "diverged", NONE, NONE, NONE, NONE
        )
    last = of_cell(tables.summary[tables.summary["chosen"] == "last"], cell)
    mine, other = (last[last["model"] == model] for model in MODELS)
    validation = float(mine["validation_mase"].mean())
    return validation, Standing(
        scheme,
        tables.optimisers(cell),
        kind,
        score(validation),
        score(mine["mase_mean"].mean(), mine["mase_mean"].std()),
        _in_sample(mine.get(f"{IN_SAMPLE}_mean")),
        spaced(bytes_per_round(tables, cell)),
        f"{mine['epochs'].mean():.3g}",
        str(mine["trials"].iloc[0]),
        spaced(mine["trial_steps"].iloc[0]),
        dict(last.groupby("model")["hyperparameters"].first()),
        score(other["mase_mean"].mean(), other["mase_mean"].std()),
    )


def _in_sample(values: pd.Series[float] | None) -> str:
    """The mean with its standard deviation; empty without the scores."""
    return NONE if values is None else score(values.mean(), values.std())


def bytes_per_round(tables: Tables, cell: Cell) -> float:
    """Bytes per participant and round, both directions, mean over seeds and rounds."""
    sent = tables.records(
        ["bytes_down", "bytes_up"], split="train", model="local", **without_seed(cell)
    )
    return float(sent.sum(axis=1).mean())


def _of_baselines(tables: Tables, state: str) -> list[tuple[float, Standing]]:
    table = tables.baseline_scores
    here = table[table.index.get_level_values("state") == state].droplevel("state")
    clients = (tables.clients["state"] == state).sum()
    test = tables.baselines[tables.baselines["split"] == "test"]
    by_baseline = test[test["state"] == state].groupby("baseline")
    in_sample = dict(by_baseline[IN_SAMPLE].mean()) if IN_SAMPLE in test else {}
    return [
        (
            float(row["validation_mase"]),
            Standing(
                None,
                baseline_label(str(name)),
                _kind(tables, str(name), str(row["crosses"])),
                score(row["validation_mase"]),
                score(row["mase_mean"]),
                score(in_sample[name]) if name in in_sample else NONE,
                f"{spaced(row['bytes'] / clients)} once" if row["bytes"] else "0",
                NONE,
                "1",
            ),
        )
        for name, row in here.iterrows()
    ]


def _kind(tables: Tables, baseline: str, crosses: str) -> str:
    said = {"models": ", models sent", "raw data": ", raw data pooled"}.get(crosses, "")
    seen = ", trained on these data before" if baseline in tables.have_seen_the_data else ""
    return f"baseline{said}{seen}"
