"""The forecaster that each client is assigned for use: what `plfl forecast` takes for it.

Together they are a mixture, which `mixture` gives the scores of a forecaster, so that tables and
comparisons can have a row of it. Only errors on validation sets choose.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.minutes import MINUTES_PER_DAY
from plfl.baselines import pretrained_names
from plfl.baselines.storage import storable_names
from plfl.config.data import TESTED_WEEKS
from plfl.results.scores import AXES, ForecasterScores
from plfl.results.tables import Tables
from plfl.study import Cell
from plfl.study.combinations import Combination, overrides
from plfl.study.forecaster_names import IN_USE

HALF_DAYS = 90.0
"""Days of a client's validation set whose error counts as much as the mean over all clients: chosen
at five sites (docs/forecast.md)."""
MOST_LISTED = 4
"""Forecasters that a reason lists."""
CHOICE_SCORES = {"mase": "MASE", "mae": "kWh"}
"""The scores that choose, with their units. A meter whose load hardly changes has no MASE."""


@dataclass(frozen=True)
class Assignment:
    """The forecaster of a client, and why."""

    forecaster: str
    """The name of a sharing scheme or of a baseline."""
    combination: Combination
    """That of the best cell of the scheme, or of the baseline."""
    validation: float
    """Its MASE on the client's validation set; NaN without one."""
    reason: str


def assign(
    tables: Tables, state: str, names: Collection[str] | None = None
) -> dict[str, Assignment]:
    """The forecaster of each client of a state, in their order: the one of least error on the
    validation sets of all clients, unless another one has a lower error on the client's own, by so
    much that `credible_errors` is lower, too. Clients for which nothing has a score are left out.

    `names`: the forecasters to choose from, in order of preference if errors are equal; None: all
    of `assignable_forecasters`.
    """
    combination_of = assignable_forecasters(tables, state)
    errors_of = validation_errors(tables, state, combination_of)
    names = combination_of if names is None else names
    return assign_by(tables, state, combination_of, errors_of, names)


def assign_by(
    tables: Tables,
    state: str,
    combination_of: Mapping[str, Combination],
    errors_of: Mapping[str, pd.DataFrame],
    names: Collection[str],
) -> dict[str, Assignment]:
    """As `assign`, given the `assignable_forecasters` and their `validation_errors`."""
    names = [name for name in names if name in combination_of]
    clients = [str(c) for c in tables.clients.loc[tables.clients["state"] == state, "client"]]
    errors_of = {
        score: errors.reindex(clients, columns=names) for score, errors in errors_of.items()
    }
    mase = errors_of["mase"].dropna(how="all")
    chosen_names, reasons = _choose(mase, _validation_days(tables, state).reindex(mase.index))
    # A meter whose load hardly changes has no MASE.
    absolute_errors = errors_of["mae"].drop(index=mase.index).dropna(how="all")
    for client, errors in absolute_errors.iterrows():
        chosen_names[str(client)] = str(errors.idxmin())
        reasons[str(client)] = list_errors(
            errors.dropna(), "least error of its validation set, kWh"
        )
    mase_of: dict[Any, dict[Any, float]] = errors_of["mase"].to_dict()
    return {
        client: Assignment(name, combination_of[name], mase_of[name][client], reasons[client])
        for client in clients
        if (name := chosen_names.get(client)) is not None
    }


def _choose(mase: pd.DataFrame, days: pd.Series[float]) -> tuple[dict[str, str], dict[str, str]]:
    """The forecasters and the reasons for clients with MASE, by name; see `assign`."""
    if mase.empty:
        return {}, {}
    means = _means_over_clients(mase).dropna()
    common = str(means.idxmin())
    common_reason = list_errors(means, "least mean error of all on validation, MASE")
    errors_of: dict[Any, dict[Any, float]] = mase.to_dict()
    choices: dict[Any, Any] = credible_errors(mase, days).idxmin(axis=1).to_dict()
    reasons = dict.fromkeys(choices, common_reason)
    for client, name in choices.items():
        own_error, common_error = errors_of[name][client], errors_of[common][client]
        if np.isnan(common_error):
            reasons[client] = f"{common}, which is best for all, has no score of it"
        elif name != common:
            reasons[client] = (
                f"on its own validation set MASE {own_error:.3g}, and {common}, which is best for "
                f"all, {common_error:.3g}"
            )
    return choices, reasons


def credible_errors(
    errors: pd.DataFrame, days: pd.Series[float], half_days: float = HALF_DAYS
) -> pd.DataFrame:
    """The errors that clients can expect of forecasters: Z times the client's own one plus 1 − Z
    times the mean over all clients, Z = n / (n + `half_days`) for an own one of n `days`. The mean
    of a forecaster that has none (see `_means_over_clients`) counts as the largest error of all.

    This is the credibility premium of Hans Bühlmann, "Experience rating and credibility", ASTIN
    Bulletin 4 (1967), 199-207. `half_days` is the variance of a day's error around that of its
    client, over the variance between clients. `errors`: a row per client, a column per forecaster;
    NaN without a score.
    """
    share = days / (days + half_days) if half_days else days / days
    means = _means_over_clients(errors).fillna(errors.max(axis=None))
    return errors.mul(share, axis=0) + np.outer(1 - share, means)


def _means_over_clients(errors: pd.DataFrame) -> pd.Series[float]:
    """The means over the clients that all forecasters have a score of. As long as there are none,
    the forecaster with the fewest scores is left out (the last one of several): its mean is NaN."""
    compared_errors = errors
    while (complete_rows := compared_errors.dropna()).empty and len(compared_errors.columns):
        fewest = compared_errors.notna().sum().iloc[::-1].idxmin()
        compared_errors = compared_errors.drop(columns=fewest)
    return complete_rows.mean().reindex(errors.columns)


