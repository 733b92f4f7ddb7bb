"""The scores of a study as arrays: combination by combination, seed by seed, client by client; and
those of several states and origins of the test set put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.baselines import BASELINE
from plfl.results.records import CELL, Model
from plfl.results.statistics import Array, Comparison
from plfl.results.tables import Tables

DAYS = 7
"""Fewest days of a block of the test set; see `plfl.results.statistics`."""
AXES = [axis for axis in CELL if axis not in ("state", "seed")]
"""Axes of the grid within a state; each combination of them is trained once per seed."""


@dataclass(frozen=True)
class WeeklyScores:
    """The share of each week of a variant in the scores of a state, or in differences of them."""

    state: str
    origin: str
    clients: tuple[str, ...]
    weekly: Array
    """Shape (clients, seeds, weeks)."""

    def of(self, clients: Sequence[str]) -> Array:
        """The part of these clients, in this order."""
        return self.weekly[[self.clients.index(client) for client in clients]]

    def lead(self, other: WeeklyScores, margin: float = 0.0) -> WeeklyScores:
        """(1 + margin) times the scores of another piece minus these, for common clients: positive
        where these are lower."""
        common = tuple(client for client in self.clients if client in other.clients)
        left = (1 + margin) * other.of(common) - self.of(common)
        return WeeklyScores(self.state, self.origin, common, left)


@dataclass(frozen=True)
class StateScores:
    """The pieces of a state put together: the mean over the variants of each origin, and one origin
    after the other."""

    clients: list[str]
    """The clients that all pieces have."""
    weekly: Array
    """Shape (clients, seeds, weeks); its sums over weeks are means over the origins."""
    weeks: tuple[int, ...]
    """The number of weeks of each origin."""


def by_state(pieces: Sequence[WeeklyScores]) -> dict[str, StateScores]:
    """The pieces of each state put together."""
    scores = {}
    for state in dict.fromkeys(piece.state for piece in pieces):
        here = [piece for piece in pieces if piece.state == state]
        clients = [c for c in here[0].clients if all(c in piece.clients for piece in here)]
        tables: list[Array] = []
        for origin in dict.fromkeys(piece.origin for piece in here):
            of_origin = [piece.of(clients) for piece in here if piece.origin == origin]
            weeks = range(min(table.shape[2] for table in of_origin))  # the last has any surplus
            whole = [np.add.reduceat(table, weeks, axis=2) for table in of_origin]
            tables.append(np.mean(whole, axis=0))
        weekly = np.concatenate(tables, axis=2) / len(tables)
        scores[state] = StateScores(clients, weekly, tuple(table.shape[2] for table in tables))
    return scores


def pooled(
    names: Sequence[str], pieces: Sequence[WeeklyScores], trained: bool = True, shared: bool = False
) -> Comparison:
    """The comparison over states and origins. `shared`: all clients share one test set, so that
    nothing varies over clients and weeks."""
    states = by_state(pieces)
    return Comparison(
        tuple(dict.fromkeys(names)),
        {
            state: scores.weekly.sum(axis=-1) if shared else scores.weekly
            for state, scores in states.items()
        },
        trained,
        {} if shared else {state: scores.weeks for state, scores in states.items()},
        sampled=not shared,
    )


@dataclass(frozen=True)
class Forecaster(WeeklyScores):
    """A combination of a state with its scores: a cell with all its seeds, or a baseline."""

    name: str
    """The name, such as `CA-P2-fedopt-adam-fedyogi`: a cell without its seed."""
    axes: tuple[str, ...]
    """Values on `AXES`."""
    seeds: tuple[int, ...]
    validation: float
    """Validation MASE, mean over clients and seeds; NaN if any seed diverged."""
    persistence: Array
    """Each client's error of persistence in the test set, the denominator of its MASE."""
    model: Model = "local"
    """Its model, if it is a cell."""

    @property
    def is_baseline(self) -> bool:
        """Whether it is a baseline."""
        return self.axes[AXES.index("sharing")] == BASELINE

    @property
    def shown(self) -> str:
        """The name in the form that `plfl compare` accepts."""
        return self.name.removesuffix("-none-none")

    def is_comparable(self, other: Forecaster) -> bool:
        """Whether both MASE mean the same: common clients have the same error of persistence."""
        common = [client for client in self.clients if client in other.clients]
        here, there = (
            [forecaster.persistence[forecaster.clients.index(client)] for client in common]
            for forecaster in (self, other)
        )
        return len(common) > 0 and np.allclose(here, there, rtol=1e-6, equal_nan=True)


def best(among: Iterable[Forecaster]) -> Forecaster | None:
    """The forecaster of lowest validation MASE; None if all diverged."""
    finite = [forecaster for forecaster in among if np.isfinite(forecaster.validation)]
    return min(finite, key=lambda forecaster: forecaster.validation, default=None)


