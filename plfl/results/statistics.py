"""Statistics of the scores of a study: spreads over seeds, intervals and tests.

Everything is computed from the tables of a results folder, without training. All comparisons are
paired **client by client and seed by seed**, because both sides of a pair have the same data,
initial weights and minibatches. Two sources of random variation are treated separately:

- *clients*: the clients of a state are the unit of resampling. Intervals are bootstrap intervals
  (BCa; Efron 1987) of clients drawn within their states. Tests flip the sign of all differences of
  a client at once (exact if both sides of a pair are exchangeable; Pitman 1937);
- *trainings*: a seed affects all clients of a state at once, so clients alone do not show this
  variation. A t-test over the trainings compares an effect with the variation over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from plfl.results.records import Model
from plfl.results.scores import AXES, Array, Chosen, reference, scores
from plfl.results.tables import Tables

ALPHA = 0.05
"""Significance level of every test; the level of intervals is 1 - ALPHA."""
DRAWS = 9999
"""Number of resamples of a bootstrap interval and of sign flips of a test."""


@dataclass(frozen=True)
class Comparison:
    """The difference between two cells in some states, whose sign is tested."""

    cells: tuple[str, ...]
    """Names of the compared cells."""
    differences: Mapping[str, Array]
    """For each state, shape (clients, seeds); rows of clients without a MASE are NaN."""
    ratios: bool = False
    """Whether these are differences of ratios from 1 (MASE from that of persistence), so skewed."""

    @cached_property
    def scored(self) -> dict[str, Array]:
        """The differences of clients with a MASE, for the states that have any."""
        finite = {state: t[np.isfinite(t).all(axis=1)] for state, t in self.differences.items()}
        return {state: table for state, table in finite.items() if len(table)}

    def clients(self) -> list[Array]:
        """For each state in `scored`, the differences of its clients, means over seeds."""
        return [table.mean(axis=1) for table in self.scored.values()]

    @property
    def effect(self) -> float:
        """Mean difference over all clients and seeds."""
        return float(np.concatenate(self.clients()).mean())

    @property
    def identical(self) -> bool:
        """Whether both sides are equal for every client and seed: one training with two names."""
        return all((table == 0).all() for table in self.scored.values())

    def interval(self, draws: int = DRAWS) -> tuple[float, float]:
        """Bootstrap interval of the effect, clients drawn within their states; see `interval`."""
        return interval(self.clients(), draws)

    @cached_property
    def seed_variance(self) -> tuple[float, float]:
        """Variance of the effect over trainings, and its degrees of freedom (Satterthwaite).

        The states train separately, so their variances add. Infinite with a single seed.
        """
        parts, freedom = [], []
        total = sum(map(len, self.scored.values()))
        for table in self.scored.values():
            by_seed = table.mean(axis=0)
            if len(by_seed) < 2:
                return np.inf, 0.0
            parts.append((len(table) / total) ** 2 * by_seed.var(ddof=1) / len(by_seed))
            freedom.append(len(by_seed) - 1)
        variance = float(sum(parts))
        spread = sum(part**2 / df for part, df in zip(parts, freedom, strict=True))
        return variance, float(variance**2 / spread) if spread else float(sum(freedom))

    @cached_property
    def variance_parts(self) -> tuple[float, float, float]:
        """Variance of the effect due to clients, to trainings, and to their interaction.

        A two-way analysis of variance without replication within each state (Searle, Casella and
        McCulloch 1992); negative estimates are set to 0. The variance over clients is taken around
        the mean of all states, as in `sign_flips`. Undefined with a single seed.
        """
        total = sum(map(len, self.scored.values()))
        means = np.concatenate(self.clients())
        over_clients = float(means.var(ddof=1)) / total if total > 1 else 0.0
        over_seeds = self.seed_variance[0]
        both = sum(len(t) / total**2 * _interaction(t) / t.shape[1] for t in self.scored.values())
        both = min(both, over_clients, over_seeds)
        return over_clients - both, over_seeds - both, both

    def trainings(self) -> float:
        """Two-sided p value of the effect against the variation over seeds; 1 with a single seed.

        A t-test of the mean differences of the seeds; with a single state, Student's t-test.
        """
        variance, df = self.seed_variance
        if variance == np.inf:
            return 1.0
        if variance <= (1e-12 * self.effect) ** 2:
            return float(self.effect == 0)
        return float(2 * stats.t.sf(abs(self.effect) / np.sqrt(variance), df))

    def skewed(self) -> float:
        """Two-sided p value that the mean of log-normal ratios is 1; 0 if these are no ratios.

        Cox's method (Zhou and Gao 1997) with Student's t. Ratios have a long upper tail: a sample
        without clients from the tail has a low mean and a low variance. Sign flips assume symmetric
        differences and would too often find a mean of 1 to be below 1.
        """
        if not self.ratios:
            return 0.0
        n = sum(map(len, self.scored.values()))
        return min(1.0, float(2 * stats.t.sf(self.log_normal, n - 1))) if n > 1 else 1.0

    @property
    def log_normal(self) -> float:
        """Cox's statistic for `skewed`; positive if it agrees with the sign of the effect."""
        ratios = 1 + np.concatenate(self.clients())
        n = len(ratios)
        if n < 2:
            return 0.0
        logs = np.log(np.maximum(ratios, np.finfo(float).tiny))
        square = float(logs.var(ddof=1))
        mean = float(logs.mean()) + square / 2
        error = np.sqrt(square / n + square**2 / (2 * (n - 1)))
        if error <= 1e-12 * abs(mean):
            return np.inf if mean else 0.0
        return float(np.sign(self.effect) * mean / error)


