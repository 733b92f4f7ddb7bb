"""Keeps the models of a study that users forecast with."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import Problem, ResultsError
from plfl.base.spreadsheets import write_csv
from plfl.baselines.storage import (
    join_clients,
    restore,
    settings_of,
    storable_names,
    unpack,
    widths_of,
)
from plfl.config.baselines import BASELINE
from plfl.data.dataset import Dataset
from plfl.experiments.cell_cache import CellCache
from plfl.forecast.choice import errors_on_validation
from plfl.forecast.contents import KeptBaseline, describe
from plfl.forecast.kept_errors import LEADS_FILE, NEW_COLUMNS, NEW_FILE, SUMS_FILE, KeptErrors
from plfl.forecast.new_meters import score_as_new
from plfl.interfaces.baseline import Arrays
from plfl.results.assignment import assign, best_kept_cell
from plfl.results.checksums import write_sums
from plfl.results.records import (
    TRAINED_FOLDER,
    ConformalWidths,
    Models,
    read_arrays,
    write_models,
)
from plfl.results.tables import Tables
from plfl.results.totals import Totals
from plfl.study import Cell, Study
from plfl.study.forecaster_names import IN_USE
from plfl.tasks.loads import LoadTask

log = logging.getLogger(__name__)


def keep_models(
    study: Study, datasets: Mapping[str, Path], fitted_files: Mapping[str, Path], index: Path
) -> None:
    """Write the models of the best cell of each state and sharing scheme but those `for_new`
    clients, who get the models of all; the best baselines; `index`, a table of them as CSV:
    `state`, `sharing`, `cell`, `file`; and beside it the tables of `plfl.forecast.kept_errors`,
    from what was added up where the forecasts were scored, and of `plfl.forecast.new_meters`.

    The best cell has the least validation MASE of the local models, as a mean over its seeds, of
    those whose clients forecast with a model alone (`plfl.results.assignment.best_kept_cell`). The
    models are those of its first seed. A scheme in which every cell diverged has none. Of the
    baselines, those are kept that are best on validation for the state or one of its clients, that
    a client is assigned for use, or that need no training, as they were fitted for their scores.
    DataError or ResultsError if a file that is read is damaged.

    `datasets`, `fitted_files`: the files of the datasets and of the fitted baselines, by state.
    """
    tables, folder = Tables(study.paths.results), index.parent
    rows: list[dict[str, str]] = []
    kept_errors = KeptErrors()
    scores_as_new: list[dict[str, Any]] = []
    for state, path in datasets.items():
        dataset, fitted_file = Dataset.load_file(path), fitted_files[state]
        packed_baselines, _ = read_arrays(fitted_file)
        state_models = _StateModels(
            study, tables, state, dataset, fitted_file, packed_baselines, folder
        )
        state_models.keep_cells()
        state_models.keep_baselines()
        state_models.add_errors(kept_errors)
        validation = errors_on_validation(tables)
        scores_as_new += score_as_new(
            study, state, dataset, [*state_models.totals], validation, packed_baselines
        )
        rows += state_models.rows
    _remove_other_models(folder, {row["file"] for row in rows})
    write_csv(pd.DataFrame(rows, columns=["state", "sharing", "cell", "file"]), index)
    new_table = pd.DataFrame(scores_as_new, columns=[*NEW_COLUMNS])
    _write_error_tables(folder, kept_errors, new_table, has_models=bool(rows))
    write_sums(folder)


@dataclass
class _StateModels:
    """What is kept of a state."""

    study: Study
    tables: Tables
    state: str
    dataset: Dataset
    fitted_file: Path
    packed: Arrays
    """All fitted baselines of the state, which are in the `fitted_file`."""
    folder: Path
    """That of the files of models."""
    rows: list[dict[str, str]] = field(default_factory=list)
    """Of the index."""
    totals: dict[str, Totals] = field(default_factory=dict)
    """What the forecasts come to, by the name of the forecaster."""
    parameters: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    """Those of the clients' models (N, P), by sharing scheme."""

    def keep_cells(self) -> None:
        """Write the models of the best cell of each sharing scheme."""
        study, dataset = self.study, self.dataset
        schemes = [name for name in study.grid.sharing if name not in study.plan.schemes.for_new]
        best = [best_kept_cell(self.tables, self.state, name) for name in schemes]
        for cell in filter(None, best):
            models, self.totals[cell.sharing] = _read_models(study, self.tables, cell, dataset)
            widths: ConformalWidths = {}
            if study.task.widening != "none":
                widths = _evaluator(study, dataset).widths(models)
            self.parameters[cell.sharing] = models["local"]
            write_models(
                self._add_row(cell.sharing, cell.sharing, str(cell)),
                models,
                describe(study, cell, dataset, widths),
            )

    def keep_baselines(self) -> None:
        """Write the best baselines."""
        totals = _totals_of_baselines(self.packed, self.fitted_file)
        for name in _choose_baselines(self.tables, self.state):
            file = self._add_row(name, BASELINE, name)
            keep_baseline(self.study, self.state, name, self.dataset, self.packed, file)
            self.totals[name] = totals

    def _add_row(self, forecaster: str, sharing: str, cell: str) -> Path:
        """Add a forecaster to the index, and return the file of its models."""
        file = self.folder / f"{self.state}-{forecaster}.safetensors"
        labels = {"state": self.state, "sharing": sharing, "cell": cell}
        self.rows.append({**labels, "file": file.name})
        return file

    def add_errors(self, kept_errors: KeptErrors) -> None:
        """Add the errors of what is in use, then those of each forecaster that is kept."""
        assignments = assign(self.tables, self.state, [*self.totals])
        used = {client: assignment.forecaster for client, assignment in assignments.items()}
        if len({*used.values()}) == 1:
            (name,) = {*used.values()}
            kept_errors.add(self.state, name, self.dataset, self.totals[name], IN_USE)
        elif used:
            mixture = add_up_mixture(self.study, self.dataset, used, self.parameters, self.packed)
            kept_errors.add(self.state, IN_USE, self.dataset, mixture)
        for name, totals in self.totals.items():
            kept_errors.add(self.state, name, self.dataset, totals)


