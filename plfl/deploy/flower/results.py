"""The result tables of a cell that was run with Flower, in the format of any other study."""

from pathlib import Path

import pandas as pd

from plfl.config.study import Cell, Study
from plfl.deploy.flower import runtime as flower
from plfl.deploy.protocol.agreement import narrowed
from plfl.pipeline.jobs import git_commit
from plfl.results.collect import conclude
from plfl.results.records import CellResult, write_table
from plfl.results.summary import summarise


def write(
    study: Study, cell: Cell, result: CellResult, clients: pd.DataFrame, folder: Path
) -> None:
    """Write the tables of a cell to `folder`; `study.json` states the engine `flower`.

    `forecasts.parquet` is empty because forecasts stay on the clients.
    """
    study = narrowed(study, cell)
    write_table(result.records, folder / "records.parquet")
    write_table(result.forecasts, folder / "forecasts.parquet")
    write_table(clients, folder / "clients.parquet")
    summary = summarise(result.records, study.data.source, study.tracking.target_mase)
    about = {"engine": "flower", "study": study.description(), "cells": {str(cell): ""}}
    conclude(folder, summary, about, git_commit(), {"flwr": flower.require()})