def _interaction(table: Array) -> float:
    """Mean square of the interaction of clients and seeds; 0 if there are too few of either."""
    freedom = (len(table) - 1) * (table.shape[1] - 1)
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    return float((rest**2).sum() / freedom) if freedom else 0.0


def interval(samples: Sequence[Array], draws: int = DRAWS) -> tuple[float, float]:
    """BCa bootstrap interval (`scipy.stats.bootstrap`) of the mean over all samples.

    Args:
        samples: for each state, the values of its clients, which are resampled within the state.
        draws: number of resamples.

    Returns:
        Lower and upper end; NaN if a state has fewer than two clients.
    """
    if min(len(sample) for sample in samples) < 2:
        return np.nan, np.nan
    total = sum(len(sample) for sample in samples)
    if all(np.ptp(sample) == 0 for sample in samples):
        mean = float(np.concatenate(samples).mean())
        return mean, mean

    def mean_of_all(*drawn: Array, axis: int) -> Any:
        return sum(sample.sum(axis=axis) for sample in drawn) / total

    ends = stats.bootstrap(
        samples,
        mean_of_all,
        n_resamples=draws,
        confidence_level=1 - ALPHA,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(ends.low), float(ends.high)


def sign_flips(
    comparisons: Sequence[Comparison], draws: int = DRAWS, seeds: bool = False
) -> tuple[Array, Array]:
    """Two-sided p values of all comparisons: each alone, and adjusted for their number.

    The sign of a client is flipped in all comparisons at once, which keeps their dependence. The
    adjusted values come from the largest statistic of each flip (single-step max-T, Westfall and
    Young 1993), which has more power than Holm's method if comparisons share clients.

    Args:
        comparisons: the comparisons.
        draws: number of sign flips.
        seeds: whether to add the variance over trainings, which flips over clients do not show, to
            that over clients; with a single seed every p value is then 1.
    """
    states = {state: len(d) for c in comparisons for state, d in c.differences.items()}
    values = np.zeros((sum(states.values()), len(comparisons)))
    first = dict(zip(states, np.cumsum([0, *states.values()]), strict=False))
    for j, comparison in enumerate(comparisons):
        for state, table in comparison.differences.items():
            here = slice(first[state], first[state] + states[state])
            values[here, j] = np.nan_to_num(table.mean(axis=1))
    length = np.sqrt((values**2).sum(axis=0))
    values /= np.where(length > 0, length, 1)
    # The statistic u is the sum of values scaled to length one. With Student's t and n clients,
    # u² = n t² / (n - 1 + t²): a larger standard error lowers t and therefore u.
    observed = np.abs(values.sum(axis=0))
    if seeds:
        n = np.array([sum(map(len, comparison.clients())) for comparison in comparisons])
        over_clients = (1 - observed**2 / n) / (n * np.maximum(n - 1, 1))
        # Infinite for a single seed; for a single client, n - 1 is 0 and the product must be 0.
        variance = np.minimum([c.seed_variance[0] for c in comparisons], 1e200)
        over_seeds = variance / np.where(length > 0, length, 1) ** 2
        squared = (observed / n) ** 2
        # The formula above with t² = squared / (over_clients + over_seeds).
        observed = np.sqrt(
            n * squared / ((n - 1) * (over_clients + over_seeds) + squared + np.finfo(float).tiny)
        )
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(draws, len(values)))
    flipped = np.abs(signs @ values)
    # Equal sums in a different order may differ by rounding.
    observed -= 1e-9
    alone = (flipped >= observed).sum(axis=0)
    together = (flipped.max(axis=1)[:, None] >= observed).sum(axis=0)
    return (1 + alone) / (1 + draws), (1 + together) / (1 + draws)


def holm(p: Sequence[float]) -> Array:
    """P values corrected for their number (Holm 1979)."""
    values = np.asarray(p, float)
    order = np.argsort(values)
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted


def grid(tables: Tables, model: Model, chosen: Chosen = "last") -> pd.DataFrame:
    """The grid with its uncertainty, one row per state and combination.

    Columns: the axes; `mase` and `std`, mean and standard deviation over seeds of the mean over
    clients (`std` is NaN with one seed); `median` over clients of their means over seeds; `rank`
    among the combinations of the state, mean over clients (1 is best, diverged ones are last);
    `difference` from the `reference` of the state (negative is better) with its bootstrap interval
    `low`, `high`; `reference`, its name; `seeds`, `clients` and `diverged`.
    """
    rows = []
    for state, of_state in scores(tables, model, chosen).items():
        base = reference(tables, of_state)
        scored = np.isfinite(of_state.mase).any(axis=(0, 1)) | of_state.diverged.all()
        by_client = of_state.mase.mean(axis=1)[:, scored]
        ranks = stats.rankdata(np.nan_to_num(by_client, nan=np.inf), axis=0).mean(axis=1)
        for k, combination in enumerate(of_state.combinations):
            row: dict[str, Any] = {"state": state, **dict(zip(AXES, combination, strict=True))}
            by_seed = of_state.mase[k][:, scored].mean(axis=1)
            row["mase"] = by_seed.mean()
            row["std"] = by_seed.std(ddof=1) if len(by_seed) > 1 else np.nan
            row |= {"median": np.median(by_client[k]), "rank": ranks[k]}
            ends = (np.nan, np.nan)
            if base is not None:
                difference = by_client[k] - by_client[base]
                if np.isfinite(difference).all():
                    ends = interval([difference])
                row["difference"] = difference.mean()
            row |= {"low": ends[0], "high": ends[1]}
            row["reference"] = None if base is None else of_state.names[base]
            row |= {"seeds": len(of_state.seeds), "clients": int(scored.sum())}
            row["diverged"] = bool(of_state.diverged[k])
            rows.append(row)
    return pd.DataFrame(rows)
