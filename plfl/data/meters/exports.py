"""Reads raw exports: text, workbooks or Parquet; a file of its own for each meter, a column for
each, or a column of their names.

The form of a file, its layout and the format of its stamps are detected. Where a file can be read
in more than one way, a key of `data.meters` decides. A clean file needs no key.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.errors import DataError
from plfl.base.files import sha256
from plfl.config.features import UNITS
from plfl.config.messages import flow, typed
from plfl.config.sections import Meters
from plfl.data.meters import layout, numbers, stamps, tables
from plfl.data.meters.cleaning import Meter, Piece, clean
from plfl.data.meters.layout import Layout
from plfl.data.meters.paths import client_name
from plfl.data.meters.series import collected
from plfl.data.meters.stamps import Times, zone_named
from plfl.data.meters.tables import Table

Progress = Callable[[str, int, int], None]
"""Is told what is being read, how many steps are done, and how many there are."""


@dataclass
class Exports:
    """What is in raw exports."""

    meters: dict[str, Meter] = field(default_factory=dict)
    """The series by the name of the meter, as far as they could be read."""
    sources: list[dict[str, Any]] = field(default_factory=list)
    """For each raw file, its digest and what was found out about it."""
    files: dict[str, Path] = field(default_factory=dict)
    """For each meter, the first file with readings of it."""
    names: list[str] = field(default_factory=list)
    """The names of all meters, also of those that are not selected."""
    local: list[Path] = field(default_factory=list)
    """The files whose stamps have no UTC offset."""
    problems: list[str] = field(default_factory=list)
    """What is wrong or not certain."""


def read_exports(
    paths: Iterable[Path],
    meters: Meters,
    interval: int | None,
    names: Mapping[Path, str] | None = None,
    progress: Progress | None = None,
) -> Exports:
    """Read raw exports and clean them.

    Args:
        paths: the files.
        meters: what cannot be detected, or shall differ from what is.
        interval: minutes between the rows of the series; None: as in the exports.
        names: the names of meters that have a file of their own; without it, that of the file.
        progress: is told after every file and every meter.

    Returns:
        The meters and the problems of all files.
    """
    found = Exports()
    pieces: dict[str, list[Piece]] = {}
    files = list(paths)
    for done, path in enumerate(files):
        if progress is not None:
            progress(path.name, done, 2 * len(files))
        with collected(found.problems):
            table = tables.read(path, meters)
            columns = layout.find(table, meters)
            times, parts = _parts(table, columns, meters, (names or {}).get(path), found)
            if times.offset is None:
                found.local.append(path)
            if not meters.join_files:
                _check_unique(table, columns, parts, pieces)
            for name, piece in parts.items():
                pieces.setdefault(name, []).append(piece)
                found.files.setdefault(name, path)
            found.sources.append(_source(table, columns, times))
    for done, (name, of_meter) in enumerate(pieces.items(), 1):
        if progress is not None:
            progress(name, len(pieces) + done, 2 * len(pieces))
        with collected(found.problems):
            zone = zone_named(meters.timezone_of(name))
            found.meters[name] = clean(name, of_meter, zone, meters, interval)
    lengths = {meter.minutes: name for name, meter in found.meters.items()}
    if len(lengths) > 1:
        some = ", ".join(f"{name!r}: {minutes} minutes" for minutes, name in lengths.items())
        found.problems.append(
            f"{some}: the meters have different intervals; set data.meters.interval: {max(lengths)}"
        )
    # Problems that do not name a meter are the same for all meters of a file: each one once.
    count = Counter(line for problem in found.problems for line in problem.splitlines())
    found.problems = [
        line if n == 1 else f"{line} (the same for {n} meters)" for line, n in count.items()
    ]
    return found


def _source(table: Table, columns: Layout, times: Times) -> dict[str, Any]:
    """What the receipt says about a file."""
    parts = asdict(columns)
    del parts["readings"], parts["meter"]
    return {
        "file": table.path.as_posix(),
        "sha256": sha256(table.path),
        "form": table.form,
        "stamps": times.format,
        "layout": columns.kind,
        **parts,
    }


def _check_unique(
    table: Table, columns: Layout, parts: Iterable[str], before: Mapping[str, Sequence[Piece]]
) -> None:
    """Refuse meters that an earlier file has, too.

    Raises:
        DataError: there are some; the message offers to take each file for a meter of its own.
    """
    again = [name for name in parts if name in before]
    if not again:
        return
    shown = ", ".join(map(repr, again[:3])) + (" …" if len(again) > 3 else "")
    column = str(before[again[0]][0].readings.name)
    remedy = f"if every file holds one meter, set data.meters.columns: {flow({'load': column})}; "
    if columns.kind == "one meter" and columns.meter is None:
        remedy = "if they are two meters, rename one of the files; "
    elif columns.kind == "long":
        remedy = ""
    raise DataError(
        f"{table.path}: {before[again[0]][0].table.path} has {shown}, too; {remedy}if the files "
        "hold parts of the same meters, set data.meters.join_files: true"
    )


def _parts(
    table: Table, columns: Layout, meters: Meters, alone: str | None, found: Exports
) -> tuple[Times, dict[str, Piece]]:
    """The stamps of a file, and the readings of each meter in it that is selected.

    Args:
        table: the file.
        columns: its layout.
        meters: what is known of it, and which meters are selected.
        alone: the name of the meter, if the file holds one.
        found: the names of all its meters are added to the `names`.

    Raises:
        DataError: stamps or readings cannot be understood; the message has a line for the stamps
            and for each column that is wrong.
    """
    problems: list[str] = []
    with collected(problems):
        times = stamps.parse(table, columns.time, meters)
    if columns.kind == "wide":
        names = {column: column for column in columns.readings}
    else:
        names = {columns.readings[0]: alone or columns.meter or client_name(table.path)}
    if columns.name is None:
        found.names += names.values()
        names = {c: name for c, name in names.items() if layout.is_chosen(name, meters)}
    with collected(problems):
        values = _values(table, [*names, *columns.inputs.values()], meters)
    if problems:
        raise DataError("\n".join(problems))
    inputs = pd.DataFrame(
        {role: _converted(role, values[c], meters) for role, c in columns.inputs.items()},
        index=table.cells.index,
    )
    if columns.name is None:
        return times, {n: Piece(table, times, values[c], inputs) for c, n in names.items()}
    readings = values[columns.readings[0]]
    of_meters = numbers.as_text(table.cells[columns.name])
    groups = of_meters.groupby(of_meters, sort=False).groups
    found.names += map(str, groups)
    return times, {
        str(name): Piece(table, times, readings.loc[lines], inputs.loc[lines])
        for name, lines in groups.items()
        if layout.is_chosen(str(name), meters)
    }


def _values(table: Table, columns: Sequence[str], meters: Meters) -> dict[str, pd.Series]:
    """The numbers in some columns.

    Raises:
        DataError: a column holds other words than numbers and those of missing readings; the
            message has a line for each.
    """
    mark = numbers.decimal(table, columns, meters)
    values, problems = {}, []
    for column in columns:
        values[column] = numbers.numbers(table.cells[column], mark, meters.missing)
        wrong = np.isinf(values[column].to_numpy())
        if wrong.any():
            at = int(wrong.argmax())
            value = str(table.cells[column].iloc[at]).strip()
            problems.append(
                f"{table.at(table.cells.index[at])}: {column} {value!r} is not a number "
                f"({int(wrong.sum())} such values); say that it means a missing reading with "
                f"data.meters.missing: [{typed(value)}], or set data.meters.decimal"
            )
    if problems:
        raise DataError("\n".join(problems))
    return values


def _converted(role: str, values: pd.Series, meters: Meters) -> pd.Series:
    """An input in the unit of its feature."""
    if role in meters.units and role in UNITS:
        factor, summand = UNITS[role][meters.units[role]]
        return values * factor + summand
    return values
