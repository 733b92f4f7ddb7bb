"""The examples of a federation that clients train on, such as windows of series or images, and the
tables of clients that windows are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem
from plfl.base.lazy import pandas as pd
from plfl.data.computed import RowTable
from plfl.data.dataset import Dataset, Split, join_datasets
from plfl.layout import WindowShape


class Examples(Protocol):
    """The data of a federation, as engines and clients read them.

    An example is a window of `look_back` rows of one table, identified by its start row.
    """

    @property
    def clients(self) -> NDArray[np.str_]:
        """Names of the N clients."""

    @property
    def features(self) -> NDArray[np.float32]:
        """Rows (R, F) of inputs."""

    @property
    def covariates(self) -> RowTable:
        """Further inputs (R, G) of the window whose last row this is."""

    @property
    def targets(self) -> RowTable:
        """Target (R, ...) of the window whose last row this is, as the task reads it."""

    @property
    def relative(self) -> bool:
        """Whether the first feature is read relative to the window's last row."""

    @property
    def look_back(self) -> int:
        """T, rows of a window."""

    @property
    def shape(self) -> WindowShape:
        """What a model reads of a window."""

    def starts(self, client: int, split: Split) -> NDArray[np.int64]:
        """Start rows of the windows in one split of a client."""

    def divide_by_seed(self, seed: int) -> Self:
        """The data as the federation of a seed holds them."""


def check_batches(examples: Examples, batch_size: int, role: str = "") -> None:
    """Refuse clients with fewer training windows than a minibatch, with a DataError. `role`: what
    the clients are, if these windows are not those of everybody."""
    problems = []
    for i, name in enumerate(examples.clients.tolist()):
        if (windows := len(examples.starts(i, "train"))) < batch_size:
            text = f"{windows} training windows{role} are fewer than federation.batch_size"
            remedy = f"lower it to {windows}, " if windows else ""
            remedy += "give a longer series without gaps there, or leave this client out"
            problem = Problem(f"client {name}", f"{text} {batch_size}", remedy, name, kind=text)
            problems.append(problem)
    if problems:
        raise DataError(*problems)


def on_one_table(
    parts: Mapping[str, Examples], folder: Path | None = None
) -> Mapping[str, Examples]:
    """Examples, by name, on the rows of one table, so that one engine reads them all. Several parts
    have the same `plfl.data.dataset.form_of`."""
    if len(parts) == 1:
        return parts
    series = cast(Mapping[str, Dataset], parts)
    whole_table, state_examples, first_client = join_datasets(series.values(), folder), {}, 0
    for name, dataset in series.items():
        state_examples[name] = whole_table.select(first_client + np.arange(len(dataset.clients)))
        first_client += len(dataset.clients)
    return state_examples


class LazySeries(Mapping[str, "pd.DataFrame"]):
    """The series of clients by name, in order. Each is read when it is accessed, and not kept."""

    def __init__(self, names: Iterable[str], read: Callable[[str], pd.DataFrame]):
        """`read` reads the series of a client; accessing a series raises its errors."""
        self._names, self._read = dict.fromkeys(names), read

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
