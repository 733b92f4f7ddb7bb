"""The variants of a study, each with its own tables and scores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self, TypeVar

import pandas as pd

from plfl.results import words
from plfl.results.assignment import (
    Assignment,
    assign_by,
    assignable_forecasters,
    mixture,
    validation_errors,
)
from plfl.results.records import MODELS, ModelKind
from plfl.results.scores import AXES, ForecasterScores, scores
from plfl.results.tables import Tables
from plfl.study import Study
from plfl.study.forecaster_names import IN_USE, IN_USE_ALONE, LOCAL, ForecasterName


@dataclass(frozen=True)
class Variant:
    """A variant with its own tables."""

    label: str
    place: dict[str, str]
    """Its label on each axis, by the column of the axis."""
    tables: Tables
    shares_tests: ClassVar[bool] = False
    """Whether all clients share one test set, so that scores vary only over seeds."""

    @classmethod
    def all_of(cls, study: Study, folder: Path) -> list[Self]:
        """The variants of a study with their tables in its results folder, in the order of the
        study. A study without axes is its own only variant."""
        return [
            cls(
                label,
                {axis.column: study.plan.places[label][axis.key] for axis in study.plan.axes},
                Tables(folder / label),
            )
            for label in study.variants
        ]

    @cached_property
    def scores(self) -> Mapping[ModelKind, Mapping[str, list[ForecasterScores]]]:
        """The scores of each model and of the baselines by state, at the last round; after the
        local models and the baselines, those of what is in use (`assignments`)."""
        return self._with_mixtures("mase")

    @cached_property
    def assignments(self) -> dict[tuple[str, str], dict[str, Assignment]]:
        """What is in use for each client, by `IN_USE` or `IN_USE_ALONE` and state."""
        study, assignments = self.tables.study, {}
        for state in study.data.states:
            combination_of = assignable_forecasters(self.tables, state)
            errors_of = validation_errors(self.tables, state, combination_of)
            names_alone = [
                name
                for name, (sharing, method, *_) in combination_of.items()
                if words.find_kind(study, ForecasterName(sharing, method)) == LOCAL
            ]
            for use, names in ((IN_USE, [*combination_of]), (IN_USE_ALONE, names_alone)):
                assignments[use, state] = assign_by(
                    self.tables, state, combination_of, errors_of, names
                )
        return assignments

    def _with_mixtures(self, score: str) -> dict[ModelKind, dict[str, list[ForecasterScores]]]:
        scores_by_model = {model: scores(self.tables, model, True, score) for model in MODELS}
        for (name, state), assignment in self.assignments.items():
            forecasters = scores_by_model["local"][state]
            if forecasters and (mixed_forecaster := mixture(forecasters, assignment, name)):
                forecasters.append(mixed_forecaster)
        return scores_by_model

    def forecasters_by_score(
        self, score: str
    ) -> Mapping[ModelKind, Mapping[str, list[ForecasterScores]]]:
        """As `scores`, with the score that a claim names or `scaled_crps`; "" is the error."""
        if score == "scaled_crps":
            return self._with_mixtures(score)
        if score != "spread":
            return self.scores
        return {
            model: {
                state: [f.spread for f in forecasters]
                for state, forecasters in scores_by_state.items()
            }
            for model, scores_by_state in self.scores.items()
        }

    def models(self, sharing: str, method: str) -> tuple[ModelKind, ...]:
        """The different models: where clients train alone, there is only one."""
        return (
            MODELS[:1]
            if self.tables.study.plan.combinations.trains_alone(sharing, method)
            else MODELS
        )

    @property
    def columns(self) -> dict[str, str]:
        """The columns that mark its rows in joined tables."""
        return {"variant": self.label, **self.place}

    def with_labels(self, table: pd.DataFrame) -> pd.DataFrame:
        """A table with these columns first."""
        return pd.concat([pd.DataFrame(self.columns, index=table.index), table], axis=1)

    def summary_rows(self, model: ModelKind, name: str) -> pd.DataFrame:
        """The rows of `summary.csv` of all seeds of a cell, given its name, at the last round."""
        table = self.tables.summary
        return table[(self._names == name) & (table["model"] == model)]

    @cached_property
    def _names(self) -> pd.Series[str]:
        """The name of the cell of each row of the summary, without its seed."""
        names: pd.Series[str] = self.tables.summary[["state", *AXES]].agg("-".join, axis=1)
        return names


V = TypeVar("V", bound=Variant)


def group_variants(variants: Iterable[V], free: Collection[str]) -> list[list[V]]:
    """The variants that differ only on the axes `free`, given by their columns."""
    groups: dict[tuple[str, ...], list[V]] = {}
    for variant in variants:
        other_labels = tuple(value for column, value in variant.place.items() if column not in free)
        groups.setdefault(other_labels, []).append(variant)
    return list(groups.values())
