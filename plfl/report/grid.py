"""The rows of the page about all cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from plfl.report.clients import score
from plfl.results.records import Model
from plfl.results.tables import Tables
from plfl.results.words import server_label

COLUMNS: list[tuple[Model, Literal["last", "best_validation"]]] = [
    ("local", "last"),
    ("local", "best_validation"),
    ("global", "last"),
    ("global", "best_validation"),
]
"""Model and round of each score of the grid, in the order of the columns."""


@dataclass(frozen=True)
class Combination:
    """A row of the grid: test scores in the order of `COLUMNS`."""

    scheme: str
    client_opt: str
    server_opt: str
    scores: list[str]
    lowest: list[bool]
    """Which scores are the lowest of their column in the state."""


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
        ]
    return rows