def _validation_days(tables: Tables, state: str) -> pd.Series[float]:
    """Days of the validation set of each client of a state, by name; about, without gaps. Where
    choices are made in the history, a fifth of it, which the rows of the test set are no part of.
    """
    study, clients = tables.study, tables.clients
    clients = clients[clients["state"] == state].set_index("client")
    days: pd.Series[float] = clients["rows"] * clients["interval"] / MINUTES_PER_DAY
    if not study.plan.chooses_in_history:
        return days * study.windows.split[1]
    if study.data.origin_date is not None:
        days = days - 7 * TESTED_WEEKS
    elif study.windows.history is None:
        days = days * (1 - study.windows.split[2])
    if study.windows.history is not None:
        days = days.clip(upper=7 * study.windows.history)
    return (days / 5).clip(lower=1)


def assignable_forecasters(tables: Tables, state: str) -> dict[str, Combination]:
    """The forecasters of a state that can be kept for use, by name, with their combinations: those
    of the best cell of each sharing scheme but those `for_new` clients, and of the baselines for
    which no client sends its readings, and whose pre-training did not include them."""
    study = tables.study
    combination_of: dict[str, Combination] = {}
    for sharing in study.grid.sharing:
        if sharing not in study.plan.schemes.for_new and (
            cell := best_kept_cell(tables, state, sharing)
        ):
            combination_of[sharing] = cell.combination
    baselines = tables.baselines
    scored_names = {*baselines.loc[baselines["state"] == state, "baseline"]}
    pretrained = pretrained_names(study.baselines.further)
    for name in storable_names(study.baselines):
        if name in scored_names and name not in pretrained:
            combination_of[name] = Combination.from_baseline(name)
    return combination_of


def best_kept_cell(tables: Tables, state: str, sharing: str) -> Cell | None:
    """The best cell of a sharing scheme whose models can be kept for use; None if none has a score.
    Clients that mix the outputs of a model with those for their own windows (`knn_per`) do not
    forecast with a model alone."""
    combinations = tables.study.plan.combinations
    method_names = [
        name
        for name, method in combinations.methods.items()
        if combinations.trains_alone(sharing, name) or not overrides(method, "mix_outputs")
    ]
    return tables.best("local", state=state, sharing=sharing, method=method_names)


def validation_errors(
    tables: Tables, state: str, combination_of: Mapping[str, Combination]
) -> dict[str, pd.DataFrame]:
    """Each of the `CHOICE_SCORES` of the validation sets of a state: a row per client, a column for
    each of the forecasters, given by name with their combinations; mean over seeds, NaN without a
    score."""
    equal = {"state": state, "split": "validation"}
    last = tables.study.federation.rounds
    cells = tables.records(["client", *CHOICE_SCORES, *AXES], **equal, model="local", round=last)
    baselines = tables.baselines
    baselines = baselines[(baselines["state"] == state) & (baselines["split"] == "validation")]
    cell_means = cells.groupby([*AXES, "client"])[[*CHOICE_SCORES]].mean()
    baseline_means = baselines.groupby(["baseline", "client"])[[*CHOICE_SCORES]].mean()

    def errors(score: str) -> pd.DataFrame:
        by_combination = cell_means[score].unstack(AXES)
        by_name = baseline_means[score].unstack("baseline")
        columns = {
            name: by_name.get(name) if combination.is_baseline else by_combination.get(combination)
            for name, combination in combination_of.items()
        }
        known_columns = {name: column for name, column in columns.items() if column is not None}
        return pd.DataFrame(known_columns, dtype=float).reindex(columns=[*combination_of])

    return {score: errors(score) for score in CHOICE_SCORES}


def mixture(
    forecasters: Sequence[ForecasterScores],
    assignments: Mapping[str, Assignment],
    name: str = IN_USE,
) -> ForecasterScores | None:
    """The scores of the assigned forecasters as those of one, whose place on `AXES` is `name`: of
    the clients that have an assignment. `forecasters`: those of the state, see `scores`; None
    if one that is assigned is not among them."""
    by_combination = {forecaster.combination: forecaster for forecaster in forecasters}
    clients = tuple(client for client in assignments if client in forecasters[0].clients)
    if not clients or any(
        assignments[client].combination not in by_combination for client in clients
    ):
        return None
    assigned_forecasters = [by_combination[assignments[client].combination] for client in clients]
    weekly = np.concatenate(
        [
            assigned_forecaster.select([client])
            for assigned_forecaster, client in zip(assigned_forecasters, clients, strict=True)
        ]
    )
    numbers = [forecasters[0].clients.index(client) for client in clients]
    errors = [assignments[client].validation for client in clients]
    return replace(
        forecasters[0],
        clients=clients,
        weekly=weekly,
        combination=Combination(name, "none", "none", "none"),
        validation=float(np.nanmean(errors)) if np.isfinite(errors).any() else np.nan,
        persistence=forecasters[0].persistence[numbers],
        model="local",
    )


def list_errors(errors: pd.Series[float], reason: str) -> str:
    """A reason with the least error and the next ones."""
    errors = errors.sort_values(kind="stable")
    next_errors = [f"{name} {error:.3g}" for name, error in errors.iloc[1:MOST_LISTED].items()]
    next_text = f" ({', '.join(next_errors)})" if next_errors else ""
    return f"{reason} {errors.iloc[0]:.3g}{next_text}"
