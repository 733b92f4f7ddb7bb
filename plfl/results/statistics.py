"""Statistics of differences between forecasters: one interval and the test that belongs to it.

Everything is computed from `errors.parquet` of a results folder, without training. Comparisons are
paired client by client, seed by seed and week by week, because both sides have the same data,
initial weights and minibatches. Three sources of random variation are crossed:

- *clients*, drawn within their states;
- *weeks*: blocks of at least seven days of the test set, so that errors of neighbouring days stay
  together, drawn within origins if there are several. All clients and states share them;
- *seeds*: a training affects all clients of a state and all weeks at once.

The variance of a mean difference is at most the sum of the variances of its means over each of
these (the noise that no factor explains is counted once per factor, so the sum is cautious). Its
degrees of freedom are Satterthwaite's, and interval and test are Student's t. A factor with few
levels may by chance show too little variation, and far out in the tails Satterthwaite's degrees of
freedom do not make up for it. Therefore an effect must also be significant against each factor
alone. `docs/claims.md` has the measured error rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
ALPHA = 0.05
"""Significance level of every test; the level of intervals is 1 - ALPHA."""


class VariancePart(NamedTuple):
    """The part of one factor in the variance of an effect."""

    levels: int
    """Number of clients, weeks or seeds."""
    variance: float
    freedom: float
    """Degrees of freedom; 0 if there are too few levels to estimate a variance."""

    @classmethod
    def of(cls, levels: int, variances: Sequence[float], freedom: Sequence[float]) -> VariancePart:
        """The sum of independent variances, each with degrees of freedom (Satterthwaite 1946)."""
        if min(freedom) < 1:
            return cls(levels, 0.0, 0.0)
        total = float(sum(variances))
        spread = sum(v**2 / df for v, df in zip(variances, freedom, strict=True))
        return cls(levels, total, float(total**2 / spread if spread else sum(freedom)))


@dataclass(frozen=True)
class Comparison:
    """The difference between two cells in some states, whose sign is tested."""

    cells: tuple[str, ...]
    """Names of the compared cells."""
    differences: Mapping[str, Array]
    """For each state, shape (clients, seeds, weeks): the share of each week in a difference of
    scores; or (clients, seeds) for scores that are not sums over weeks. Rows of clients without a
    score are NaN."""
    trained: bool = True
    """Whether a side has seeds; baselines have none."""
    origins: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """For each state, the number of weeks of each origin (`data.origins`). In a state that is
    missing here, all weeks have one origin."""
    sampled: bool = True
    """Whether clients are a sample of more clients. The clients of classifiers share their test
    set, so nothing varies over them: their scores are a single row."""

    @cached_property
    def scored(self) -> dict[str, Array]:
        """The differences (clients, seeds) of clients with a score, of states that have any."""
        tables = {state: table.sum(axis=-1) for state, table in self._by_week.items()}
        return {state: table for state, table in tables.items() if len(table)}

    @cached_property
    def _by_week(self) -> dict[str, Array]:
        """The differences (clients, seeds, weeks) of clients with a score."""
        found = {}
        for state, table in self.differences.items():
            weekly = table if table.ndim == 3 else table[..., None]
            found[state] = weekly[np.isfinite(weekly).all(axis=(1, 2))]
        return found

    def clients(self) -> list[Array]:
        """For each state in `scored`, the differences of its clients, means over seeds."""
        return [table.mean(axis=1) for table in self.scored.values()]

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
        left = [np.concatenate(means[:i] + means[i + 1 :]).mean() for i in range(len(means))]
        return float(min(left)), float(max(left))

    @property
    def identical(self) -> bool:
        """Whether both sides are equal for every client and seed: then they are one training with
        two names."""
        return all((table == 0).all() for table in self.scored.values())

    @cached_property
    def parts(self) -> dict[str, VariancePart]:
        """The parts of the variance of the effect, by factor.

        Without `clients` if these are not sampled, without `seeds` if nothing was trained, and
        without `weeks` if scores are not sums over weeks.
        """
        tables = {state: self._by_week[state] for state in self.scored}
        total = sum(map(len, tables.values()))
        shares = [len(table) / total for table in tables.values()]
        found = {}
        if self.sampled:
            means = self.clients()
            of_clients = [s**2 * _squared_error(m) for s, m in zip(shares, means, strict=True)]
            found["clients"] = VariancePart.of(total, of_clients, [len(m) - 1 for m in means])
        if any(table.ndim == 3 for table in self.differences.values()):
            # States with the same number of weeks share them.
            by_week: dict[tuple[int, int], Array] = {}
            for state, table in tables.items():
                weekly = table.mean(axis=1).sum(axis=0) / total
                ends = np.cumsum(self.origins.get(state, weekly.shape))[:-1]
                for i, own in enumerate(np.split(weekly, ends)):
                    by_week[i, len(own)] = by_week.get((i, len(own)), 0) + own * len(own)
            of_weeks = [_squared_error(weekly) for weekly in by_week.values()]
            longest = dict(sorted(by_week))  # of each origin
            found["weeks"] = VariancePart.of(
                sum(longest.values()), of_weeks, [n - 1 for _, n in by_week]
            )
        if self.trained:
            # The states train separately.
            seeds = [table.mean(axis=0) for table in self.scored.values()]
            of_seeds = [s**2 * _squared_error(m) for s, m in zip(shares, seeds, strict=True)]
            found["seeds"] = VariancePart.of(len(seeds[0]), of_seeds, [len(m) - 1 for m in seeds])
        return found

    @property
    def lacking(self) -> list[str]:
        """The factors with too few levels: the variation over them is unknown."""
        return [factor for factor, part in self.parts.items() if not part.freedom]

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the effect over all factors except those that are `lacking`.

        NaN if any state has a single client; if clients are not sampled, NaN without two seeds.
        """
        if next(iter(self.parts)) in self.lacking:
            return np.nan, np.nan
        reach = max(
            float(special.stdtrit(part.freedom, 1 - ALPHA / 2)) * part.variance**0.5
            for part in sources(self.parts)
        )
        return self.effect - reach, self.effect + reach

    @property
    def p(self) -> float:
        """Two-sided p value of the effect; 1 if a factor is `lacking`."""
        if self.lacking or self.effect == 0:
            return 1.0
        least = (1e-12 * self.effect) ** 2  # smaller variances are round-off
        return max(
            float(2 * special.stdtr(part.freedom, -abs(self.effect) / part.variance**0.5))
            if part.variance > least
            else 0.0
            for part in sources(self.parts)
        )


def sources(parts: Mapping[str, VariancePart]) -> list[VariancePart]:
    """The variances that an effect is tested against: of all factors together, and of each known
    one."""
    known = [part for part in parts.values() if part.freedom]
    return [VariancePart.of(0, [p.variance for p in known], [p.freedom for p in known]), *known]


def _squared_error(values: Array) -> float:
    """Square of the standard error of the mean of some values (n,)."""
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0


def holm(p: Sequence[float]) -> Array:
    """P values corrected for their number (Holm 1979)."""
    values = np.asarray(p, float)
    order = np.argsort(values)
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted
