"""The variants of a study of classifiers side by side: accuracies, effects of the axes, curves.

A study without further axes is its own only variant. `plfl.results.overview` has the same for
forecasts, whose score is MASE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from plfl.baselines import BASELINE
from plfl.config.study import Study
from plfl.results.overview import BEST, EFFECTS
from plfl.results.records import read_about, read_table
from plfl.results.statistics import holm
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl_images.results import classification
from plfl_images.results.classification import GROUP

CURVES = "curves.csv"
SCORES = {"accuracy_quarter": "at a quarter of the rounds", "accuracy_tail": "at the end"}
"""The scores of global models that effects and claims compare, in words."""


@dataclass(frozen=True)
class Trained:
    """A variant with its results; every access raises ResultsError if a file is damaged."""

    label: str
    place: Mapping[str, str]
    """Its label on each axis, by the key of the axis."""
    study: Study
    folder: Path

    @cached_property
    def summary(self) -> pd.DataFrame:
        """See `classification.summarise`."""
        return classification.read_summary(self.folder)

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Test accuracy of the global models, mean and standard deviation over seeds, by `GROUP`
        and `round`: the columns `accuracy` and `std`."""
        curves = classification.curves(read_table(self.folder / "records.parquet"))
        test = curves[(curves["split"] == "test") & (curves["model"] == "global")]
        over_seeds = test.groupby([*GROUP, "round"], sort=False)["accuracy"]
        return over_seeds.agg(accuracy="mean", std="std").reset_index()

    @cached_property
    def rows(self) -> Sequence[dict[str, str]]:
        """The rows of the grid; see `classification.rows_of`."""
        return classification.rows_of(self.summary)


def trained(folder: Path) -> list[Trained]:
    """The variants in the results folder of a study, in its order; one if it has no axes.

    Raises:
        ResultsError: the folder holds no results or those of another version.
    """
    places = read_about(folder).get("variants", {"": {}})
    return [
        Trained(label, place, Tables(folder / label).study, folder / label)
        for label, place in places.items()
    ]


def best(study: Study, variants: Sequence[Trained]) -> pd.DataFrame:
    """Accuracies of every row of the grid and model in every variant, and of the baselines.

    Columns: `variant` and the axes, then those of `classification.standings`. In the rows of
    baselines, `sharing` and `model` are `baseline`, `method` is the baseline, and `accuracy_tail`
    is its accuracy.
    """
    parts = []
    for one in variants:
        of_baselines = classification.summarise_baselines(
            read_table(one.folder / "baselines.parquet")
        )
        named = {"baseline": "method", "accuracy": "accuracy_tail"}
        named["accuracy_std"] = "accuracy_tail_std"
        about = {"state": one.study.data.states[0], "sharing": BASELINE, "model": BASELINE}
        rows = [
            classification.standings(one.summary),
            of_baselines.rename(columns=named).assign(**about),
        ]
        parts.append(_marked(study, one, pd.concat(rows, ignore_index=True)))
    return pd.concat(parts, ignore_index=True)


def compared(study: Study, variants: Sequence[Variant]) -> dict[str, pd.DataFrame]:
    """The tables that put variants side by side, by the names of their files."""
    found = [
        Trained(v.label, study.places[v.label], v.tables.study, v.tables.folder) for v in variants
    ]
    return {
        BEST: best(study, found),
        EFFECTS: effects(study, found),
        CURVES: curves(study, found),
    }


def curves(study: Study, variants: Sequence[Trained]) -> pd.DataFrame:
    """`Trained.curves` of every variant, with the columns `variant` and of the axes."""
    return pd.concat([_marked(study, one, one.curves) for one in variants], ignore_index=True)


def _marked(study: Study, one: Trained, table: pd.DataFrame) -> pd.DataFrame:
    about = {"variant": one.label} | {axis.column: one.place[axis.key] for axis in study.axes}
    return pd.concat([pd.DataFrame(about, index=table.index), table], axis=1)


def effects(study: Study, variants: Sequence[Trained]) -> pd.DataFrame:
    """What a value of an axis changes against the first value of this axis, all else being equal.

    Columns: `axis`, `value`, `against`; the axes, of which `axis` itself has the `value`; `GROUP`;
    `score`, one of `SCORES`, of the global models; `accuracy` and `accuracy_against`, means over
    the seeds that both sides have; `difference` with its 95 % interval `low` to `high` and `p`, by
    a t-test paired over seeds, corrected by Holm's method over all rows; `seeds`.
    """
    by_place = {tuple(one.place.values()): one for one in variants}
    rows: list[dict[str, Any]] = []
    for axis in study.axes:
        first = next(iter(axis.choices))
        for one in variants:
            if one.place[axis.key] == first:
                continue
            other = by_place[tuple((dict(one.place) | {axis.key: first}).values())]
            about = {"axis": axis.key, "value": one.place[axis.key], "against": first}
            about |= {a.column: one.place[a.key] for a in study.axes}
            for row in one.rows:
                for score in SCORES:
                    here, there = (side(of, row, score) for of in (one, other))
                    rows.append(about | row | {"score": score} | _compared(here, there))
    if not rows:
        return pd.DataFrame(columns=["axis", "value", "against", *GROUP, "score"])
    table = pd.DataFrame(rows)
    tested = table["p"].notna()
    table.loc[tested, "p"] = holm(table.loc[tested, "p"].tolist())
    return table


def side(
    of: Trained, row: Mapping[str, str], score: str, model: str = "global"
) -> pd.Series[float]:
    """A score of a row of the grid, by seed; NaN where a model diverged."""
    chosen = of.summary[of.summary["model"] == model]
    chosen = chosen[(chosen[list(row)] == list(row.values())).all(axis=1)]
    return chosen.set_index("seed")[score]


def _compared(here: pd.Series[float], there: pd.Series[float]) -> dict[str, Any]:
    both = pd.concat([here, there], axis=1, keys=["here", "there"]).dropna()
    means = {"accuracy": both["here"].mean(), "accuracy_against": both["there"].mean()}
    return means | classification.tested((both["here"] - both["there"]).to_numpy())
