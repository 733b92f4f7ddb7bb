"""What a file of models says beside the parameters: how to read new data, and where it comes from.

It is JSON: `study` and `format` (the configuration), `version` (of plfl), `cell`, `digest` (of the
settings that determine the cell's numbers), `parameters` (shapes by name, in the order of a row),
`model` (its settings), `columns` (the inputs), `interval` (minutes), and `clients`: by name, in the
order of the rows, the client's `plfl.data.windows.Scaling`. `margins`, by model, are those of the
clients' intervals, if the task has margins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pandas as pd

from plfl import __version__
from plfl.config.study import FORMAT, Cell, Study
from plfl.data import windows
from plfl.data.windows import Scaling
from plfl.files import digest
from plfl.results.records import MODELS, Margins


def describe(
    study: Study,
    cell: Cell,
    tables: Mapping[str, pd.DataFrame],
    interval: int,
    margins: Margins,
) -> dict[str, Any]:
    """What is to be known of the models of a cell.

    Args:
        study: the study.
        cell: one of its cells.
        tables: the tables of its clients, which their windows were made of.
        interval: minutes between their rows.
        margins: those of the models, see `plfl.experiments.evaluation.Evaluator.margins`.
    """
    scalings = dict(zip(tables, windows.scalings(tables, study.windows), strict=True))
    columns = [str(column) for column in next(iter(tables.values()))]
    return describe_scaled(study, cell, columns, interval, scalings, margins)


def describe_scaled(
    study: Study,
    cell: Cell,
    columns: Sequence[str],
    interval: int,
    scalings: Mapping[str, Scaling],
    margins: Margins,
) -> dict[str, Any]:
    """The same as `describe`, given the `columns` of the tables and the clients' scalings."""
    return {
        "format": FORMAT,
        "version": __version__,
        "study": study.description(),
        "cell": asdict(cell),
        "digest": digest(study.settings(cell)),
        "parameters": {name: list(shape) for name, shape in study.layout.shapes.items()},
        "model": study.model.settings,
        "columns": list(columns),
        "interval": interval,
        "clients": {name: _as_lists(scaling) for name, scaling in scalings.items()},
        "margins": {str(model): own.tolist() for model, own in margins.items()},
    }


def _as_lists(scaling: Scaling) -> dict[str, Any]:
    numbers = {
        field.name: getattr(scaling, field.name).tolist()
        for field in fields(Scaling)
        if field.name not in ("context", "known")
    }
    context = [one.tolist() for one in scaling.context]
    return {**numbers, "context": context, "known": str(scaling.known)}


def margins_of(about: Mapping[str, Any]) -> Margins:
    """The margins of the models, as `describe` wrote them; earlier versions had none."""
    margins = about.get("margins", {})
    return {model: np.array(margins[model], float) for model in MODELS if model in margins}


def scaling_of(described: Mapping[str, Any]) -> Scaling:
    """The scaling of a client, as `describe` wrote it."""
    numbers = {
        name: np.array(value, float)
        for name, value in described.items()
        if name not in ("context", "known")
    }
    known = np.datetime64(
        described.get("known", windows.UNKNOWN), "s"
    )  # earlier versions did not say it
    context = [np.array(one, float) for one in described["context"]]
    return Scaling(**numbers, context=context, known=known)
