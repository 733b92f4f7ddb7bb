"""Covariates and targets of windows, computed from the series of clients when they are read.

They follow from loads, stamps and training sets. Stored, they would take most of a dataset's file:
those of the study that `plfl init meters` writes take 25 times as much as load, stamps and scaled
features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plfl.config.windows import Windows
from plfl.data import covariates
from plfl.data.covariates import Series

PARTS_KEPT = 8
"""Parts whose rows are kept after they are read."""
MOST_BYTES_IN_MEMORY = 2**30
"""Most bytes of computed rows that an engine keeps; of more, it computes those that it reads."""


@dataclass(frozen=True, eq=False)
class JoinedSeries:
    """The rows of a dataset as parts, one after the other: the series of a client in one of its
    views each."""

    windows: Windows
    """How windows are made of them."""
    interval: int
    """Minutes between rows."""
    columns: Sequence[str]
    """Names of the features."""
    bounds: NDArray[np.int64]
    """First row, end of the training set that estimates are made from, and end (M, 3) of each
    part."""
    offset: NDArray[np.float64]
    """Load (M,) in kWh at which the scaled load of a part is 0."""
    scale: NDArray[np.float64]
    """Load (M,) in kWh by which it grows by 1."""
    features: NDArray[np.float32]
    """The scaled inputs of all rows of the dataset (R, F)."""
    load: NDArray[np.float64]
    """The loads of all rows of the dataset (R,), in kWh."""
    stamps: NDArray[np.datetime64]
    """The stamps of all rows of the dataset (R,)."""

    def series(self, client: int) -> Series:
        """The series of a part."""
        first, end_of_training, end = self.bounds[client].tolist()
        rows = slice(first, end)
        return Series(
            load=self.load[rows],
            features=self.features[rows],
            columns=[*self.columns],
            stamps=self.stamps[rows],
            training_rows=slice(0, end_of_training - first),
            offset=float(self.offset[client]),
            scale=float(self.scale[client]),
            windows=self.windows,
            interval=self.interval,
        )

    @cached_property
    def covariates(self) -> ComputedRows:
        """The covariates (R, G) of all windows."""
        return ComputedRows(self, covariates.compute, (self.windows.covariates_width,))

    @cached_property
    def targets(self) -> ComputedRows:
        """The targets (R,), or (R, H) if there are several."""
        horizons = self.windows.horizons
        return ComputedRows(self, compute_targets, (horizons,) if horizons > 1 else ())

    def target(self, h: int) -> ComputedRows:
        """The target `h` (R,) of several."""
        return ComputedRows(self, lambda series: compute_targets(series)[:, h], ())


class ComputedRows:
    """A table of numbers (R, ...) that is computed part by part when its rows are read."""

    def __init__(
        self,
        table: JoinedSeries,
        compute: Callable[[Series], NDArray[np.float32]],
        width: tuple[int, ...],
    ):
        """`compute`: the rows (R_m, *width) of a part's series."""
        self.shape = (len(table.load), *width)
        self._first_rows = table.bounds[:, 0]
        self._part = lru_cache(PARTS_KEPT)(lambda part: compute(table.series(part)))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return int(np.prod(self.shape)) * np.dtype(np.float32).itemsize

    def __getitem__(self, row_numbers: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        numbers = (
            np.arange(*row_numbers.indices(len(self)))
            if isinstance(row_numbers, slice)
            else row_numbers
        )
        flat = numbers.ravel()
        values = np.empty((len(flat), *self.shape[1:]), np.float32)
        parts = np.searchsorted(self._first_rows, flat, side="right") - 1
        order = np.argsort(parts, kind="stable")
        cuts = np.flatnonzero(np.diff(parts[order])) + 1
        for places in np.split(order, cuts) if len(flat) else []:
            part = int(parts[places[0]])
            values[places] = self._part(part)[flat[places] - self._first_rows[part]]
        return values.reshape(*numbers.shape, *self.shape[1:])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.every_row.astype(dtype or np.float32, copy=bool(copy))

    @cached_property
    def every_row(self) -> NDArray[np.float32]:
        """All rows, computed once and kept."""
        return self[:]

    def has_same_rows(self, rows: RowTable) -> bool:
        """Whether a table is this one, or all its rows."""
        return rows is self or rows is self.__dict__.get("every_row")


RowTable: TypeAlias = NDArray[np.float32] | ComputedRows
"""A table of numbers (R, ...), stored or computed."""


def kept_rows(table: RowTable) -> NDArray[np.float32] | None:
    """All rows of a table in memory; None if they are computed and too many."""
    if not isinstance(table, ComputedRows):
        return table
    return table.every_row if table.nbytes <= MOST_BYTES_IN_MEMORY else None


def compute_targets(series: Series) -> NDArray[np.float32]:
    """`Dataset.targets` of one client."""
    first, horizons = series.windows.look_ahead, series.windows.horizons
    if horizons == 1:
        return _target(series, first)
    steps = range(first, first + horizons)
    return np.stack([_target(series, step) for step in steps], axis=1)


def _target(series: Series, steps: int) -> NDArray[np.float32]:
    """The target (R,) `steps` rows after the last input row."""
    target = np.full(len(series.load), np.nan, np.float32)
    if series.windows.is_relative:
        target[:-steps] = (series.load[steps:] - series.load[:-steps]) / series.scale
    else:
        target[:-steps] = series.features[steps:, 0]
    return target
