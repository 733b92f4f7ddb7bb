"""Raw exports of meters become the clean folder that a study reads.

The layout, the separators and the format of the stamps are detected. Where a file can be read in
more than one way, an option decides. Nothing is written unless all files are understood.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from plfl.config.features import CALENDAR, UNITS
from plfl.config.messages import allowed
from plfl.data.checks import counted
from plfl.data.importing import folder, layout, numbers, tables, times
from plfl.data.importing.options import Options
from plfl.data.importing.series import Meter, Piece, clean
from plfl.data.meters.stamps import zone_named
from plfl.errors import DataError
from plfl.files import sha256

__all__ = [
    "Exports",
    "Imported",
    "Meter",
    "Options",
    "import_meters",
    "raw_files",
    "read_exports",
]


@dataclass(frozen=True)
class Exports:
    """What is in raw exports."""

    meters: dict[str, Meter]
    """The series by the name of the meter, as far as they could be read."""
    zones: dict[str, str]
    """The IANA time zone of each meter."""
    sources: list[dict[str, Any]]
    """For each raw file, its digest and what was found out about it."""
    files: dict[str, Path]
    """For each meter, the first file with readings of it."""
    names: list[str]
    """The names of all meters, also of those that the options do not select."""
    problems: list[str]
    """What is wrong or not certain."""


@dataclass(frozen=True)
class Imported:
    """What an import has written."""

    meters: dict[str, Meter]
    """The series by the name of the meter."""
    sources: list[dict[str, Any]]
    """For each raw file, its digest and what was found out about it."""
    block: str
    """The configuration of the folder (YAML)."""


def import_meters(raw: Iterable[Path], to: Path, options: Options) -> Imported:
    """Read raw exports, clean them and write one file per meter, with a receipt.

    Args:
        raw: files, or folders whose files are taken.
        to: the folder to write; it must not hold files.
        options: what cannot be found out.

    Returns:
        The meters, what was found out about the files, and the configuration of the folder.

    Raises:
        DataError: something is wrong or not certain; the message lists all problems of all files,
            and nothing has been written.
    """
    folder.check_free(to)
    exports = read_exports(raw, options)
    if problems := exports.problems:
        count = counted(len(problems), "problem")
        raise DataError(f"{count}, nothing was written\n" + "\n".join(problems))
    text = folder.write(to, exports.meters, exports.sources, options, exports.zones)
    return Imported(exports.meters, exports.sources, text)


def read_exports(raw: Iterable[Path], options: Options, alone: str | None = None) -> Exports:
    """Read raw exports and clean them.

    Args:
        raw: files, or folders whose files are taken.
        options: what cannot be found out.
        alone: the name of the meter in a file that has only one; None: that of the file.

    Raises:
        DataError: an option or a path is wrong. What is wrong in the files is among the `problems`.
    """
    _check(options)
    problems: list[str] = []
    sources: list[dict[str, Any]] = []
    pieces: dict[str, list[Piece]] = {}
    seen: list[str] = []
    naive: dict[str, Path] = {}
    for path in raw_files(raw):
        try:
            table = tables.read(path, options.header)
            columns = layout.find(table, options)
        except DataError as error:
            problems.append(str(error))
            continue
        parts = _parts(table, columns, options, alone, seen, problems)
        if parts is None:
            continue
        for name, piece in parts.items():
            if piece.times.stamps.dt.tz is None:
                naive.setdefault(name, path)
            pieces.setdefault(name, []).append(piece)
        sources.append(
            {
                "file": path.as_posix(),
                "sha256": sha256(path),
                "form": table.form,
                "stamps": next((piece.times.format for piece in parts.values()), ""),
                "layout": columns.kind,
                **{key: value for key, value in asdict(columns).items() if key != "readings"},
            }
        )
    if unknown := [name for name in naive if options.timezone_of(name) is None]:
        files = {naive[name] for name in unknown}
        problems.append(
            f"{naive[unknown[0]]}: the stamps have no UTC offset ({len(files)} such files); set "
            "--timezone, such as America/New_York, or a fixed zone such as Etc/GMT+5 or UTC if the "
            "clock never changes"
        )
    try:
        layout.check_chosen(seen, options)
    except DataError as error:
        problems.append(str(error))
    zones = {name: zone_named(options.timezone_of(name) or "UTC") for name in pieces}
    meters = _clean(pieces, zones, options, problems)
    keys = {name: zones[name].key for name in meters}
    first = {name: pieces[name][0].table.path for name in meters}
    return Exports(meters, keys, sources, first, seen, _once(problems))


def _once(problems: list[str]) -> list[str]:
    """Problems that do not name a meter are the same for all meters of a file: each one once."""
    count = Counter(problems)
    return [line if n == 1 else f"{line} (the same for {n} meters)" for line, n in count.items()]


def _check(options: Options) -> None:
    """Refuse options that cannot be followed.

    Raises:
        DataError: the message lists all of them.
    """
    problems = []
    if options.register and (options.stamp == "start" or options.unit in ("kW", "W")):
        problems.append("--register needs readings in kWh or Wh, at the end of each interval")
    for zone in [options.timezone, *(zone for _, zone in options.timezones)]:
        try:
            zone_named(zone or "UTC")
        except DataError as error:
            problems.append(str(error).replace("data.meters.timezone", "--timezone"))
    for option, date in (("--from", options.since), ("--until", options.until)):
        if date is not None and pd.isna(pd.to_datetime(date, format="ISO8601", errors="coerce")):
            problems.append(
                f"{option}: {date!r} is not a time; write 2017-01-31 or 2017-01-31T06:00"
            )
    names = [name for name, _ in options.inputs]
    reserved = ("timestamp", "load", *CALENDAR)
    problems += [
        f"--input {name}: cannot be the name of an input; choose another"
        for name in names
        if name in reserved
    ]
    for name in {name for name in names if names.count(name) > 1}:
        problems.append(f"--input {name}: is given twice")
    for name, unit in options.units:
        if name not in names:
            problems.append(f"--input-unit {name}: there is no --input {name}=COLUMN")
        elif unit not in UNITS.get(name, {unit}):
            problems.append(
                f"--input-unit {name}: {unit!r} is unknown; {allowed(unit, UNITS[name])}"
            )
    if problems:
        raise DataError("\n".join(problems))


def raw_files(raw: Iterable[Path]) -> list[Path]:
    """The raw files.

    Raises:
        DataError: a file does not exist or has another ending, or a folder holds none.
    """
    files: list[Path] = []
    problems = []
    for path in raw:
        if path.is_dir():
            inside = sorted(p for p in path.iterdir() if _is_raw(p))
            if not inside:
                problems.append(f"{path}: holds no file that ends in {', '.join(tables.SUFFIXES)}")
            files += inside
        elif not path.is_file():
            problems.append(f"{path}: the file does not exist; check the path")
        elif not _is_raw(path):
            problems.append(f"{path}: does not end in {', '.join(tables.SUFFIXES)}; rename it")
        else:
            files.append(path)
    if problems:
        raise DataError("\n".join(problems))
    return list(dict.fromkeys(files))


def _is_raw(path: Path) -> bool:
    return path.name.lower().endswith(tables.SUFFIXES) and not path.name.startswith(".")


def _parts(
    table: tables.Table,
    columns: layout.Layout,
    options: Options,
    alone: str | None,
    seen: list[str],
    problems: list[str],
) -> dict[str, Piece] | None:
    """The readings of each chosen meter in a file; None after a problem.

    The names of all meters are added to `seen`, and problems to `problems`.
    """
    stamps = None
    try:
        stamps = times.parse(table, columns.time, options)
    except DataError as error:
        problems.append(str(error))
    readings = list(columns.readings)
    if columns.kind == "wide":
        seen += readings
        readings = [name for name in readings if layout.is_chosen(name, options)]
    values = _values(table, [*readings, *columns.inputs.values()], options, problems)
    if stamps is None or values is None:
        return None
    inputs = pd.DataFrame(
        {
            name: _converted(name, values.pop(column), options)
            for name, column in columns.inputs.items()
        },
        index=table.cells.index,
    )
    if columns.name is not None:
        readings_of = values[readings[0]]
        names = table.cells[columns.name].astype(str).str.strip()
        groups = names.groupby(names, sort=False).groups
        seen += map(str, groups)
        return {
            str(group): Piece(table, stamps, readings_of.loc[lines], inputs.loc[lines])
            for group, lines in groups.items()
            if layout.is_chosen(str(group), options)
        }
    if columns.kind == "wide":
        return {name: Piece(table, stamps, column, inputs) for name, column in values.items()}
    name = alone or _stem(table.path)
    seen.append(name)
    piece = Piece(table, stamps, values[readings[0]], inputs)
    return {name: piece} if layout.is_chosen(name, options) else {}


def _values(
    table: tables.Table, columns: list[str], options: Options, problems: list[str]
) -> dict[str, pd.Series] | None:
    """The numbers in some columns; None after a problem, which is added to `problems`."""
    try:
        mark = numbers.decimal(table, columns, options)
    except DataError as error:
        problems.append(str(error))
        return None
    values, before = {}, len(problems)
    for column in columns:
        values[column] = numbers.numbers(table.cells[column], mark, options.missing)
        wrong = ~numbers.whole(values[column])
        if wrong.any():
            line = table.cells.index[int(wrong.argmax())]
            value = str(table.cells[column].iloc[int(wrong.argmax())])
            problems.append(
                f"{table.at(line)}: {column} {value!r} is not a number ({int(wrong.sum())} such "
                f"values); say that it means a missing reading with --missing {value!r}, or set "
                "--decimal"
            )
    return values if len(problems) == before else None


def _stem(path: Path) -> str:
    """The name of a file without its endings, such as `.csv.gz`."""
    stem = re.sub(r"\.(gz|csv|txt|tsv|parquet|xlsx)$", "", path.name, flags=re.IGNORECASE)
    return re.sub(r"\.csv$", "", stem, flags=re.IGNORECASE)


def _converted(name: str, values: pd.Series, options: Options) -> pd.Series:
    """An input in the unit of its feature."""
    unit = dict(options.units).get(name)
    factor, summand = UNITS[name][unit] if unit is not None and name in UNITS else (1.0, 0.0)
    return values * factor + summand


def _clean(
    pieces: dict[str, list[Piece]],
    zones: dict[str, ZoneInfo],
    options: Options,
    problems: list[str],
) -> dict[str, Meter]:
    meters: dict[str, Meter] = {}
    names = list(pieces)
    try:
        folder.file_names(names, "")
    except DataError as error:
        problems.append(str(error))
    for name in names:
        try:
            meters[name] = clean(name, pieces[name], zones[name], options)
        except DataError as error:
            problems += str(error).splitlines()
    lengths = {meter.minutes for meter in meters.values()}
    if len(lengths) > 1:
        some = {meter.minutes: name for name, meter in meters.items()}
        problems.append(
            f"{', '.join(f'{name!r}: {minutes} minutes' for minutes, name in some.items())}: the "
            f"meters have different intervals; set --interval {max(lengths)}"
        )
    return meters