def _remove_other_models(folder: Path, names: Collection[str]) -> None:
    """Remove the files of models from a folder whose names are not among these."""
    for file in folder.glob("*.safetensors"):
        if file.name not in names:
            file.unlink()


def _write_error_tables(
    folder: Path, kept_errors: KeptErrors, new_table: pd.DataFrame, has_models: bool
) -> None:
    """Write the tables of errors beside the models; those of earlier models go, if there are none
    any more."""
    tables = {LEADS_FILE: kept_errors.leads, SUMS_FILE: kept_errors.sums, NEW_FILE: new_table}
    for name, table in tables.items():
        if has_models and (len(table) or name != NEW_FILE):
            write_csv(table.round(6), folder / name)
        else:
            (folder / name).unlink(missing_ok=True)


def _totals_of_baselines(packed_baselines: Arrays, file: Path) -> Totals:
    """What the forecasts of the fitted baselines in a file come to."""
    totals = Totals.from_arrays(packed_baselines)
    if totals is None:
        raise ResultsError(
            Problem(
                file,
                "lacks what the forecasts come to, as files of other versions of plfl do",
                "make it again with `plfl study … --forcerun baselines`",
            )
        )
    return totals


def add_up_mixture(
    study: Study,
    dataset: Dataset,
    names: Mapping[str, str],
    parameters: Mapping[str, NDArray[np.float32]],
    packed_baselines: Arrays,
) -> Totals:
    """What the forecasts of the test set come to, under the name `IN_USE`, if each client has the
    forecaster of its own that `names` has. `parameters`: those of the clients' models (N, P), by
    sharing scheme; `packed_baselines`: the fitted baselines of the state."""
    assert isinstance(study.task, LoadTask)
    totals = Totals([IN_USE], dataset.horizons)
    baselines = {*names.values()} - {*parameters}
    saved_baselines = {
        name: unpack(study.baselines, name, packed_baselines, len(dataset.clients))
        for name in baselines
    }
    evaluator = _evaluator(study, dataset) if {*names.values()} & {*parameters} else None
    settings = settings_of(study)
    for i, client in enumerate(dataset.clients.tolist()):
        name = names.get(client)
        if name is None:  # nothing of it has a score
            continue
        if evaluator is not None and name in parameters:
            forecasts = evaluator.forecast_test(i, parameters[name][i])
        else:
            alone = dataset.select(np.array([i]))
            alone = alone.refit() if alone.view.is_rehearsal else alone
            fitted_baseline = restore(
                study.baselines, name, saved_baselines[name][i], alone, settings
            )
            predictions = fitted_baseline.predict(0, alone.starts(0, "test"))
            forecasts = study.task.point(alone, predictions)
        totals.add(dataset, i, {IN_USE: forecasts})
    return totals


