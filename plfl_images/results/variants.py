"""Compares the variants of a study of classifiers: accuracies, comparisons, curves.

A study without further axes is its own only variant. `plfl.results.overview` has the same for
forecasts, whose score is MASE. All clients share the held-out images, so an accuracy varies over
seeds alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd

from plfl.config.baselines import BASELINE
from plfl.config.claim_scores import COUNTED
from plfl.results import comparisons
from plfl.results.overview import BEST_FILE
from plfl.results.records import MODELS, ModelKind, read_table
from plfl.results.scores import AXES, ForecasterScores, split_by_combination
from plfl.results.variants import Variant
from plfl.study import Study
from plfl.study.combinations import Combination
from plfl_images.results import classification
from plfl_images.results.classification import STANDING_COLUMNS

CURVES_FILE = "curves.csv"
SCORE_COLUMNS = {"": "accuracy_tail", "quarter": "accuracy_quarter", "own": "own_accuracy"}
SCORE_COLUMNS["error"] = SCORE_COLUMNS[""]
"""The columns of the summary by the scores of claims: at the end, at a quarter of the rounds, and
on the clients' own labels; and by the metric of leaderboards."""


@dataclass(frozen=True)
class Results(Variant):
    """A variant with its results; every access raises ResultsError if a file is damaged."""

    shares_tests: ClassVar[bool] = True

    @property
    def study(self) -> Study:
        """The variant as a study."""
        return self.tables.study

    @cached_property
    def summary(self) -> pd.DataFrame:
        """See `classification.summarise`."""
        return classification.read_summary(self.tables.folder)

    def summary_rows(self, model: ModelKind, name: str) -> pd.DataFrame:
        """See `Variant.summary_rows`."""
        table = self.summary
        names = table[["state", *AXES]].agg("-".join, axis=1)
        return table[(names == name) & (table["model"] == model)]

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
        """Test `accuracy` of the global models by `STANDING_COLUMNS`, `seed` and `round`."""
        curves = classification.curves(read_table(self.tables.folder / "records.parquet"))
        test = curves[(curves["split"] == "test") & (curves["model"] == "global")]
        return test[[*STANDING_COLUMNS, "seed", "round", "accuracy"]]

    @cached_property
    def rows(self) -> list[dict[str, str]]:
        """The rows of the grid; see `classification.rows_of`."""
        return classification.rows_of(self.summary)

    def forecasters_by_score(
        self, score: str
    ) -> Mapping[ModelKind, Mapping[str, list[ForecasterScores]]]:
        """The errors in points of every row of the grid, by model and state."""
        column = SCORE_COLUMNS["" if score in COUNTED else score]
        return {model: self._scores(model, column) for model in MODELS}

    def _scores(self, model: ModelKind, column: str) -> dict[str, list[ForecasterScores]]:
        rows = self.summary[self.summary["model"] == model]
        scores = {}
        for state, state_rows in rows.groupby("state", sort=False):
            seeds = state_rows["seed"].unique().tolist()
            wide = state_rows.pivot(
                index=AXES, columns="seed", values=[column, "validation_accuracy"]
            )
            wide = wide.reindex(pd.MultiIndex.from_frame(state_rows[AXES].drop_duplicates()))
            errors = 100 - 100 * wide[column][seeds].to_numpy(float)
            diverged = np.isnan(errors).any(axis=1)
            errors[diverged] = np.nan
            validation = 1 - wide["validation_accuracy"].to_numpy(float).mean(axis=1)
            scores[str(state)] = split_by_combination(
                [Combination(*map(str, names)) for names in wide.index],
                errors[..., None, None],
                np.where(diverged, np.nan, validation),
                state=str(state),
                origin="",
                clients=("",),
                seeds=tuple(seeds),
                persistence=np.ones(1),
            )
        return scores


def compare_variants(study: Study, variants: Sequence[Variant]) -> dict[str, pd.DataFrame]:
    """The tables that compare variants, by the names of their files."""
    image_results = [Results(variant.label, variant.place, variant.tables) for variant in variants]
    parts = [variant.with_labels(variant.curves) for variant in image_results]
    return {
        BEST_FILE: best(image_results),
        comparisons.COMPARISONS_FILE: comparisons.compute_comparisons(study, image_results),
        CURVES_FILE: pd.concat(parts, ignore_index=True),
    }


def best(variants_results: Sequence[Results]) -> pd.DataFrame:
    """Accuracies of every row of the grid and model in every variant, and of the baselines.

    Columns: `variant` and the axes, then those of `classification.standings`. In the rows of
    baselines, `sharing` and `model` are `baseline`, `method` is the baseline, and `accuracy_tail`
    is its accuracy.
    """
    parts = []
    new_names = {"baseline": "method", "accuracy": "accuracy_tail"}
    new_names["accuracy_std"] = "accuracy_tail_std"
    for results in variants_results:
        about = {"state": results.study.data.states[0], "sharing": BASELINE, "model": BASELINE}
        rows = [
            classification.standings(results.summary),
            results.baselines.rename(columns=new_names).assign(**about),
        ]
        parts.append(results.with_labels(pd.concat(rows, ignore_index=True)))
    return pd.concat(parts, ignore_index=True)
