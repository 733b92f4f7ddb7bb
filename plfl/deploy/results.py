"""What a deployment leaves: the tables that a simulated study has, marked as Flower's."""

from pathlib import Path

import pandas as pd

from plfl.deploy import flower
from plfl.deploy.agreement import narrowed
from plfl.results.collect import conclude, description, summarise
from plfl.results.records import CellResult, write_table
from plfl.study import Cell, Study
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
    summary = summarise(result.records, study.data.source, study.tracking.target_mase)
    about = {"engine": "flower", "study": description(study), "cells": {str(cell): ""}}
    conclude(folder, summary, about, git_commit(), {"flwr": flower.VERSION})
