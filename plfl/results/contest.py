"""The one comparison: two sets of forecasters, a score, and some variants of a study.

In every state of every variant, the best forecaster of each set on validation is compared with that
of the other. If a set names values of axes, it is the best over the variants that differ in these
axes. Differences are averaged over the variants of an origin; states and origins are pooled. The
statistics are those of `plfl.results.statistics`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import pandas as pd

from plfl.baselines import BASELINE
from plfl.results import words
from plfl.results.records import MODELS, Model
from plfl.results.scores import AXES, Forecaster, WeeklyScores, pooled, scores, select
from plfl.results.statistics import Comparison
from plfl.results.tables import Tables
from plfl.study import Study
from plfl.study.axes import parsed
from plfl.study.checks import WHOLE_KINDS


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
    def scores(self) -> Mapping[Model, Mapping[str, list[Forecaster]]]:
        """The scores of each model and of the baselines by state, at the last round."""
        return {model: scores(self.tables, model, baselines=True) for model in MODELS}

    def scored(self, score: str) -> Mapping[Model, Mapping[str, list[Forecaster]]]:
        """As `scores`, with the score that a claim names or `scaled_crps`; "" is the error."""
        if score == "scaled_crps":
            return {model: scores(self.tables, model, True, score) for model in MODELS}
        if score != "spread":
            return self.scores
        return {
            model: {
                state: [f.spread for f in forecasters] for state, forecasters in of_states.items()
            }
            for model, of_states in self.scores.items()
        }

    def models(self, sharing: str, method: str) -> tuple[Model, ...]:
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

    def summarised(self, model: Model, name: str) -> pd.DataFrame:
        """The rows of `summary.csv` of all seeds of a cell, given its name, at the last round."""
        table = self.tables.summary
        names = table[["state", *AXES]].agg("-".join, axis=1)
        return table[(names == name) & (table["model"] == model)]


V = TypeVar("V", bound=Variant)


def grouped(variants: Iterable[V], free: Collection[str]) -> list[list[V]]:
    """The variants that differ only on the axes `free`, given by their columns."""
    groups: dict[tuple[str, ...], list[V]] = {}
    for variant in variants:
        other_labels = tuple(value for column, value in variant.place.items() if column not in free)
        groups.setdefault(other_labels, []).append(variant)
    return list(groups.values())


class NotInStudyError(Exception):
    """The study lacks something that a comparison is about."""


class Contender(NamedTuple):
    """A forecaster, and the variant that it belongs to."""

    variant: Variant
    forecaster: Forecaster

    @property
    def label(self) -> str:
        """What it is called in tables, within its study."""
        sharing, method, client, server = self.forecaster.axes
        study = self.variant.tables.study
        if sharing == BASELINE:
            return words.baseline(method)
        trains_alone = study.plan.combinations.trains_alone(sharing, method)
        axes = {"method": method, "client_opt": client, "server_opt": server}
        parts = {k: v if len(getattr(study.grid, k)) > 1 else "*" for k, v in axes.items()}
        parts |= {"method": "*", "server_opt": "*"} if trains_alone else {}
        if parts["server_opt"] != "*":
            parts["method"] = method
        name = "-".join([sharing, *parts.values()])
        model = ", the server's model" if self.forecaster.model == "global" else ""
        return words.forecaster(study, name) + model

    @property
    def bytes(self) -> float:
        """Bytes of all clients of the state in a training, in both directions."""
        if self.forecaster.is_baseline:
            table = self.variant.tables.baseline_scores["bytes"]
            return float(table[self.forecaster.state, self.forecaster.axes[1]])
        return self.counted("bytes_down") + self.counted("bytes_up")

    def mean(self, score: str) -> float:
        """A score of the test set, mean over clients and seeds: `wape`, `nrmse`, `seasonal_mase` or
        `peak_error`; NaN if the tables lack it."""
        tables, state, axes = self.variant.tables, self.forecaster.state, self.forecaster.axes
        if score == "peak_error" and tables.has_peaks:
            model = BASELINE if self.forecaster.is_baseline else self.forecaster.model
            equal = dict(zip(AXES, axes, strict=True)) | {"state": state, "model": model}
            errors = tables.errors(["client", score], **equal)
            return float(errors.groupby("client")[score].mean().mean())
        if self.forecaster.is_baseline:
            rows = tables.baseline_scores.loc[[(state, axes[1])]]
        else:
            rows = self.variant.summarised(self.forecaster.model, self.forecaster.name)
        return float(rows[f"{score}_mean"].mean()) if f"{score}_mean" in rows else np.nan

    def counted(self, column: str) -> float:
        """A cost of a training in the summary, mean over seeds."""
        rows = self.variant.summarised(self.forecaster.model, self.forecaster.name)
        if column not in rows:
            raise NotInStudyError("the study does not simulate time (federation.simulation)")
        return float(rows[column].mean())


@dataclass(frozen=True)
class Contest:
    """Two sets of forecasters compared."""

    pairs: list[tuple[Contender, Contender]]
    """The best of the first set and of the second, in each state of each variant."""
    diverged_forecasters: tuple[list[str], list[str]]
    """The cells of sides that have no score because every one of their cells diverged."""
    margin: float = 0.0
    """What is added to the errors of the second set, as a share of them."""

    @cached_property
    def pieces(self) -> list[WeeklyScores]:
        """The differences, positive where the first set has the lower error."""
        return [a.forecaster.lead(b.forecaster, self.margin) for a, b in self.pairs]

    @cached_property
    def comparison(self) -> Comparison:
        """The difference with its interval."""
        contenders = [candidate for pair in self.pairs for candidate in pair]
        is_trained = any(not candidate.forecaster.is_baseline for candidate in contenders)
        shared = any(candidate.variant.shares_tests for candidate in contenders)
        return pooled(self.pieces, is_trained, shared)

    def error(self, number: int) -> float:
        """The test error of a side, mean over clients and seeds."""
        pieces = [pair[number].forecaster for pair in self.pairs]
        return pooled(pieces).effect if pooled(pieces).scored else np.nan

    def mean(self, number: int, score: str) -> float:
        """A score of a side, mean over clients and seeds (see `Contender.mean`)."""
        contenders = [pair[number] for pair in self.pairs]
        clients = [len(candidate.forecaster.clients) for candidate in contenders]
        return float(
            np.average([candidate.mean(score) for candidate in contenders], weights=clients)
        )

    def label(self, number: int, limit: int = 2) -> str:
        """The forecasters that represent a side, the most frequent first."""
        counts = Counter(pair[number].label for pair in self.pairs)
        labels = [label for label, _ in counts.most_common(limit)]
        remaining_count = len(counts) - len(labels)
        return (
            words.join_words(
                [*labels, *([f"{remaining_count} more"] if remaining_count else [])], "or"
            )
            if labels
            else ""
        )

    def bytes(self, number: int) -> float:
        """Bytes that cross for a client of a side in a training, in both directions."""
        contenders = [pair[number] for pair in self.pairs]
        clients = sum(len(candidate.forecaster.clients) for candidate in contenders)
        return sum(candidate.bytes for candidate in contenders) / clients if clients else np.nan

    @property
    def row(self) -> dict[str, Any]:
        """The columns of `plfl.results.comparisons` that follow from it."""
        about = {"chosen": self.label(0), "chosen_than": self.label(1)}
        if not self.comparison.scored:
            return about
        return (
            about
            | {"error": self.error(0), "error_than": self.error(1)}
            | comparison_columns(self.comparison)
        )


def comparison_columns(comparison: Comparison) -> dict[str, Any]:
    """The difference of a comparison with its interval, and the data that it is based on."""
    low, high = comparison.interval
    lowest, highest = comparison.without_one_state or (np.nan, np.nan)
    levels = {factor: part.levels for factor, part in comparison.parts.items()}
    return {
        **{"difference": comparison.effect, "low": low, "high": high},
        **{"lowest": lowest, "highest": highest},
        **{factor: levels.get(factor, 0) for factor in ("clients", "weeks", "seeds")},
        "states": len(comparison.scored),
        "origins": max(map(len, comparison.origins.values()), default=0),
    }


def contests(
    study: Study,
    variants: Sequence[Variant],
    better: Sequence[str],
    than: Sequence[str],
    keys_each: Sequence[str] = (),
    score: str = "",
    margin: float = 0.0,
    states: Sequence[str] = (),
) -> list[Contest]:
    """The comparisons of two sets of forecasters in some variants: one, or one for each value of
    the axes `keys_each`. The keys are those of `plfl.config.sections.Claim`. NotInStudyError: a
    side has no forecaster, or the variants cannot be compared."""
    places = [parsed(name, study.plan.axes)[0] for name in (*better, *than)]
    free = [axis.column for axis in study.plan.axes if any(axis.key in place for place in places)]
    by_place: dict[tuple[str, ...], list[tuple[list[Contender], list[Contender]]]] = {}
    missing = ""
    for group in grouped(variants, free):
        for state in states or group[0].tables.study.data.states:
            first, second = (
                candidates(study, group, state, names, score) for names in (better, than)
            )
            if not (first and second):
                missing = missing or words.side(study, than if first else better)
                continue
            _comparable([*first, *second])
            for key, *sides in _split(keys_each, first, second):
                place_key = (
                    state if "state" in keys_each else "",
                    group[0].label if "variant" in keys_each else "",
                )
                by_place.setdefault((*place_key, *key), []).append((sides[0], sides[1]))
    if not by_place:
        raise NotInStudyError(f"the study does not have {missing}" if missing else "no variant")
    return [_contest(sides, margin) for sides in by_place.values()]


def _contest(sides: Sequence[tuple[list[Contender], list[Contender]]], margin: float) -> Contest:
    pairs: list[tuple[Contender, Contender]] = []
    diverged_forecasters: tuple[list[str], list[str]] = ([], [])
    for pair in sides:
        best_contenders = [best(side) for side in pair]
        for side, best_of_side, to in zip(pair, best_contenders, diverged_forecasters, strict=True):
            to += [] if best_of_side else [contender.forecaster.name for contender in side]
        if best_contenders[0] and best_contenders[1]:
            pairs.append((best_contenders[0], best_contenders[1]))
    return Contest(pairs, diverged_forecasters, margin)


def best(among: Sequence[Contender]) -> Contender | None:
    """The candidate of lowest validation error; None if all diverged."""
    finite = [candidate for candidate in among if np.isfinite(candidate.forecaster.validation)]
    return min(finite, key=lambda candidate: candidate.forecaster.validation, default=None)


def candidates(
    study: Study, group: Sequence[Variant], state: str, names: Sequence[str], score: str = ""
) -> list[Contender]:
    """The forecasters of a state that names in claims stand for, in some variants; NotInStudyError
    if no variant is at a place that a name says."""
    columns = {axis.key: axis.column for axis in study.plan.axes}
    candidates = []
    for full in names:
        place, name = parsed(full, study.plan.axes)
        matching_variants = [
            v for v in group if all(v.place[columns[k]] == label for k, label in place.items())
        ]
        if not matching_variants:
            raise NotInStudyError(f"`where` leaves no variant of {full}")
        candidates += [
            Contender(v, forecaster)
            for v in matching_variants
            for forecaster in _find_forecasters(v, name, state, score)
        ]
    return candidates


def _find_forecasters(variant: Variant, name: str, state: str, score: str) -> Iterator[Forecaster]:
    """The forecasters of a state that a name without a place stands for, each training once."""
    study, of_state = variant.tables.study, variant.scored(score)
    grid = study.plan.combinations
    if name in WHOLE_KINDS:
        for model, scores in of_state.items():
            for forecaster in scores[state]:
                sharing, method = forecaster.axes[:2]
                if forecaster.is_baseline:
                    is_listed = model == "local" and method not in variant.tables.have_seen_the_data
                    is_meant = is_listed and words.kind(study, f"{BASELINE}-{method}") == name
                else:
                    repeated = model == "global" and grid.trains_alone(sharing, method)
                    is_meant = words.kind(study, sharing) == name and not repeated
                if is_meant and (forecaster.is_baseline or not grid.repeats(*forecaster.axes)):
                    yield replace(forecaster, model=model)
        return
    short = name.removesuffix("-global")
    model = "local" if short == name else "global"
    sharing, *algorithms = short.split("-")
    parts = zip(AXES, [sharing, *algorithms], strict=False)
    equal = {axis: value for axis, value in parts if value != "*"}
    for forecaster in select(of_state[model][state], **equal):
        if forecaster.is_baseline == (sharing == BASELINE) and (
            forecaster.is_baseline or not grid.repeats(*forecaster.axes)
        ):
            yield replace(forecaster, model=model)


def _comparable(among: Sequence[Contender]) -> None:
    first = among[0].forecaster
    for _, candidate in among:
        if {*candidate.clients} != {*first.clients} or not candidate.is_comparable(first):
            raise NotInStudyError("the variants that it compares have other clients or test sets")


def _split(
    keys_each: Sequence[str], first: list[Contender], second: list[Contender]
) -> Iterator[tuple[tuple[str, ...], list[Contender], list[Contender]]]:
    """The sides for each value of some axes. On an axis without a value in common, every value of
    one side is paired with every one of the other."""
    axes = [AXES.index(axis) for axis in keys_each if axis in AXES]

    def by_key(side: list[Contender]) -> dict[tuple[str, ...], list[Contender]]:
        groups: dict[tuple[str, ...], list[Contender]] = {}
        for candidate in side:
            groups.setdefault(tuple(candidate.forecaster.axes[i] for i in axes), []).append(
                candidate
            )
        return groups

    first_side, second_side = by_key(first), by_key(second)
    common = [{k[i] for k in first_side} & {k[i] for k in second_side} for i in range(len(axes))]
    for (a, first_contenders), (b, second_contenders) in itertools.product(
        first_side.items(), second_side.items()
    ):
        if all(not values or x == y for values, x, y in zip(common, a, b, strict=True)):
            yield (*a, *b), first_contenders, second_contenders
