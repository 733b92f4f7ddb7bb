"""What the figures and the page of a study of classifiers read from its results folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from plfl.config.study import Study
from plfl.results.labels import client_label, method_label, server_label
from plfl.results.records import read_table
from plfl.results.tables import Tables
from plfl_images.results import classification

ABOUT_BASELINES = (
    "Three baselines need no federation: each client's most frequent label (majority), a logistic"
    " regression on its own images (logistic own), and one on the images of all clients together"
    " (logistic pooled)."
)
"""What the pages say about the rows of baselines."""


@dataclass(frozen=True)
class Results:
    """The tables of one results folder, each read when it is first accessed.

    Every access raises ResultsError if its file is missing or has another format.
    """

    folder: Path

    @cached_property
    def tables(self) -> Tables:
        """What all studies have."""
        return Tables(self.folder)

    @property
    def study(self) -> Study:
        """The study that made the results."""
        return self.tables.study

    @cached_property
    def records(self) -> pd.DataFrame:
        """See `plfl_images.results.classification`."""
        return read_table(self.folder / "records.parquet")

    @cached_property
    def summary(self) -> pd.DataFrame:
        """See `classification.summarise`."""
        return classification.read_summary(self.folder)

    @cached_property
    def baselines(self) -> pd.DataFrame:
        """See `plfl_images.baselines`."""
        return read_table(self.folder / "baselines.parquet")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """Training images by `seed`, `client` and `label`: the column `images`."""
        return read_table(self.folder / "clients.parquet")

    @cached_property
    def rows(self) -> list[dict[str, str]]:
        """The rows of the grid, see `classification.rows_of`."""
        return list(classification.rows_of(self.summary))

    def label(self, row: Mapping[str, str]) -> str:
        """A short name of a row; see `label`."""
        return label(row, self.rows)


def label(row: Mapping[str, str], rows: Sequence[Mapping[str, str]]) -> str:
    """A short name of a row of the grid among `rows`, such as `FedADC+` or `SlowMo`.

    It says only what differs among them.
    """
    method, server, client = row["method"], row["server_opt"], row["client_opt"]
    name = method_label(method)
    if method == "fedopt":
        name = "FedAvg" if server == "fedavg" else server_label(server)
    elif server != "fedavg":
        name += f" + {server_label(server)}"
    if len({other["client_opt"] for other in rows}) > 1:
        name += f", {client_label(client)}"
    for axis in ("state", "sharing"):
        if len({other[axis] for other in rows}) > 1:
            name += f" ({row[axis]})"
    return name
