"""The scores of a study: forecaster by forecaster, seed by seed, client by client; and those of
several states and origins of the test set put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.array_types import Floats
from plfl.config.baselines import BASELINE
from plfl.results.records import ModelKind
from plfl.results.statistics import Difference
from plfl.results.tables import Tables
from plfl.study.combinations import Combination

DAYS = 7
"""Fewest days of a block of the test set; see `plfl.results.statistics`."""
AXES = list(Combination._fields)
"""Axes of the grid within a state; each combination of them is trained once per seed."""


@dataclass(frozen=True)
class WeeklyScores:
    """The share of each week of a variant in the scores of a state, or in differences of them."""

    state: str
    origin: str
    clients: tuple[str, ...]
    weekly: Floats
    """Shape (clients, seeds, weeks)."""

    def select(self, clients: Sequence[str]) -> Floats:
        """The part of these clients, in this order."""
        return self.weekly[[self.clients.index(client) for client in clients]]

    def advantage_over(self, rival: WeeklyScores, margin: float = 0.0) -> WeeklyScores:
        """(1 + margin) times the scores of another set minus these, for common clients: positive
        where these are lower. ValueError: the sets are of different states or origins."""
        if (self.state, self.origin) != (rival.state, rival.origin):
            places = [f"{x.state} {x.origin}".strip() for x in (self, rival)]
            raise ValueError(f"scores of {' and of '.join(places)} are not of the same test set")
        common = tuple(client for client in self.clients if client in rival.clients)
        advantage = (1 + margin) * rival.select(common) - self.select(common)
        return WeeklyScores(self.state, self.origin, common, advantage)


def pool(
    score_sets: Sequence[WeeklyScores], is_trained: bool = True, has_common_tests: bool = False
) -> Difference:
    """The difference over states and origins: in each state, of the clients that all sets have,
    the mean over the variants of each origin, and one origin after the other. With
    `has_common_tests`, all clients share one test set: nothing varies over clients and weeks."""
    differences: dict[str, Floats] = {}
    weeks_of: dict[str, dict[str, int]] = {}
    for state in dict.fromkeys(score_set.state for score_set in score_sets):
        sets_of_state = [score_set for score_set in score_sets if score_set.state == state]
        clients = [
            c
            for c in sets_of_state[0].clients
            if all(c in score_set.clients for score_set in sets_of_state)
        ]
        tables: dict[str, Floats] = {}
        for origin in dict.fromkeys(score_set.origin for score_set in sets_of_state):
            origin_tables = [
                score_set.select(clients)
                for score_set in sets_of_state
                if score_set.origin == origin
            ]
            weeks = range(
                min(table.shape[2] for table in origin_tables)
            )  # the last has any surplus
            weekly_tables = [np.add.reduceat(table, weeks, axis=2) for table in origin_tables]
            tables[origin] = np.mean(weekly_tables, axis=0)
        # Sums over weeks are means over the origins.
        weekly = np.concatenate([*tables.values()], axis=2) / len(tables)
        differences[state] = weekly.sum(axis=-1) if has_common_tests else weekly
        weeks_of[state] = {origin: table.shape[2] for origin, table in tables.items()}
    origins = {} if has_common_tests else weeks_of
    return Difference(differences, is_trained, origins, is_sampled=not has_common_tests)


@dataclass(frozen=True)
class ForecasterScores(WeeklyScores):
    """A combination of a state with its scores: a cell with all its seeds, or a baseline. `weekly`
    is the share of each week of the test set in the MASE; NaN for clients whose persistence error
    is zero, and for all if any seed diverged."""

    combination: Combination
    seeds: tuple[int, ...]
    validation: float
    """Validation MASE, mean over clients and seeds; NaN if any seed diverged."""
    persistence: Floats
    """Each client's error of persistence in the test set, the denominator of its MASE."""
    model: ModelKind = "local"
    """Its model, if it is a cell."""

    @property
    def name(self) -> str:
        """The name, such as `CA-P2-fedopt-adam-fedyogi`: a cell without its seed."""
        return "-".join([self.state, *self.combination])

    @property
    def is_baseline(self) -> bool:
        """Whether it is a baseline."""
        return self.combination.is_baseline

    @property
    def label(self) -> str:
        """The name in the form that `plfl compare` accepts."""
        return self.name.removesuffix("-none-none")

    @property
    def mase(self) -> Floats:
        """Test MASE (clients, seeds)."""
        total: Floats = self.weekly.sum(axis=-1)
        return total

    @property
    def spread(self) -> ForecasterScores:
        """The distance of each client's MASE from the median over clients in place of the MASE, as
        in the test of Brown and Forsythe."""
        is_scored = np.isfinite(self.mase).all(axis=1)
        if not is_scored.any():
            return self
        median = np.median(self.mase[is_scored], axis=0)
        side = np.sign(self.mase - median)[..., None]
        return replace(self, weekly=side * (self.weekly - median[:, None] / self.weekly.shape[-1]))

    def is_comparable(self, rival: ForecasterScores) -> bool:
        """Whether both MASE mean the same: common clients have the same error of persistence."""
        common = [client for client in self.clients if client in rival.clients]
        own_errors, rival_errors = (
            [forecaster.persistence[forecaster.clients.index(client)] for client in common]
            for forecaster in (self, rival)
        )
        return len(common) > 0 and np.allclose(own_errors, rival_errors, rtol=1e-6, equal_nan=True)


