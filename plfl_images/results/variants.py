"""Compares the variants of a study of classifiers: accuracies, effects of the axes, curves.

A study without further axes is its own only variant. `plfl.results.overview` has the same for
forecasts, whose score is MASE.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from plfl.baselines import BASELINE
from plfl.config.study import Study
from plfl.results.overview import BEST, EFFECTS, changes
from plfl.results.records import read_table
from plfl.results.statistics import Array, Comparison
from plfl.results.variants import Variant
from plfl_images.results import classification
from plfl_images.results.classification import GROUP

CURVES = "curves.csv"
SCORES = {"accuracy_quarter": "at a quarter of the rounds", "accuracy_tail": "at the end"}
"""The scores of global models that effects and claims compare, in words."""


@dataclass(frozen=True)
class Results(Variant):
    """A variant with its results; every access raises ResultsError if a file is damaged."""

    @property
    def study(self) -> Study:
        """The variant as a study."""
        return self.tables.study

    @cached_property
    def summary(self) -> pd.DataFrame:
        """See `classification.summarise`."""
        return classification.read_summary(self.tables.folder)

    @cached_property
    def baselines(self) -> pd.DataFrame:
        """See `classification.summarise_baselines`."""
        records = read_table(self.tables.folder / "baselines.parquet")
        return classification.summarise_baselines(records)

    @cached_property
    def clients(self) -> pd.DataFrame:
        """Training images by `seed`, `client` and `label`: the column `images`."""
        return read_table(self.tables.folder / "clients.parquet")

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Test accuracy of the global models, mean and standard deviation over seeds, by `GROUP`
        and `round`: the columns `accuracy` and `std`."""
        curves = classification.curves(read_table(self.tables.folder / "records.parquet"))
        test = curves[(curves["split"] == "test") & (curves["model"] == "global")]
        over_seeds = test.groupby([*GROUP, "round"], sort=False)["accuracy"]
        return over_seeds.agg(accuracy="mean", std="std").reset_index()

    @cached_property
    def rows(self) -> list[dict[str, str]]:
        """The rows of the grid; see `classification.rows_of`."""
        return classification.rows_of(self.summary)

    def scored(self, row: Mapping[str, str], score: str, model: str = "global") -> pd.Series[float]:
        """A score of a row of the grid, by seed; NaN where a model diverged."""
        chosen = classification.of_row(self.summary[self.summary["model"] == model], row)
        return chosen.set_index("seed")[score]


def compared(study: Study, found: Sequence[Variant]) -> dict[str, pd.DataFrame]:
    """The tables that compare variants, by the names of their files."""
    of_images = [Results(one.label, one.place, one.tables) for one in found]
    parts = [one.marked(one.curves) for one in of_images]
    return {
        BEST: best(of_images),
        EFFECTS: effects(study, of_images),
        CURVES: pd.concat(parts, ignore_index=True),
    }


def best(found: Sequence[Results]) -> pd.DataFrame:
    """Accuracies of every row of the grid and model in every variant, and of the baselines.

    Columns: `variant` and the axes, then those of `classification.standings`. In the rows of
    baselines, `sharing` and `model` are `baseline`, `method` is the baseline, and `accuracy_tail`
    is its accuracy.
    """
    parts = []
    named = {"baseline": "method", "accuracy": "accuracy_tail"}
    named["accuracy_std"] = "accuracy_tail_std"
    for one in found:
        about = {"state": one.study.data.states[0], "sharing": BASELINE, "model": BASELINE}
        rows = [
            classification.standings(one.summary),
            one.baselines.rename(columns=named).assign(**about),
        ]
        parts.append(one.marked(pd.concat(rows, ignore_index=True)))
    return pd.concat(parts, ignore_index=True)


def effects(study: Study, found: Sequence[Results]) -> pd.DataFrame:
    """The effect of the values of an axis: see `plfl.results.overview.changes`.

    Further columns: `GROUP`; `score`, one of `SCORES`, of the global models; `accuracy` and
    `accuracy_against`, means over the seeds that both sides have; `difference` with its 95 %
    interval `low` to `high` and `p`, by a t-test paired over seeds; `seeds`.
    """
    return changes(study, found, _compared, [*GROUP, "score"])


def _compared(one: Results, other: Results) -> Iterator[dict[str, Any]]:
    for row, score in itertools.product(one.rows, SCORES):
        here, there = (of.scored(row, score) for of in (one, other))
        both = pd.concat([here, there], axis=1, keys=["here", "there"]).dropna()
        means: dict[str, Any] = {"accuracy": both["here"].mean()}
        means |= {"accuracy_against": both["there"].mean()}
        tested = dict.fromkeys(["difference", "low", "high", "p"], np.nan)
        comparison = over_seeds("", both["here"] - both["there"])
        if comparison.scored:
            tested["difference"] = comparison.effect
            tested["low"], tested["high"] = comparison.interval
            tested["p"] = np.nan if comparison.lacking else comparison.p
        yield row | {"score": score} | means | tested | {"seeds": len(both)}


def over_seeds(name: str, ahead: pd.Series[float]) -> Comparison:
    """A comparison, given how far one side is ahead of the other, seed by seed; NaN if a side
    diverged. All clients share the held-out images, so results vary only over seeds."""
    scored: Array = np.asarray(ahead.dropna(), np.float64)
    return Comparison((name,), {"": scored[None, :]} if len(scored) else {}, sampled=False)
