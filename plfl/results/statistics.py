"""Statistics of differences between forecasters: one interval and the test that belongs to it.

Everything is computed from `errors.parquet` of a results folder, without training. Comparisons are
paired client by client, seed by seed and week by week, because both sides have the same data,
initial weights and minibatches. Three sources of random variation are crossed:

- *clients*, drawn within their states;
- *weeks*: blocks of at least seven days of the test set, so that errors of neighbouring days stay
  together, drawn within origins if there are several. All clients and states share them. If test
  sets of states differ in their number of blocks, which blocks they share is not known: then the
  standard errors of their parts add up, with the degrees of freedom of the shortest;
- *seeds*: a training affects all clients of a state and all weeks at once.

The variance of a mean difference is at most the sum of the variances of its means over each of
these (the noise that no factor explains is counted once per factor, so the sum is cautious). Its
degrees of freedom are Satterthwaite's, and interval and test are Student's t. A factor with few
levels may by chance show too little variation, and far out in the tails Satterthwaite's degrees of
freedom do not make up for it. Therefore an effect must also be significant against each factor
alone. `docs/claims.md` has the measured error rates.

How much more data would decide an undecided comparison follows from the same parts of the variance,
which shrink as their numbers of levels grow, if the true effect and its variance are those that the
study shows. A number is enough if the effect would be significant with probability `POWER`, that
is, if it exceeds t(1 - α/2, ν) √V + t(POWER, ν₀) √V₀ for the variance V and the degrees of freedom
ν expected of every source that it is tested against. V₀ and ν₀ are those of all factors together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from plfl.base.array_types import Floats
from plfl.base.lazy import special
from plfl.results.words import join_words
from plfl.study import Study
from plfl.study.plan import depends_on_seed

ALPHA = 0.05
"""Significance level of every test; the level of intervals is 1 - ALPHA."""
POWER = 0.8
"""Probability that the recommended number decides a claim."""
MANY_CLIENTS = 30
"""Number of clients from which on differences of moderate size are decided."""
FACTORS = ("clients", "weeks", "seeds")
"""What a difference varies over."""
LARGEST_SAMPLES = {"seeds": 50, "clients": 1000, "weeks": 104}
"""Upper limits of the recommended numbers."""
FEWEST_LEVELS = {"seeds": 3, "clients": 6, "weeks": 4}
"""Recommended numbers if a factor has too few levels to show any variation."""
TYPICAL = {"clients": 0.045, "weeks": 0.01, "seeds": 0.005}
"""Standard deviations of the difference between two forecasters over clients, weeks and seeds, as
shares of the error, as 16 homes show them (docs/claims.md)."""
TEST_WEEKS = (4, 8, 16)
"""Lengths of the test set for which `describe_power` says what could be confirmed."""
ABOUT_EQUAL = 1.05
"""Ratio of two differences below which `describe_power` says one for both."""
_REMEDIES = {
    "seeds": "seeds (grid.seeds)",
    "clients": "{client_word}s in every state (data.clients)",
    "weeks": "weeks of test (windows.split or data.origins)",
}
VarianceParts = Mapping[str, "VariancePart"]
"""The parts of the variance of an effect, by factor."""


class VariancePart(NamedTuple):
    """The part of one factor in the variance of an effect."""

    levels: int
    """Number of clients, weeks or seeds."""
    variance: float
    freedom: float
    """Degrees of freedom; 0 if there are too few levels to estimate a variance."""

    @classmethod
    def from_levels(
        cls, levels: int, variances: Sequence[float], freedom: Sequence[float]
    ) -> VariancePart:
        """The sum of independent variances, each with degrees of freedom (Satterthwaite 1946)."""
        if min(freedom) < 1:
            return cls(levels, 0.0, 0.0)
        total = float(sum(variances))
        spread = sum(v**2 / df for v, df in zip(variances, freedom, strict=True))
        return cls(levels, total, float(total**2 / spread if spread else sum(freedom)))


@dataclass(frozen=True)
class Difference:
    """The difference between two cells in some states, whose sign is tested."""

    differences: Mapping[str, Floats]
    """For each state, shape (clients, seeds, weeks): the share of each week in a difference of
    scores; or (clients, seeds) for scores that are not sums over weeks. Rows of clients without a
    score are NaN."""
    is_trained: bool = True
    """Whether a side has seeds; baselines have none."""
    origins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """For each state, the number of weeks of each origin (`data.origins`), in their order. In a
    state that is missing here, all weeks have one origin."""
    is_sampled: bool = True
    """Whether clients are a sample of more clients. The clients of classifiers share their test
    set, so nothing varies over them: their scores are a single row."""

    @cached_property
    def scored_differences(self) -> dict[str, Floats]:
        """The differences (clients, seeds) of clients with a score, of states that have any."""
        tables = {state: table.sum(axis=-1) for state, table in self._by_week.items()}
        return {state: table for state, table in tables.items() if len(table)}

    @cached_property
    def _by_week(self) -> dict[str, Floats]:
        """The differences (clients, seeds, weeks) of clients with a score."""
        differences = {}
        for state, table in self.differences.items():
            weekly = table if table.ndim == 3 else table[..., None]
            differences[state] = weekly[np.isfinite(weekly).all(axis=(1, 2))]
        return differences

    def clients(self) -> list[Floats]:
        """For each state in `scored_differences`, the differences of its clients, means over
        seeds."""
        return [table.mean(axis=1) for table in self.scored_differences.values()]

    @property
    def effect(self) -> float:
        """Mean difference over all clients and seeds."""
        return float(np.concatenate(self.clients()).mean())

    @property
    def without_one_state(self) -> tuple[float, float] | None:
        """The lowest and the highest effect if one of the states is left out."""
        means = self.clients()
        if len(means) < 2:
            return None
        means_left = [np.concatenate(means[:i] + means[i + 1 :]).mean() for i in range(len(means))]
        return float(min(means_left)), float(max(means_left))

    @property
    def is_identical(self) -> bool:
        """Whether both sides are equal throughout: then they are one training with two names."""
        return all((table == 0).all() for table in self.scored_differences.values())

    @cached_property
    def parts(self) -> dict[str, VariancePart]:
        """The parts of the variance of the effect, by factor, without `clients` if these are not
        sampled, without `seeds` if nothing was trained, and without `weeks` if scores are not sums
        over weeks."""
        tables = {state: self._by_week[state] for state in self.scored_differences}
        total = sum(map(len, tables.values()))
        shares = [len(table) / total for table in tables.values()]
        parts = {}
        if self.is_sampled:
            means = self.clients()
            client_terms = [s**2 * _squared_error(m) for s, m in zip(shares, means, strict=True)]
            parts["clients"] = VariancePart.from_levels(
                total, client_terms, [len(m) - 1 for m in means]
            )
        if any(table.ndim == 3 for table in self.differences.values()):
            # States share the weeks of test sets with the same number of them. Those of other test
            # sets may overlap in any way: the standard errors add up, which is cautious.
            by_week: dict[str, dict[int, Floats]] = {}  # by origin and number of weeks
            for state, table in tables.items():
                weekly = table.mean(axis=1).sum(axis=0) / total
                origins = self.origins.get(state, {"": len(weekly)})
                ends = np.cumsum([*origins.values()])[:-1]
                for origin, client_weeks in zip(origins, np.split(weekly, ends), strict=True):
                    number, sums = len(client_weeks), by_week.setdefault(origin, {})
                    sums[number] = sums.get(number, 0) + client_weeks * number
            week_terms = []
            for sums in by_week.values():
                errors = [_squared_error(weekly) for weekly in sums.values()]
                week_terms.append(float(np.sqrt(np.outer(errors, errors)).sum()))
            parts["weeks"] = VariancePart.from_levels(
                sum(map(max, by_week.values())),
                week_terms,
                [min(sums) - 1 for sums in by_week.values()],
            )
        if self.is_trained:
            # The states train separately.
            seeds = [table.mean(axis=0) for table in self.scored_differences.values()]
            seed_terms = [s**2 * _squared_error(m) for s, m in zip(shares, seeds, strict=True)]
            parts["seeds"] = VariancePart.from_levels(
                len(seeds[0]), seed_terms, [len(m) - 1 for m in seeds]
            )
        return parts

    @property
    def missing_factors(self) -> list[str]:
        """The factors with too few levels: the variation over them is unknown."""
        return [factor for factor, part in self.parts.items() if not part.freedom]

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the effect over all factors except those that are `missing_factors`; NaN if
        the first factor that there is, of clients, weeks and seeds, is one of these: so if any
        state has a single client. NaN without any factor."""
        first_factor = next((name for name in FACTORS if name in self.parts), None)
        if first_factor is None or first_factor in self.missing_factors:
            return np.nan, np.nan
        reach = max(
            float(special.stdtrit(part.freedom, 1 - ALPHA / 2)) * part.variance**0.5
            for part in tested_variances(self.parts)
        )
        return self.effect - reach, self.effect + reach

    @property
    def p(self) -> float:
        """Two-sided p value of the effect; 1 if a factor is `missing_factors`, or there is none."""
        if not self.parts or self.missing_factors or self.effect == 0:
            return 1.0
        smallest_variance = (1e-12 * self.effect) ** 2  # smaller variances are round-off
        return max(
            float(2 * special.stdtr(part.freedom, -abs(self.effect) / part.variance**0.5))
            if part.variance > smallest_variance
            else 0.0
            for part in tested_variances(self.parts)
        )


