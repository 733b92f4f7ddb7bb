"""The forecaster that each client is assigned for use: what `plfl forecast` takes for it.

Together they are a mixture, which `mixture` gives the scores of a forecaster, so that tables and
comparisons can have a row of it. Only errors on validation sets choose.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
import pandas as pd

from plfl.baselines import BASELINE, find_pretrained
from plfl.baselines.storage import storable
from plfl.results.scores import AXES, Forecaster
from plfl.results.tables import Tables
from plfl.study.checks import USES

IN_USE, IN_USE_ALONE = USES
"""What a mixture is called in place of a sharing scheme."""
MOST = 4
"""Forecasters that a reason lists."""
SCORES = {"mase": "MASE", "mae": "kWh"}
"""The scores that choose, with their units. A meter whose load hardly changes has no MASE."""


@dataclass(frozen=True)
class Assignment:
    """The forecaster of a client, and why."""

    forecaster: str
    """The name of a sharing scheme or of a baseline."""
    axes: tuple[str, ...]
    """Its values on `AXES`: those of the best cell of the scheme, or of the baseline."""
    validation: float
    """Its MASE on the client's validation set; NaN without one."""
    reason: str


def assign(
    tables: Tables, state: str, names: Collection[str] | None = None
) -> dict[str, Assignment]:
    """The forecaster of each client of a state, in their order: the one of least error on the
    client's validation set. Clients for which nothing has a score are left out.

    `names`: the forecasters to choose from, in order of preference if errors are equal; None: all
    of `candidates`.
    """
    axes_of = candidates(tables, state)
    names = list(axes_of) if names is None else [name for name in names if name in axes_of]
    clients = tables.clients.loc[tables.clients["state"] == state, "client"]
    assignments: dict[str, Assignment] = {}
    errors_of = {score: validation_errors(tables, state, axes_of, score) for score in SCORES}
    for client in map(str, clients):
        for score, unit in SCORES.items():
            table = errors_of[score].reindex(index=[client], columns=names)
            errors = pd.Series(table.to_numpy(float)[0], names).dropna()
            if len(errors):
                name = str(errors.idxmin())
                reason = list_errors(errors, f"least error of its validation set, {unit}")
                mase = float(errors.min()) if score == "mase" else np.nan
                assignments[client] = Assignment(name, axes_of[name], mase, reason)
                break
    return assignments


def candidates(tables: Tables, state: str) -> dict[str, tuple[str, ...]]:
    """The forecasters of a state that can be kept for use, by name, with their values on `AXES`:
    the best cell of each sharing scheme but those `for_new` clients, and the baselines for which
    no client sends its readings, and whose pre-training did not include them."""
    study = tables.study
    found: dict[str, tuple[str, ...]] = {}
    for sharing in study.grid.sharing:
        if sharing not in study.plan.schemes.for_new and (
            cell := tables.best("local", state=state, sharing=sharing)
        ):
            found[sharing] = astuple(cell)[1:-1]
    scored = tables.baselines
    scored_names = {*scored.loc[scored["state"] == state, "baseline"]}
    pretrained = find_pretrained(study.baselines.further)
    for name in storable(study.baselines):
        if name in scored_names and name not in pretrained:
            found[name] = (BASELINE, name, "none", "none")
    return found


def validation_errors(
    tables: Tables, state: str, axes_of: Mapping[str, tuple[str, ...]], score: str = "mase"
) -> pd.DataFrame:
    """A score of the validation sets of a state: a row per client, a column for each of the
    forecasters, given by name with their values on `AXES`; mean over seeds, NaN without a score."""
    equal = {"state": state, "split": "validation"}
    last = tables.study.federation.rounds
    cells = tables.records(["client", score, *AXES], **equal, model="local", round=last)
    baselines = tables.baselines
    baselines = baselines[(baselines[[*equal]] == pd.Series(equal)).all(axis=1)]
    by_client: dict[str, pd.Series] = {}
    for name, axes in axes_of.items():
        if axes[0] == BASELINE:
            rows = baselines[baselines["baseline"] == name]
        else:
            rows = cells[(cells[AXES] == list(axes)).all(axis=1)]
        by_client[name] = rows.groupby("client")[score].mean()
    return pd.DataFrame(by_client, dtype=float)


def mixture(
    forecasters: Sequence[Forecaster], assignments: Mapping[str, Assignment], name: str = IN_USE
) -> Forecaster | None:
    """The scores of the assigned forecasters as those of one, whose place on `AXES` is `name`: of
    the clients that have an assignment. `forecasters`: those of the state, see `scores`; None
    if one that is assigned is not among them."""
    by_axes = {forecaster.axes: forecaster for forecaster in forecasters}
    clients = tuple(client for client in assignments if client in forecasters[0].clients)
    if not clients or any(assignments[client].axes not in by_axes for client in clients):
        return None
    parts = [by_axes[assignments[client].axes] for client in clients]
    weekly = np.concatenate(
        [part.of([client]) for part, client in zip(parts, clients, strict=True)]
    )
    numbers = [forecasters[0].clients.index(client) for client in clients]
    errors = [assignments[client].validation for client in clients]
    return replace(
        forecasters[0],
        clients=clients,
        weekly=weekly,
        axes=(name, *["none"] * (len(AXES) - 1)),
        validation=float(np.nanmean(errors)) if np.isfinite(errors).any() else np.nan,
        persistence=forecasters[0].persistence[numbers],
        model="local",
    )


def list_errors(errors: pd.Series[float], reason: str) -> str:
    """A reason with the least error and the next ones."""
    errors = errors.sort_values(kind="stable")
    others = [f"{name} {error:.3g}" for name, error in errors.iloc[1:MOST].items()]
    return f"{reason} {errors.iloc[0]:.3g}" + f" ({', '.join(others)})" * bool(others)
