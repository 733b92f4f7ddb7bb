"""What the numbers of a study are worth: spreads over seeds, intervals, tests and ranks.

Everything is computed from the tables of a results folder, never by training. One rule runs through
all of it: what is compared is compared **client by client and seed by seed**, because both sides of
a pair have the same data, initial weights and minibatches. Two sources of chance are kept apart:

- *other clients*: the clients of a state are the unit of resampling. Intervals are bootstrap
  intervals (BCa; Efron 1987) of clients drawn within their states; tests flip the sign of a
  client's whole row (exact when swapping the two sides of a pair changes nothing; Pitman 1937);
- *other trainings*: the seeds change all clients of a state at once, which no number of clients
  shows. A t-test over the trainings tells whether an effect stands out from what seeds change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from plfl.results.records import CELL
from plfl.results.tables import Model, Tables

Chosen = Literal["last", "best_validation"]
"""The round that is scored: the last one, or the one of best validation MASE."""
Array = NDArray[np.float64]

ALPHA = 0.05
"""Nominal error rate of every test; intervals cover 1 - ALPHA."""
DRAWS = 9999
"""Resamples of a bootstrap interval and sign flips of a test."""
AXES = [axis for axis in CELL if axis not in ("state", "seed")]
"""Axes of the grid within a state; each combination of them is trained once per seed."""


@dataclass(frozen=True)
class Scores:
    """Test MASE of a state's cells, client by client, of one model at one choice of round."""

    state: str
    combinations: tuple[tuple[str, ...], ...]
    """Values on `AXES`: K combinations in the order of the study."""
    seeds: tuple[int, ...]
    clients: tuple[str, ...]
    mase: Array
    """Shape (K, seeds, clients). NaN where a client has no persistence error to be scored against,
    and in all of a combination of which any seed diverged."""
    validation: Array
    """Shape (K,): validation MASE, mean over clients and seeds; NaN where any seed diverged."""
    diverged: NDArray[np.bool_]
    """Shape (K,): whether any seed has a forecast that is not finite."""

    @cached_property
    def names(self) -> list[str]:
        """Names of the combinations: `CA-P2-fedopt-adam-fedyogi`, a cell without its seed."""
        return ["-".join([self.state, *values]) for values in self.combinations]

    def where(self, **equal: str | list[str]) -> NDArray[np.bool_]:
        """Which combinations have these values: `personalization="P2"`, `client_opt=[…]`."""
        allowed = {AXES.index(a): [v] if isinstance(v, str) else v for a, v in equal.items()}
        return np.array(
            [all(c[i] in values for i, values in allowed.items()) for c in self.combinations]
        )

    def best(self, among: NDArray[np.bool_]) -> int | None:
        """The combination of least validation MASE `among` these; None when every one diverged."""
        validation = np.where(among, self.validation, np.nan)
        return None if np.isnan(validation).all() else int(np.nanargmin(validation))


def scores(tables: Tables, model: Model, chosen: Chosen = "last") -> dict[str, Scores]:
    """The scores of every state, in the order of the study.

    Raises:
        ResultsError: a table is missing, damaged or of another format.
    """
    summary = tables.summary
    summary = summary[(summary["model"] == model) & (summary["chosen"] == chosen)]
    columns = [*CELL, "round", "client", "mase"]
    records = tables.records(columns, split="test", model=model)
    table = records.merge(summary[[*CELL, "round"]], on=[*CELL, "round"])
    return {
        state: _of_state(state, table[table["state"] == state], summary[summary["state"] == state])
        for state in tables.study.data.states
    }


def _of_state(state: str, table: pd.DataFrame, summary: pd.DataFrame) -> Scores:
    by_grid = summary.groupby(AXES, sort=False)
    diverged = by_grid["diverged"].any()
    validation = by_grid["validation_mase"].mean().mask(diverged)
    seeds, clients = summary["seed"].unique().tolist(), table["client"].unique().tolist()
    rows = pd.MultiIndex.from_tuples(
        [(*combination, seed) for combination in diverged.index for seed in seeds],
        names=[*AXES, "seed"],
    )
    wide = table.set_index([*AXES, "seed", "client"])["mase"].unstack().reindex(rows)[clients]
    mase = wide.to_numpy(float).reshape(len(diverged), len(seeds), len(clients))
    return Scores(
        state=state,
        combinations=tuple(tuple(map(str, values)) for values in diverged.index),
        seeds=tuple(seeds),
        clients=tuple(map(str, clients)),
        mase=np.where(diverged.to_numpy()[:, None, None], np.nan, mase),
        validation=validation.to_numpy(float),
        diverged=diverged.to_numpy(bool),
    )