def tested_variances(parts: Mapping[str, VariancePart]) -> list[VariancePart]:
    """The variances that an effect is tested against: of all factors together, and of each."""
    parts_with_freedom = [part for part in parts.values() if part.freedom]
    return [
        VariancePart.from_levels(
            0, [p.variance for p in parts_with_freedom], [p.freedom for p in parts_with_freedom]
        ),
        *parts_with_freedom,
    ]


def _squared_error(values: Floats) -> float:
    """Square of the standard error of the mean of some values (n,)."""
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0


def holm(p: Sequence[float]) -> Floats:
    """P values corrected for their number (Holm 1979)."""
    values = np.asarray(p, float)
    order = np.argsort(values)
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted


def open_level(adjusted: Iterable[float]) -> float:
    """Holm's level for the next verdict, given the corrected p values: that for all of those that
    are not significant yet."""
    return ALPHA / max(1, sum(p >= ALPHA for p in adjusted))


# -- what would decide a comparison ----------------------------------------------------------------


def _parts_at(parts: VarianceParts, factor: str, levels: int) -> VarianceParts:
    """The expected parts if a factor had another number of levels."""
    part = parts[factor]
    # Each state loses one degree of freedom.
    freedom = part.freedom * (levels - 1) / (part.levels - 1)
    return {**parts, factor: VariancePart(levels, part.variance * part.levels / levels, freedom)}


