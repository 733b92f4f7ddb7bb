"""Reads raw exports: text, workbooks or Parquet, with one file per meter, one column per meter, or
a column of meters' names.

The form of a file, its layout and the format of its stamps are detected. Where a file can be read
in more than one way, a key of `data.meters` decides. A clean file needs no key.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from plfl.base.errors import DataError
from plfl.config.messages import flow
from plfl.config.named import FEATURES, PLAUSIBLE, UNITS
from plfl.config.sections import Meters
from plfl.data.checks import collected, counted
from plfl.data.meters import layout, numbers, quantities, stamps, tables
from plfl.data.meters.cleaning import POWER, Meter, Piece, clean, in_utc
from plfl.data.meters.formats.reading import FormatReading
from plfl.data.meters.formats.reading import read as read_by_format
from plfl.data.meters.formats.recognition import recognise
from plfl.data.meters.layout import Layout, unit_of
from plfl.data.meters.paths import client_name
from plfl.data.meters.shapes import straight
from plfl.data.meters.stamps import Times, zone_named
from plfl.data.meters.tables import RawFile, RawTable

_WITH_UNIT = re.compile(r"(?<=\S)\s*[\[(]\s*[kM]?Wh?\s*[\])]$", re.IGNORECASE)
"""A unit after the name of a meter."""
MOST_PROBLEMS = 50
"""Problems that are listed: thousands of meters can have the same one."""
Progress = Callable[[str, int, int], None]
"""Is called with what is being read, the number of finished steps, and the number of all steps."""


@dataclass
class Exports:
    """The content of raw exports."""

    meters: dict[str, Meter] = field(default_factory=dict)
    """The series by the name of the meter, as far as they could be read."""
    forms: dict[Path, str] = field(default_factory=dict)
    """The detected form of each file, in words."""
    formats: dict[Path, str | None] = field(default_factory=dict)
    """The name of the known format of each file; None: it has none."""
    files: dict[str, Path] = field(default_factory=dict)
    """For each meter, the first file with readings of it."""
    names: list[str] = field(default_factory=list)
    """The names of all meters, also of those that are not selected."""
    keys: dict[str, Meters] = field(default_factory=dict)
    """The keys of each meter, with what its files state about units and stamps."""
    local: dict[Path, list[str]] = field(default_factory=dict)
    """The files whose stamps have no UTC offset, with the names of their meters, if readable."""
    problems: list[str] = field(default_factory=list)
    """What is wrong or ambiguous."""

    def report(self) -> list[str]:
        """Lines about the forms of the files, and what is in each meter."""
        return [
            *(f"{path}: {form}" for path, form in self.forms.items()),
            "all times in local standard time, whatever clocks do in summer:",
            *(f"{name}: {meter.summary}" for name, meter in self.meters.items()),
        ]

    def refuse(self, *head: str) -> None:
        """Refuse the exports if there are problems, of which the first are listed below `head`."""
        listed = self.problems[:MOST_PROBLEMS]
        if len(self.problems) > MOST_PROBLEMS:
            listed.append(f"and {counted(len(self.problems) - MOST_PROBLEMS, 'more problem')}")
        if listed:
            raise DataError("\n".join([*head, *listed]))


def read_exports(
    paths: Iterable[Path],
    meters: Meters,
    interval: int | None,
    names: Mapping[Path, str] | None = None,
    progress: Progress | None = None,
) -> Exports:
    """The meters in raw exports, cleaned, and the problems of all files.

    `meters` says what cannot be detected, or should differ from what is. `interval`: minutes
    between the rows of the series; None: those of the exports. `names`: of the meters of files with
    a single one, by default the file's. `progress` is called for every file and every meter.
    """
    exports = Exports()
    weather = None
    if meters.weather is not None:
        with collected(exports.problems):
            weather = _weather(meters.weather, meters, exports)
        elsewhere = meters.inputs if weather is None else weather
        columns_left = {role: c for role, c in meters.columns.items() if role not in elsewhere}
        meters = meters.model_copy(update={"columns": columns_left})
    files = list(paths)
    pieces = _pieces(files, meters, names or {}, progress, exports)
    for done, (name, of_meter) in enumerate(pieces.items(), len(pieces)):
        if progress is not None:
            progress(name, done, 2 * len(pieces))
        with collected(exports.problems):
            keys = exports.keys[name]
            zone = zone_named(keys.timezone_of(name))
            exports.meters[name] = clean(name, of_meter, zone, keys, interval, weather)
    lengths = {meter.minutes: name for name, meter in exports.meters.items()}
    if len(lengths) > 1:
        some = ", ".join(f"{name!r}: {minutes} minutes" for minutes, name in lengths.items())
        exports.problems.append(
            f"{some}: the meters have different intervals; set data.meters.interval: {max(lengths)}"
        )
    exports.problems = list(dict.fromkeys("\n".join(exports.problems).splitlines()))
    return exports


def _pieces(
    files: Sequence[Path],
    meters: Meters,
    names: Mapping[Path, str],
    progress: Progress | None,
    exports: Exports,
) -> dict[str, list[Piece]]:
    """The readings of each meter in all files, as far as they can be read. What the files are, and
    what is wrong with them, is added to `exports`."""
    pieces: dict[str, list[Piece]] = {}
    for done, path in enumerate(files):
        if progress is not None:
            size = path.stat().st_size / 1e6 if path.is_file() else 0
            progress(f"{path.name}, {size:.0f} MB", done, 2 * len(files))
        opened: list[RawFile] = []
        with collected(exports.problems):
            opened = tables.open_files(path, meters)
        for raw in opened:
            with collected(exports.problems):
                file = _understood(raw, meters)
                table, keys = file.table, file.keys
                times, parts = _parts(file, names.get(path), exports)
                if file.needs_place(times):
                    exports.local[table.path] = list(parts)
                if not meters.join_files:
                    _check_unique(table, parts, pieces)
                for name, piece in parts.items():
                    if exports.keys.setdefault(name, keys) != keys:
                        raise DataError(
                            f"{table.path}: {name} has another unit, or other stamps, than in "
                            f"{exports.files[name]}; rename the file, or make them equal"
                        )
                    pieces.setdefault(name, []).append(piece)
                    exports.files.setdefault(name, table.path)
                exports.forms[table.path] = (
                    file.by_format.words
                    if file.by_format
                    else _form(table, file.columns, times, keys)
                )
                exports.formats[table.path] = file.format_name
    return pieces


@dataclass(frozen=True)
class _Understood:
    """A file of which is known where its times, meters and loads are."""

    table: RawTable
    columns: Layout
    keys: Meters
    """The keys for the file, with what it states."""
    by_format: FormatReading | None = None
    """What its format says, if it has a known one."""
    format_name: str | None = None

    def needs_place(self, times: Times) -> bool:
        """Whether only the user can say the zone of its stamps."""
        return times.offset is None if self.by_format is None else self.by_format.needs_place


def _understood(raw: RawFile, meters: Meters) -> _Understood:
    """A file as its format says, or as its columns are called."""
    if found := recognise(raw, meters):
        file = read_by_format(found, meters)
        return _Understood(file.table, file.columns, file.keys, file, found.name)
    table = straight(tables.read(raw, meters), meters)
    columns = layout.find(table, meters)
    return _Understood(table, columns, _keys(table, columns, meters))


def _keys(table: RawTable, columns: Layout, meters: Meters) -> Meters:
    """The keys for a file, with what it states about its unit and stamps. Loads in several units,
    registers of power, and a unit that stands above the header only, are refused."""
    keys: dict[str, object] = {} if columns.stamp is None else {"stamp": columns.stamp}
    if "stamp" in meters.model_fields_set and columns.stamp not in (None, meters.stamp):
        raise DataError(
            f"{table.path}: its stamps are the {columns.stamp}s of intervals; remove "
            "data.meters.stamp"
        )
    if meters.unit is None:
        unit_in = {unit: column for column in columns.readings if (unit := unit_of(table, column))}
        stated = sorted({*unit_in} & {*quantities.LOADS})
        if len(stated) > 1:
            raise DataError(
                f"{table.path}: has readings in {' and '.join(stated)}; choose a column: "
                f"data.meters.columns: {flow({'load': unit_in[stated[-1]]})}, or write all in one "
                "unit"
            )
        if not stated and table.above:
            raise DataError(
                f"{table.path}: {', '.join(sorted(table.above))} stands above the header; if the "
                f"readings are in it, set data.meters.unit: {min(table.above)}"
            )
        keys["unit"] = stated[0] if stated else "kWh"
    of_file = meters.model_copy(update=keys)
    if of_file.cumulative and of_file.unit in POWER:
        raise DataError(
            f"{table.path}: is in {of_file.unit}, but registers count energy; if the unit in its "
            f"header is wrong, set data.meters.unit: {of_file.unit}h"
        )
    return of_file


def _weather(path: Path, meters: Meters, exports: Exports) -> pd.DataFrame:
    """The measurements of a weather station, by role, indexed by the time in UTC when they became
    known. Keys about the form of files are for the meters; the form of this file is detected. A
    file without any of the inputs is refused."""
    detected = {"header": None, "date_format": None, "decimal": None, "stamp": "end"}
    # A given unit is not compared with that of a column: a station does not measure energy.
    keys = {"only": [], "leave_out": [], "exports": [path], "unit": "kWh"}
    station = meters.model_copy(update=detected | keys)
    zone = meters.weather_timezone or meters.timezone
    try:
        raw, *_ = tables.open_files(path, station)
        table = tables.read(raw, station)
        there = {role: c for role, c in meters.columns.items() if c in table.cells}
        roles = [role for role in there if role in meters.inputs]
        if not roles:
            wanted = ", ".join(map(repr, meters.inputs.values())) or "inputs"
            raise DataError(
                f"{path}: no {wanted} among its columns {', '.join(map(repr, table.cells))}; say "
                "which of them the model reads, as data.meters.columns.temperature (°C)"
            )
        there["load"] = there[roles[0]]  # its first input is read like a load
        station = station.model_copy(update={"columns": there})
        of_station = layout.find(table, station)
        if of_station.name is not None:
            raise DataError(f"{path}: has several stations ({of_station.name!r}); keep one of them")
        times, parts = _parts(_Understood(table, of_station, station), None, Exports())
        ((name, piece),) = parts.items()
        known = in_utc(piece, name, zone_named(zone), station, Counter())
    except DataError as error:
        message = str(error).replace("data.meters.timezone", "data.meters.weather_timezone")
        if any(f"data.meters.{key}" in message for key in detected):
            message += " (these keys are those of the meters; of the weather, change the file)"
        raise DataError(message) from None
    if times.offset is None:
        exports.local[path] = []
    units = {role: FEATURES[role] for role in roles if role in FEATURES} | meters.units
    listed = ", ".join(f"{role} in {units.get(role, 'a unit of its own')}" for role in roles)
    exports.forms[path] = f"weather, {listed}: {_form(table, of_station, times, station)}"
    return known[roles].sort_index()


def _form(table: RawTable, columns: Layout, times: Times, keys: Meters) -> str:
    """The detected form of a file, in words."""
    words = f"{table.form}, {columns.kind}, stamps {times.format}"
    if columns.stamp is not None:
        words += f" at the {columns.stamp} of intervals"
    if keys.unit != "kWh":
        words += f", in {keys.unit}"
    if columns.name is not None:
        words += f", meters named by {columns.name!r}"
    if left_out := [f"{column!r} ({why})" for column, why in columns.left_out.items()]:
        more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
        words += f", no loads: {', '.join(left_out[:5])}{more}"
    return words


def _check_unique(
    table: RawTable, parts: Iterable[str], before: Mapping[str, Sequence[Piece]]
) -> None:
    """Refuse meters that an earlier file also has, and suggest how else the files can be read."""
    again = [name for name in parts if name in before]
    if not again:
        return
    shown = ", ".join(map(repr, again[:3])) + (" …" if len(again) > 3 else "")
    first = before[again[0]][0]
    raise DataError(
        f"{table.path}: {first.table.path} has {shown}, too; if they are several meters, rename "
        "the files or columns; if every file holds one meter, set data.meters.columns: "
        f"{flow({'load': first.columns[again[0]]})}; if the files hold parts of the same meters, "
        "set data.meters.join_files: true"
    )


def _parts(
    file: _Understood, alone: str | None, exports: Exports
) -> tuple[Times, dict[str, Piece]]:
    """The stamps of a file, and the readings of each meter in it that is selected, named `alone` if
    the file has only one. The names of all its meters are added to those of `exports`. The message
    of an error has a line for the stamps and for each column that is wrong."""
    table, columns, meters = file.table, file.columns, file.keys
    problems: list[str] = []
    with collected(problems):
        times = file.by_format.times if file.by_format else None
        times = times or stamps.parse(table, columns.time, meters)
        if file.needs_place(times):
            exports.local[table.path] = []
    wanted, meter_of = list(columns.readings), {}
    if columns.name is None:
        named = _named(table, columns, alone).items()
        meter_of = {column: _meter(name, table, meters) for column, name in named}
        exports.names += dict.fromkeys(meter_of.values())
        wanted = [name for name, meter in meter_of.items() if layout.is_chosen(meter, meters)]
    with collected(problems):
        values = numbers.read_numbers(table, [*wanted, *columns.inputs.values()], meters)
    if problems:
        raise DataError("\n".join(problems))
    inputs = pd.DataFrame(
        {role: _converted(role, values[c], meters) for role, c in columns.inputs.items()},
        index=table.cells.index,
    )
    for role, column in columns.inputs.items():
        with collected(problems):
            _check_plausible(table, role, values[column], inputs[role])
    if problems:
        raise DataError("\n".join(problems))
    parts: dict[str, Piece] = {}
    if columns.name is None and not wanted:
        return times, parts
    if columns.name is None:
        sums: dict[str, pd.Series] = {}
        first_of: dict[str, str] = {}
        for column in wanted:
            meter = meter_of[column]
            sums[meter] = sums[meter] + values[column] if meter in sums else values[column]
            first_of.setdefault(meter, column)
        readings = pd.DataFrame(np.array(list(sums.values())).T, table.cells.index, list(sums))
        return times, dict.fromkeys(sums, Piece(table, times, readings, inputs, first_of))
    column = columns.readings[0]
    of_meters = numbers.read_names(table, columns.name)
    lines_of = of_meters.groupby(of_meters, sort=False).groups
    meter_of = {str(register): _meter(str(register), table, meters) for register in lines_of}
    exports.names += dict.fromkeys(meter_of.values())
    for register, lines in lines_of.items():
        meter = meter_of[str(register)]
        if layout.is_chosen(meter, meters):
            rows = values[column].loc[lines].to_frame(meter)
            piece = Piece(table, times, rows, inputs.loc[lines], {meter: column})
            parts[meter] = _sum(parts[meter], piece) if meter in parts else piece
    return times, parts


def _named(table: RawTable, columns: Layout, alone: str | None) -> dict[str, str]:
    """The names of meters, or of their registers, by their columns; `alone` of a lone one."""
    plain = {column: _WITH_UNIT.sub("", column) for column in columns.readings}
    if columns.kind == "wide":
        is_unique = len({*plain.values()}) == len(plain)
        return plain if is_unique else {column: column for column in plain}
    named = _WITH_UNIT.sub("", columns.meter or "")
    return {columns.readings[0]: alone or named or client_name(table.path)}


def _meter(register: str, table: RawTable, meters: Meters) -> str:
    """The name of the meter to which a register belongs."""
    if not meters.add:
        return register
    return re.sub(meters.add, "", register).strip(" _-") or client_name(table.path)


def _sum(first: Piece, second: Piece) -> Piece:
    """The sums of two registers of a meter, at the times of the first one; NaN without a second."""

    def by_time(piece: Piece) -> pd.DataFrame:
        stamps = piece.times.stamps.loc[piece.readings.index]
        again = stamps.groupby(stamps).cumcount()  # of the hour that clocks repeat, or duplicates
        return piece.readings.set_axis(pd.MultiIndex.from_arrays([stamps, again]))

    total = by_time(first) + by_time(second).reindex(by_time(first).index)
    return replace(first, readings=total.set_axis(first.readings.index))


def _converted(role: str, values: pd.Series, meters: Meters) -> pd.Series:
    """An input in the unit of its feature."""
    if role in meters.units and role in UNITS:
        factor, summand = UNITS[role][meters.units[role]]
        return values * factor + summand
    return values


def _check_plausible(table: RawTable, role: str, written: pd.Series, values: pd.Series) -> None:
    """Refuse an input that has values which its feature cannot have, such as -9999 °C. `written`:
    the numbers of the file; `values`: the same in the unit of the feature."""
    lowest, highest = PLAUSIBLE.get(role, (-np.inf, np.inf))
    is_impossible = (values < lowest) | (values > highest)
    if not is_impossible.any():
        return
    at = int(is_impossible.to_numpy().argmax())
    value = f"{written.iloc[at]:.15g}"
    count = counted(int(is_impossible.sum()), "such value")
    span = f"from {lowest:g} on" if highest == np.inf else f"between {lowest:g} and {highest:g}"
    raise DataError(
        f"{table.at(written.index[at])}: {written.name} {value} is no {role}, which is {span} "
        f"{FEATURES[role]} ({count}); say that it means a missing reading with "
        f"data.meters.missing: [{value}], or set data.meters.units.{role} "
        f"({', '.join(UNITS[role])})"
    )
