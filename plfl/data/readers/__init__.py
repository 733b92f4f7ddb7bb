"""Readers of meter files in further formats, which plug-ins provide.

A reader is named like the ending of its files: with a reader `h5`, files `NAME.h5` in a folder of
meters are series.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from plfl.plugins.registry import Algorithm, algorithms

if TYPE_CHECKING:  # reading a configuration imports this package and should not wait for pandas
    import pandas as pd


class Reader(Algorithm):
    """A format of meter files."""

    @abstractmethod
    def read(self, path: Path) -> pd.DataFrame:
        """The table in a file: one row per reading, and the columns that `data.meters.columns`
        names. Timestamps can be text or datetimes."""


available = partial(algorithms, __name__)


def endings() -> tuple[str, ...]:
    """The endings of the names of files that have a reader, in lower case."""
    return tuple(f".{name.lower()}" for name in available())


def reader_of(path: Path) -> type[Reader] | None:
    """The reader for the ending of a file's name; None if there is none."""
    found = (
        cls for name, cls in available().items() if path.name.lower().endswith(f".{name.lower()}")
    )
    return cast("type[Reader] | None", next(found, None))