def _decides(parts: VarianceParts, effect: float, level: float) -> bool:
    """Whether an effect would be significant at a level with probability `POWER`."""
    return abs(effect) >= _smallest_effect(parts, level)


def _smallest_effect(parts: VarianceParts, level: float) -> float:
    """The smallest effect that would be significant at a level with probability `POWER`."""
    tested = tested_variances(parts)
    significant_effect = max(
        -special.stdtrit(p.freedom, level / 2) * math.sqrt(p.variance) for p in tested
    )
    whole_variance = tested[0]
    scatter = special.stdtrit(whole_variance.freedom, POWER) * math.sqrt(whole_variance.variance)
    return float(significant_effect + scatter)


def smallest_difference(levels: Mapping[str, int], claims: int = 1, states: int = 1) -> float:
    """The smallest difference, as a share of the error, that a study could confirm with probability
    `POWER`, given its numbers of clients, weeks and seeds, of at least two each, of claims and of
    states, of which each has at least two of the clients, if the difference varies as is `TYPICAL`.
    """
    parts = {}
    for factor, number in levels.items():
        freedom = number - (states if factor == "clients" else 1)
        parts[factor] = VariancePart(number, TYPICAL[factor] ** 2 / number, freedom)
    return _smallest_effect(parts, ALPHA / claims)


def describe_power(study: Study, weeks: int | None = None) -> str:
    """What a study could confirm, in a sentence, with the `weeks` of its test sets, if they are
    known, and with other lengths; empty if a factor has a single level, in any state, or the
    clients share their test set. Seeds are a factor if its numbers depend on them."""
    clients_by_state = [study.data.clients_of(state) for state in study.data.states]
    clients, states = sum(clients_by_state), len(clients_by_state)
    levels = {"clients": clients}
    if _depends_on_seeds(study):
        levels["seeds"] = len(study.grid.seeds)
    if min(*clients_by_state, *levels.values()) < 2 or not study.task.forecasts:
        return ""
    claims = max(1, len(study.claims))
    lengths = sorted({*TEST_WEEKS, weeks} if weeks is not None and weeks >= 2 else TEST_WEEKS)
    shares = [
        100 * smallest_difference(levels | {"weeks": length}, claims, states) for length in lengths
    ]
    names = [f"{length} (this study)" if length == weeks else str(length) for length in lengths]
    pairs = [f"{share:.1f} % with {name}" for share, name in zip(shares, names, strict=True)]
    power = f"{join_words(pairs)} weeks of test"
    if max(shares) < ABOUT_EQUAL * min(shares):
        level = levels | {"weeks": lengths[0]}
        limiting = min(
            levels,
            key=lambda name: smallest_difference(level | {name: 2 * levels[name]}, claims, states),
        )
        power = f"{max(shares):.1f} % with {join_words(names, 'or')} weeks of test: the number of "
        power += f"{_levels_of(limiting, study.client_word)} limits it"
    few = ""
    if weeks is not None and weeks < 2:
        few = f"{('no', 'one')[weeks]} whole week of test decides nothing; "
    return (
        f"{few}the smallest difference between two forecasters that {clients} {study.client_word}s "
        f"could confirm, in percent of the error, is about {power} (docs/claims.md)"
    )


