"""Collect the files of single cells into the tables of a study."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.baselines import BASELINE, naive
from plfl.data.dataset import SPLITS, WEEK, Dataset
from plfl.data.receipts import read_receipt
from plfl.data.units import known
from plfl.results import comparisons
from plfl.results.contest import Variant
from plfl.results.records import (
    CELL,
    Files,
    cell_digest,
    join_tables,
    write_about,
    write_csv,
    write_table,
)
from plfl.results.summary import by_target, summarise, summarise_baselines, with_baselines
from plfl.results.tables import Tables
from plfl.study import Cell, Study
from plfl.tasks import metrics

log = logging.getLogger(__name__)

SEASONS = {"naive_day": naive.DAY, "naive_week": WEEK}
"""Lag of each seasonal naive forecast in minutes before its target."""


def describe_clients(state: str, dataset: Dataset) -> pd.DataFrame:
    """One row per client: its load, its persistence errors, the MASE of seasonal naive forecasts.

    `rows` is the number of its readings, `windows` of the windows that it trains and is scored on,
    `skipped` of those that touch a gap.

    The seasonal naive forecasts are the only baselines of a deployed study, whose data stay with
    its clients. A warning names each client whose persistence error is zero; its MASE is undefined.
    """
    rows = []
    for i, name in enumerate(dataset.clients.tolist()):
        load = known(dataset.load[dataset.bounds[i, 0] : dataset.bounds[i, 3]])
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
            "skipped": sum(dataset.skipped(i, split) for split in SPLITS),
        }
        for split in SPLITS[1:]:
            starts = dataset.starts(i, split)
            error = metrics.naive_error(dataset.truth(starts), dataset.persistence(starts))
            row[f"persistence_mae_{split}"] = error
            for season, minutes in SEASONS.items():
                forecast = naive.last_season(dataset, i, starts, minutes)
                row[f"{season}_mase_{split}"] = metrics.of_split(dataset, i, split, forecast)[
                    "mase"
                ]
            if error == 0:
                log.warning(
                    "%s client %s: persistence has no error on its %s set, where the load never "
                    "changes; its MASE is undefined, and means over clients leave it out",
                    state,
                    name,
                    split,
                )
        rows.append(row)
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class JobFiles:
    """What the jobs of a study have written."""

    cells: Mapping[Cell, Files]
    """The files of every cell."""
    baselines: Sequence[Files]
    """The files of the baselines of every state."""
    datasets: Mapping[str, Path]
    """For every state, the file of its windows."""
    receipts: Mapping[str, Path]
    """For every state, the file that lists what its series were read from."""


def write_tables(study: Study, files: JobFiles, folder: Path) -> pd.DataFrame:
    """Write the tables of forecasters into `folder`, except the summary, which is returned."""
    source, target = study.data.source, study.tracking.target_mase
    summaries: list[pd.DataFrame] = []
    targets: list[pd.DataFrame] = []

    def take(records: pd.DataFrame) -> None:
        summaries.append(summarise(records, source, target))
        is_last = records["round"] == study.federation.rounds
        scored = records[is_last & (records["split"] == "test")]
        targets.append(by_target(scored, [*CELL, "model"]))

    cells = files.cells.values()
    join_tables([one.records for one in cells], folder / "records.parquet", take)
    join_tables([one.forecasts for one in cells], folder / "forecasts.parquet")
    join_tables([one.errors for one in (*cells, *files.baselines)], folder / "errors.parquet")
    compared: list[pd.DataFrame] = []
    scores = [one.records for one in files.baselines]
    join_tables(scores, folder / "baselines.parquet", compared.append)
    join_tables([one.forecasts for one in files.baselines], folder / "baseline_forecasts.parquet")
    if study.windows.horizons > 1:
        test = pd.concat(compared).query("split == 'test'").rename(columns={"baseline": "method"})
        own = by_target(test, ["state", "method"]).assign(sharing=BASELINE, model=BASELINE)
        write_csv(pd.concat([*targets, own], ignore_index=True), folder / "targets.csv")
    clients = [describe_clients(s, Dataset.load_file(p)) for s, p in files.datasets.items()]
    write_table(pd.concat(clients, ignore_index=True), folder / "clients.parquet")
    of_baselines = summarise_baselines(pd.concat(compared), source)
    return with_baselines(pd.concat(summaries, ignore_index=True), of_baselines)


def collect(
    study: Study,
    files: JobFiles,
    folder: Path,
    git: str | None,
    gather: Callable[[Study, JobFiles, Path], pd.DataFrame] = write_tables,
) -> None:
    """Collect the results of all cells, baselines and clients into the tables of the study in
    `folder`.

    `gather` writes the tables except the summary, which it returns.
    """
    about = {
        "study": study.description(),
        "sources": {state: read_receipt(path) for state, path in files.receipts.items()},
        "cells": {str(cell): cell_digest(own.records) for cell, own in files.cells.items()},
    }
    conclude(folder, gather(study, files, folder), about, git)
    if study.task.forecasts:
        whole = comparisons.table(study, [Variant("", {}, Tables(folder))], folder)
        write_csv(whole, folder / comparisons.FILE)


def conclude(
    folder: Path,
    summary: pd.DataFrame,
    about: Mapping[str, Any],
    git: str | None,
    engine: Mapping[str, str] | None = None,
) -> None:
    """Write `summary.csv`, and `study.json` with `about` and the versions of the software.

    `engine`: name and version of the software that trained, if it was not the simulator.
    """
    write_csv(summary, folder / "summary.csv")
    libraries = {name: version(name) for name in ("numpy", "pandas", "torch", "lightgbm")}
    write_about(folder, git, libraries | dict(engine or {}), about)