@dataclass(frozen=True)
class CellScores:
    """Test MASE of the cells of a state, client by client and week by week, for one model."""

    state: str
    combinations: tuple[tuple[str, ...], ...]
    """Values on `AXES`: K combinations in the order of the study."""
    seeds: tuple[int, ...]
    clients: tuple[str, ...]
    weekly: Array
    """Shape (K, seeds, clients, weeks): the share of each week of the test set in the MASE; their
    sum is the MASE. NaN for clients whose persistence error is zero, and for a whole combination if
    any of its seeds diverged."""
    validation: Array
    """Shape (K,): validation MASE, mean over clients and seeds; NaN if any seed diverged."""
    diverged: NDArray[np.bool_]
    """Shape (K,): whether any seed has a forecast that is not finite."""
    persistence: Array
    """Shape (clients,): error of persistence in the test set."""
    origin: str = ""
    """Where the test set begins, if the study has `data.origins`."""

    @cached_property
    def mase(self) -> Array:
        """Test MASE (K, seeds, clients)."""
        total: Array = self.weekly.sum(axis=-1)
        return total

    @cached_property
    def names(self) -> list[str]:
        """Names of the combinations, such as `CA-P2-fedopt-adam-fedyogi` (a cell without seed)."""
        return ["-".join([self.state, *values]) for values in self.combinations]

    def where(self, **equal: str | list[str]) -> NDArray[np.bool_]:
        """Which combinations have these values: `sharing="P2"`, `client_opt=[…]`."""
        allowed = {AXES.index(a): [v] if isinstance(v, str) else v for a, v in equal.items()}
        return np.array(
            [all(c[i] in values for i, values in allowed.items()) for c in self.combinations]
        )

    def masked(self, among: NDArray[np.bool_]) -> list[Forecaster]:
        """The combinations that a mask (K,) selects."""
        return [
            Forecaster(
                state=self.state,
                origin=self.origin,
                clients=self.clients,
                weekly=self.weekly[k].swapaxes(0, 1),
                name=self.names[k],
                axes=self.combinations[k],
                seeds=self.seeds,
                validation=float(self.validation[k]),
                persistence=self.persistence,
            )
            for k in np.flatnonzero(among).tolist()
        ]

    @property
    def spread(self) -> CellScores:
        """The distance of each client's MASE from the median over clients in place of the MASE, as
        in the test of Brown and Forsythe."""
        scored = np.isfinite(self.mase).any(axis=(0, 1))
        median = np.median(self.mase[..., scored], axis=-1, keepdims=True)
        side = np.sign(self.mase - median)[..., None]
        apart = side * (self.weekly - median[..., None] / self.weekly.shape[-1])
        return replace(self, weekly=apart)

    def those(self, **equal: str | list[str]) -> list[Forecaster]:
        """The combinations that have these values; see `where`."""
        return self.masked(self.where(**equal))


def scores(
    tables: Tables, model: Model, baselines: bool = False, score: str = "mase"
) -> dict[str, CellScores]:
    """The scores of a model of each cell at the last round, by state in the order of the study.

    `baselines` appends the baselines to the cells, as combinations ("baseline", name, "none",
    "none") with the same MASE for every seed. A baseline without a forecast for at least one client
    has no MASE. `score`: or `scaled_crps` in its place on the test set.
    """
    summary = tables.summary
    summary = summary[summary["model"] == model]
    of_model, cut = tables.errors_of(model, score), tables.study.data.cut
    persistence = tables.clients.set_index(["state", "client"])["persistence_mae_test"]
    by_state = {}
    for state in tables.study.data.states:
        here = of_model[of_model["state"] == state]
        days = here["day"].unique()
        of_state = _of_state(state, here, days, summary[summary["state"] == state])
        errors = persistence[state].reindex(list(of_state.clients)).to_numpy(float)
        by_state[state] = replace(of_state, persistence=errors, origin=str(cut or ""))
        if baselines and not tables.baseline_scores.empty:
            by_state[state] = _with_baselines(by_state[state], days, tables, score)
    return by_state


def _with_baselines(
    of_state: CellScores, days: NDArray[Any], tables: Tables, score: str
) -> CellScores:
    means = tables.baseline_scores
    here = means[means.index.get_level_values("state") == of_state.state].droplevel("state")
    errors = tables.errors_of(BASELINE, score)
    wide = weekly(errors[errors["state"] == of_state.state], days, ["method", "client"])
    names = here.index[here["mae_mean"].notna()]
    rows = pd.MultiIndex.from_product([here.index, of_state.clients])
    shares = wide[wide.index.get_level_values("method").isin(names)].reindex(rows)
    shape = len(here), 1, len(of_state.clients), shares.shape[1]
    by_seed = shares.to_numpy(float).reshape(shape).repeat(len(of_state.seeds), axis=1)
    return replace(
        of_state,
        combinations=(
            *of_state.combinations,
            *((BASELINE, str(name), "none", "none") for name in here.index),
        ),
        weekly=np.concatenate([of_state.weekly, by_seed]),
        validation=np.concatenate([of_state.validation, here["validation_mase"]]),
        diverged=np.concatenate([of_state.diverged, np.zeros(len(here), bool)]),
    )


def _of_state(
    state: str, errors: pd.DataFrame, days: NDArray[Any], summary: pd.DataFrame
) -> CellScores:
    by_grid = summary.groupby(AXES, sort=False)
    diverged = by_grid["diverged"].any()
    validation = by_grid["validation_mase"].mean().mask(diverged)
    seeds, clients = summary["seed"].unique().tolist(), errors["client"].unique().tolist()
    keys = [*AXES, "seed", "client"]
    rows = pd.MultiIndex.from_tuples(
        [(*key, s, c) for key in diverged.index for s in seeds for c in clients], names=keys
    )
    wide = weekly(errors, days, keys).reindex(rows)
    shares = wide.to_numpy(float).reshape(len(diverged), len(seeds), len(clients), -1)
    return CellScores(
        state=state,
        combinations=tuple(tuple(map(str, values)) for values in diverged.index),
        seeds=tuple(seeds),
        clients=tuple(map(str, clients)),
        weekly=np.where(diverged.to_numpy()[:, None, None, None], np.nan, shares),
        validation=validation.to_numpy(float),
        diverged=diverged.to_numpy(bool),
        persistence=np.full(len(clients), np.nan),
    )


def weekly(errors: pd.DataFrame, days: NDArray[Any], keys: Sequence[str]) -> pd.DataFrame:
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