def split_by_combination(
    combinations: Sequence[Combination], weekly: Floats, validation: Floats, **common: Any
) -> list[ForecasterScores]:
    """The forecasters of a state, given their combinations, `weekly` of shape (K, seeds,
    clients, weeks), `validation` (K,), and the other fields of `ForecasterScores`, which are
    `common`."""
    return [
        ForecasterScores(
            combination=combination,
            weekly=weekly[k].swapaxes(0, 1),
            validation=float(validation[k]),
            **common,
        )
        for k, combination in enumerate(combinations)
    ]


def select(among: Iterable[ForecasterScores], **equal: str) -> list[ForecasterScores]:
    """The forecasters that have these values on `AXES`: `sharing="P2"`."""
    return [
        forecaster
        for forecaster in among
        if all(getattr(forecaster.combination, axis) == name for axis, name in equal.items())
    ]


def scores(
    tables: Tables, model: ModelKind, includes_baselines: bool = False, score: str = "mase"
) -> dict[str, list[ForecasterScores]]:
    """The scores of a model of each cell at the last round, by state in the order of the study.

    `includes_baselines` appends the baselines to the cells, as combinations ("baseline", name,
    "none", "none") with the same MASE for every seed. A baseline without a forecast for at least
    one client has no MASE. `score`: or `scaled_crps` in its place on the test set.
    """
    summary = tables.summary
    summary = summary[summary["model"] == model]
    model_errors, cut = tables.errors_of(model, score), tables.study.data.origin_date
    persistence = tables.clients.set_index(["state", "client"])["persistence_mae_test"]
    has_baselines = includes_baselines and not tables.baseline_scores.empty
    baseline_errors = tables.errors_of(BASELINE, score) if has_baselines else None
    by_state = {}
    for state in tables.study.data.states:
        state_rows = model_errors[model_errors["state"] == state]
        days, clients = state_rows["day"].unique(), state_rows["client"].unique().tolist()
        common: dict[str, Any] = {
            "state": state,
            "origin": str(cut or ""),
            "clients": tuple(map(str, clients)),
            "seeds": tuple(summary.loc[summary["state"] == state, "seed"].unique().tolist()),
            "persistence": persistence[state].reindex(clients).to_numpy(float),
        }
        by_state[state] = _cell_forecasters(
            state_rows, days, summary[summary["state"] == state], common
        )
        if baseline_errors is not None:
            by_state[state] += _baseline_forecasters(baseline_errors, days, tables, common)
    return by_state


def _baseline_forecasters(
    errors: pd.DataFrame, days: NDArray[Any], tables: Tables, common: dict[str, Any]
) -> list[ForecasterScores]:
    means, state = tables.baseline_scores, common["state"]
    state_means = means[means.index.get_level_values("state") == state].droplevel("state")
    wide = weekly_shares(errors[errors["state"] == state], days, ["method", "client"])
    names = state_means.index[state_means["mae_mean"].notna()]
    rows = pd.MultiIndex.from_product([state_means.index, common["clients"]])
    shares = wide[wide.index.get_level_values("method").isin(names)].reindex(rows)
    shape = len(state_means), 1, len(common["clients"]), shares.shape[1]
    by_seed = shares.to_numpy(float).reshape(shape).repeat(len(common["seeds"]), axis=1)
    combinations = [Combination.from_baseline(str(name)) for name in state_means.index]
    return split_by_combination(
        combinations, by_seed, state_means["validation_mase"].to_numpy(float), **common
    )


def _cell_forecasters(
    errors: pd.DataFrame, days: NDArray[Any], summary: pd.DataFrame, common: dict[str, Any]
) -> list[ForecasterScores]:
    by_grid = summary.groupby(AXES, sort=False)
    diverged = by_grid["diverged"].any()
    validation = by_grid["validation_mase"].mean().mask(diverged)
    seeds, clients = common["seeds"], common["clients"]
    keys = [*AXES, "seed", "client"]
    rows = pd.MultiIndex.from_tuples(
        [(*key, s, c) for key in diverged.index for s in seeds for c in clients], names=keys
    )
    wide = weekly_shares(errors, days, keys).reindex(rows)
    shares = wide.to_numpy(float).reshape(len(diverged), len(seeds), len(clients), -1)
    shares = np.where(diverged.to_numpy()[:, None, None, None], np.nan, shares)
    combinations = [Combination(*map(str, names)) for names in diverged.index]
    return split_by_combination(combinations, shares, validation.to_numpy(float), **common)


def weekly_shares(errors: pd.DataFrame, days: NDArray[Any], keys: Sequence[str]) -> pd.DataFrame:
    """The share of each week of the test set in the MASE, a row for each of the `keys`. The days
    between the first and the last are cut into as many blocks of equal length as have at least
    seven days each; a shorter test set is one block."""
    since = (errors["day"] - days.min()) // pd.Timedelta(days=1)
    length = int((days.max() - days.min()) / np.timedelta64(1, "D")) + 1
    blocks = max(1, length // DAYS)
    table = errors.assign(week=since * blocks // length)
    by_key = table.groupby(list(keys), sort=False)
    scale = by_key["forecasts"].sum() * by_key["scale"].first().replace(0, np.nan)
    by_week = table.groupby([*keys, "week"], sort=False)["error"]
    sums = by_week.sum().where(by_week.count() == by_week.size())
    return (
        sums.unstack("week", fill_value=0)
        .reindex(columns=range(blocks), fill_value=0)
        .div(scale.astype(float), axis=0)
    )
