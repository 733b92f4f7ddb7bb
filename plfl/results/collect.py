"""From the files of single cells to the tables of a study."""

import json
import logging
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl import __version__
from plfl.data.source import read_receipt
from plfl.data.windows import SPLITS, Dataset, Split
from plfl.files import atomic
from plfl.results import costs, scores
from plfl.results.records import CELL, cell_digest, join_tables, write_csv, write_table
from plfl.study import FORMAT, Cell, Study

log = logging.getLogger(__name__)


SEASONS = {"naive_day": 24 * 60, "naive_week": 7 * 24 * 60}
"""Minutes that a seasonal naive forecast looks back from its target."""


def _seasonal(dataset: Dataset, i: int, split: Split, season: int, persistence: float) -> float:
    """MASE of the forecast "as it was a season ago" of a client; NaN where it cannot be had.

    It cannot where that lies ahead of the last input row.
    """
    targets = dataset.target_rows(dataset.starts(i, split))
    before = targets - season // dataset.interval
    ahead = season < dataset.look_ahead * dataset.interval
    if ahead or before[0] < dataset.bounds[i, 0] or persistence == 0:
        return float("nan")
    return scores.mae(dataset.load[targets], dataset.load[before]) / persistence


def describe_clients(state: str, dataset: Dataset) -> pd.DataFrame:
    """One row a client: its load, its persistence errors, the MASE of seasonal naive forecasts.

    A client whose persistence error is zero can have no MASE; a warning names it.
    """
    rows = []
    for i, name in enumerate(dataset.clients.tolist()):
        load = dataset.load[dataset.bounds[i, 0] : dataset.bounds[i, 3]]
        row = {
            "state": state,
            "client": name,
            "order": i,
            "mean": load.mean(),
            "std": load.std(),
            "rows": len(load),
            "interval": dataset.interval,
        }
        for split in SPLITS[1:]:
            starts = dataset.starts(i, split)
            truth = dataset.load[dataset.target_rows(starts)]
            error = scores.mae(truth, dataset.load[dataset.persistence_rows(starts)])
            row[f"persistence_mae_{split}"] = error
            for naive, season in SEASONS.items():
                row[f"{naive}_mase_{split}"] = _seasonal(dataset, i, split, season, error)
            if error == 0:
                log.warning(
                    "%s client %s: persistence makes no error in its %s part (the load never "
                    "changes there), so it has no MASE and no mean includes it",
                    state,
                    name,
                    split,
                )
        rows.append(row)
    return pd.DataFrame(rows)


def summarise(records: pd.DataFrame, source: str, target: float = 1.0) -> pd.DataFrame:
    """The grid: test scores of every cell and model, at its last and its best validation round.

    Means and medians are over clients; `mase_clients` says over how many, since a client without
    persistence error has no MASE. A cell with a forecast that is not finite has diverged: its
    scores are NaN at that round. What the cell costs in all, and until its test MASE is at the
    `target` (1: that of persistence), is the same in each of its rows; see `costs`.
    """
    rounds = _over_clients(records[records["split"] != "train"])
    rows = []
    for _, cell in rounds.groupby([*CELL, "model"], sort=False):
        validation = cell[cell["split"] == "validation"].set_index("round")["mase_mean"]
        test = cell[cell["split"] == "test"].set_index("round", drop=False)
        last = int(test["round"].iloc[-1])
        best = (
            int(test["round"].iloc[int(np.nanargmin(validation))])
            if validation.notna().any()
            else last
        )
        for chosen, t in (("last", last), ("best_validation", best)):
            scored = test.loc[t].drop("split").to_dict()
            rows.append(scored | {"chosen": chosen, "validation_mase": validation[t]})
    summary = pd.DataFrame(rows).join(costs.totals(records), on=CELL)
    prices = costs.to_target(records, rounds[rounds["split"] == "test"], target)
    summary = summary.join(prices, on=[*CELL, "model"])
    summary["diverged"] = summary["mae_mean"].isna()
    summary["data"] = source
    first = [*CELL, "model", "chosen", "round"]
    return summary[[*first, *(column for column in summary if column not in first)]]


def _over_clients(evaluated: pd.DataFrame) -> pd.DataFrame:
    """Scores over clients: one row a cell, model, round and split, in that order of rounds."""
    groups = evaluated.groupby([*CELL, "model", "round", "split"], sort=False)
    table = groups.agg(
        mase_mean=("mase", "mean"),
        mase_median=("mase", "median"),
        mase_clients=("mase", "count"),
        mae_mean=("mae", "mean"),
        rmse_mean=("rmse", "mean"),
        # Means leave NaN out; this does not, so it tells a forecast that is not finite.
        worst=("rmse", lambda rmse: np.max(rmse.to_numpy())),
        **{name: (name, "first") for name in ("lr", "server_lr", "mu", "tried")},
    )
    scores_only = ["mase_mean", "mase_median", "mae_mean", "rmse_mean"]
    table.loc[~np.isfinite(table.pop("worst")), scores_only] = np.nan
    return table.reset_index()


def description(study: Study) -> dict[str, Any]:
    """The study as its results carry it, without what they do not depend on."""
    return study.model_dump(
        mode="json", exclude={"compute": {"threads", "stack", "checkpoint_seconds"}}
    )


def collect(
    study: Study,
    cells: Mapping[Cell, tuple[Path, Path]],
    datasets: Mapping[str, Path],
    receipts: Mapping[str, Path],
    folder: Path,
    git: str | None,
) -> None:
    """Gather the cells' records and forecasts and the states' clients into the study's tables.

    Args:
        study: the study.
        cells: for every cell, the files of its records and of its forecasts.
        datasets: for every state, the file of its dataset.
        receipts: for every state, the file that says what its series were read from.
        folder: where the tables go.
        git: commit of the code, if known.
    """
    source, target = study.data.source, study.tracking.target_mase
    summaries: list[pd.DataFrame] = []
    join_tables(
        [records for records, _ in cells.values()],
        folder / "records.parquet",
        lambda records: summaries.append(summarise(records, source, target)),
    )
    join_tables([forecasts for _, forecasts in cells.values()], folder / "forecasts.parquet")
    clients = [describe_clients(s, Dataset.load_file(p)) for s, p in datasets.items()]
    write_table(pd.concat(clients, ignore_index=True), folder / "clients.parquet")
    about = {
        "study": description(study),
        "sources": {state: read_receipt(path) for state, path in receipts.items()},
        "cells": {str(cell): cell_digest(path) for cell, (path, _) in cells.items()},
    }
    conclude(folder, pd.concat(summaries, ignore_index=True), about, git)


def conclude(
    folder: Path,
    summary: pd.DataFrame,
    about: Mapping[str, Any],
    git: str | None,
    engine: Mapping[str, str] | None = None,
) -> None:
    """Write the summary of a study, and `about` it together with the versions it was made by.

    `engine` is the name and version of what trained, where that is not the simulator.
    """
    write_csv(summary, folder / "summary.csv")
    made_by = {
        "format": FORMAT,
        "version": __version__,
        "git": git,
        "versions": {name: version(name) for name in ("numpy", "pandas", "torch")}
        | (dict(engine) if engine else {})
        | {"python": platform.python_version()},
    }
    with atomic(folder / "study.json") as temporary:
        temporary.write_text(json.dumps({**made_by, **about}, indent=1) + "\n", encoding="utf-8")
