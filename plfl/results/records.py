"""The tables of a study: what the files of a results folder hold, and how they are made.

`records.parquet` is the long table everything else is made from. One row is one client in one
round, split and model:

- `state, personalization, client_opt, server_opt, seed`: the cell
- `round, client, split` (`train`, `validation`, `test`), `model` (`local`: as the client holds it
  after its steps; `global`: shared part from the server, own personal part)
- `loss`: mean minibatch loss in scaled units, in the `train` rows that every participant has in
  every round
- `mae, rmse` (kWh per interval) and `mase`, in the rows of evaluated rounds
- `bytes_down, bytes_up`: what crossed the channel for this client in this round, and of it
  `extras_down, extras_up` beside parameters. They are the same in each row of a client and round,
  so sum them over the `train` rows.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from plfl import __version__
from plfl.data.windows import Dataset
from plfl.errors import ResultsError
from plfl.experiment import CellResult
from plfl.files import atomic
from plfl.results import scores
from plfl.study import FORMAT, Cell, Study

log = logging.getLogger(__name__)

CELL = ["state", "personalization", "client_opt", "server_opt", "seed"]
"""Columns that name a cell."""
_DIGEST = b"plfl.cell"


def write_table(table: pd.DataFrame, path: Path, digest: str = "") -> None:
    """Write a table as Parquet, marked with the digest of the cell it belongs to."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    marked = arrow.replace_schema_metadata(
        {**(arrow.schema.metadata or {}), _DIGEST: digest.encode()}
    )
    with atomic(path) as temporary:
        pq.write_table(marked, temporary, compression="zstd")


def cell_digest(path: Path) -> str | None:
    """Digest of the cell whose table lies at `path`; None if there is none or it is damaged."""
    try:
        return (pq.read_schema(path).metadata or {}).get(_DIGEST, b"").decode()
    except (OSError, pa.ArrowException):
        return None


def describe_clients(state: str, dataset: Dataset) -> pd.DataFrame:
    """One row a client: mean and standard deviation of its load and its persistence errors.

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
        for split in ("validation", "test"):
            starts = dataset.starts(i, split)  # type: ignore[arg-type]
            truth = dataset.load[dataset.target_rows(starts)]
            error = scores.mae(truth, dataset.load[dataset.persistence_rows(starts)])
            row[f"persistence_mae_{split}"] = error
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


def summarise(records: pd.DataFrame, source: str) -> pd.DataFrame:
    """The grid: test scores of every cell and model, at its last and its best validation round.

    Means and medians are over clients; `mase_clients` says over how many, since a client without
    persistence error has no MASE. A cell with a forecast that is not finite has diverged: its
    scores are NaN at that round.
    """
    traffic = records[records["split"] == "train"].groupby(CELL)[["bytes_down", "bytes_up"]].sum()
    evaluated = records[records["split"] != "train"]
    rows = []
    for key, cell in evaluated.groupby([*CELL, "model"], sort=False):
        by_round = _scores_by_round(cell)
        labels = dict(zip([*CELL, "model"], key, strict=True))
        validation = by_round["validation", "mase_mean"]
        best = validation.idxmin() if validation.notna().any() else validation.index[-1]
        crossed = traffic.loc[key[:-1]]
        for chosen, t in (("last", by_round.index[-1]), ("best_validation", best)):
            rows.append(
                labels
                | {"chosen": chosen, "round": t}
                | by_round.loc[t, "test"].to_dict()
                | {
                    "validation_mase": validation[t],
                    "bytes_down": crossed["bytes_down"],
                    "bytes_up": crossed["bytes_up"],
                    "diverged": not np.isfinite(by_round.loc[t, ("test", "mae_mean")]),
                    "data": source,
                }
            )
    return pd.DataFrame(rows).astype({"mase_clients": int})


def _scores_by_round(cell: pd.DataFrame) -> pd.DataFrame:
    """Scores over clients of one cell and model: index round, columns (split, score)."""
    groups = cell.groupby(["round", "split"])
    finite = np.isfinite(groups["mae"].agg(lambda mae: mae.sum()))
    table = pd.DataFrame(
        {
            "mase_mean": groups["mase"].mean(),
            "mase_median": groups["mase"].median(),
            "mase_clients": groups["mase"].count(),
            "mae_mean": groups["mae"].mean(),
            "rmse_mean": groups["rmse"].mean(),
        }
    )
    table.loc[~finite, ["mase_mean", "mase_median", "mae_mean", "rmse_mean"]] = np.nan
    by_round = table.unstack("split")
    by_round.columns = by_round.columns.swaplevel()
    return by_round


def collect(
    study: Study,
    cells: Mapping[Cell, tuple[Path, Path]],
    datasets: Mapping[str, Path],
    folder: Path,
    git: str | None,
) -> None:
    """Gather the cells' records and forecasts and the states' clients into the study's tables.

    Args:
        study: the study.
        cells: for every cell, the files of its records and of its forecasts.
        datasets: for every state, the file of its dataset.
        folder: where the tables go.
        git: commit of the code, if known.
    """
    records = pd.concat([pd.read_parquet(r) for r, _ in cells.values()], ignore_index=True)
    forecasts = pd.concat([pd.read_parquet(f) for _, f in cells.values()], ignore_index=True)
    clients = [describe_clients(s, Dataset.load_file(p)) for s, p in datasets.items()]
    write_table(records, folder / "records.parquet")
    write_table(forecasts, folder / "forecasts.parquet")
    write_table(pd.concat(clients, ignore_index=True), folder / "clients.parquet")
    with atomic(folder / "summary.csv") as temporary:
        summary = summarise(records, study.data.source)
        summary.to_csv(temporary, index=False, float_format="%.6g", lineterminator="\n")
    about = {
        "format": FORMAT,
        "version": __version__,
        "git": git,
        "study": study.model_dump(mode="json"),
        "cells": {str(cell): cell_digest(path) for cell, (path, _) in cells.items()},
    }
    with atomic(folder / "study.json") as temporary:
        temporary.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def read_about(folder: Path) -> dict[str, Any]:
    """What `study.json` of a results folder says.

    Raises:
        ResultsError: there is none, it is damaged, or another version of the configuration made it.
    """
    path = folder / "study.json"
    try:
        about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        made_by = about["format"]
    except FileNotFoundError:
        raise ResultsError(
            f"{folder}: holds no study (no study.json); run the study first, or name the folder "
            "below results/ that has one"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ResultsError(
            f"{path}: is damaged ({error}); run the study again to write it anew"
        ) from None
    if made_by != FORMAT:
        raise ResultsError(
            f"{path}: was made by version {made_by} of the configuration, this plfl "
            f"({__version__}) reads version {FORMAT}; move the folder away and run the study "
            "again, or use the plfl that made it"
        )
    return about


def save_cell(result: CellResult, records: Path, forecasts: Path, digest: str) -> None:
    """Write the two files of a cell."""
    write_table(result.records, records, digest)
    write_table(result.forecasts, forecasts, digest)


def missing(paths: Iterable[Path], digest: str) -> bool:
    """Whether any of a cell's files is absent, damaged or of another definition of the cell."""
    return any(cell_digest(path) != digest for path in paths)
