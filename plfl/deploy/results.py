"""What a deployment leaves: the tables that a simulated study has, marked as Flower's."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from plfl import __version__
from plfl.deploy.agreement import narrowed
from plfl.files import atomic
from plfl.results.collect import description, summarise
from plfl.results.records import CellResult, write_table
from plfl.study import FORMAT, Cell, Study
from plfl.workflow import git_commit


def write(
    study: Study, cell: Cell, result: CellResult, clients: pd.DataFrame, folder: Path
) -> None:
    """Write the tables of a cell into `folder`.

    `forecasts.parquet` is empty: forecasts stay with the clients.
    """
    study = narrowed(study, cell)
    write_table(result.records, folder / "records.parquet")
    write_table(result.forecasts, folder / "forecasts.parquet")
    write_table(clients, folder / "clients.parquet")
    with atomic(folder / "summary.csv") as temporary:
        summary = summarise(result.records, study.data.source, study.tracking.target_mase)
        summary.to_csv(temporary, index=False, float_format="%.6g", lineterminator="\n")
    about = {
        "format": FORMAT,
        "version": __version__,
        "git": git_commit(),
        "versions": {name: version(name) for name in ("numpy", "pandas", "torch", "flwr")}
        | {"python": platform.python_version()},
        "engine": "flower",
        "study": description(study),
        "cells": {str(cell): ""},
    }
    with atomic(folder / "study.json") as temporary:
        temporary.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