def _evaluator(study: Study, dataset: Dataset) -> Any:  # whose type needs torch
    """What scores the models of a study on a dataset."""
    from plfl.experiments.training_setup import TrainingSetup  # see `_trained_again`

    return TrainingSetup.for_study(study, dataset).evaluator


def _choose_baselines(tables: Tables, state: str) -> list[str]:
    """The baselines to keep: those without training, and the best ones that can be stored."""
    scores = tables.baselines
    scores = scores[(scores["state"] == state) & (scores["split"] == "validation")]
    by_client = scores.pivot_table(index="client", columns="baseline", values="mase", dropna=False)
    names = [name for name in storable_names(tables.study.baselines) if name in by_client]
    by_client = by_client[names]
    best = {*by_client.dropna(how="all").idxmin(axis=1), tables.best_baseline(state)}
    best |= {assignment.forecaster for assignment in assign(tables, state).values()}
    has_scores = by_client.notna().any()
    return [
        name
        for name in names
        if has_scores[name]
        and (name in best or not tables.study.baselines.find(name).needs_training)
    ]


def keep_baseline(
    study: Study, state: str, name: str, dataset: Dataset, packed_baselines: Arrays, file: Path
) -> None:
    """Write a fitted baseline as a file of models, given the packed ones of its state."""
    widths: ConformalWidths = {}
    if (local := widths_of(packed_baselines, name)) is not None:
        widths["local"] = local
    saved_baselines = unpack(study.baselines, name, packed_baselines, len(dataset.clients))
    write_models(
        file,
        join_clients(saved_baselines),
        describe(study, KeptBaseline(state, name), dataset, widths),
    )


def _read_models(
    study: Study, tables: Tables, cell: Cell, dataset: Dataset
) -> tuple[Models, Totals]:
    """The models of a cell, and what their forecasts come to."""
    cache, digest = CellCache(study.paths.root / TRAINED_FOLDER), tables.facts["cells"][str(cell)]
    models, totals = cache.models(digest), cache.totals(digest)
    if models is None or totals is None:
        return _trained_again(study, cell, dataset)
    return models, totals


def _trained_again(study: Study, cell: Cell, dataset: Dataset) -> tuple[Models, Totals]:
    """Train a cell again whose job did not keep its models; they are equal to the bit. A job keeps
    the models of the best of its cells. If that cell is removed from the grid, another becomes the
    best. Jobs that exchange their files through a bucket do not return models."""
    # Not at the top: imports torch, which is seldom needed here.
    from plfl.experiments.train import train

    log.info("%s: its models were not kept; it is trained again", cell)
    cells = study.plan.with_all_seeds([cell])
    result = train(study, cells, dataset)[cell]
    # The only combination is the best one, and it has a score.
    assert result.models is not None and result.totals is not None
    return result.models, result.totals
