"""Collect the files of single cells into the tables of a study."""

import json
import logging
import platform
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from plfl import __version__
from plfl.baselines import BASELINE, naive
from plfl.config.study import FORMAT, Cell, Study
from plfl.data.dataset import SPLITS, WEEK, Dataset
from plfl.data.images.dataset import ImageDataset
from plfl.data.prepare import load_file
from plfl.data.source import read_receipt
from plfl.data.units import known
from plfl.files import atomic
from plfl.results import classification, costs
from plfl.results.records import CELL, cell_digest, join_tables, write_csv, write_table
from plfl.tasks import metrics as scores
from plfl.tasks.classify import Classify

log = logging.getLogger(__name__)

GIVEN = ("lr", "server_lr", "hyperparameters", "trials", "trial_steps")
"""Columns of the hyperparameters of a training and of the cost of selecting them; see `records`."""


SEASONS = {"naive_day": naive.DAY, "naive_week": WEEK}
"""Lag of each seasonal naive forecast in minutes before its target."""


def describe_clients(state: str, dataset: Dataset) -> pd.DataFrame:
    """One row per client: its load, its persistence errors, the MASE of seasonal naive forecasts.

    `rows` are its readings, `windows` those that it trains and is scored on, `skipped` those that
    touch a gap.

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
            "windows": sum(len(dataset.starts(i, split)) for split in SPLITS),
            "skipped": sum(dataset.skipped(i, split) for split in SPLITS),
        }
        for split in SPLITS[1:]:
            starts = dataset.starts(i, split)
            error = scores.mae(dataset.truth(starts), dataset.persistence(starts))
            row[f"persistence_mae_{split}"] = error
            for season, minutes in SEASONS.items():
                forecast = naive.last_season(dataset, i, starts, minutes)
                row[f"{season}_mase_{split}"] = scores.of_split(dataset, i, split, forecast)["mase"]
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


def summarise(records: pd.DataFrame, source: str, target: float = 1.0) -> pd.DataFrame:
    """The grid: test scores of every cell and model, at its last and its best validation round.

    Means and medians are over clients. `mase_clients` is the number of clients that have a MASE; it
    is undefined where the persistence error is zero. A cell with a forecast that is not finite has
    diverged: its scores are NaN at that round. The costs of a training, in all and until its test
    MASE reaches the `target` (1: that of persistence), are the same in all its rows; see `costs`.
    """
    rounds = _over_clients(records[records["split"] != "train"])
    training = [*CELL, "model"]
    validation = rounds[rounds["split"] == "validation"].set_index([*training, "round"])
    test = rounds[rounds["split"] == "test"].drop(columns="split")
    scored = test.join(validation["mase_mean"].rename("validation_mase"), on=[*training, "round"])
    summary = _chosen(scored, training).join(costs.totals(records), on=training)
    summary = summary.join(costs.to_target(records, test, target), on=training)
    summary["diverged"] = summary["mae_mean"].isna()
    summary["data"] = source
    first = [*CELL, "model", "chosen", "round"]
    return summary[[*first, *(column for column in summary if column not in first)]]


def _chosen(scored: pd.DataFrame, training: list[str]) -> pd.DataFrame:
    """The rows of the last round of each training and of its round of lowest validation MASE.

    If no round has a validation MASE, the second one is the last round, too.
    """
    number = scored.groupby(training, sort=False).ngroup()
    last = scored.index.to_series().groupby(number).last()
    by_score = scored["validation_mase"].dropna().sort_values(kind="stable").index.to_series()
    best = by_score.groupby(number).first().reindex(last.index).fillna(last).astype(int)
    rows = np.column_stack([last, best]).ravel()
    chosen = np.tile(["last", "best_validation"], len(last))
    return scored.loc[rows].reset_index(drop=True).assign(chosen=chosen)


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
        mase_worst_tenth=("mase", lambda mase: scores.worst_tenth(mase.to_numpy(float))),
        # Unlike a mean, this does not skip NaN, so it detects a forecast that is not finite.
        worst=("rmse", lambda rmse: np.max(rmse.to_numpy())),
        **{name: (name, "first") for name in GIVEN},
    )
    further = [f"{name}_mean" for name in further_scores(evaluated)]
    scores_only = ["mase_mean", "mase_median", "mae_mean", "rmse_mean", *further]
    scores_only.append("mase_worst_tenth")
    table.loc[~np.isfinite(table.pop("worst")), scores_only] = np.nan
    return table.reset_index()


def further_scores(table: pd.DataFrame) -> list[str]:
    """The scores over all targets that a table has beside `mase`, `mae` and `rmse`."""
    wanted = re.compile(r"nrmse|seasonal_mase|crps|scaled_crps|(coverage|width)_[\d.]+")
    return [str(column) for column in table if wanted.fullmatch(str(column))]


def by_target(scored: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Scores of each target, one row per target and combination of `keys`, means over clients.

    Columns `keys`, `rows_ahead`, and those scores that the table has for single targets; empty if
    windows have one. See `plfl.tasks.metrics.of_split`.
    """
    found = [re.fullmatch(r"(.+)_h(\d+)", str(column)) for column in scored]
    columns = [match for match in found if match]
    means = scored.groupby(keys, sort=False)[[match[0] for match in columns]].mean()
    tables = [
        means[[match[0] for match in columns if int(match[2]) == rows]]
        .rename(columns=lambda name: str(name).rpartition("_h")[0])
        .assign(rows_ahead=rows)
        for rows in dict.fromkeys(int(match[2]) for match in columns)
    ]
    if not tables:
        return pd.DataFrame()
    table = pd.concat(tables).sort_index(kind="stable").reset_index()
    return table[[*keys, "rows_ahead", *(c for c in table if c not in (*keys, "rows_ahead"))]]


