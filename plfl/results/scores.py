"""The scores of a study as arrays: combination by combination, seed by seed, client by client."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.baselines import BASELINE
from plfl.results.records import CELL, Model
from plfl.results.tables import Tables

Chosen = Literal["last", "best_validation"]
"""The round that is scored: the last one, or the one of lowest validation MASE."""
Array = NDArray[np.float64]
AXES = [axis for axis in CELL if axis not in ("state", "seed")]
"""Axes of the grid within a state; each combination of them is trained once per seed."""


@dataclass(frozen=True)
class Scores:
    """Test MASE of the cells of a state, client by client, for one model and choice of round."""

    state: str
    combinations: tuple[tuple[str, ...], ...]
    """Values on `AXES`: K combinations in the order of the study."""
    seeds: tuple[int, ...]
    clients: tuple[str, ...]
    mase: Array
    """Shape (K, seeds, clients). NaN for clients whose persistence error is zero, and for all of a
    combination if any of its seeds diverged."""
    validation: Array
    """Shape (K,): validation MASE, mean over clients and seeds; NaN if any seed diverged."""
    diverged: NDArray[np.bool_]
    """Shape (K,): whether any seed has a forecast that is not finite."""

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

    def best(self, among: NDArray[np.bool_]) -> int | None:
        """The combination of lowest validation MASE `among` these; None if all diverged."""
        validation = np.where(among, self.validation, np.nan)
        return None if np.isnan(validation).all() else int(np.nanargmin(validation))


def scores(
    tables: Tables, model: Model, chosen: Chosen = "last", baselines: bool = False
) -> dict[str, Scores]:
    """The scores of every state, in the order of the study.

    Args:
        tables: the results folder.
        model: the model of each cell that is scored.
        chosen: the round that is scored.
        baselines: whether to append the baselines to the cells, as combinations ("baseline", name,
            "none", "none") with the same MASE for every seed. A baseline without a forecast for at
            least one client has no MASE.

    Raises:
        ResultsError: a table is missing, damaged or has another format.
    """
    summary = tables.summary
    summary = summary[(summary["model"] == model) & (summary["chosen"] == chosen)]
    columns = [*CELL, "round", "client", "mase"]
    records = tables.records(columns, split="test", model=model)
    table = records.merge(summary[[*CELL, "round"]], on=[*CELL, "round"])
    of_states = {
        state: _of_state(state, table[table["state"] == state], summary[summary["state"] == state])
        for state in tables.study.data.states
    }
    if not baselines:
        return of_states
    return {state: _with_baselines(of, tables) for state, of in of_states.items()}


def _with_baselines(of_state: Scores, tables: Tables) -> Scores:
    means = tables.baseline_scores
    here = means[means.index.get_level_values("state") == of_state.state].droplevel("state")
    if here.empty:  # a deployed study
        return of_state
    table = tables.baselines
    test = table[(table["split"] == "test") & (table["state"] == of_state.state)]
    wide = test.pivot(index="baseline", columns="client", values="mase")
    by_client = wide.reindex(here.index)[list(of_state.clients)].where(here["mae_mean"].notna())
    by_seed = np.repeat(by_client.to_numpy(float)[:, None], len(of_state.seeds), axis=1)
    names = [(BASELINE, str(name), "none", "none") for name in here.index]
    return replace(
        of_state,
        combinations=(*of_state.combinations, *names),
        mase=np.concatenate([of_state.mase, by_seed]),
        validation=np.concatenate([of_state.validation, here["validation_mase"]]),
        diverged=np.concatenate([of_state.diverged, np.zeros(len(here), bool)]),
    )


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


def reference(tables: Tables, of_state: Scores) -> int | None:
    """The combination that others are compared with: the best purely local one, by validation.

    In a study without purely local training, the best combination of all.
    """
    local = [s for s in tables.study.grid.sharing if tables.study.combinations.shares_nothing(s)]
    among = of_state.where(sharing=local) if local else of_state.where()
    return of_state.best(among)