def _depends_on_seeds(study: Study) -> bool:
    """Whether the numbers of any of its cells do."""
    return any(
        depends_on_seed(v, method) for v in study.variants.values() for method in v.grid.method
    )


def too_few(missing_factors: list[str], client_word: str = "client") -> str:
    """A sentence: what a study needs because its `missing_factors` have too few levels.
    `client_word`: the study's word for a client."""
    remedies = (
        f"{FEWEST_LEVELS[factor]} {_REMEDIES[factor].format(client_word=client_word)}"
        for factor in missing_factors
    )
    return f"Run at least {' and '.join(remedies)}."


def _levels_of(factor: str, client_word: str) -> str:
    """The levels of a factor in words, in the plural."""
    return f"{client_word}s" if factor == "clients" else factor


def undecidable(study: Study) -> str:
    """What comparisons of cells in a study cannot decide, and what they need; empty if it has many
    clients. The number of weeks of its test sets is known only from the data."""
    numbers: dict[str, int] = {}
    client_word = study.client_word
    if _depends_on_seeds(study):
        numbers["seeds"] = len(study.grid.seeds)
    if study.task.forecasts:  # the clients of classifiers share their test set
        numbers["clients"] = min(map(study.data.clients_of, study.data.states))
    if missing_factors := [factor for factor, n in numbers.items() if n < 2]:
        levels = " and ".join(f"one {_levels_of(f, client_word)[:-1]}" for f in missing_factors)
        needed_numbers = too_few(missing_factors, client_word)
        comparison = "comparison of trained cells" if missing_factors == ["seeds"] else "comparison"
        return f"no {comparison} is decided with {levels}. {needed_numbers}"
    clients = sum(map(study.data.clients_of, study.data.states))
    if clients >= MANY_CLIENTS or not study.task.forecasts:
        return ""
    return (
        f"with {clients} {client_word}s only large differences are decided; "
        f"smaller ones need more {client_word}s, not more seeds"
    )


def needed_levels(difference: Difference, factor: str, level: float = ALPHA) -> int | None:
    """How many clients, weeks or seeds would decide a comparison at a level with probability
    `POWER`, all else being as it is; None if no number up to the limit of `LARGEST_SAMPLES` would,
    or the comparison has no such factor, or too few levels of one."""
    parts = difference.parts
    if factor not in parts or difference.missing_factors:
        return None
    for number in range(parts[factor].levels + 1, LARGEST_SAMPLES[factor] + 1):
        if _decides(_parts_at(parts, factor, number), difference.effect, level):
            return number
    return None


def advice(
    difference: Difference, level: float, sufficient: int = 1, client_word: str = "client"
) -> str:
    """What would decide a claim, in one sentence: the factor that has to grow least. `level`: the
    significance level after correction for all other claims; `sufficient`: of how many comparisons
    any one could have decided it."""
    variance_parts, level = difference.parts, level / sufficient
    if difference.missing_factors:
        return too_few(difference.missing_factors, client_word)
    needed_numbers = {name: needed_levels(difference, name, level) for name in LARGEST_SAMPLES}
    levels = {name: number for name, number in needed_numbers.items() if number}
    if not levels:
        factors = [_levels_of(factor, client_word) for factor in variance_parts]
        alone = join_words([f"more {levels} alone" for levels in factors], "or")
        return (
            f"{alone.capitalize()} would not decide it: the difference is too small for how much "
            f"it varies between {join_words(factors)}."
        )
    factor = min(levels, key=lambda name: levels[name] / variance_parts[name].levels)
    noun = "weeks of test" if factor == "weeks" else _levels_of(factor, client_word)
    return (
        f"With about {levels[factor]} {noun} "
        f"({variance_parts[factor].levels} now) it would be decided, if the difference stays as it "
        "is; fewer do not suffice."
    )
