"""The variants of a study with their tables."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from plfl.config.study import Study
from plfl.results.records import MODELS, Model
from plfl.results.scores import AXES, Scores, scores
from plfl.results.tables import Tables


@dataclass(frozen=True)
class Variant:
    """A variant with the tables of its own."""

    label: str
    place: dict[str, str]
    """Its label on each axis, by the column of the axis."""
    tables: Tables

    @cached_property
    def scores(self) -> dict[Model, dict[str, Scores]]:
        """The scores of each model and of the baselines by state, at the last round."""
        return {model: scores(self.tables, model, baselines=True) for model in MODELS}

    def models(self, sharing: str, method: str) -> tuple[Model, ...]:
        """The models that differ: where clients train alone, there is only one."""
        return (
            MODELS[:1] if self.tables.study.combinations.trains_alone(sharing, method) else MODELS
        )

    def summarised(self, model: Model, name: str) -> pd.DataFrame:
        """The rows of the seeds of a cell in `summary.csv`, at the last round, given its name."""
        table = self.tables.summary
        names = table[["state", *AXES]].agg("-".join, axis=1)
        return table[(names == name) & (table["model"] == model) & (table["chosen"] == "last")]


def variants(study: Study, folder: Path) -> list[Variant]:
    """The variants of a study with their tables in its results folder, in the order of the study.

    A study without axes is its own only variant.
    """
    return [
        Variant(
            label,
            {axis.column: study.places[label][axis.key] for axis in study.axes},
            Tables(folder / label),
        )
        for label in study.variants
    ]


def comparable(one: Tables, other: Tables, state: str) -> bool:
    """Whether MASE of both means the same: persistence has the same error for common clients."""
    a, b = (t.clients[t.clients["state"] == state] for t in (one, other))
    both = a.merge(b, on="client")
    column = "persistence_mae_test"
    return len(both) > 0 and np.allclose(both[f"{column}_x"], both[f"{column}_y"], rtol=1e-6)