@dataclass(frozen=True)
class Comparison:
    """A difference between two cells in every state concerned, to be asked for its sign."""

    cells: tuple[str, ...]
    """Names of the cells that are compared."""
    differences: Mapping[str, Array]
    """For each state, shape (clients, seeds); NaN rows are clients without MASE."""
    ratios: bool = False
    """Whether they are differences of ratios from 1 (MASE from that of persistence), so skewed."""

    @cached_property
    def scored(self) -> dict[str, Array]:
        """The differences without clients that have no MASE, and states that have no others."""
        finite = {state: t[np.isfinite(t).all(axis=1)] for state, t in self.differences.items()}
        return {state: table for state, table in finite.items() if len(table)}

    def clients(self) -> list[Array]:
        """For each state scored, the clients' differences, means over seeds."""
        return [table.mean(axis=1) for table in self.scored.values()]

    @property
    def effect(self) -> float:
        """Mean difference over all clients and seeds."""
        return float(np.concatenate(self.clients()).mean())

    @property
    def identical(self) -> bool:
        """Whether both sides are the same for every client and seed: one training, two names."""
        return all((table == 0).all() for table in self.scored.values())

    def interval(self, draws: int = DRAWS) -> tuple[float, float]:
        """Bootstrap interval of the effect, clients drawn within their states; see `interval`."""
        return interval(self.clients(), draws)

    @cached_property
    def seed_variance(self) -> tuple[float, float]:
        """Variance of the effect over trainings, and its degrees of freedom (Satterthwaite).

        Each state has trainings of its own, whose variances add. Infinite with a single seed.
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

    def trainings(self) -> float:
        """Two-sided p value of the effect being what seeds alone change; 1 with a single seed.

        A t-test over the seeds' mean differences; with one state that of Student.
        """
        variance, df = self.seed_variance
        if variance == np.inf:
            return 1.0
        if variance <= (1e-12 * self.effect) ** 2:
            return float(self.effect == 0)
        return float(2 * stats.t.sf(abs(self.effect) / np.sqrt(variance), df))

    def skewed(self) -> float:
        """Two-sided p value of the mean ratio being 1 if ratios are log-normal; 0 without ratios.

        Cox's method (Zhou and Gao 1997) with Student's t. Few clients miss by much, and a sample
        that has none of them lies below the mean and scatters little: flips of signs, which take
        the differences for symmetric, would call a mean of 1 less than 1 too often.
        """
        if not self.ratios:
            return 0.0
        ratios = 1 + np.concatenate(self.clients())
        n = len(ratios)
        if n < 2:
            return 1.0
        logs = np.log(np.maximum(ratios, np.finfo(float).tiny))
        square = float(logs.var(ddof=1))
        mean = float(logs.mean()) + square / 2
        error = np.sqrt(square / n + square**2 / (2 * (n - 1)))
        if error <= 1e-12 * abs(mean):
            return float(mean == 0)
        return min(1.0, float(2 * stats.t.sf(np.sign(self.effect) * mean / error, n - 1)))


def interval(samples: Sequence[Array], draws: int = DRAWS) -> tuple[float, float]:
    """BCa bootstrap interval (`scipy.stats.bootstrap`) of the mean over all samples together.

    Args:
        samples: for each state the values of its clients; they are drawn within their state.
        draws: number of resamples.

    Returns:
        Lower and upper end; NaN when a state has fewer than two clients.
    """
    if min(len(sample) for sample in samples) < 2:
        return np.nan, np.nan
    total = sum(len(sample) for sample in samples)
    if all(np.ptp(sample) == 0 for sample in samples):
        mean = float(np.concatenate(samples).mean())
        return mean, mean

    def mean_of_all(*drawn: Array, axis: int) -> Any:
        return sum(sample.sum(axis=axis) for sample in drawn) / total

    found = stats.bootstrap(
        samples,
        mean_of_all,
        n_resamples=draws,
        confidence_level=1 - ALPHA,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(found.low), float(found.high)


def sign_flips(
    comparisons: Sequence[Comparison], draws: int = DRAWS, seeds: bool = False
) -> tuple[Array, Array]:
    """Two-sided p values of every comparison: by itself, and adjusted for all of them.

    The sign of a client is flipped in all comparisons at once, so what they have in common is kept;
    the adjusted values are those of the largest statistic of each flip (single-step max-T, Westfall
    and Young 1993), which is stronger than Holm when comparisons share clients.

    Args:
        comparisons: what is compared.
        draws: number of sign flips.
        seeds: whether the variance over trainings, which flips of clients cannot show, is added to
            the one over clients; a single seed then makes every p value 1.
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
    # The statistic is the sum of values of length one, u. With t that of Student and n clients,
    # u² = n t² / (n - 1 + t²): a wider standard error lowers t, and so u.
    observed = np.abs(values.sum(axis=0))
    if seeds:
        n = np.array([sum(map(len, comparison.clients())) for comparison in comparisons])
        over_clients = (1 - observed**2 / n) / (n * np.maximum(n - 1, 1))
        # Of a single seed it is infinite, of a single client n - 1 is 0; their product shall be 0.
        variance = np.minimum([c.seed_variance[0] for c in comparisons], 1e200)
        over_seeds = variance / np.where(length > 0, length, 1) ** 2
        squared = (observed / n) ** 2
        # t² = squared / (over_clients + over_seeds), put into the formula above.
        observed = np.sqrt(
            n * squared / ((n - 1) * (over_clients + over_seeds) + squared + np.finfo(float).tiny)
        )
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(draws, len(values)))
    flipped = np.abs(signs @ values)
    # Rounding must not tell apart what is the same sum in another order.
    observed -= 1e-9
    alone = (flipped >= observed).sum(axis=0)
    together = (flipped.max(axis=1)[:, None] >= observed).sum(axis=0)
    return (1 + alone) / (1 + draws), (1 + together) / (1 + draws)


