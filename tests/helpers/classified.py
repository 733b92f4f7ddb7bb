"""Made-up results of classifiers, as the workflow would write them."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.results.collect import write_summary
from plfl.results.records import write_table
from plfl.study import Cell, Study
from plfl_images.results import classification

ROUNDS = (5, 10, 15, 20)
"""The evaluated rounds."""

Errors = Callable[[Study, Cell, int], float]
"""The share of wrong answers of the global model of a cell at a round."""


def records(about: dict[str, Any], errors: dict[int, float], local: float) -> pd.DataFrame:
    """Two clients that send ten bytes each way in each of 20 rounds.

    `errors` are those of the global model at some rounds, `local` those of the clients' own models
    on their own labels after the last.
    """
    rows: list[dict[str, Any]] = [
        {"round": t, "client": c, "split": "train", "bytes_down": 10, "bytes_up": 10}
        for t in range(1, 21)
        for c in "ab"
    ]
    errors_of_models = [("global", t, error, error) for t, error in errors.items()]
    errors_of_models.append(("local", max(errors), 0.5, local))
    rows = [row | {"model": model} for row in rows for model in ("global", "local")]
    for model, t, error, own_error in errors_of_models:
        for split in ("validation", "test"):
            for client in "ab":
                scores = {"error": error, "own_error": own_error, "cross_entropy": 1.0}
                place = {"round": t, "client": client, "split": split, "model": model}
                rows.append(place | scores)
    return pd.DataFrame([about | row for row in rows])


def cell_records(study: Study, errors: Errors) -> pd.DataFrame:
    """The records of the cells of a study without axes."""
    parts = [
        records(
            asdict(cell) | {"lr": 0.1, "hyperparameters": "client_opt.sgd.lr=0.1"},
            {t: errors(study, cell, t) for t in ROUNDS},
            errors(study, cell, 20) / 2,
        )
        for cell in study.cells
    ]
    return pd.concat(parts, ignore_index=True)


def write(study: Study, folder: Path, errors: Errors) -> None:
    """Write the tables of a study without axes."""
    folder.mkdir(parents=True)
    all_records = cell_records(study, errors)
    write_table(all_records, folder / "records.parquet")
    baseline = {
        "baseline": "majority",
        "crosses": "nothing",
        "split": "test",
        "error": 0.9,
        "own_error": 0.5,
    }
    baseline |= {"state": study.data.states[0]}
    rows = [baseline | {"seed": seed} for seed in study.grid.seeds]
    write_table(pd.DataFrame(rows), folder / "baselines.parquet")
    about = {"study": study.description(), "cells": {}, "sources": {}}
    write_summary(folder, classification.summarise(all_records, "digits", 0.8), about, None)


def noise(cell: Cell, salt: int = 0) -> float:
    """A small number that depends on the cell and on `salt`."""
    return float(np.random.default_rng([cell.seed, len(cell.method), salt]).normal(0, 0.004))
