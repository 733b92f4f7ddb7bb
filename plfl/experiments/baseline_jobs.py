"""The baselines of a state as jobs: one fits those that need all clients together, others evaluate
a group of clients each, and the last one joins their results.

All numbers are those of one job. What is handed over are arrays: the forecasts, for every client,
of the baselines that are fitted to all.
"""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plfl.baselines.storage import pack, settings_of, storable_names
from plfl.data import arrays
from plfl.data.dataset import EVALUATED_SPLITS, Dataset
from plfl.experiments.baseline_groups import (
    evaluate_in_groups,
    fit_common,
    have_same_failures,
    join_groups,
)
from plfl.experiments.baselines import BaselineError, FailedBaseline, evaluate
from plfl.experiments.client_groups import baselines_of, groups_of
from plfl.interfaces.baseline import FittedBaseline, Floats, Starts
from plfl.results.records import (
    BaselineFiles,
    BaselineTables,
    read_arrays,
    read_table,
    write_models,
)
from plfl.study import Study
from plfl.tasks import check_calibration

log = logging.getLogger(__name__)


ENDS_KEY = "ends"
"""The first row of the forecasts of each set of each client, and their number, in a file."""


class CommonFiles(NamedTuple):
    """The files of the baselines that are fitted to all clients."""

    forecasts: Path
    models: Path


def write_common(study: Study, dataset: Dataset, files: CommonFiles) -> None:
    """Fit the baselines that need all clients together, and write their forecasts of the validation
    and test sets, and what is saved of them."""
    check_calibration(study.task, dataset)
    fitted_baselines: dict[str, FittedBaseline] = {}
    sizes = [len(dataset.starts(client, split)) for client, split in _iterate_evaluated(dataset)]
    content: dict[str, Any] = {ENDS_KEY: np.cumsum([0, *sizes])}
    baselines = baselines_of(study)
    common = fit_common(baselines, dataset, settings_of(study))
    clients = range(len(dataset.clients))
    for name, fitted_baseline in common.items():
        forecasts = arrays.GrowingArray(files.forecasts.parent)
        try:
            with BaselineError.replaces_errors():
                for client, split in _iterate_evaluated(dataset):
                    forecasts.append(fitted_baseline.predict(client, dataset.starts(client, split)))
        except BaselineError as failure:
            content[f"{name}/failure"] = str(failure)
            continue
        fitted_baselines[name] = fitted_baseline
        content[f"{name}/forecasts"] = forecasts.as_array()
        for source, bytes_sent in (fitted_baseline.sent_bytes or {}).items():
            content[f"{name}/sent/{source}"] = np.asarray(bytes_sent, np.int64)
        log.info("%s is fitted to all clients", name)
    arrays.save(files.forecasts, content)
    write_models(files.models, pack(baselines, fitted_baselines, {}, len(clients)))


def _iterate_evaluated(dataset: Dataset) -> Iterator[tuple[int, Any]]:
    """The clients and their sets that are evaluated, in the order of `write_common`."""
    for client in range(len(dataset.clients)):
        for split in EVALUATED_SPLITS:
            yield client, split


def write_group(
    study: Study, state: str, dataset: Dataset, job_number: int, common: Path, files: BaselineFiles
) -> None:
    """Evaluate the baselines of a group (from 1), given the forecasts of `write_common`."""
    keys, group_clients = study.baselines, groups_of(study, state)[job_number - 1]
    earlier = arrays.load(common, lambda content: _handed_over(content, dataset, group_clients))
    own_dataset = dataset.select(group_clients)
    evaluate(
        state,
        own_dataset,
        keys.fit_settings,
        study.task,
        additional=keys.further,
        leave_out=keys.leave_out,
        earlier=earlier,
    ).write(files)


def _handed_over(
    content: dict[str, Any], dataset: Dataset, group_clients: NDArray[np.int64]
) -> dict[str, FittedBaseline]:
    """The baselines in a file of `write_common`, for these of its clients."""
    ends = content.pop(ENDS_KEY)
    places = {
        (i, split): slice(ends[k], ends[k + 1])
        for k, (client, split) in enumerate(_iterate_evaluated(dataset))
        for i in np.flatnonzero(group_clients == client).tolist()
    }
    own_dataset, handed_over = dataset.select(group_clients), dict[str, FittedBaseline]()
    for key, values in content.items():
        name, _, kind = key.partition("/")
        if kind == "failure":
            handed_over[name] = FailedBaseline(BaselineError(str(values)))
        elif kind == "forecasts":
            forecasts = {place: values[rows] for place, rows in places.items()}
            start = f"{name}/sent/"
            bytes_sent = {
                path.removeprefix(start): sizes_of_all[group_clients].tolist()
                for path, sizes_of_all in content.items()
                if path.startswith(start)
            }
            handed_over[name] = HandedOver(own_dataset, forecasts, bytes_sent)
    return handed_over


@dataclass(frozen=True)
class HandedOver(FittedBaseline):
    """The forecasts of a baseline that another job has fitted."""

    dataset: Dataset
    forecasts: Mapping[tuple[int, Any], Floats]
    """Of the validation and the test set of each client."""
    sent_bytes: Mapping[str, Sequence[int]] | None

    def predict(self, client: int, starts: Starts) -> Floats:
        for split in EVALUATED_SPLITS:
            own_starts = self.dataset.starts(client, split)
            row_numbers = np.searchsorted(own_starts, starts)
            if len(own_starts) and np.array_equal(
                own_starts[np.minimum(row_numbers, len(own_starts) - 1)], starts
            ):
                return np.array(self.forecasts[client, split][row_numbers])
        raise LookupError("forecasts of windows of one evaluated set are handed over, no others")


def evaluate_all(study: Study, state: str, dataset: Path) -> BaselineTables:
    """The baselines of all clients in one job: see `plfl.experiments.scoring.Scoring.baselines`."""
    examples, threads = Dataset.load_file(dataset), study.compute.threads
    return evaluate_in_groups(state, examples, study.baselines, study.task, threads)


def join_files(
    study: Study, state: str, dataset: Path, job_files: Sequence[BaselineFiles], common: Path
) -> BaselineTables:
    """What `evaluate_all` returns, from the files of all groups and what `write_common` saved. If a
    baseline failed for some clients only, all are evaluated again, here, so that it fails for all.
    """
    if not have_same_failures(read_table(files.scores) for files in job_files):
        log.warning("%s: a baseline failed for some clients: all are fitted again", state)
        return evaluate_all(study, state, dataset)
    names = [baseline.name for baseline in baselines_of(study)]
    tables = [BaselineTables.read(files) for files in job_files]
    joined = join_groups(tables, groups_of(study, state), names)
    packed = {**read_arrays(common)[0], **joined.packed}
    ranks = {name: rank for rank, name in enumerate(storable_names(study.baselines))}
    in_order = {path: packed[path] for path in sorted(packed, key=lambda path: _place(path, ranks))}
    return replace(joined, packed=in_order)


def _place(path: str, ranks: Mapping[str, int]) -> tuple[int, int, tuple[str, int]]:
    """The place of an array among those of `pack`: by baseline, client and the number at the end of
    its name; widths are behind those of clients."""
    name, _, key = path.partition("/")
    client, _, key_of_client = key.partition(".")
    if not key_of_client:
        return ranks[name], sys.maxsize, (key, 0)
    kind, _, number = key_of_client.rpartition("_")
    return ranks[name], int(client), (kind, int(number)) if number.isdigit() else (key_of_client, 0)
