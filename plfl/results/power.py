"""Power analysis: how many more seeds or clients would decide an undecided claim.

The true effect and its variance are assumed to be those that the study shows. The analysis finds
the smallest number of seeds or clients for which both tests of a verdict (`plfl.results.verdict`)
are significant with probability `POWER`. With N clients and S seeds, the variance of an effect has
a part due to clients, C / N, a part due to trainings, T / S, and a part due to their interaction,
E / (N S) (`Comparison.variance_parts`). So

    V_clients = C / N + E / (N S)        what the test over clients and seeds sees between clients
    V_seeds   = T / S + E / (N S)        what both tests see between seeds

and an effect d is significant at a level α where |d| exceeds both

    t(1 - α/2, N - 1) √(V_clients + V_seeds)        the test over clients and seeds (a higher
                                                    threshold for few clients, see `_flips`)
    t(1 - α/2, S - 1) √V_seeds                      the test over seeds

More seeds leave the clients the same, so d has the variance V_seeds. More clients are drawn anew,
so d has the variance C / N + T / S + E / (N S). The variance estimates follow χ² distributions.
"""

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import special, stats

from plfl.results.scores import Array
from plfl.results.statistics import DRAWS, Comparison

POWER = 0.8
"""Probability that the recommended number decides a claim."""
MOST_SEEDS, MOST_CLIENTS = 50, 1000
"""Upper limits of the recommended numbers."""
_POINTS = 64
"""Number of equally likely values that approximate a χ² distribution."""


@dataclass(frozen=True)
class Spread:
    """The parts of the variance of an effect, and the sample sizes behind it."""

    clients: int
    """Clients behind the effect, in all states."""
    seeds: int
    """At least 2."""
    by_clients: float
    """Variance of the effect due to clients, with this number of them."""
    by_seeds: float
    """The same due to trainings."""
    by_both: float
    """The same due to their interaction."""
    freedom: float
    """Degrees of freedom of the variance over trainings."""
    comparisons: int = 1
    """Number of comparisons, any one of which is sufficient."""
    log_normal: float | None = None
    """Cox's statistic of a ratio, which must be significant as well; see `Comparison.skewed`."""

    @classmethod
    def of(cls, comparison: Comparison, comparisons: int = 1) -> Self | None:
        """The spread of a comparison; None with a single seed, which has no variance over seeds."""
        variance, freedom = comparison.seed_variance
        if variance == np.inf:
            return None
        some = next(iter(comparison.scored.values()))
        return cls(
            sum(map(len, comparison.clients())),
            some.shape[1],
            *comparison.variance_parts,
            freedom,
            comparisons,
            comparison.log_normal if comparison.ratios else None,
        )

    def at(self, seeds: int, clients: int) -> Self:
        """The expected spread with other numbers of seeds and clients."""
        of_seeds, of_clients = self.seeds / seeds, self.clients / clients
        return replace(
            self,
            clients=clients,
            seeds=seeds,
            by_clients=self.by_clients * of_clients,
            by_seeds=self.by_seeds * of_seeds,
            by_both=self.by_both * of_seeds * of_clients,
            freedom=self.freedom * (seeds - 1) / (self.seeds - 1),
            log_normal=None if self.log_normal is None else self.log_normal / of_clients**0.5,
        )


def power(effect: float, spread: Spread, level: float, same_clients: bool) -> float:
    """The probability that an effect is significant in both tests.

    Args:
        effect: the true effect.
        spread: the spread in the planned study.
        level: the two-sided level of both tests, before the correction for `spread.comparisons`.
        same_clients: whether the clients stay the same, so that only seeds change; otherwise the
            clients are drawn anew.
    """
    if level <= 1 / (1 + DRAWS):
        return 0.0
    tail = level / (2 * spread.comparisons)
    over_clients = (spread.by_clients + spread.by_both) * (
        np.ones(1) if same_clients else _chi2(spread.clients - 1)
    )
    over_seeds = (spread.by_seeds + spread.by_both) * _chi2(spread.freedom)[:, None]
    least = np.maximum(
        max(_student(tail, spread.clients - 1), _flips(spread.clients, level))
        * np.sqrt(over_clients + over_seeds),
        _student(tail, spread.freedom) * np.sqrt(over_seeds),
    )
    scatter = spread.by_seeds + spread.by_both + (0 if same_clients else spread.by_clients)
    above = (abs(effect) - least) / max(math.sqrt(scatter), np.finfo(float).tiny)
    return float(min(special.ndtr(above).mean(), _of_ratio(spread, tail, same_clients)))


