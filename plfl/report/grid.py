"""The rows of the page about cells: the best ones, and the grid of all."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from plfl.baselines import BASELINE
from plfl.config.study import Cell
from plfl.report.clients import score
from plfl.report.standings import of_cell
from plfl.results.labels import baseline_label, server_label, spaced
from plfl.results.records import MODELS, Model
from plfl.results.tables import Tables

COLUMNS: list[tuple[Model, Literal["last", "best_validation"]]] = [
    ("local", "last"),
    ("local", "best_validation"),
    ("global", "last"),
    ("global", "best_validation"),
]
"""Model and round of each score of the grid, in the order of the columns."""


@dataclass(frozen=True)
class Choice:
    """The cell of lowest validation MASE in a state and sharing scheme."""

    optimisers: str
    hyperparameters: dict[Model, str]
    """The values selected for each model; empty if nothing was tuned."""
    trials: int
    steps: str
    """Local steps of all clients in all trials, per seed."""
    validation: str
    test: dict[Model, str]
    lowest: bool
    """Whether it has the lowest validation MASE of its state."""


@dataclass(frozen=True)
class Combination:
    """A row of the grid: test scores in the order of `COLUMNS`."""

    scheme: str
    """`baseline` for a baseline, whose name is in `client_opt`."""
    client_opt: str
    server_opt: str
    scores: list[str]
    lowest: list[bool]
    """Which scores are the lowest of their column in the state, among cells or among baselines."""


def choices(tables: Tables) -> list[tuple[str, str, Choice | None]]:
    """The best cell of each state and sharing scheme; None if every cell diverged."""
    rows: list[tuple[str, str, Choice | None]] = []
    for state, scheme in product(tables.study.data.states, tables.study.grid.sharing):
        cell = tables.best("local", state=state, sharing=scheme)
        rows.append((state, scheme, None if cell is None else _choice(tables, cell)))
    return rows


def _choice(tables: Tables, cell: Cell) -> Choice:
    rows = of_cell(tables.summary[tables.summary["chosen"] == "last"], cell)
    by_model = rows.groupby("model")
    means, deviations = by_model["mase_mean"].mean(), by_model["mase_mean"].std()
    # Hyperparameters are selected once for all seeds.
    first = by_model.first()
    return Choice(
        tables.optimisers(cell),
        {model: str(first["hyperparameters"][model]) for model in MODELS},
        int(first["trials"]["local"]),
        spaced(first["trial_steps"]["local"]),
        score(by_model["validation_mase"].mean()["local"]),
        {model: score(means[model], deviations[model]) for model in MODELS},
        lowest=cell == tables.best("local", state=cell.state),
    )


def grid(tables: Tables) -> dict[str, list[Combination]]:
    """The rows of the grid of each state."""
    study = tables.study
    by_column = [tables.scores(model, chosen) for model, chosen in COLUMNS]
    wanted = list(dict.fromkeys(cell.combination for cell in study.cells))
    rows = {}
    for state in study.data.states:
        here = [table.loc[state].reindex(wanted) for table in by_column]
        values, deviations, diverged = (
            np.column_stack([table[column] for table in here])
            for column in ("mase_mean", "mase_sd", "diverged")
        )
        lowest = values == np.where(np.isnan(values), np.inf, values).min(axis=0)
        rows[state] = [
            Combination(
                scheme,
                tables.client_side(method, client_opt),
                "none"
                if study.combinations.trains_alone(scheme, method)
                else server_label(server_opt),
                [
                    "diverged" if lost else score(value, sd)
                    for value, sd, lost in zip(values[i], deviations[i], diverged[i], strict=True)
                ],
                lowest[i].tolist(),
            )
            for i, (scheme, method, client_opt, server_opt) in enumerate(wanted)
            if not study.combinations.repeats(scheme, method, client_opt, server_opt)
        ] + _baseline_rows(tables, state)
    return rows


def _baseline_rows(tables: Tables, state: str) -> list[Combination]:
    """The rows of the baselines, which have one model and no rounds: one score in all columns."""
    table = tables.baseline_scores["mase_mean"]
    here = table[table.index.get_level_values("state") == state].droplevel("state")
    count = len(COLUMNS)
    return [
        Combination(
            BASELINE,
            baseline_label(str(name)),
            "none",
            count * [score(value)],
            count * [value == here.min()],
        )
        for name, value in here.items()
    ]