def summarise_baselines(baselines: pd.DataFrame, source: str) -> pd.DataFrame:
    """Rows for the summary: test scores of every baseline in every state, means over clients.

    Args:
        baselines: the long table, see `plfl.experiments.baselines.Evaluation`.
        source: the kind of data, `data.source`.

    Returns:
        One row per state and baseline with those columns of `summarise` that apply. `seed` and
        `round` are empty. A baseline without a forecast for at least one client has no scores.
    """
    rows = []
    for (state, name), table in baselines.groupby(["state", "baseline"], sort=False):
        by_split = dict(list(table.groupby("split")))
        validation, test = by_split["validation"], by_split["test"]
        row = {"state": state, "sharing": BASELINE, "method": name}
        row |= {"client_opt": "none", "server_opt": "none", "model": BASELINE, "chosen": "last"}
        if test["mae"].notna().all():
            row |= {"mase_mean": test["mase"].mean(), "mase_median": test["mase"].median()}
            row |= {"mae_mean": test["mae"].mean(), "rmse_mean": test["rmse"].mean()}
            row |= {f"{score}_mean": test[score].mean() for score in further_scores(test)}
            row["mase_worst_tenth"] = scores.worst_tenth(test["mase"].to_numpy(float))
        row["mase_clients"] = test["mase"].count()
        if validation["mae"].notna().all():
            row["validation_mase"] = validation["mase"].mean()
        row |= {"trials": 1, "bytes_down": 0, "bytes_up": test["bytes"].sum()}
        rows.append(row | {"diverged": False, "data": source})
    return pd.DataFrame(rows)


def with_baselines(cells: pd.DataFrame, baselines: pd.DataFrame) -> pd.DataFrame:
    """The summary: the rows of cells, then those of baselines; integer columns stay integers."""
    whole = dict.fromkeys(cells.select_dtypes("integer"), "Int64")
    below = baselines.reindex(columns=cells.columns)
    return pd.concat([cells.astype(whole), below.astype(whole)], ignore_index=True)