def _flips(clients: int, level: float) -> float:
    """The value that t must exceed for sign flips to be significant if all clients weigh the same.

    Flips of N equal values have only N + 1 sums: N - 2k with k negative signs. This matters for few
    clients; if there are too few, the threshold is infinite.
    """
    k = stats.binom.ppf(level / 2, clients, 0.5)
    square = (clients - 2 * k) ** 2 / clients
    return math.sqrt(square * (clients - 1) / (clients - square)) if k else math.inf


def _of_ratio(spread: Spread, tail: float, same_clients: bool) -> float:
    """The probability that Cox's test is significant: 0 or 1 if the clients stay the same."""
    if spread.log_normal is None:
        return 1.0
    above = spread.log_normal - _student(tail, spread.clients - 1)
    return float(above > 0) if same_clients else float(special.ndtr(above))


def _student(tail: float, freedom: float) -> float:
    """The value that Student's t exceeds with this probability; ten times as fast as `stats.t`."""
    return float(-special.stdtrit(freedom, tail))


def _chi2(freedom: float) -> Array:
    """Equally likely values of χ² divided by its degrees of freedom."""
    quantiles: Array = special.chdtri(freedom, (np.arange(_POINTS) + 0.5) / _POINTS)
    return quantiles / freedom


def advice(effect: float, spread: Spread | None, level: float) -> str:
    """How many more seeds, clients or both would decide a claim, in one sentence.

    Args:
        effect: the observed effect.
        spread: the spread in the study; None with a single seed.
        level: the level of the decision, after correction for all other claims.
    """
    if spread is None:
        return "Run at least 3 seeds (grid.seeds)."

    def enough(seeds: int, clients: int) -> bool:
        planned = spread.at(seeds, clients)
        return power(effect, planned, level, clients == spread.clients) >= POWER

    now, here = spread.seeds, spread.clients
    seeds = _first(range(now + 1, MOST_SEEDS + 1), lambda s: enough(s, here))
    clients = _first(range(here + 1, MOST_CLIENTS + 1), lambda n: enough(now, n))
    found = [
        f"about {_more(more, of)} ({have + more} in all)"
        for have, total, of in ((now, seeds, "seed"), (here, clients, "client"))
        if total is not None and (more := total - have)
    ]
    if found:
        lacking = {"seeds": seeds} | ({"clients": clients} if spread.by_clients else {})
        useless = "".join(f"; more {of} alone would not" for of, n in lacking.items() if n is None)
        return f"{_ASSUMED} {' or '.join(found)} would decide it{useless}."
    both = _first(range(now + 1, MOST_SEEDS + 1), lambda s: enough(s, _alike(s, now, here)))
    if both is None:
        return f"Even {MOST_SEEDS} seeds would not decide it: the effect is too small."
    further = _more(_alike(both, now, here) - here, "client")
    return (
        f"{_ASSUMED} about {_more(both - now, 'seed')} and {further} would decide it together; "
        "neither would alone."
    )


def _more(number: int, of: str) -> str:
    return f"{number} more {of}{'s' * (number != 1)}"


_ASSUMED = "If the true effect is as large as observed here,"


def _alike(seeds: int, now: int, clients: int) -> int:
    """The number of clients increased by the same factor as the seeds."""
    return min(math.ceil(clients * seeds / now), max(MOST_CLIENTS, clients))


def _first(numbers: range, enough: Callable[[int], bool]) -> int | None:
    """The smallest sufficient number, given that all larger ones suffice too; None without one."""
    i = bisect.bisect_left(numbers, True, key=enough)
    return numbers[i] if i < len(numbers) else None
