"""What a file of models says beside the parameters: how to read new data, and where it comes from.

`describe` makes it, as JSON for the header of the file; `Header` is what `load` reads of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, Field, FiniteFloat

from plfl import __version__, plugins
from plfl.base.files import digest
from plfl.config.study import FORMAT, Cell, Study
from plfl.data import windows
from plfl.data.windows import Scaling
from plfl.results.records import MODELS, Margins, Model

_Lists = Annotated[list[Any], Field(description="Nested lists of numbers.")]


class StoredScaling(BaseModel):
    """A `plfl.data.windows.Scaling` as JSON."""

    offset: list[FiniteFloat]
    scale: list[FiniteFloat]
    low: list[float]
    high: list[float]
    context: list[_Lists]
    known: str = str(windows.UNKNOWN)
    """Earlier versions did not say it."""

    def scaling(self) -> Scaling:
        """The scaling itself."""
        numbers = {name: np.array(getattr(self, name), float) for name in NUMBERS}
        context = [np.array(one, float) for one in self.context]
        return Scaling(**numbers, context=context, known=np.datetime64(self.known, "s"))


NUMBERS = [field.name for field in fields(Scaling) if field.name not in ("context", "known")]
"""The arrays (F,) of a scaling."""


class Header(BaseModel):
    """The header of a file of models."""

    format: int
    """`FORMAT` of the configuration."""
    version: str
    """Version of plfl."""
    study: dict[str, Any]
    """The configuration."""
    code: dict[str, str] = {}
    """SHA-256 of the Python files that the configuration names; earlier versions did not say it."""
    cell: Cell
    parameters: dict[str, list[int]]
    """Shapes by name, in the order of a row."""
    model: dict[str, Any]
    """Settings of the model."""
    columns: list[str]
    """Names of the inputs."""
    interval: Annotated[int, Field(gt=0)]
    """Minutes between readings."""
    clients: dict[str, StoredScaling]
    """By name, in the order of the rows."""
    margins: dict[Model, _Lists] = {}
    """Those of the clients' intervals by model, if the task has margins."""

    def arrays(self) -> Margins:
        """The margins of the models."""
        return {
            name: np.array(self.margins[name], float) for name in MODELS if name in self.margins
        }


def describe(
    study: Study,
    cell: Cell,
    tables: Mapping[str, pd.DataFrame],
    interval: int,
    margins: Margins,
) -> dict[str, Any]:
    """The header of a file with the models of a cell, given the tables that the windows of its
    clients were made of, and the minutes between their rows."""
    scalings = dict(
        zip(tables, windows.scalings(tables, study.windows, origin=study.data.cut), strict=True)
    )
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
        "code": plugins.digests_of(study.description()),
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
    numbers = {name: getattr(scaling, name).tolist() for name in NUMBERS}
    context = [one.tolist() for one in scaling.context]
    return {**numbers, "context": context, "known": str(scaling.known)}
