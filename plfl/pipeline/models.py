"""Keeps the models of a study that users forecast with."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from plfl.base.spreadsheets import write_csv
from plfl.baselines import BASELINE
from plfl.baselines.model import Trained
from plfl.data.dataset import Dataset
from plfl.experiments.cell_cache import CellCache
from plfl.experiments.stored_baselines import boosting_of, fit, storable
from plfl.forecast.contents import describe
from plfl.results.records import TRAINED, ConformalWidths, Models, write_models
from plfl.results.tables import Tables
from plfl.study import Cell, Study
from plfl.tasks import task_of

log = logging.getLogger(__name__)


def keep_models(study: Study, datasets: Mapping[str, Path], index: Path) -> None:
    """Write the models of the best cell of each state and sharing scheme but those `for_new`
    clients, who get the models of all; the best baselines; and `index`, a table of them as CSV:
    `state`, `sharing`, `cell`, `file`.

    The best cell has the least validation MASE of the local models, as a mean over its seeds. The
    models are those of its first seed. A scheme in which every cell diverged has none. Of the
    baselines, those are kept that are best on validation for the state or one of its clients, and
    those that need no training. They are fitted again, which gives the same numbers. DataError or
    ResultsError if a file that is read is damaged.
    """
    tables = Tables(study.results)
    rows: list[dict[str, str]] = []
    for state, path in datasets.items():
        dataset = Dataset.load_file(path)
        schemes = [name for name in study.grid.sharing if name not in study.for_new]
        best = [tables.best("local", state=state, sharing=name) for name in schemes]
        for cell in filter(None, best):
            file = index.parent / f"{state}-{cell.sharing}.safetensors"
            models = CellCache(study.root / TRAINED).models(tables.about["cells"][str(cell)])
            models = models or _trained_again(study, cell, dataset)
            widths: ConformalWidths = {}
            if study.task.widening != "none":
                from plfl.experiments.trainer import Trainer  # see `_trained_again`

                widths = Trainer.of(study, dataset).evaluator.widths(models)
            write_models(file, models, describe(study, cell, dataset, widths))
            names = {"state": state, "sharing": cell.sharing, "cell": str(cell)}
            rows.append({**names, "file": file.name})
        fitted: dict[str, Trained] = {}
        for name in _wanted(tables, state):
            file = index.parent / f"{state}-{name}.safetensors"
            keep_baseline(study, state, name, dataset, file, fitted)
            labels = {"state": state, "sharing": BASELINE, "cell": name}
            rows.append({**labels, "file": file.name})
    kept = {row["file"] for row in rows}
    for old in index.parent.glob("*.safetensors"):
        if old.name not in kept:
            old.unlink()
    write_csv(pd.DataFrame(rows, columns=["state", "sharing", "cell", "file"]), index)


def _wanted(tables: Tables, state: str) -> list[str]:
    """The baselines to keep: those without training, and the best ones that can be stored."""
    scores = tables.baselines
    scores = scores[(scores["state"] == state) & (scores["split"] == "validation")]
    by_client = scores.pivot_table(index="client", columns="baseline", values="mase", dropna=False)
    names = [name for name in storable(tables.study.baselines) if name in by_client]
    by_client = by_client[names]
    best = {*by_client.dropna(how="all").idxmin(axis=1), tables.best_baseline(state)}
    scored = by_client.notna().any()
    return [
        name
        for name in names
        if scored[name] and (name in best or not tables.study.baselines.find(name).trains)
    ]


def keep_baseline(
    study: Study, state: str, name: str, dataset: Dataset, file: Path, known: dict[str, Trained]
) -> None:
    """Fit a baseline as for its scores and write it as a file of models. `known`: see `fit`."""
    task = task_of(study)
    fitted, predict = fit(study.baselines, name, dataset, boosting_of(study), known)
    widths: ConformalWidths = {}
    if task.widening != "none":
        each = [
            task.conformal_widths(dataset, i, predict(i, dataset.starts(i, "validation")))
            for i in range(len(dataset.clients))
        ]
        widths = {"local": np.stack(each)}
    labels = Cell(state, BASELINE, name, "none", "none", 0)  # those of summary.csv
    about = describe(study, labels, dataset, widths)
    arrays = {f"{i}.{key}": x for i, kept in enumerate(fitted) for key, x in kept.items()}
    write_models(file, arrays, about)


def _trained_again(study: Study, cell: Cell, dataset: Dataset) -> Models:
    """Train a cell again whose job did not keep its models; they are equal to the bit. A job keeps
    the models of the best of its cells. If that cell is removed from the grid, another becomes the
    best. Jobs that exchange their files through a bucket do not return models."""
    # Not at the top: imports torch, which is seldom needed here.
    from plfl.experiments.train import train

    log.info("%s: its models were not kept; it is trained again", cell)
    cells = study.with_all_seeds([cell])
    models = train(study, cells, dataset)[cell].models
    assert models is not None  # the only combination is the best one, and it has a score
    return models