def holm(p: Sequence[float]) -> Array:
    """P values adjusted for their family (Holm 1979)."""
    values = np.asarray(p, float)
    order = np.argsort(values)
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted


def reference(tables: Tables, of_state: Scores) -> int | None:
    """The combination others are held against: purely local training, chosen on validation.

    In a study without such a split it is the best combination of all on validation.
    """
    local = [s for s in tables.study.grid.personalization if tables.study.shares_nothing(s)]
    among = of_state.where(personalization=local) if local else of_state.where()
    return of_state.best(among)


def grid(tables: Tables, model: Model, chosen: Chosen = "last") -> pd.DataFrame:
    """The grid with its uncertainty, one row a state and combination.

    Columns: the axes; `mase` and `std`, mean and standard deviation over seeds of the mean over
    clients (NaN with one seed); `median` over clients of their means over seeds; `rank`, mean over
    clients among the state's combinations (1 is best, a diverged one is last); `difference` to the
    state's `reference` (negative is better) with the bootstrap interval `low`, `high`; `reference`,
    its name; `seeds`, `clients` and `diverged`.
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


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods over clients, and which of them can be told apart."""

    ranks: "pd.Series[float]"
    """Mean rank of each method, 1 is best; the best first."""
    p: pd.DataFrame
    """P value of each pair of methods (Nemenyi's test, `scikit_posthocs`)."""
    friedman: float
    """P value of all methods being alike (Friedman's test, `scipy.stats`)."""
    critical_difference: float
    """Least difference of mean ranks that is significant by Nemenyi's test at `ALPHA`."""
    clients: int


def ranking(blocks: pd.DataFrame) -> Ranking:
    """Rank methods within every client (Demsar 2006).

    Args:
        blocks: MASE, a row a client and a column a method; NaN, of a diverged cell, ranks last.
    """
    from scikit_posthocs import posthoc_nemenyi_friedman  # type: ignore[import-untyped]

    count, methods = blocks.shape
    ranks = blocks.fillna(np.inf).rank(axis=1)
    p = pd.DataFrame(1.0, index=blocks.columns, columns=blocks.columns)
    friedman = 1.0
    if methods > 2 and count > 1 and (ranks.to_numpy() != ranks.to_numpy().mean()).any():
        friedman = float(stats.friedmanchisquare(*ranks.to_numpy().T).pvalue)
    if methods > 1:
        p = posthoc_nemenyi_friedman(ranks.reset_index(drop=True))
    quantile = stats.studentized_range.ppf(1 - ALPHA, max(methods, 2), np.inf) / np.sqrt(2)
    distance = float(quantile * np.sqrt(methods * (methods + 1) / (6 * count)))
    means = ranks.mean().sort_values(kind="stable")
    return Ranking(means, p.loc[means.index, means.index], friedman, distance, count)
