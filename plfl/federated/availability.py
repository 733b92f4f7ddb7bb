"""A trace of availability and speed: when clients could be reached, and how fast they and their
links were.

A CSV or Parquet file with one row per change: `client`; the time of the change (`round`, counted
from 1, or `seconds` on the simulated clock); and any of `available` (0 or 1), `step_seconds`,
`down_mbit` and `up_mbit`. A value holds until the client's next one in its column; an empty field
changes nothing. Before a client's first value the study's distributions apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import DataError, did_you_mean
from plfl.config.sections import Simulation

if TYPE_CHECKING:  # only traces need pandas, which is slow to import
    import pandas as pd

CLOCKS = ("round", "seconds")
"""Columns that give the time of a change; a file has one of them."""
SPEEDS = ("step_seconds", "down_mbit", "up_mbit")
"""Columns that determine how long computation and transfers take."""
VALUES = ("available", *SPEEDS)
_TRUE, _FALSE = ("1", "1.0", "true"), ("0", "0.0", "false")


@dataclass(frozen=True)
class Trace:
    """The rows of a trace, checked."""

    by: Literal["round", "seconds"]
    """The unit of its times."""
    clients: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    """For each client: times (k,), ascending, and the `VALUES` (k, 4) that hold from each time on;
    NaN where the trace has none."""

    @property
    def has_speeds(self) -> bool:
        """Whether it has any of `SPEEDS`."""
        return any(np.isfinite(values[:, 1:]).any() for _, values in self.clients.values())

    def at(self, clients: list[str], moment: float) -> dict[str, NDArray[np.float64]]:
        """Each of `VALUES` (N,) of `clients` at a round or second; NaN where the trace has none."""
        found = np.full((len(clients), len(VALUES)), np.nan)
        for i, client in enumerate(clients):
            if client in self.clients:
                moments, values = self.clients[client]
                if row := int(np.searchsorted(moments, moment, side="right")):
                    found[i] = values[row - 1]
        return dict(zip(VALUES, found.T, strict=True))

    def after(self, clients: list[str], moment: float) -> float | None:
        """The first moment after this one at which something changes for `clients`, if any."""
        later = [
            moments[moments > moment].min(initial=np.inf)
            for client, (moments, _) in self.clients.items()
            if client in clients
        ]
        first = min(later, default=np.inf)
        return float(first) if np.isfinite(first) else None


def takes_time(simulation: Simulation) -> bool:
    """Whether anything takes time on the simulated clock."""
    if any(getattr(simulation, speed) is not None for speed in SPEEDS):
        return True
    return simulation.trace is not None and read(simulation.trace).has_speeds


def read(path: Path) -> Trace:
    """Read and check a trace.

    Raises:
        DataError: the file is absent or unreadable, lacks a column, or has an unknown column or an
            impossible value; the message names row, column and remedy.
    """
    try:
        stat = path.stat()
    except OSError:
        raise DataError(
            f"{path}: the file does not exist; correct federation.simulation.trace, or leave it out"
        ) from None
    return _read(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, changed: int, size: int) -> Trace:
    """The trace in a file, read once for all federations of a study unless its age or size
    changes."""
    import pandas as pd

    try:
        if path.suffix == ".parquet":
            table = pd.read_parquet(path).astype({"client": str}, errors="ignore")
        else:
            # Names stay text: a client may be called "01" or "NA".
            table = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""])
    except (ValueError, OSError) as error:
        raise DataError(
            f"{path}: cannot be read ({error}); give the trace as CSV with a header, or as .parquet"
        ) from None
    by = _columns(path, table)
    table = table.assign(client=_clients(path, table), at=_moments(path, table, by))
    values = [_values(path, table, column) for column in VALUES]
    table = table.assign(**dict(zip(VALUES, values, strict=True)))
    if (twice := table.duplicated(["client", "at"])).any():
        row = table[twice].iloc[0]
        raise DataError(
            f"{_place(path, twice)}: duplicate client {row['client']!r} at {by} "
            f"{row['at']:g}; keep one of the rows"
        )
    table = table.sort_values(["client", "at"], kind="stable")
    table[list(VALUES)] = table.groupby("client")[list(VALUES)].ffill()
    return Trace(
        by,
        {
            str(client): (rows["at"].to_numpy(float), rows[list(VALUES)].to_numpy(float))
            for client, rows in table.groupby("client")
        },
    )


def _columns(path: Path, table: pd.DataFrame) -> Literal["round", "seconds"]:
    known = ["client", *CLOCKS, *VALUES]
    for column in table.columns:
        if column not in known:
            raise DataError(
                f"{path}: unknown column {column!r}; a trace has {', '.join(known)}"
                f"{did_you_mean(str(column), known)}"
            )
    if "client" not in table:
        raise DataError(f"{path}: has no column 'client'; add the name of each row's client")
    clocks = [column for column in CLOCKS if column in table]
    if len(clocks) != 1:
        raise DataError(
            f"{path}: has {' and '.join(clocks) or 'neither of the columns round and seconds'}; "
            "give exactly one of them"
        )
    if not set(VALUES) & set(table.columns):
        raise DataError(f"{path}: no column of values; add one of {', '.join(VALUES)}")
    return "round" if clocks[0] == "round" else "seconds"


def _clients(path: Path, table: pd.DataFrame) -> pd.Series[str]:
    _refuse(path, table, "client", table["client"].isna(), "name the client")
    return table["client"].astype(str)


def _moments(path: Path, table: pd.DataFrame, by: str) -> pd.Series[float]:
    import pandas as pd

    moments = pd.to_numeric(table[by], errors="coerce")
    wrong = ~np.isfinite(moments)
    if by == "round":
        wrong |= (moments < 1) | (moments % 1 != 0)
        _refuse(path, table, by, wrong, "give a whole number from 1 on")
    _refuse(path, table, by, wrong | (moments < 0), "give a number from 0 on")
    return moments.astype(float)


def _values(path: Path, table: pd.DataFrame, column: str) -> pd.Series[float]:
    """The column as numbers; NaN where it is empty."""
    import pandas as pd

    if column not in table:
        return pd.Series(np.nan, table.index)
    given = table[column]
    if column == "available":
        words = given.astype(str).str.strip().str.lower()
        values = words.isin(_TRUE).astype(float).where(words.isin(_TRUE + _FALSE))
        _refuse(path, table, column, given.notna() & values.isna(), "give 0 or 1")
        return values
    values = pd.to_numeric(given, errors="coerce").astype(float)
    wrong = given.notna() & ~(np.isfinite(values) & (values > 0))
    _refuse(path, table, column, wrong, "give a number above 0, or nothing")
    return values


def _refuse(
    path: Path, table: pd.DataFrame, column: str, wrong: pd.Series[bool], remedy: str
) -> None:
    """Raise a DataError that names the first row in which `column` is wrong."""
    if wrong.any():
        value = table.loc[wrong, column].iloc[0]
        nothing = value is None or value != value
        shown = "nothing" if nothing else repr(value) if isinstance(value, str) else str(value)
        raise DataError(f"{_place(path, wrong)}, column {column}: {shown} is not allowed; {remedy}")


def _place(path: Path, wrong: pd.Series[bool]) -> str:
    """Path and line (or row) of the first wrong row."""
    row = int(np.flatnonzero(wrong.to_numpy())[0])
    return f"{path}, row {row + 1}" if path.suffix == ".parquet" else f"{path}, line {row + 2}"
