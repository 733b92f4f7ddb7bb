"""Collect the files of single cells into the tables of a study, with their means over clients: the
rows of summary.csv, of which `plfl.results.in_use` makes those of what is in use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.spreadsheets import write_csv
from plfl.config.baselines import BASELINE
from plfl.data.dataset import EVALUATED_SPLITS, SPLITS, Dataset
from plfl.data.features import finite_values
from plfl.data.sources import read_receipt
from plfl.results.in_use import summarise_use
from plfl.results.records import (
    CELL,
    RecordFiles,
    cell_digest,
    installed_versions,
    join_tables,
    versions_of,
    write_facts,
    write_table,
)
from plfl.results.tables import Tables, is_complete
from plfl.results.variants import Variant
from plfl.study import Cell, Study
from plfl.tasks import metrics


def describe_clients(state: str, dataset: Dataset) -> pd.DataFrame:
    """One row per client: its load and its persistence errors; `rows` is the number of its
    readings, `windows` of the windows that it trains and is scored on, `skipped` of those that
    touch a gap."""
    rows = []
    for i, name in enumerate(dataset.clients.tolist()):
        load = finite_values(dataset.load[dataset.view.bounds[i, 0] : dataset.view.bounds[i, 3]])
        row = {
            "state": state,
            "client": name,
            "order": i,
            "mean": load.mean(),
            "std": load.std(),
            "rows": len(load),
            "interval": dataset.interval,
            # Unique: a model that is trained again trains on its validation windows, too.
            "windows": len(np.unique(np.concatenate([dataset.starts(i, s) for s in SPLITS]))),
            "skipped": sum(dataset.count_skipped(i, split) for split in SPLITS),
        }
        for split in EVALUATED_SPLITS:
            row[f"persistence_mae_{split}"] = dataset.naive_errors(i, split).persistence
        rows.append(row)
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class JobFiles:
    """What the jobs of a study have written."""

    cells: Mapping[Cell, RecordFiles]
    """The files of every cell."""
    baselines: Sequence[RecordFiles]
    """The files of the baselines of every state."""
    datasets: Mapping[str, Path]
    """For every state, the file of its windows."""
    receipts: Mapping[str, Path]
    """For every state, the file that lists what its series were read from."""


def write_tables(study: Study, files: JobFiles, folder: Path) -> pd.DataFrame:
    """Write the tables of forecasters into `folder`, except the summary, which is returned."""
    source = study.data.source
    summaries: list[pd.DataFrame] = []
    cells = files.cells.values()
    records = [record_files.records for record_files in cells]
    join_tables(
        records, folder / "records.parquet", lambda t: summaries.append(summarise(t, source))
    )
    join_tables([record_files.forecasts for record_files in cells], folder / "forecasts.parquet")
    join_tables(
        [record_files.errors for record_files in (*cells, *files.baselines)],
        folder / "errors.parquet",
    )
    compared: list[pd.DataFrame] = []
    scores = [record_files.records for record_files in files.baselines]
    join_tables(scores, folder / "baselines.parquet", compared.append)
    join_tables(
        [record_files.forecasts for record_files in files.baselines],
        folder / "baseline_forecasts.parquet",
    )
    clients = [describe_clients(s, Dataset.load_file(p)) for s, p in files.datasets.items()]
    write_table(pd.concat(clients, ignore_index=True), folder / "clients.parquet")
    baseline_summary = summarise_baselines(pd.concat(compared), source)
    return with_baselines(pd.concat(summaries, ignore_index=True), baseline_summary)


def collect(
    study: Study,
    files: JobFiles,
    folder: Path,
    git: str | None,
    gather: Callable[[Study, JobFiles, Path], pd.DataFrame] = write_tables,
) -> None:
    """Collect the results of all cells, baselines and clients into the tables of the study in
    `folder`. `gather` writes the tables except the summary, which it returns."""
    facts = {
        "study": study.description(),
        "sources": {state: read_receipt(path) for state, path in files.receipts.items()},
        "cells": {
            str(cell): cell_digest(files_of_cell.records)
            for cell, files_of_cell in files.cells.items()
        },
    }
    summary = gather(study, files, folder)
    files_of_all = [*files.cells.values(), *files.baselines]
    write_summary(
        folder,
        summary,
        facts,
        git,
        versions_of([record_files.records for record_files in files_of_all]),
    )
    if study.task.forecasts:
        rows = summarise_use(Variant("", {}, Tables(folder)))
        write_csv(with_baselines(summary, rows), folder / "summary.csv")


def write_summary(
    folder: Path,
    summary: pd.DataFrame,
    facts: Mapping[str, Any],
    git: str | None,
    versions: Mapping[str, str] | None = None,
) -> None:
    """Write `summary.csv`, and `study.json` with `facts` and the versions of the software.
    `versions`: those that are not the installed ones, and others, such as of an engine."""
    write_csv(summary, folder / "summary.csv")
    write_facts(folder, git, {**installed_versions(), **(versions or {})}, facts)


# -- means over clients ----------------------------------------------------------------------------

SETTING_COLUMNS = ("lr", "server_lr", "hyperparameters", "trials", "trial_steps")
"""Columns of the hyperparameters of a training and of the cost of selecting them; see `records`."""


def summarise(records: pd.DataFrame, source: str) -> pd.DataFrame:
    """Test scores of every cell and model at the last round: means and medians over clients.

    `mase_clients` is the number of clients that have a MASE; it is undefined where the persistence
    error is zero. A cell with a forecast that is not finite has diverged: its scores are NaN at
    that round. The costs of a training are in total; see `costs`.
    """
    training = [*CELL, "model"]
    evaluated = records[records["split"] != "train"]
    tested_rounds = evaluated["round"].where(evaluated["split"] == "test")
    last_round = tested_rounds.groupby([evaluated[column] for column in training]).transform("max")
    rounds = _over_clients(evaluated[evaluated["round"] == last_round])
    validation = rounds[rounds["split"] == "validation"].set_index([*training, "round"])
    test = rounds[rounds["split"] == "test"].drop(columns="split")
    test_and_validation = test.join(
        validation["mase_mean"].rename("validation_mase"), on=[*training, "round"]
    )
    summary = test_and_validation.groupby(training, sort=False).tail(1).reset_index(drop=True)
    summary = summary.join(costs(records), on=training)
    summary["diverged"] = summary["mae_mean"].isna()
    summary["data"] = source
    first = [*CELL, "model", "round"]
    return summary[[*first, *(column for column in summary if column not in first)]]


def _over_clients(evaluated: pd.DataFrame) -> pd.DataFrame:
    """Scores over clients: one row per cell, model, round and split, rounds in their order."""
    groups = evaluated.groupby([*CELL, "model", "round", "split"], sort=False)
    table = groups.agg(
        mase_mean=("mase", "mean"),
        mase_median=("mase", "median"),
        mase_clients=("mase", "count"),
        mae_mean=("mae", "mean"),
        rmse_mean=("rmse", "mean"),
        **{f"{name}_mean": (name, "mean") for name in further_scores(evaluated)},
        mase_worst_tenth=("mase", lambda mase: metrics.worst_tenth(mase.to_numpy(float))),
        # Unlike a mean, this does not skip NaN, so it detects a forecast that is not finite.
        worst=("rmse", lambda rmse: np.max(rmse.to_numpy())),
        **{name: (name, "first") for name in SETTING_COLUMNS},
    )
    mean_columns = [f"{name}_mean" for name in further_scores(evaluated)]
    scores_only = ["mase_mean", "mase_median", "mae_mean", "rmse_mean", *mean_columns]
    scores_only.append("mase_worst_tenth")
    table.loc[~np.isfinite(table.pop("worst")), scores_only] = np.nan
    return table.reset_index()


def further_scores(table: pd.DataFrame) -> list[str]:
    """The scores over all targets that a table has besides `mase`, `mae` and `rmse`."""
    score_names = re.compile(r"nrmse|wape|seasonal_mase|crps|scaled_crps|(coverage|width)_[\d.]+")
    return [str(column) for column in table if score_names.fullmatch(str(column))]


def summarise_baselines(baselines: pd.DataFrame, source: str) -> pd.DataFrame:
    """Rows for the summary: test scores of every baseline in every state, means over clients, in
    those columns of `summarise` that apply. `seed` and `round` are empty. A baseline without a
    forecast for at least one client has no scores."""
    rows = []
    for (state, name), table in baselines.groupby(["state", "baseline"], sort=False):
        by_split = dict(list(table.groupby("split")))
        validation, test = by_split["validation"], by_split["test"]
        row = {"state": state, "sharing": BASELINE, "method": name}
        row |= {"client_opt": "none", "server_opt": "none", "model": BASELINE}
        if is_complete(test["mae"]):
            row |= {"mase_mean": test["mase"].mean(), "mase_median": test["mase"].median()}
            row |= {"mae_mean": test["mae"].mean(), "rmse_mean": test["rmse"].mean()}
            row |= {f"{score}_mean": test[score].mean() for score in further_scores(test)}
            row["mase_worst_tenth"] = metrics.worst_tenth(test["mase"].to_numpy(float))
        row["mase_clients"] = test["mase"].count()
        if is_complete(validation["mae"]):
            row["validation_mase"] = validation["mase"].mean()
        row |= {"trials": 1, "bytes_down": 0, "bytes_up": test["bytes"].sum()}
        rows.append(row | {"diverged": False, "data": source})
    return pd.DataFrame(rows)


def with_baselines(cells: pd.DataFrame, baselines: pd.DataFrame) -> pd.DataFrame:
    """The summary: the rows of cells, then those of baselines or of what is in use; integer columns
    stay integers."""
    integer_types = dict.fromkeys(cells.select_dtypes("integer"), "Int64")
    baseline_rows = baselines.reindex(columns=cells.columns)
    return pd.concat(
        [cells.astype(integer_types), baseline_rows.astype(integer_types)], ignore_index=True
    )


# -- what a cell costs -----------------------------------------------------------------------------


def costs(records: pd.DataFrame) -> pd.DataFrame:
    """The costs of each training over all rounds, indexed by cell and model: `bytes_down`,
    `bytes_up`, over all clients; `epochs`, passes over its training windows that a client makes,
    mean over clients; and if time is simulated `seconds`, the duration of all rounds that have
    participants, and `waiting`, seconds per round that a participant waits for the others, on
    average. A training in which nobody ever took part costs nothing."""
    train = records[records["split"] == "train"]
    clients = records.groupby(_TRAINING)["client"].nunique()
    sums = train.groupby(_TRAINING)[["bytes_down", "bytes_up", "epochs"]].sum()
    costs = sums.reindex(clients.index, fill_value=0)
    costs["epochs"] /= clients
    if "round_seconds" in records:
        trained_rows = train[train["loss"].notna()]
        waiting = (trained_rows["round_seconds"] - trained_rows["seconds"]).groupby(
            [trained_rows[axis] for axis in _TRAINING]
        )
        rounds = train.groupby([*_TRAINING, "round"])["round_seconds"].first()
        seconds = rounds.groupby(_TRAINING).sum()
        seconds = seconds.reindex(clients.index, fill_value=0.0)
        costs = costs.assign(seconds=seconds, waiting=waiting.mean())
    return costs


_TRAINING = [*CELL, "model"]
