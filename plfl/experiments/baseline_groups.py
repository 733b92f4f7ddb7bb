"""The baselines of a state, one group of clients after the other: memory for forecasts and models
does not grow with the number of clients, and groups can be fitted side by side."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.job_state import JobState
from plfl.baselines.fitting import fit
from plfl.baselines.storage import WIDTHS_KEY
from plfl.config.baselines import Baselines
from plfl.data.dataset import SPLITS, Dataset
from plfl.experiments.baselines import (
    BaselineError,
    FailedBaseline,
    evaluate,
)
from plfl.experiments.client_groups import common_baseline_names, list_baselines
from plfl.interfaces.baseline import Arrays, Baseline, FitSettings, FittedBaseline, Floats, Starts
from plfl.interfaces.task import Task
from plfl.results.records import BaselineTables
from plfl.results.totals import Totals
from plfl.tasks import check_calibration

log = logging.getLogger(__name__)

CLIENTS_AT_ONCE = 16
"""Clients of a group within a job; the groups of `client_groups` are jobs of their own."""


def evaluate_in_groups(
    state: str,
    dataset: Dataset,
    keys: Baselines,
    task: Task,
    threads: int = 1,
    size: int = CLIENTS_AT_ONCE,
) -> BaselineTables:
    """What `evaluate` returns for a dataset, computed for groups of `size` clients, in `threads`
    threads. Baselines that need all clients together are fitted to all at first."""
    check_calibration(task, dataset)
    clients = np.arange(len(dataset.clients))
    groups = [clients[first : first + size] for first in range(0, len(clients), size)]
    if len(groups) == 1:
        return _evaluate(state, dataset, keys, task, {})
    baselines = list_baselines(dataset.shape.covariates > 0, keys.further, keys.leave_out)
    settings = replace(keys.fit_settings, levels=task.quantile_levels)
    common = fit_common(baselines, dataset, settings)

    def score_group(number: int) -> BaselineTables:
        group_clients = groups[number]
        earlier = {
            name: GroupBaseline(baseline, group_clients) for name, baseline in common.items()
        }
        tables = _evaluate(state, dataset.select(group_clients), keys, task, earlier)
        progress = JobState("group", number + 1, len(groups))
        log.info("%s: %s is scored", state, progress, extra=progress.as_extra())
        return tables

    with ThreadPoolExecutor(threads) as pool:
        results = [*pool.map(score_group, range(len(groups)))]
    if not have_same_failures([result.scores for result in results]):
        log.warning("%s: a baseline failed for some clients: all are fitted again", state)
        return _evaluate(state, dataset, keys, task, {})
    return join_groups(results, groups, [baseline.name for baseline in baselines])


def have_same_failures(scores: Iterable[pd.DataFrame]) -> bool:
    """Whether the same baselines failed in all groups, given their scores."""
    failures = {
        frozenset(table.loc[table["failed"] != "", "baseline"].tolist()) for table in scores
    }
    return len(failures) == 1


def _evaluate(
    state: str,
    dataset: Dataset,
    keys: Baselines,
    task: Task,
    earlier: Mapping[str, FittedBaseline],
) -> BaselineTables:
    return evaluate(state, dataset, keys.fit_settings, task, keys.further, keys.leave_out, earlier)


def fit_common(
    baselines: Sequence[Baseline], dataset: Dataset, settings: FitSettings
) -> dict[str, FittedBaseline]:
    """The baselines of `common_baseline_names`, fitted to all clients, with those that failed."""
    names = common_baseline_names(baselines)
    common: dict[str, FittedBaseline] = {}
    fitted_baselines: dict[str, FittedBaseline] = {}
    for baseline in baselines:
        if baseline.name not in names:
            continue
        try:
            with BaselineError.replaces_errors():
                fitted_baselines[baseline.name] = fit(baseline, dataset, settings, fitted_baselines)
            common[baseline.name] = fitted_baselines[baseline.name]
        except BaselineError as failure:
            common[baseline.name] = FailedBaseline(failure)
    return common


@dataclass(frozen=True)
class GroupBaseline(FittedBaseline):
    """A fitted baseline for some of its clients, which are numbered from 0."""

    fitted_baseline: FittedBaseline
    clients: NDArray[np.int64]
    """Their numbers in the dataset that it is fitted to."""

    @property
    def sent_bytes(self) -> Mapping[str, Sequence[int]] | None:  # type: ignore[override]
        sizes = self.fitted_baseline.sent_bytes
        if sizes is None:
            return None
        return {
            source: np.asarray(client_sizes)[self.clients].tolist()
            for source, client_sizes in sizes.items()
        }

    def predict(self, client: int, starts: Starts) -> Floats:
        return self.fitted_baseline.predict(int(self.clients[client]), starts)

    def save(self, client: int) -> Arrays:
        return self.fitted_baseline.save(int(self.clients[client]))


def join_groups(
    results: Sequence[BaselineTables],
    job_clients: Sequence[NDArray[np.int64]],
    names: Sequence[str],
) -> BaselineTables:
    """The results of all clients, in the order of `evaluate`."""
    return BaselineTables(
        _in_order((x.scores for x in results), {"baseline": names, "split": SPLITS}),
        _in_order((x.forecasts for x in results), {"baseline": names}),
        _in_order((x.errors for x in results), {"method": names}),
        _join_packed([x.packed for x in results], job_clients),
        Totals.join([x.totals for x in results if x.totals is not None]),
    )


def _in_order(tables: Iterable[pd.DataFrame], order: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """The rows of tables, one after the other, by columns whose values have an `order`."""
    table = pd.concat(tables, ignore_index=True)
    ranks = [
        table[column].map({value: rank for rank, value in enumerate(values)})
        for column, values in order.items()
    ]
    keys = pd.concat(ranks, axis=1).to_numpy()
    return table.iloc[np.lexsort(keys.T[::-1])].reset_index(drop=True)


def _join_packed(
    packed_arrays: Sequence[Arrays], job_clients: Sequence[NDArray[np.int64]]
) -> Arrays:
    """The packed baselines of all clients, baseline by baseline. They are taken out of
    `packed_arrays`."""
    arrays_by_baseline: dict[str, dict[str, Any]] = {}
    for own_arrays, clients in zip(packed_arrays, job_clients, strict=True):
        for path, array in own_arrays.items():
            name, _, key = path.partition("/")
            kept_arrays = arrays_by_baseline.setdefault(name, {})
            if key == WIDTHS_KEY:
                kept_arrays.setdefault(key, []).append(array)
                continue
            client, _, client_key = key.partition(".")
            kept_arrays[f"{clients[int(client)]}.{client_key}"] = array
    return {
        f"{name}/{key}": np.concatenate(array) if key == WIDTHS_KEY else array
        for name, arrays in arrays_by_baseline.items()
        for key, array in sorted(arrays.items(), key=lambda item: item[0] == WIDTHS_KEY)
    }
