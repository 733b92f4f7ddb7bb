"""Fitted baselines as the files that a study keeps, and the results folder around one."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

import plfl
from plfl.base.spreadsheets import write_csv
from plfl.config.baselines import BASELINE
from plfl.config.named import STANDARD_BASELINES
from plfl.data.dataset import Dataset
from plfl.experiments.baselines import evaluate
from plfl.interfaces.baseline import Arrays
from plfl.pipeline.models import keep_baseline
from plfl.results.collect import describe_clients
from plfl.results.records import BaselineTables, write_facts, write_table
from plfl.study import Study
from plfl.study.forecaster_names import IN_USE

FURTHER_BASELINES: list[dict[str, Any]] = [
    {"name": "lightgbm_bagged", "models": 2},
    {"name": "lightgbm_federated", "turns": 2},
    {"name": "lightgbm_stacked", "models": 2, "of": ["lightgbm_federated"]},
    {"name": "combined_received", "of": ["ridge", "lightgbm_bagged", "lightgbm_stacked"]},
]
"""Trees of each client, of the federation and of both, and a combination; all of them small."""


def score(
    study: Study, dataset: Dataset, names: Collection[str] = STANDARD_BASELINES, state: str = "XX"
) -> BaselineTables:
    """Fit and score all further baselines of a study and, of those of every study, these."""
    baselines = study.baselines
    left_out = [name for name in STANDARD_BASELINES if name not in names]
    return evaluate(state, dataset, baselines.fit_settings, study.task, baselines.further, left_out)


def keep(study: Study, dataset: Dataset, name: str, file: Path, packed: Arrays) -> Path:
    """Write the file of one baseline."""
    keep_baseline(study, "XX", name, dataset, packed, file)
    return file


def write_results(study: Study, name: str) -> Path:
    """Write the parts of a results folder that forecasts need: the only kept forecaster is the
    baseline with this name. Returns the folder."""
    (state,) = study.data.states
    folder, dataset = study.paths.results, plfl.load_dataset(study, state)
    (folder / "models").mkdir(parents=True, exist_ok=True)
    (folder / "data").mkdir(exist_ok=True)
    dataset.save(folder / "data" / f"{state}.npz")
    write_table(describe_clients(state, dataset), folder / "clients.parquet")
    about = {"study": study.description(), "sources": {}, "cells": {}}
    write_facts(folder, None, {}, about)
    plain_study = study.model_copy(
        update={"baselines": study.baselines.model_copy(update={"further": []})}
    )
    packed = score(plain_study, dataset, [name], state).packed
    file = folder / "models" / f"{state}-{name}.safetensors"
    keep_baseline(plain_study, state, name, dataset, packed, file)
    row = {"state": state, "sharing": BASELINE, "cell": name, "file": file.name}
    write_csv(pd.DataFrame([row]), folder / "models" / "index.csv")
    return folder


def write_sums(results: Path, **columns: object) -> None:
    """A table of sums of one forecaster in use, worse than repeating the load of a day before."""
    (results / "models").mkdir(parents=True, exist_ok=True)
    row = {"state": "A", "forecaster": IN_USE, "meters": 3, "forecasts": 9, "mae": 1.2}
    row |= {"naive_day": 1.0, "percent_of_load": 19.3, "bias_percent": -17.4, "mase": 0.5}
    row |= {"peak_percent": 20.0, "peak_hours": 1.0} | columns
    known = {name: value for name, value in row.items() if value is not None}
    pd.DataFrame([known]).to_csv(results / "models" / "sums.csv", index=False)
