"""A contest: two sets of forecasters, a score, and some variants of a study.

In every state of every variant, the best forecaster of each set on validation is compared with that
of the other. If a set names values of axes, it is the best over the variants that differ in these
axes. Differences are averaged over the variants of an origin; states and origins are pooled. The
statistics are those of `plfl.results.statistics`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from plfl.results import words
from plfl.results.best import best
from plfl.results.contenders import Contender, NotInStudyError
from plfl.results.scores import AXES, WeeklyScores, pool
from plfl.results.selection import find_contenders
from plfl.results.statistics import Difference
from plfl.results.variants import Variant, group_variants
from plfl.study import Study
from plfl.study.forecaster_names import parse_name


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
    def score_sets(self) -> list[WeeklyScores]:
        """The differences, positive where the first set has the lower error."""
        return [a.forecaster.advantage_over(b.forecaster, self.margin) for a, b in self.pairs]

    @cached_property
    def difference(self) -> Difference:
        """The difference with its interval."""
        contenders = [contender for pair in self.pairs for contender in pair]
        is_trained = any(contender.is_trained for contender in contenders)
        has_common_tests = any(contender.variant.shares_tests for contender in contenders)
        return pool(self.score_sets, is_trained, has_common_tests)

    def error(self, number: int) -> float:
        """The test error of a side, mean over clients and seeds."""
        side = pool([pair[number].forecaster for pair in self.pairs])
        return side.effect if side.scored_differences else np.nan

    def mean(self, number: int, score: str) -> float:
        """A score of a side, mean over clients and seeds (see `Contender.mean`)."""
        contenders = [pair[number] for pair in self.pairs]
        clients = [len(contender.forecaster.clients) for contender in contenders]
        return float(
            np.average([contender.mean(score) for contender in contenders], weights=clients)
        )

    def label(self, number: int, limit: int = 2) -> str:
        """The forecasters that represent a side, the most frequent first; of mixtures that differ,
        those of their clients."""
        contenders = [pair[number] for pair in self.pairs]
        counts = Counter(contender.label for contender in contenders)
        if len(counts) > 1 and any(contender.is_mixture for contender in contenders):
            return words.usual_forecaster(
                [label for contender in contenders for label in contender.labels]
            )
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
        clients = sum(len(contender.forecaster.clients) for contender in contenders)
        return sum(contender.bytes for contender in contenders) / clients if clients else np.nan

    @property
    def row(self) -> dict[str, Any]:
        """The columns of `plfl.results.comparisons` that follow from it."""
        labels = {"chosen": self.label(0), "chosen_than": self.label(1)}
        if not self.difference.scored_differences:
            return labels
        return (
            labels
            | {"error": self.error(0), "error_than": self.error(1)}
            | difference_columns(self.difference)
        )


def difference_columns(difference: Difference) -> dict[str, Any]:
    """A difference with its interval, and the data that it is based on."""
    low, high = difference.interval
    lowest, highest = difference.without_one_state or (np.nan, np.nan)
    levels = {factor: part.levels for factor, part in difference.parts.items()}
    return {
        **{"difference": difference.effect, "low": low, "high": high},
        **{"lowest": lowest, "highest": highest},
        **{factor: levels.get(factor, 0) for factor in ("clients", "weeks", "seeds")},
        "states": len(difference.scored_differences),
        "origins": max(map(len, difference.origins.values()), default=0),
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
    the axes `keys_each`. The keys are those of `plfl.config.claims.Claim`. NotInStudyError: a
    side has no forecaster, or the variants cannot be compared."""
    places = [parse_name(name, study.plan.axes)[0] for name in (*better, *than)]
    free = [axis.column for axis in study.plan.axes if any(axis.key in place for place in places)]
    by_place: dict[tuple[str, ...], list[tuple[list[Contender], list[Contender]]]] = {}
    missing = ""
    for place_variants in group_variants(variants, free):
        for state in states or place_variants[0].tables.study.data.states:
            first, second = (
                find_contenders(study, place_variants, state, names, score)
                for names in (better, than)
            )
            if not (first and second):
                missing = missing or words.word_side(study, than if first else better)
                continue
            _comparable([*first, *second])
            for key, *sides in _split(keys_each, first, second):
                place_key = (
                    state if "state" in keys_each else "",
                    place_variants[0].label if "variant" in keys_each else "",
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


def _comparable(among: Sequence[Contender]) -> None:
    first = among[0].forecaster
    for contender in among:
        forecaster = contender.forecaster
        if {*forecaster.clients} != {*first.clients} or not forecaster.is_comparable(first):
            client_word = among[0].variant.tables.study.client_word
            raise NotInStudyError(
                f"the variants that it compares have other {client_word}s or test sets"
            )


def _split(
    keys_each: Sequence[str], first: list[Contender], second: list[Contender]
) -> Iterator[tuple[tuple[str, ...], list[Contender], list[Contender]]]:
    """The sides for each value of some axes. On an axis without a value in common, every value of
    one side is paired with every one of the other."""
    axes = [axis for axis in keys_each if axis in AXES]

    def by_key(side: list[Contender]) -> dict[tuple[str, ...], list[Contender]]:
        groups: dict[tuple[str, ...], list[Contender]] = {}
        for contender in side:
            combination = contender.forecaster.combination
            key = tuple(getattr(combination, axis) for axis in axes)
            groups.setdefault(key, []).append(contender)
        return groups

    first_side, second_side = by_key(first), by_key(second)
    common = [{k[i] for k in first_side} & {k[i] for k in second_side} for i in range(len(axes))]
    for (a, first_contenders), (b, second_contenders) in itertools.product(
        first_side.items(), second_side.items()
    ):
        if all(not values or x == y for values, x, y in zip(common, a, b, strict=True)):
            yield (*a, *b), first_contenders, second_contenders
