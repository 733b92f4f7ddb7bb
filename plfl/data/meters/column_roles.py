"""The columns of a raw file with the time, the readings and the names of meters."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import pandas as pd

from plfl.base.errors import DataError, Problem, data_error, suggest_name
from plfl.base.keys import Key
from plfl.config.meters import Meters
from plfl.data.meters import file_contents, quantities, tables
from plfl.data.meters.dates import DATE_AT_BEGINNING, DATE_DIGITS, DATE_SPAN
from plfl.data.meters.file_contents import RawFile
from plfl.data.meters.formats.recognition import RecognisedFile
from plfl.data.meters.formats.schema import Format
from plfl.data.meters.loads import (
    BESIDE,
    INVERTER_OUTPUT,
    SAMPLE_ROWS,
    LoadSearch,
    ask_about_factors,
    ask_about_names,
    ask_about_values,
    ask_about_whole_numbers,
    ask_which_load,
    is_whole,
    names_meter,
)
from plfl.data.meters.meter_selection import is_chosen, meter_of, name_list
from plfl.data.meters.numbers import as_text, is_number, share_of_cells
from plfl.data.meters.quantities import without_unit
from plfl.data.meters.questions import choices, column_key, question
from plfl.data.meters.shapes import columns_of_day, names_hours, simplify
from plfl.data.meters.stamps import (
    HOURS_AND_MINUTES,
    SIGNED_OFFSET,
    are_local,
    are_of_zone,
    fit_negated,
    names_offset,
    names_utc,
    parse,
    read_offsets,
    zone_in,
    zone_named,
)
from plfl.data.meters.tables import RawTable
from plfl.data.meters.vocabulary import WORDS

_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s?[AaPp][Mm])?")
_CLOCK_WITH_POINT = re.compile(r"(?:[01]?\d|2[0-4])\.[0-5]\d")
_NO_MIDNIGHT = re.compile(r"\d:\d\d(?!:?\d*$)|[1-9]\d?:\d\d|0\d:\d[1-9]")
_OF_QUERY = ("_start", "_stop")
"""Columns of InfluxDB with the span of the whole query."""
_MOST_QUALITIES = 12
_MOST_KINDS = 20
"""Most values of a column that says what its rows measure."""
_FIRST_OF_LIST = "0"
"""The column of the first values in rows that are lists."""
_SECONDS = "1000000000", "2100000000"
"""The years 2001 to 2036 in seconds since 1970."""
_NO_LOADS = "what is no load by its name"
_HOUR = 60
_OFTEN = 0.4
"""Times occur more than once if this part of the rows has one of a row before."""
_STEADY_PART = 0.95
"""The part of the rows in which starts and ends are equally far apart."""


def find_format(raw: RawFile, meters: Meters, is_settled: bool = False) -> RecognisedFile:
    """The format of a file in no known one: from the keys, otherwise from the names of its columns.
    `is_settled`: see `find_roles`.

    Raises:
        DataError: a column is missing, or its meaning is ambiguous.
    """
    table = simplify(tables.read(raw, meters), meters)
    rows = rows_of_other_things(table, meters)
    for column, values in rows.items():
        table = replace(table, cells=table.cells[~as_text(table.cells[column]).isin(values)])
    _refuse_other_things(table, meters)
    day_columns = (
        [] if {"timestamp", "load"} & {*meters.columns} else columns_of_day([*table.cells])
    )
    dates = dates_in(table) if day_columns else []
    if len(dates) == 1 and not has_clock(table.cells[dates[0]]):  # not one of each of 24 meters
        plain = table.cells.drop(columns=day_columns[1:])
        columns = meters.columns | {"load": day_columns[0]}
        roles = find_roles(
            replace(table, cells=plain), meters.model_copy(update={"columns": columns})
        )
        roles = replace(roles, time=(dates[0],), stamp="start", offset=None)
        table = replace(table, form=f"{table.form}, one row per day")
        unit = table.unit_of(day_columns[0])
        stated = {} if unit is None else {unit: day_columns[0]}
    else:
        day_columns, roles = [], find_roles(table, meters, is_settled)
        stated = {unit: c for c in roles.readings if (unit := table.unit_of(c))}
        if not stated and roles.name is not None:
            stated = _unit_of_names(table, roles.name, meters)
    names = _names_of_meters(roles)
    is_by_column = roles.name is None and (len(roles.readings) > 1 or roles.meter is not None)
    notes = "" if roles.name is None else f", meters named by {roles.name!r}"
    beside = [column for column, why in roles.left_out.items() if why.startswith(BESIDE)]
    notes += f", read: {roles.readings[0]!r}" if beside and len(roles.readings) == 1 else ""
    by_interest = sorted(
        roles.left_out, key=lambda c: (c not in beside, not WORDS.grid.has_word_of(c))
    )
    if left_out := [f"{column!r} ({roles.left_out[column]})" for column in by_interest]:
        remainder = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
        notes += f", no loads: {', '.join(left_out[:5])}{remainder}"
    for column, values in rows.items():
        notes += f", left out: rows whose {column!r} is {name_list(values)}"
    quality = _quality(table)
    if quality and len(marks := [*quality["measured"], *quality["estimated"]]) > 1:
        notes += f", read whatever {quality['column']!r} says: {name_list(marks)}"
    time: dict[str, object] = {
        "column": roles.time[0],
        "of_day": day_columns,
        "marks": roles.stamp,
    }
    time |= {"clock": roles.time[1:], "format": meters.date_format or []}
    if roles.offset is not None:
        time |= {"offset": roles.offset, "zone": "offset"}
        notes += f", UTC offsets in {roles.offset!r}"
    elif offsets := [column for column in map(str, table.cells) if names_offset(column)]:
        notes += f", not read as UTC offsets: {name_list(offsets)}"
    content = {
        "name": "found out",
        "about": table.form,
        "document": "",
        "date": date.min,
        "recognise": {"header": [[column] for column in (*roles.time, *roles.readings[:9])]},
        "time": time | {"marks": roles.stamp or meters.stamp},
        "load": {
            "columns": [] if day_columns else roles.readings,
            "unit": _unit(table, stated, meters),
            "cumulative": meters.cumulative,
        },
        "rows": [{"column": c, "leave_out": {_NO_LOADS: values}} for c, values in rows.items()],
        "quality": quality,
        "meters": {"column": roles.name or [], "by_column": is_by_column, "add": meters.add},
    }
    return RecognisedFile(
        raw,
        Format.model_validate(content),
        name=None,
        cells=table.cells,
        separator=table.separator,
        row_word=table.row_word,
        table=table,
        about=f"{table.form}, {roles.kind}",
        notes=notes,
        is_stamp_stated=roles.stamp is not None,
        column_names=names,
    )


def _unit(table: RawTable, unit_in: Mapping[str, str], meters: Meters) -> str | None:
    """The unit of a file: the one in the keys, that which its columns state, or that in its name;
    None: nothing says it. Loads in several units, registers of power, and a unit that stands above
    the header only, are refused."""
    stated_units = sorted({*unit_in} & {*quantities.LOAD_UNITS})
    if meters.unit is None and len(stated_units) > 1:
        column = column_key("load", unit_in[stated_units[-1]])
        raise question(
            table,
            f"has readings in {' and '.join(stated_units)}",
            f"choose a column: {column}, or write all in one unit",
            column,
        )
    if meters.unit is None and not stated_units and table.above:
        unit_above = Key("data.meters.unit", min(table.above))
        raise question(
            table,
            f"{', '.join(sorted(table.above))} stands above the header",
            f"if the readings are in it, set {unit_above}",
            unit_above,
        )
    unit = meters.unit or (
        stated_units[0] if stated_units else quantities.unit_in_file_name(table.path.stem)
    )
    if meters.cumulative and unit is not None and not unit.endswith("h"):
        raise data_error(
            table.path,
            f"is in {unit}, but registers count energy",
            f"if the unit in its header is wrong, set {Key('data.meters.unit', f'{unit}h')}",
        )
    return unit


def _unit_of_names(table: RawTable, column: str, meters: Meters) -> dict[str, str]:
    """The unit of energy at the end of the names of all chosen meters, such as "house_wh", with the
    column of the names; empty if there is none, or they differ."""
    names = [str(name) for name in as_text(table.cells[column]).unique()]
    units = {quantities.unit_of(name) for name in names if is_chosen(name, meters)}
    unit = units.pop() if len(units) == 1 else None
    return {unit: column} if unit in quantities.ENERGY else {}


def _quality(table: RawTable) -> dict[str, Any] | None:
    """The column of quality marks and what it has, the most frequent mark first, as a format says
    it; None if there is none."""
    for column in map(str, table.cells):
        if WORDS.quality.has_word_of(column) and not is_number(table, column):
            marks = [str(mark) for mark in as_text(table.cells[column]).value_counts().index]
            estimated = [mark for mark in marks if WORDS.estimated.has_word_of(mark)]
            measured = [mark for mark in marks if mark not in estimated]
            if len(marks) <= _MOST_QUALITIES:
                return {"column": column, "measured": measured, "estimated": estimated}
    return None


def _names_of_meters(roles: "ColumnRoles") -> dict[str, str]:
    """The names of meters by their columns, without a unit at the end, if that leaves them apart;
    of a lone one, the name of its column if it is not that of what is measured."""
    if len(roles.readings) < 2:
        return {} if roles.meter is None else {roles.meter: without_unit(roles.meter)}
    plain = {column: without_unit(column) for column in roles.readings}
    return plain if len({*plain.values()}) == len(plain) else {column: column for column in plain}


@dataclass(frozen=True)
class ColumnRoles:
    """The columns of a raw file, by what they hold."""

    time: tuple[str, ...]
    """Column of the stamp, or the two columns of its date and time."""
    readings: tuple[str, ...]
    """Columns of readings."""
    name: str | None
    """Column with the names of meters, in long files."""
    inputs: dict[str, str]
    """Columns of inputs, by the name of the input."""
    left_out: dict[str, str]
    """Columns of numbers that are not read, and why."""
    meter: str | None = None
    """Name of the meter if the only column of readings has it; None: the file has it."""
    stamp: str | None = None
    """What the stamps mark, `start` or `end`, if the columns say it."""
    offset: str | None = None
    """Column with the UTC offset of each stamp."""

    @property
    def kind(self) -> str:
        """Its name in reports."""
        if self.name is not None:
            return "long"
        return "wide" if len(self.readings) > 1 else "one meter"


def find_roles(table: RawTable, meters: Meters, is_settled: bool = False) -> ColumnRoles:
    """The roles of the columns of a file: from `meters.columns`, otherwise detected. If several
    columns are possible, a column `load` has the readings and a column `timestamp` the time.
    `is_settled`: a study has read such files, so that generation may be what is to be forecast.

    Raises:
        DataError: a column is missing, or its role is ambiguous.
    """
    cells, columns = table.cells, meters.columns
    _check_named_columns(table, meters)
    if not len(cells):
        text = "holds no readings"
        raise DataError(Problem(table.path, text, "export it again", kind=file_contents.NO_READING))
    time_columns = (columns.get(role) for role in ("timestamp", "time_of_day"))
    time, stamp = tuple(column for column in time_columns if column is not None), None
    if not time:
        time, stamp = _time(table)
    else:
        dates = dates_in(table)
        start = _start_column(dates) or (_pair(table, dates) or ("",))[0]
        stamp = "start" if start == time[0] else "end"
        if not start:
            stamp = _mark_of(time[-1]) if len(dates) == 1 else None
    inputs, name = meters.input_columns, columns.get("meter")
    offset = _offset_column(table, time, meters)
    other_columns = [
        str(column)
        for column in cells
        if column not in (*time, offset, name, *inputs.values()) and not names_offset(str(column))
    ]
    # Of several columns with a time, such as start and end, one was chosen.
    other_columns = [
        column
        for column in other_columns
        if not (_is_time(table, column) or _is_clock(table, column))
    ]
    measured = [column for column in other_columns if is_number(table, column)]
    numeric = {*measured}  # thousands of columns in wide files
    words = [column for column in other_columns if column not in numeric]
    load = columns.get("load", "load" if "load" in measured else None)
    left_out = (
        {} if load is not None else LoadSearch(table, time, meters).columns_without_loads(measured)
    )
    measured_loads = [column for column in measured if column not in left_out]
    readings = measured_loads if load is None else [load]
    ask_about_factors(table, meters)
    if is_settled:
        readings = readings or _take_generation(left_out)
    elif load is None and not meters.only:
        _refuse_generation(table, readings, left_out)
    if not readings:
        listing = ", ".join(map(repr, time)) + "".join(
            f", {column!r} ({reason})" for column, reason in left_out.items()
        )
        remedy = choices("load", list(left_out)) if left_out else Key("data.meters.columns.load")
        raise question(
            table,
            f"has no column of loads beside {listing}",
            f"export it with readings, or name their column in {remedy}",
            *(column_key("load", column) for column in [*left_out][:1]),
        )
    if name is None:
        name = _name(table, time, readings, list(dict.fromkeys([*words, *left_out, *measured])))
        if name is not None:
            ask_about_values(table, name, meters)
        elif load is None:
            ask_about_names(table, readings, words)
    readings = [column for column in readings if column != name]
    left_out.pop(str(name), None)
    if load is None and not meters.only:
        chosen_readings = [
            column
            for column in readings
            if is_chosen(column, meters)
            and is_chosen(meter_of(without_unit(column), meters.add), meters)
        ]
        ask_about_whole_numbers(table, chosen_readings)
        ask_which_load(table, time, chosen_readings, meters)
    if len(readings) > 1 and (name is not None or not meters.exports):
        context = f" beside {name!r}" if name is not None else ", but the folder has one meter each"
        raise data_error(
            table.path,
            f"has several columns of numbers{context}",
            f"choose that of the readings: {choices('load', readings)}",
        )
    is_alone = load is None and name is None and len(readings) == 1
    meter = readings[0] if is_alone and not quantities.names_quantity(readings[0]) else None
    stamp = _stated_mark(table, time, stamp, meters)
    return ColumnRoles(time, tuple(readings), name, inputs, left_out, meter, stamp, offset)


def _take_generation(left_out: dict[str, str]) -> list[str]:
    """Take those from the columns that are left out that have generation only by words that names
    of meters have, too."""
    columns = [
        column
        for column in left_out
        if WORDS.generation_in_names.has_word_of(column) and quantities.names_generation(column)
    ]
    for column in columns:
        del left_out[column]
    return columns


def _refuse_generation(
    table: RawTable, readings: Sequence[str], left_out: Mapping[str, str]
) -> None:
    """Refuse a file whose columns have generation by their names, and nothing that may be the
    consumption but one column that does not say which of them it has."""
    generation = [
        column
        for column in (*readings, *left_out)
        if quantities.names_generation(column) or left_out.get(column) == INVERTER_OUTPUT
    ]
    other_columns = [
        column
        for column in readings
        if column not in generation and len(table.cells[column].unique()) > 1
    ]
    is_lone_open = len(other_columns) == 1 and quantities.is_undirected(other_columns[0])
    if generation and (not other_columns or is_lone_open):
        either = "".join(f"; {column!r} may be either" for column in other_columns)
        raise question(
            table,
            "has no consumption by the names of its columns, but generation: "
            f"{name_list(generation)}{either}",
            "export the consumption, or choose the column that is to be forecast: "
            f"{choices('load', [*other_columns, *generation])}",
        )


def _offset_column(table: RawTable, time: tuple[str, ...], meters: Meters) -> str | None:
    """The column with the UTC offset of each stamp, if the stamps are local times, and the offsets
    those of the place, if it is known; else None."""
    zones = [meters.timezone] if "timezone" in meters.model_fields_set else []
    zones += meters.timezones.values()
    for column in map(str, table.cells) if not any(map(zone_in, time)) else ():
        is_signed = bool(SIGNED_OFFSET.fullmatch(str(table.cells[column].iloc[0])))
        if not (names_offset(column) or (is_signed and WORDS.zones.has_word_of(column))):
            continue
        if (offsets := read_offsets(table.cells[column])) is not None:
            stamps = parse(table, time, meters).stamps
            if stamps.dt.tz is not None:
                return column
            if zones:
                is_known = any(are_of_zone(stamps, offsets, zone_named(zone)) for zone in zones)
            else:
                is_known = is_signed or names_utc(column) or not fit_negated(stamps, offsets)
            return column if is_known and are_local(stamps, offsets) else None
    return None


def _stated_mark(
    table: RawTable, time: Sequence[str], mark: str | None, meters: Meters
) -> str | None:
    """What the stamps mark: what the form of the file says, or else `mark`, which the columns say.
    A contradiction to the keys is refused."""
    mark = table.stamp or mark
    if mark is None or "stamp" not in meters.model_fields_set:
        return mark
    if len(time) == 1 == len(dates_in(table)):
        mark = table.stamp  # the name of a lone column only suggests it
    if mark not in (None, meters.stamp):
        raise data_error(
            table.path,
            f"its stamps are the {mark}s of intervals",
            f"remove {Key('data.meters.stamp')}",
        )
    return mark


def _check_named_columns(table: RawTable, meters: Meters) -> None:
    """Refuse columns that the user names but the file lacks or has more than once, unless they are
    those of the first of tables side by side."""
    problems = []
    is_first = len(meters.columns) > 1 and table.repeated_names >= {*meters.columns.values()}
    for role, column in meters.columns.items():
        column_and_key = f"{column!r} ({Key(f'data.meters.columns.{role}')})"
        if column not in table.cells:
            names = list(map(str, table.cells))
            problems.append(
                f"{table.path}: has no column {column_and_key}; it has {name_list(names)}"
                f"{suggest_name(column, names)}"
            )
        elif column in table.repeated_names and not is_first:
            problems.append(
                f"{table.path}: has several columns {column_and_key}; rename or remove the others"
            )
    if problems:
        raise DataError(*problems)


def dates_in(table: RawTable) -> list[str]:
    """The columns with a date or a time, without those about when a row was written, and without
    those that are the same in all rows, such as the start of a contract, beside a full stamp.
    Beside times of day, they may be the date of all rows."""
    dates = [name for name in map(str, table.cells) if _is_time(table, name)]
    dates = [
        name for name in dates if name not in _OF_QUERY and not WORDS.about_rows.has_word_of(name)
    ] or dates
    if len(dates) < 2 or any(_is_clock(table, name) for name in map(str, table.cells)):
        return dates
    changing = [name for name in dates if len(table.cells[name].unique()) > 1]
    return changing if any(has_clock(table.cells[name]) for name in changing) else dates


def _time(table: RawTable) -> tuple[tuple[str, ...], str | None]:
    """The columns of the time, and what their stamps mark if the columns say it.

    Of the start and the end of an interval, the start is read: it tells apart the two hours that
    clocks repeat.
    """
    cells = table.cells
    times = dates_in(table)
    clocks = [name for name in map(str, cells) if _is_clock(table, name)]
    if len(times) > 1 and "timestamp" in times:
        return ("timestamp",), None
    start_column = _start_column(times)
    if len(times) == 1:
        if not clocks or has_clock(cells[times[0]]):
            return (times[0],), _mark_of(times[0])
        if len(clocks) == 1:
            return (times[0], clocks[0]), _mark_of(clocks[0])
        if clock := _start_column(clocks):
            return (times[0], clock), "start"
    elif start_column and has_clock(cells[start_column]):
        return (start_column,), "start"
    elif start_column and (clock := _start_column(clocks)):
        return (start_column, clock), "start"
    if pair := _pair(table, times):
        start, end, minutes = pair
        if _mark_of(start) == "start" or _mark_of(end) == "end":
            return (start,), "start"
        raise question(
            table,
            f"{end!r} is always {minutes} minutes after {start!r}",
            "if they are the ends and the starts of intervals, set "
            f"{choices('timestamp', [start])}",
            column_key("timestamp", start),
        )
    if times and (instant := _instant_of_all(table, times)):
        return (instant,), _mark_of(instant)
    raise _question_of_time(table, times, clocks)


def _question_of_time(table: RawTable, times: Sequence[str], clocks: Sequence[str]) -> DataError:
    """The error that asks which column has the time, or which of tables side by side, that
    may be no meters, is read: times of one tell nothing about the readings of another."""
    columns = list(map(str, table.cells))
    if times and times[0] in table.repeated_names:
        begin, end, *_ = [*map(columns.index, times), len(columns)]
        loads = [name for name in columns[begin + 1 : end] if is_number(table, name)]
        answers = [column_key("timestamp", times[0]), *(column_key("load", n) for n in loads[:1])]
        return question(
            table,
            f"has {len(times)} tables side by side, whose names may not be those of meters",
            "write such as Meter A and Meter B, in one unit, into the header or the line above "
            "it, or choose the columns of one: "
            f"{' '.join(map(str, answers))}",
            *answers,
        )
    ways = choices("timestamp", times or columns)
    if clocks:
        ways += (
            f"; and that of the time of day beside one of dates: {choices('time_of_day', clocks)}"
        )
    return question(
        table,
        "the column of the time cannot be determined",
        f"choose it: {ways}",
        *(column_key("timestamp", column) for column in times[:1]),
    )


def _mark_of(name: str) -> str | None:
    """What a lone column of stamps marks by its name: `start` or `end` of intervals; None: it does
    not say."""
    is_start, is_end = WORDS.starts.has_word_of(name), WORDS.ends.has_word_of(name)
    return None if is_start == is_end else "start" if is_start else "end"


def _pair(table: RawTable, columns: Sequence[str]) -> tuple[str, str, int] | None:
    """Of two columns of times, of which one is always the same time after the other but when
    clocks change, the earlier and the later one, and the minutes between them; None for others."""
    if len(columns) != 2 or not all(has_clock(table.cells[column]) for column in columns):
        return None
    try:
        first, second = (parse(table, (column,), Meters()).stamps for column in columns)
        steps = (second - first).dt.total_seconds() / 60
    except (DataError, TypeError):
        return None
    minutes = float(steps.median())
    if not 0 < abs(minutes) <= _HOUR or (steps == minutes).mean() < _STEADY_PART:
        return None
    start, end = columns if minutes > 0 else columns[::-1]
    return start, end, int(abs(minutes))


def _instant_of_all(table: RawTable, columns: Sequence[str]) -> str | None:
    """Of columns of times that are equal but for their zones, the only one whose times depend on no
    zone, such as seconds since 1970; None for others."""
    try:
        stamps = {column: parse(table, (column,), Meters()).stamps for column in columns}
    except (DataError, TypeError):
        return None
    instants = [column for column, times in stamps.items() if times.dt.tz is not None]
    if len(instants) != 1:
        return None
    utc = stamps[instants[0]].dt.tz_localize(None)
    for column in set(columns) - {*instants}:
        offsets = ((stamps[column] - utc).dt.total_seconds() / _HOUR).unique()
        if len(offsets) > 2 or (offsets % 15 != 0).any() or (abs(offsets) > 14 * _HOUR).any():
            return None
    return instants[0]


def _start_column(names: Sequence[str]) -> str | None:
    """The name of the starts of intervals beside that of their ends."""
    if len(names) != 2:
        return None
    starts = [name for name in names if _mark_of(name) == "start"]
    ends = [name for name in names if _mark_of(name) == "end"]
    return starts[0] if len(starts) == len(ends) == 1 else None


def has_clock(column: pd.Series) -> bool:
    """Whether a column of dates has times of day other than midnight."""
    return column.dtype.kind == "M" or any(map(_NO_MIDNIGHT.search, map(str, column.unique())))


def _sample(column: pd.Series) -> list[str]:
    """The first cells of a column that have a value, as text."""
    return [cell for cell in as_text(column.head(200)).tolist() if cell]


def _is_time(table: RawTable, name: str) -> bool:
    if name in table.plain and not _may_have_times(table, name):
        return False
    column = table.cells[name]
    if column.dtype.kind == "M":
        return True
    if column.dtype.kind in "fb":
        return False
    text = _sample(column)
    if not text:
        return False
    digits = share_of_cells(text, DATE_DIGITS.fullmatch) > 0.5
    if column.dtype.kind in "iu" or digits:
        return digits and _may_have_times(table, name)
    return share_of_cells(text, DATE_AT_BEGINNING.match) > 0.5 and not share_of_cells(
        text, DATE_SPAN.fullmatch
    )


def _may_have_times(table: RawTable, name: str) -> bool:
    """Whether whole numbers in a column may be times: by its name, or as seconds (to milliseconds)
    since 1970 at the beginning of rows without names."""
    if name != _FIRST_OF_LIST:
        return WORDS.times.has_word_of(name)
    seconds = as_text(table.cells[name].head(SAMPLE_ROWS)).str[:10]
    return len(seconds.unique()) > 1 and bool(seconds.between(*_SECONDS).all())


def _is_clock(table: RawTable, name: str) -> bool:
    if name in table.plain and not names_hours(name):
        return False
    column = table.cells[name]
    if column.dtype.kind in "fbM" or not (text := _sample(column)):
        return False
    if names_hours(name) and all(map(HOURS_AND_MINUTES.fullmatch, text)):
        numbers = [*map(int, text)]
        return max(numbers) <= 2400 and all(number % 100 < 60 for number in numbers)
    if names_hours(name) and all(map(_CLOCK_WITH_POINT.fullmatch, text)):
        return True
    return share_of_cells(text, _CLOCK.fullmatch) > 0.5


def rows_of_other_things(table: RawTable, meters: Meters) -> dict[str, list[str]]:
    """The column by which rows of the same times differ in what they measure, such as import and
    feed-in, and its values that are no loads by their names, beside the only one that is; empty if
    there is none, or if keys choose among the rows."""
    if meters.only or meters.leave_out or meters.add or "meter" in meters.columns:
        return {}
    columns = [*map(str, table.cells)]
    for column, values in _kinds_by_column(table).items():
        if names_meter(column):
            continue
        names = {value: value.strip("'\" ") for value in values}
        no_loads = [value for value in values if quantities.is_name_of_other_quantity(names[value])]
        loads = [value for value in values if quantities.is_name_of_load(names[value])]
        if no_loads and len(loads) == 1 and len(no_loads) == len(values) - 1:
            times = [name for name in columns if _is_time(table, name) or _is_clock(table, name)]
            if times and table.cells.duplicated(times).mean() > _OFTEN:
                return {column: no_loads}
    return {}


def _refuse_other_things(table: RawTable, meters: Meters) -> None:
    """Refuse a file whose rows all have the same word for something else than consumption, such as
    feed-in or gas, unless keys say which meters there are."""
    for column, values in _kinds_by_column(table).items() if not meters.only else ():
        name = values[0].strip("'\" ") if len(values) == 1 else ""
        is_of_rows = WORDS.about_rows.has_word_of(column) or WORDS.quality.has_word_of(column)
        if quantities.is_name_of_other_quantity(name) and not is_of_rows:
            every_meter = Key("data.meters.only", "['*']")
            raise question(
                table,
                f"has no readings of consumption ({column!r} is {name!r} in all rows)",
                f"export those of the import, or set {every_meter} if these are to be forecast",
                every_meter,
            )


def _kinds_by_column(table: RawTable) -> dict[str, list[str]]:
    """The different values of the columns of words that have few."""
    kinds = {}
    for column in map(str, table.cells):
        if column not in table.plain and table.cells[column].dtype.kind == "O":
            values = table.cells[column].drop_duplicates()
            if len(values) <= _MOST_KINDS:
                kinds[column] = list(dict.fromkeys(as_text(values).tolist()))
    return kinds


def _name(
    table: RawTable, time: Sequence[str], readings: Sequence[str], words: Sequence[str]
) -> str | None:
    """The column with the meters' names in a long file; None for other files. A file in which most
    times occur more than once, and no single column explains it, is refused."""
    name_columns = [column for column in words if names_meter(column)]
    name_columns = [
        column for column in name_columns if column not in readings or len(readings) > 1
    ]
    name_columns = [column for column in name_columns if _names_meters(table, column)]
    if name_columns:
        return name_columns[0]
    if table.cells.duplicated(list(time)).mean() <= _OFTEN:
        return None
    words = [word for word in words if word not in readings]
    telling_columns = [
        word
        for word in words
        if _may_name_meters(table, word) and table.cells.duplicated([*time, word]).mean() <= _OFTEN
    ]
    if len(telling_columns) == 1:
        return telling_columns[0]
    if not telling_columns and len(readings) == 1 and not words:
        return None  # the readings themselves are duplicates
    columns = telling_columns or [*words, *readings]
    raise question(
        table,
        "most times occur more than once",
        f"if a column names the meter, set it: {choices('meter', columns)}",
        column_key("meter", columns[0]),
    )


def _may_name_meters(table: RawTable, column: str) -> bool:
    """Whether a column has several values, of which most occur again, and no fractions."""
    values = as_text(table.cells[column])
    is_name = not is_number(table, column) or is_whole(values[values != ""])
    return is_name and 1 < values.nunique() <= len(values) / 2


def _names_meters(table: RawTable, name: str) -> bool:
    """Whether a column, by whose name it may have the names of meters, has several of them."""
    column = table.cells[name]
    if column.dtype.kind == "f":
        column = column.dropna()
        if (column % 1 != 0).any():
            return False
    text = as_text(column)
    if not is_number(table, name):
        return 1 < text.nunique() <= len(text) / 2
    # Whole numbers under such a name may be loads, too.
    return is_whole(text[text != ""]) and 1 < text.nunique() <= len(text) / SAMPLE_ROWS
