"""The columns of a raw file with the time, the readings and the names of meters."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase

import pandas as pd

from plfl.base.errors import DataError, Problem, did_you_mean
from plfl.base.keys import Key
from plfl.base.text import counted
from plfl.config.messages import flow
from plfl.config.sections import Meters
from plfl.data.meters import quantities, tables
from plfl.data.meters.formats.recognition import Recognised
from plfl.data.meters.formats.schema import Format
from plfl.data.meters.numbers import as_text, is_number
from plfl.data.meters.shapes import HOURS, columns_of_day, simplify
from plfl.data.meters.stamps import ENDS, parse
from plfl.data.meters.tables import DATED, DIGITS, RawFile, RawTable

_TIME_WORDS = re.compile(
    r"time|date|stamp|epoch|unix|zeit|datum|^ts$|^data$|fecha|^dato$|^dag$|^tag$|^day$|giorno|^jour$",
    re.IGNORECASE,
)
_IN_UTC = re.compile(r"(?<![a-z])(?:utc|gmt)(?![a-z+-])", re.IGNORECASE)
"""Names of columns with times in UTC."""
_STARTS = re.compile(
    r"start|begin|\b(from|von|van|från|fra|od|de|desde|από)\b|début|debut|in[ií]cio|inizio|^alku|algus|"
    r"sākum|pradž|kezd",
    re.IGNORECASE,
)
_ABOUT_ROWS = re.compile(r"revis|creat|updat|modif|publish|export|^_st(art|op)$", re.IGNORECASE)
"""Names of columns with the time when a row was written, or, in InfluxDB, of the whole query."""
_OF_PARTS = re.compile(
    r"direction|channel|categor|type|kind|regist|phase|tarif|rate|flow|obis|richtung|\bart\b|sens",
    re.IGNORECASE,
)
"""Names of columns whose values are parts of one meter."""
_ROW_NUMBERS = re.compile(
    r"column \d+|unnamed: \d+|__index_level_\d+__|n[ro]?\.?|num(?:ber)?|#|index|idx|id|rows?|line|"
    r"interval|period|slot",
    re.IGNORECASE,
)
_METERS = re.compile(
    r"(?:smart[ _-]?)?meter(?:[ _-]?serial)?(?:[ _-]?(?:id|no|number|nr|name))?|mpan|mprn|nmi|"
    r"esiid|cups|ean|pod|prm|pdl|lclid|serial|id|name|zählpunkt\w*|zählernummer|"
    r"(?:device|site|building|bldg|house(?:hold)?|home|apartment|flat|dwelling|unit|room|customer|"
    r"client|sensor|station|account)(?:[ _-]?(?:id|n[or]|number|name))?",
    re.IGNORECASE,
)
"""Names of columns with the names or numbers of meters."""

_NO_FACTOR = re.compile(r"1|[01][.,]\d{1,2}")
"""A factor that changes nothing, or one of power (cos φ)."""
_QUALITY = re.compile(r"quali|status|flag|estimat|validity|zustand|état", re.IGNORECASE)
"""Names of columns with marks of quality."""
_ESTIMATED = re.compile(r"estim|ersatz|geschätzt|substit|interpol|^e$", re.IGNORECASE)
"""Marks of readings that are estimated."""
_MOST_QUALITIES = 12

_WITH_UNIT = re.compile(r"(?<=\S)\s*[\[(]\s*[kM]?Wh?\s*[\])]$", re.IGNORECASE)
"""A unit after the name of a meter."""
_MOST_MARKS = 60
"""Most different whole numbers that a column of marks, weekdays or intervals of a day has."""
_LONG_NUMBER = 10
"""Digits of a number that is no reading."""
_NARROW = 20
"""More columns of numbers than these are those of meters."""
_HOUR = 60
_STEADY_PART = 0.95
"""The part of the rows in which starts and ends are equally far apart."""
_ROWS = 24
"""Fewest rows of a meter, on average, in a column of numbers that may name meters."""


def find_format(raw: RawFile, meters: Meters) -> Recognised:
    """The format of a file in no known one: from the keys, otherwise from the names of its columns.

    Raises:
        DataError: a column is missing, or its meaning is ambiguous.
    """
    table = simplify(tables.read(raw, meters), meters)
    day_columns = (
        [] if {"timestamp", "load"} & {*meters.columns} else columns_of_day([*table.cells])
    )
    dates = dates_in(table) if day_columns else []
    if len(dates) == 1 and not has_clock(table.cells[dates[0]]):  # not one of each of 24 meters
        plain = table.cells.drop(columns=day_columns).assign(load=1.0)
        layout = find(replace(table, cells=plain), meters)
        layout = replace(layout, time=(dates[0],), stamp="start")
        table = replace(table, form=f"{table.form}, one row per day")
        unit = unit_of(table, day_columns[0])
        stated = {} if unit is None else {unit: day_columns[0]}
    else:
        day_columns, layout = [], find(table, meters)
        stated = {unit: c for c in layout.readings if (unit := unit_of(table, c))}
    names = _names_of_meters(layout)
    is_by_column = layout.name is None and (len(layout.readings) > 1 or layout.meter is not None)
    notes = "" if layout.name is None else f", meters named by {layout.name!r}"
    if left_out := [f"{column!r} ({reason})" for column, reason in layout.left_out.items()]:
        remainder = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
        notes += f", no loads: {', '.join(left_out[:5])}{remainder}"
    time: dict[str, object] = {
        "column": layout.time[0],
        "of_day": day_columns,
        "marks": layout.stamp,
    }
    time |= {"clock": layout.time[1:], "format": meters.date_format or []}
    if _IN_UTC.search(layout.time[-1]):
        time["zone"] = "UTC"
    content = {
        "name": "found out",
        "about": table.form,
        "document": "",
        "date": date.min,
        "recognise": {"header": [[column] for column in (*layout.time, *layout.readings[:9])]},
        "time": time | {"marks": layout.stamp or meters.stamp},
        "load": {
            "columns": [] if day_columns else layout.readings,
            "unit": _unit(table, stated, meters),
            "cumulative": meters.cumulative,
        },
        "quality": _quality(table),
        "meters": {"column": layout.name or [], "by_column": is_by_column, "add": meters.add},
    }
    return Recognised(
        *(raw, Format.model_validate(content), None, table.cells, "", table.separator, table.unit),
        table=table,
        about=f"{table.form}, {layout.kind}",
        notes=notes,
        is_stamp_stated=layout.stamp is not None,
        column_names=names,
    )


def _unit(table: RawTable, unit_in: Mapping[str, str], meters: Meters) -> str | None:
    """The unit of a file: the one in the keys, that which its columns state, or that in its name;
    None: nothing says it. Loads in several units, registers of power, and a unit that stands above
    the header only, are refused."""
    stated = sorted({*unit_in} & {*quantities.LOADS})
    if meters.unit is None and len(stated) > 1:
        column = Key("data.meters.columns", flow({"load": unit_in[stated[-1]]}))
        raise DataError(
            Problem(
                table.path,
                f"has readings in {' and '.join(stated)}",
                f"choose a column: {column}, or write all in one unit",
            )
        )
    if meters.unit is None and not stated and table.above:
        raise DataError(
            Problem(
                table.path,
                f"{', '.join(sorted(table.above))} stands above the header",
                f"if the readings are in it, set {Key('data.meters.unit', min(table.above))}",
            )
        )
    unit = meters.unit or (stated[0] if stated else quantities.unit_in_file_name(table.path.stem))
    if meters.cumulative and unit is not None and not unit.endswith("h"):
        raise DataError(
            Problem(
                table.path,
                f"is in {unit}, but registers count energy",
                f"if the unit in its header is wrong, set {Key('data.meters.unit', f'{unit}h')}",
            )
        )
    return unit


def _quality(table: RawTable) -> dict[str, object] | None:
    """The column of quality marks and what it has, as a format says it; None if there is none."""
    for column in map(str, table.cells):
        if _QUALITY.search(column) and not is_number(table, column):
            marks = [str(mark) for mark in as_text(table.cells[column]).unique()]
            estimated = [mark for mark in marks if _ESTIMATED.search(mark)]
            measured = [mark for mark in marks if mark not in estimated]
            if len(marks) <= _MOST_QUALITIES:
                return {"column": column, "measured": measured, "estimated": estimated}
    return None


def _names_of_meters(layout: "Layout") -> dict[str, str]:
    """The names of meters by their columns, without a unit at the end, if that leaves them apart;
    of a lone one, the name of its column if it is not that of what is measured."""
    if len(layout.readings) < 2:
        return {} if layout.meter is None else {layout.meter: _WITH_UNIT.sub("", layout.meter)}
    plain = {column: _WITH_UNIT.sub("", column) for column in layout.readings}
    return plain if len({*plain.values()}) == len(plain) else {column: column for column in plain}


@dataclass(frozen=True)
class Layout:
    """The parts of a raw file."""

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

    @property
    def kind(self) -> str:
        """Its name in reports."""
        if self.name is not None:
            return "long"
        return "wide" if len(self.readings) > 1 else "one meter"


def find(table: RawTable, meters: Meters) -> Layout:
    """The layout of a file: from `meters.columns`, otherwise detected. If several columns are
    possible, a column `load` has the readings and a column `timestamp` the time.

    Raises:
        DataError: a column is missing, or the layout is ambiguous.
    """
    cells, columns = table.cells, meters.columns
    _check_named_columns(table, meters)
    if not len(cells):
        raise DataError(Problem(table.path, "holds no readings", "export it again"))
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
    inputs, name = meters.inputs, columns.get("meter")
    other_columns = [
        str(column) for column in cells if column not in (*time, name, *inputs.values())
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
    left_out = {} if load is not None else _columns_without_loads(table, measured, meters)
    readings = [column for column in measured if column not in left_out]
    _ask_about_factors(table, meters)
    if load is not None:
        readings = [load]
    if not readings:
        listing = ", ".join(map(repr, time)) + "".join(
            f", {column!r} ({reason})" for column, reason in left_out.items()
        )
        remedy = _choices("load", list(left_out)) if left_out else Key("data.meters.columns.load")
        raise DataError(
            Problem(
                table.path,
                f"has no column of loads beside {listing}",
                f"export it with readings, or name their column in {remedy}{_excerpt(table)}",
            )
        )
    if name is None:
        name = _name(table, time, readings, list(dict.fromkeys([*words, *left_out, *measured])))
        if name is not None:
            _ask_about_values(table, name, meters)
        elif load is None:
            _ask_about_names(table, readings, words)
    readings = [column for column in readings if column != name]
    left_out.pop(str(name), None)
    if load is None and not meters.only:
        chosen_readings = [
            column
            for column in readings
            if is_chosen(column, meters)
            and is_chosen(meter_of(_WITH_UNIT.sub("", column), meters.add), meters)
        ]
        _ask_about_whole_numbers(table, chosen_readings)
        _ask_which_load(table, chosen_readings, meters)
    if len(readings) > 1 and (name is not None or not meters.exports):
        context = f" beside {name!r}" if name is not None else ", but the folder has one meter each"
        raise DataError(
            Problem(
                table.path,
                f"has several columns of numbers{context}",
                f"choose that of the readings: {_choices('load', readings)}",
            )
        )
    is_alone = load is None and name is None and len(readings) == 1
    meter = readings[0] if is_alone and not quantities.names_quantity(readings[0]) else None
    stamp = _stated_mark(table, time, stamp, meters)
    return Layout(time, tuple(readings), name, inputs, left_out, meter, stamp)


def _stated_mark(
    table: RawTable, time: Sequence[str], mark: str | None, meters: Meters
) -> str | None:
    """What the stamps mark: what the form of the file says, or else `mark`, which the columns say.
    A contradiction to the keys is refused."""
    mark = table.stamp or mark
    if "stamp" not in meters.model_fields_set:
        return mark
    if len(time) == 1 == len(dates_in(table)):
        mark = table.stamp  # the name of a lone column only suggests it
    if mark not in (None, meters.stamp):
        raise DataError(
            Problem(
                table.path,
                f"its stamps are the {mark}s of intervals",
                f"remove {Key('data.meters.stamp')}",
            )
        )
    return mark


def _ask_about_factors(table: RawTable, meters: Meters) -> None:
    """Refuse a column of factors, such as 0.001 of a register that counts Wh, unless the unit is
    given."""
    for column in map(str, table.cells) if meters.unit is None else ():
        if not quantities.FACTORS.fullmatch(column.strip()):
            continue
        values = as_text(table.cells[column])
        if len(values.unique()) == 1 and not _NO_FACTOR.fullmatch(values.iloc[0]):
            raise DataError(
                Problem(
                    table.path,
                    f"{column!r} is {values.iloc[0]} in all rows, so the readings may have "
                    "another unit",
                    f"set {Key('data.meters.unit', 'Wh')}, or kWh if the factor is already in "
                    "them, or write a format with `load.factor` "
                    f"(docs/own-data.md){_excerpt(table)}",
                )
            )


def _ask_about_whole_numbers(table: RawTable, columns: Sequence[str]) -> None:
    """Refuse columns of few whole numbers, such as those of marks, weekdays or intervals, beside
    the only column whose name says that it has loads."""
    spans: dict[str, str] = {}
    for column in columns if 1 < len(columns) <= _NARROW else ():
        if _is_few_whole(table, column) and unit_of(table, column) is None:
            values = as_text(table.cells[column].head(_ROWS * _MOST_MARKS))
            numbers = sorted(int(float(value)) for value in values.unique())
            spans[column] = f"{numbers[0]} to {numbers[-1]}"
    other_columns = [column for column in columns if column not in spans]
    stated = [
        c for c in other_columns if quantities.names_quantity(c) or unit_of(table, c) is not None
    ]
    if stated and spans:
        listing = ", ".join(f"{column!r} ({span})" for column, span in spans.items())
        every_meter = Key("data.meters.only", "['*']")
        raise DataError(
            Problem(
                table.path,
                f"{listing} beside {stated[0]!r}: few whole numbers, which may be no loads",
                f"set {Key('data.meters.leave_out', flow(list(spans)))}, or {every_meter} if "
                f"all are meters{_excerpt(table)}",
            )
        )


def _ask_which_load(table: RawTable, columns: Sequence[str], meters: Meters) -> None:
    """Refuse several columns, unless their names are those of meters: the parts of one meter, such
    as import, feed-in and net, are no meters, whatever the words for them."""
    names = [_WITH_UNIT.sub("", column) for column in columns]
    counts = Counter(meter_of(name, meters.add) for name in names)
    is_settled = (
        min(counts.values(), default=0) > 1 or quantities.are_names_of_meters(list(counts))
        if meters.add
        else _are_meters(columns)
    )
    if not 1 < len(columns) <= _NARROW or is_settled:
        return
    by_likelihood = sorted(columns, key=quantities.unlikeliness)
    raise DataError(
        Problem(
            table.path,
            f"{_name_list(columns)} may measure different things",
            f"choose that of the consumption: {_choices('load', by_likelihood)}; or set "
            f"{Key('data.meters.only', flow(list(counts)))} if all are meters"
            f"{_add(names, meters)}{_excerpt(table)}",
        )
    )


def meter_of(register: str, add: str | None) -> str:
    """The name of the meter of a register: what is left without the match of `data.meters.add`."""
    return register if add is None else re.sub(add, "", register).strip(" _-")


def _add(names: Sequence[str], meters: Meters) -> str:
    """The words that offer to add registers, if their names look like it."""
    pattern = quantities.registers_among(names) if meters.add is None else None
    if pattern is None:
        return ""
    return f"; or {Key('data.meters.add', json.dumps(pattern))} if they are registers to be added"


def _excerpt(table: RawTable, limit: int = 8) -> str:
    """A line of what a file has, for a question about it: the first, second and last value of each
    column."""
    parts = []
    for column in list(map(str, table.cells))[:limit]:
        values = table.cells[column]
        samples = list(dict.fromkeys([*map(str, values.iloc[:2]), str(values.iloc[-1])]))
        parts.append(f"{column!r}: {', '.join(samples)}")
    hidden_count = len(table.cells.columns) - limit
    remainder = f"; and {hidden_count} more" if hidden_count > 0 else ""
    rows = counted(len(table.cells), "row")
    return f"\n  seen, first to last of {rows}: {'; '.join(parts)}{remainder}"


def _ask_about_values(table: RawTable, column: str, meters: Meters) -> None:
    """Refuse a column whose values may be parts of one meter, such as delivered and received,
    because neither its name nor they are those of meters, and no key names or joins them."""
    names = [str(name) for name in as_text(table.cells[column]).unique()]
    registers = list(dict.fromkeys(meter_of(name, meters.add) for name in names))
    chosen_registers = [name for name in registers if is_chosen(name, meters)]
    is_of_keys = len(chosen_registers) < len(registers) or (
        len(registers) < len(names) and not any(map(quantities.names_other, registers))
    )
    is_of_meters = _METERS.fullmatch(column) or (
        quantities.are_names_of_meters(names) and not _OF_PARTS.search(column)
    )
    if meters.only or not 1 < len(names) <= _NARROW or is_of_keys or is_of_meters:
        return
    choice = Key("data.meters.columns", flow({"meter": column}))
    raise DataError(
        Problem(
            table.path,
            f"{column!r} has {_name_list(names)}, which may be parts of one meter",
            f"choose one: {choice} and {Key('data.meters.only', flow(registers[:1]))}; or set "
            f"{choice} if all are meters{_add(names, meters)}{_excerpt(table)}",
        )
    )


def _ask_about_names(table: RawTable, readings: Sequence[str], words: Sequence[str]) -> None:
    """Refuse a column of words or whole numbers, beside one of readings, whose values may name
    meters: the rows of each value follow each other."""
    for column in [*words, *readings] if len(readings) < 3 else ():
        loads = [name for name in readings if name != column]
        values = as_text(table.cells[column])
        names = values.unique()
        if len(loads) != 1 or (column in readings and not _is_whole(values)):
            continue
        is_in_blocks = (values != values.shift()).sum() == len(names)
        if 2 <= len(names) <= len(values) / _ROWS and "" not in names and is_in_blocks:
            raise DataError(
                Problem(
                    table.path,
                    f"{column!r} has {len(names)} values, such as {names[0]!r} and {names[1]!r}",
                    f"if they name meters, set {_choices('meter', [column])}; if not, "
                    f"{_choices('load', loads)}",
                )
            )


def _columns_without_loads(
    table: RawTable, columns: Sequence[str], meters: Meters
) -> dict[str, str]:
    """The columns of numbers that are no loads, and why."""
    reasons = {}
    for column in columns:
        values = table.cells[column]
        unit = unit_of(table, column) or quantities.bare_unit(column, columns)
        if reason := quantities.why_not_load(column, unit):
            reasons[column] = reason
        elif column not in table.plain and not as_text(values).any():
            reasons[column] = "empty"
        elif quantities.FACTORS.fullmatch(column.strip()):
            reasons[column] = "a factor"
        elif _ROW_NUMBERS.fullmatch(column) and _counts_rows(values):
            reasons[column] = "row numbers"
        elif _is_number_of_meter(column, values):
            reasons[column] = "a number of the meter"
    loads = [column for column in columns if column not in reasons]
    for column in loads if len(loads) > 2 else ():
        if re.fullmatch(r"(?:grand ?|sub ?)?total|sum", column, re.IGNORECASE):
            reasons[column] = "a total, by its name"
    if meters.only:
        return reasons
    reasons = _columns_without_unit(table, loads) | reasons
    loads = [column for column in columns if column not in reasons]
    if 1 < len(loads) <= _NARROW and not _are_meters(loads):
        consumption = quantities.consumption_among(loads)
        parts = [column for column in loads if consumption not in (None, column)]
        reasons |= dict.fromkeys(parts, f"beside {consumption!r}")
    return reasons


def _are_meters(columns: Sequence[str]) -> bool:
    """Whether columns of readings are meters, by their names."""
    return quantities.are_names_of_meters([_WITH_UNIT.sub("", column) for column in columns])


def _is_number_of_meter(column: str, values: pd.Series) -> bool:
    """Whether a column has a single whole number, and is named like those of meters, or it is too
    long to be a reading."""
    if len(values.unique()) != 1 or not _is_whole(values):
        return False
    return bool(_METERS.fullmatch(column)) or len(str(values.iloc[0])) >= _LONG_NUMBER


def _columns_without_unit(table: RawTable, columns: Sequence[str]) -> dict[str, str]:
    """The columns of numbers without a unit, beside others whose names state one of loads, or, with
    a column of units, beside those whose names only say what is measured. Few whole numbers are
    asked about, if they differ."""
    if table.unit_of_rows is None:
        stated = [column for column in columns if unit_of(table, column) is not None]
    else:
        stated = [column for column in columns if quantities.names_quantity(column)]
    return {
        column: f"no unit, beside {stated[0]!r}"
        for column in columns
        if stated and column not in stated and not _is_few_whole(table, column)
    }


def _is_few_whole(table: RawTable, column: str) -> bool:
    """Whether a column has a few whole numbers, such as those of marks, weekdays or intervals."""
    values = as_text(table.cells[column].head(_ROWS * _MOST_MARKS))
    return 1 < len(values.unique()) <= min(_MOST_MARKS, len(values) / 2) and _is_whole(values)


def _counts_rows(values: pd.Series) -> bool:
    """Whether numbers rise or fall by one from row to row."""
    steps = pd.to_numeric(values, errors="coerce").diff().iloc[1:]
    return len(steps) > 0 and bool((steps == 1).all() or (steps == -1).all())


def _is_whole(values: pd.Series) -> bool:
    """Whether all values are whole numbers, as those of meters are."""
    return bool(as_text(values).str.fullmatch(r"\d+(\.0)?").all())


def _check_named_columns(table: RawTable, meters: Meters) -> None:
    """Refuse columns that the user names but the file lacks or has more than once."""
    problems = []
    for role, column in meters.columns.items():
        column_and_key = f"{column!r} ({Key(f'data.meters.columns.{role}')})"
        if column not in table.cells:
            names = list(map(str, table.cells))
            problems.append(
                f"{table.path}: has no column {column_and_key}; it has {_name_list(names)}"
                f"{did_you_mean(column, names)}"
            )
        elif column in table.repeated:
            problems.append(
                f"{table.path}: has several columns {column_and_key}; rename or remove the others"
            )
    if problems:
        raise DataError(*problems)


def _choices(role: str, columns: Sequence[str], limit: int = 8) -> str:
    """The keys that choose one of some columns."""
    keys = [Key("data.meters.columns", flow({role: column})) for column in columns[:limit]]
    return " or ".join(map(str, keys)) + (
        f" or another of {len(columns)}" if len(columns) > limit else ""
    )


def _name_list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20])) + (" …" if len(names) > 20 else "")


def dates_in(table: RawTable) -> list[str]:
    """The columns with a date or a time, without those about when a row was written."""
    dates = [name for name in map(str, table.cells) if _is_time(table, name)]
    return [name for name in dates if not _ABOUT_ROWS.search(name)] or dates


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
        raise DataError(
            Problem(
                table.path,
                f"{end!r} is always {minutes} minutes after {start!r}",
                "if they are the ends and the starts of intervals, set "
                f"{_choices('timestamp', [start])}{_excerpt(table)}",
            )
        )
    if times and (instant := _instant_of_all(table, times)):
        return (instant,), _mark_of(instant)
    choices = _choices("timestamp", times or list(map(str, cells)))
    if clocks:
        choices += (
            f"; and that of the time of day beside one of dates: {_choices('time_of_day', clocks)}"
        )
    raise DataError(
        Problem(
            table.path,
            "the column of the time cannot be determined",
            f"choose it: {choices}{_excerpt(table)}",
        )
    )


def _mark_of(name: str) -> str | None:
    """What a lone column of stamps marks by its name: `start` or `end` of intervals; None: it does
    not say."""
    name = name.replace("_", " ")
    is_start, is_end = bool(_STARTS.search(name)), bool(ENDS.search(name))
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
    clock = r"\d:\d\d(?!:?\d*$)|[1-9]\d?:\d\d|0\d:\d[1-9]"
    return column.dtype.kind == "M" or bool(column.astype(str).str.contains(clock).any())


def unit_of(table: RawTable, column: str) -> str | None:
    """The unit that a file states for a column, in its row of units or in the column's name; of
    what may be a load, also the one in a column of units."""
    if column in table.units:
        return quantities.unit_of(f"[{table.units[column]}]") or table.units[column]
    unit = quantities.unit_of(column)
    if unit is None and not quantities.why_not_load(column, None):
        return table.unit_of_rows
    return unit


def _sample(column: pd.Series) -> pd.Series:
    text = as_text(column.head(200))
    return text[text != ""]


def _is_time(table: RawTable, name: str) -> bool:
    if name in table.plain and not _TIME_WORDS.search(name):
        return False
    column = table.cells[name]
    if column.dtype.kind == "M":
        return True
    if column.dtype.kind in "fb":
        return False
    text = _sample(column)
    if not len(text):
        return False
    digits = text.str.fullmatch(DIGITS.pattern).mean() > 0.5
    if column.dtype.kind in "iu" or digits:
        return bool(digits and _TIME_WORDS.search(str(column.name)))
    return bool(text.str.match(DATED.pattern, case=False).mean() > 0.5)


def _is_clock(table: RawTable, name: str) -> bool:
    column = table.cells[name]
    if column.dtype.kind in "fbM" or (name in table.plain and not HOURS.fullmatch(name)):
        return False
    text = _sample(column)
    if text.str.fullmatch(r"\d{1,4}").all() and HOURS.fullmatch(name):
        numbers = text.astype(int)
        return bool(len(text) and numbers.max() <= 2400 and (numbers % 100 < 60).all())
    if HOURS.fullmatch(name) and text.str.fullmatch(r"(?:[01]?\d|2[0-4])\.[0-5]\d").all():
        return bool(len(text))
    clock = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s?[AaPp][Mm])?"
    return bool(len(text) and text.str.fullmatch(clock).mean() > 0.5)


def _name(
    table: RawTable, time: Sequence[str], readings: Sequence[str], words: Sequence[str]
) -> str | None:
    """The column with the meters' names in a long file; None for other files. A file in which most
    times occur more than once, and no single column explains it, is refused."""
    name_columns = [column for column in words if _METERS.fullmatch(column)]
    name_columns = [
        column for column in name_columns if column not in readings or len(readings) > 1
    ]
    name_columns = [column for column in name_columns if _names_meters(table, column)]
    if name_columns:
        return name_columns[0]
    if table.cells.duplicated(list(time)).mean() <= 0.4:
        return None
    words = [word for word in words if word not in readings]
    telling_columns = [word for word in words if len(table.cells[word].unique()) > 1]
    telling_columns = [
        word for word in telling_columns if table.cells.duplicated([*time, word]).mean() <= 0.4
    ]
    if len(telling_columns) == 1:
        return telling_columns[0]
    if not telling_columns and len(readings) == 1 and not words:
        return None  # the readings themselves are duplicates
    raise DataError(
        Problem(
            table.path,
            "most times occur more than once",
            "if a column names the meter, set it: "
            f"{_choices('meter', telling_columns or [*words, *readings])}",
        )
    )


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
    return _is_whole(text[text != ""]) and 1 < text.nunique() <= len(text) / _ROWS


def is_chosen(name: str, meters: Meters) -> bool:
    """Whether `only` and `leave_out` select a meter."""
    is_wanted = not meters.only or any(fnmatchcase(name, pattern) for pattern in meters.only)
    return is_wanted and not any(fnmatchcase(name, pattern) for pattern in meters.leave_out)


def check_chosen(names: Sequence[str], meters: Meters, one_of_several: bool = False) -> None:
    """Refuse patterns that fit none of the names, and those that leave no meter. If these are the
    meters of `one_of_several` states, `timezones` may be for the others. Without names, no file
    could be read, and nothing is refused here."""
    if not names:
        return
    for key in ("only", "leave_out", *(["timezones"] if not one_of_several else [])):
        for pattern in getattr(meters, key):
            if not any(fnmatchcase(name, pattern) for name in names):
                raise DataError(
                    Problem(
                        Key(f"data.meters.{key}"),
                        f"there is no meter {pattern!r}",
                        f"there are {_name_list(names)}{did_you_mean(pattern, names)}",
                    )
                )
    if not any(is_chosen(name, meters) for name in names):
        raise DataError(
            Problem(
                "",
                f"{Key('data.meters.only')} and {Key('data.meters.leave_out')} leave no meter",
                "choose others",
            )
        )