def collect(
    study: Study,
    cells: Mapping[Cell, tuple[Path, Path]],
    baselines: Sequence[tuple[Path, Path]],
    datasets: Mapping[str, Path],
    receipts: Mapping[str, Path],
    folder: Path,
    git: str | None,
) -> None:
    """Collect the results of all cells, baselines and clients into the tables of the study.

    Args:
        study: the study.
        cells: for every cell, the files of its records and of its forecasts.
        baselines: for every state, the files of its baselines' scores and of their forecasts.
        datasets: for every state, the file of its windows.
        receipts: for every state, the file that lists what its series were read from.
        folder: the folder for the tables.
        git: commit of the code, if known.
    """
    if study.data.is_images:
        _collect_images(study, cells, baselines, datasets, receipts, folder, git)
        return
    source, target = study.data.source, study.tracking.target_mase
    summaries: list[pd.DataFrame] = []
    targets: list[pd.DataFrame] = []

    def take(records: pd.DataFrame) -> None:
        summaries.append(summarise(records, source, target))
        is_last = records["round"] == study.federation.rounds
        scored = records[is_last & (records["split"] == "test")]
        targets.append(by_target(scored, [*CELL, "model"]))

    join_tables([records for records, _ in cells.values()], folder / "records.parquet", take)
    join_tables([forecasts for _, forecasts in cells.values()], folder / "forecasts.parquet")
    compared: list[pd.DataFrame] = []
    join_tables([own for own, _ in baselines], folder / "baselines.parquet", compared.append)
    join_tables([week for _, week in baselines], folder / "baseline_forecasts.parquet")
    if study.windows.horizons > 1:
        test = pd.concat(compared).query("split == 'test'").rename(columns={"baseline": "method"})
        own = by_target(test, ["state", "method"]).assign(sharing=BASELINE, model=BASELINE)
        write_csv(pd.concat([*targets, own], ignore_index=True), folder / "targets.csv")
    clients = [describe_clients(s, Dataset.load_file(p)) for s, p in datasets.items()]
    write_table(pd.concat(clients, ignore_index=True), folder / "clients.parquet")
    of_baselines = summarise_baselines(pd.concat(compared), source)
    summary = with_baselines(pd.concat(summaries, ignore_index=True), of_baselines)
    conclude(folder, summary, _about(study, cells, receipts), git)


def _collect_images(
    study: Study,
    cells: Mapping[Cell, tuple[Path, Path]],
    baselines: Sequence[tuple[Path, Path]],
    datasets: Mapping[str, Path],
    receipts: Mapping[str, Path],
    folder: Path,
    git: str | None,
) -> None:
    """`collect` for classifiers, which have no forecasts."""
    target = cast(Classify, study.task).target
    summaries: list[pd.DataFrame] = []
    join_tables(
        [records for records, _ in cells.values()],
        folder / "records.parquet",
        lambda records: summaries.append(
            classification.summarise(records, study.data.source, target)
        ),
    )
    join_tables([own for own, _ in baselines], folder / "baselines.parquet")
    for name in ("forecasts", "baseline_forecasts"):
        write_table(pd.DataFrame({"state": []}), folder / f"{name}.parquet")
    counts = [
        label_counts(cast(ImageDataset, load_file(study, path)).of_seed(seed), seed)
        for path in datasets.values()
        for seed in study.grid.seeds
    ]
    write_table(pd.concat(counts, ignore_index=True), folder / "clients.parquet")
    conclude(folder, pd.concat(summaries, ignore_index=True), _about(study, cells, receipts), git)


def label_counts(dataset: ImageDataset, seed: int) -> pd.DataFrame:
    """Training `images` of every `client` and `label`, as divided with a `seed`."""
    counts = dataset.label_counts
    return pd.DataFrame(
        {
            "seed": seed,
            "client": np.repeat(dataset.clients, counts.shape[1]),
            "label": np.tile(np.arange(counts.shape[1]), counts.shape[0]),
            "images": counts.ravel(),
        }
    )


def _about(
    study: Study, cells: Mapping[Cell, tuple[Path, Path]], receipts: Mapping[str, Path]
) -> dict[str, Any]:
    return {
        "study": study.description(),
        "sources": {state: read_receipt(path) for state, path in receipts.items()},
        "cells": {str(cell): cell_digest(path) for cell, (path, _) in cells.items()},
    }


def conclude(
    folder: Path,
    summary: pd.DataFrame,
    about: Mapping[str, Any],
    git: str | None,
    engine: Mapping[str, str] | None = None,
) -> None:
    """Write `summary.csv`, and `study.json` with `about` and the versions of the software.

    `engine` is the name and version of what trained, if it was not the simulator.
    """
    write_csv(summary, folder / "summary.csv")
    made_by = {
        "format": FORMAT,
        "version": __version__,
        "git": git,
        "versions": {name: version(name) for name in ("numpy", "pandas", "torch", "lightgbm")}
        | (dict(engine) if engine else {})
        | {"python": platform.python_version()},
    }
    with atomic(folder / "study.json") as temporary:
        temporary.write_text(json.dumps({**made_by, **about}, indent=1) + "\n", encoding="utf-8")
