"""Turns a raw file into a table: detects the separator of its fields, and tables side by side."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import DataError, Place, Problem, data_error
from plfl.base.keys import Key
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.base.text import count_in_words
from plfl.config.meters import Meters
from plfl.data.meters import line_protocol, quantities
from plfl.data.meters.dates import DATE_IN_NAME, is_date
from plfl.data.meters.file_contents import (
    MOST_COLUMNS,
    NO_READING,
    RawFile,
    describe_width,
    explain_damage,
    strip_row,
    unique_names,
)
from plfl.data.meters.formats import nested_files
from plfl.data.meters.headers import (
    SAMPLE_LINES,
    SEPARATORS,
    count_undated,
    find_date,
    find_header,
    find_stated_unit,
    has_stamp,
    is_of_no_reading,
    units_above,
    units_below,
)
from plfl.data.meters.quantities import WITH_UNIT

THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:[.,]\d{3})+")
"""A number whose marks may separate thousands."""
WHOLE_NUMBER = re.compile(r"[+-]?[1-9]\d*")
MISSING = (
    "",
    "na",
    "n/a",
    "nan",
    "null",
    "none",
    "-",
    "--",
    "---",
    "#n/a",
    "unavailable",
    "unknown",
)
"""What stands for a missing reading, in small letters."""
_CLOCKED = re.compile(
    r'\s*"?(?P<hours>[0-2]?\d):(?P<minutes>[0-5]\d)(?::00)?"?\s*(?P<separator>[;,\t|])'
)
"""The beginning of a line with a time of day."""
_NAME = re.compile(r"[^\W\d_]|^\s*(?!20\d\d\s*$)\d+\s*$")
"""What the name of a table has, unlike a date, a year or another number."""
_BESIDE_METER = re.compile(rf"{WITH_UNIT.pattern}|\bmain\b", re.IGNORECASE)
"""What does not tell one meter from another: a unit, and the meter of a whole building."""
METER = "meter"
"""The column with the names of tables that stand side by side."""
_MOST_UNDATED_LINES = 10  # lines at the end that may be blank or have no date, such as totals


@dataclass(frozen=True)
class RawTable:
    """The content of a raw file."""

    path: Path
    cells: pd.DataFrame
    """Text (CSV, XLSX) or typed values (Parquet, plug-ins), one row per line, indexed by the number
    of the line or row. Columns of the same name are numbered: `A`, `A (2)`."""
    form: str
    """The detected form, in words."""
    repeated_names: frozenset[str] = frozenset()
    """Names that several columns have."""
    row_word: str = "line"
    """What the index counts: `line` or `row`."""
    separator: str = ""
    """What separates the fields of text."""
    units: Mapping[str, str] = field(default_factory=dict)
    """The units in a line between the header and the readings, by column."""
    above: frozenset[str] = frozenset()
    """The units of energy or power in the lines above the header."""
    unit_of_rows: str | None = None
    """The unit in a column of units, or in a line above the header that says what is measured."""
    stamp: str | None = None
    """What its stamps mark by the form of the file: `start` or `end`; None: nothing."""

    @cached_property
    def plain(self) -> dict[str, "Plain"]:
        """The columns of text that have only plain numbers and cells without one, which are empty
        or say so. Wide files have thousands of them, and other ways of reading them take long."""
        return {
            str(name): plain
            for name, column in self.cells.items()
            if column.dtype.kind not in "iufbM" and (plain := _plain(column.tolist()))
        }

    def unit_of(self, column: str) -> str | None:
        """The unit that the file states for a column, in its row of units or in the column's name;
        of what may be a load, also the one in a column of units."""
        if column in self.units:
            return quantities.unit_of(f"[{self.units[column]}]") or self.units[column]
        unit = quantities.unit_of(column)
        if unit is None and not quantities.why_not_load(column, None):
            return self.unit_of_rows
        return unit

    def place_of(self, line: object) -> Place:
        """A place in the file, for messages. Several rows of one line have fractions."""
        return Place(self.path, f"{self.row_word} {int(line) if isinstance(line, float) else line}")


@dataclass(frozen=True)
class Plain:
    """Plain numbers, such as `-1.25`, in a column of text."""

    numbers: NDArray[np.float64]
    """The numbers, if their mark is a decimal one; NaN where one is missing."""
    mark: str
    """The mark in them: `.`, `,`, or none."""
    is_decimal: bool
    """Whether the mark of some number can only be a decimal one, because three digits do not follow
    it."""
    has_whole: bool
    """Whether some number has no mark."""


def _plain(cells: list[str]) -> Plain | None:
    """The cells of a column as plain numbers; None if some are anything else."""
    if not all(issubclass(kind, str) for kind in {*map(type, cells)}):
        return None
    if "".join(cells).strip("0123456789+.,"):
        odd_cells = (cell for cell in cells if cell.strip("0123456789+-.,"))
        if any(cell.strip().lower() not in MISSING for cell in odd_cells):
            return None
        cells = ["" if cell.strip().lower() in MISSING else cell for cell in cells]
    text = "".join(cells)
    marks = [mark for mark in ".," if mark in text]
    if not text.strip("+-.,") or len(marks) > 1:
        return None
    mark = marks[0] if marks else ""
    try:
        numbers = np.array([float(cell.replace(mark or ".", ".") or "nan") for cell in cells])
    except ValueError:
        return None
    marked_cells = (cell for cell in cells if mark in cell) if mark else ()
    is_decimal = any(THOUSANDS.fullmatch(cell) is None for cell in marked_cells)
    return Plain(numbers, mark, is_decimal, any(map(WHOLE_NUMBER.fullmatch, cells)))


def read(raw: RawFile, meters: Meters) -> RawTable:
    """The table of a file in no known format: `header` of `meters` is the line of its header,
    which is found out otherwise.

    Raises:
        DataError: there is no table; the message says what to do.
    """
    path = raw.path
    with explain_damage(path):
        if raw.cells is not None:
            return RawTable(path, raw.cells, "Parquet", raw.repeated_names, "row")
        if raw.content and (way := nested_files.way_to_rows(raw.content)) is not None:
            cells = nested_files.read(raw.content, way)
            text = cells.map(lambda value: "" if pd.isna(value) else str(value))
            return RawTable(
                path, text, f"{raw.kind}, rows in {way or 'the list'!r}", row_word="entry"
            )
        if raw.content:
            raise data_error(
                path,
                f"is {raw.kind} in no known format (docs/own-data.md lists them)",
                "export CSV instead",
            )
        if raw.kind == line_protocol.NAME:
            return RawTable(path, line_protocol.read_lines(path, raw.sheets[""]), raw.kind)
        failure = None
        for sheet, lines in raw.sheets.items():
            try:
                table = _read_text(path, lines or [""], meters, raw.kind)
            except DataError as error:
                dated_lines = _with_dates_of_name(path, lines) if raw.kind == "text" else []
                if not dated_lines:
                    failure = failure or error
                    continue
                table = _read_text(path, dated_lines, meters)
                form = f"{table.form}, the date of the file's name in all rows"
                table = replace(table, form=form)
            form = table.form + (f", in {raw.encoding}" if raw.encoding else "")
            if other_sheets := [repr(name) for name in raw.sheets if name != sheet]:
                form += f", sheet {sheet!r}, not {', '.join(other_sheets)}"
            return replace(table, form=form)
        raise failure or data_error(path, "has no sheets", "export it again")


def _read_text(path: Path, lines: list[str], meters: Meters, kind: str = "text") -> RawTable:
    """The table in lines of text, whose separator is detected, or of a workbook, with tabs."""
    stated_separator = re.fullmatch(r'"?sep=(.)"?\s*', lines[0], re.IGNORECASE)
    if stated_separator:
        lines[0] = ""
    if meters.header is not None and has_stamp(lines[meters.header - 1 :][:1]):
        raise data_error(
            path,
            f"line {meters.header} has a date, so it is no header",
            f"name the line of the columns' names in {Key('data.meters.header')}, or write one",
        )
    empty = " ".join(SEPARATORS)
    for number, line in enumerate(lines[:SAMPLE_LINES], 1):
        if (count := max(map(line.count, SEPARATORS)) + 1) > MOST_COLUMNS:
            raise DataError(describe_width(f"{path}: line {number}", count))
    sample = [number for number, line in enumerate(lines[:SAMPLE_LINES], 1) if line.strip(empty)]
    failure = None
    separators = (
        ["\t"] if kind != "text" else [stated_separator[1]] if stated_separator else SEPARATORS
    )
    for separator in separators if sample else ():
        try:
            rows = [split_fields(lines[number - 1], separator) for number in sample]
            head, begin = find_header(path, rows, sample, meters.header)
        except (DataError, csv.Error) as error:
            # Only with the right separator is a line a header.
            failure = error if failure is None or is_of_no_reading(error) else failure
            continue
        names, repeated = unique_names(rows[head] if head >= 0 else [""] * len(rows[begin]))
        date = find_date(rows[begin])
        cells, undated = _cells(path, lines, sample[begin] - 1, separator, names, date)
        # Lines that end with a separator have a last column without a name or content.
        if names[-1] == f"column {len(names)}" and (cells[names[-1]] == "").all():
            cells = cells.drop(columns=names[-1])
        form = f"{kind}, " + (f"header in line {sample[head]}" if head >= 0 else "no header")
        if kind == "text":
            form += f", separator {'tab' if separator == chr(9) else separator}"
        if undated:
            form += f", {count_in_words(undated, 'line')} without a date at the end left out"
        units = units_below(names, rows[begin - 1]) if begin - 1 > head else {}
        lines_above = rows[: max(head, 0)]
        stated_unit = find_stated_unit(lines_above)
        above = frozenset() if stated_unit else units_above(lines_above)
        table = RawTable(path, cells, form, repeated, separator=separator, units=units, above=above)
        table = replace(table, unit_of_rows=stated_unit)
        is_chosen = head < 0 or "timestamp" in meters.columns
        return table if is_chosen else _join_side_by_side(table, rows[head], date, lines_above)
    raise failure or DataError(Problem(path, "is empty", "export it again", kind=NO_READING))


def _join_side_by_side(
    table: RawTable, header: Sequence[str], date: int, lines_above: Sequence[Sequence[str]]
) -> RawTable:
    """Tables side by side, each beginning with a column of times of the same name, below each
    other, with a column of their names: these differ in one cell of the header, or stand above it.
    Those that are no loads, by their names or units, are left out. Tables whose names are not those
    of meters, and other ones, stay as they are."""
    begins = [position for position, name in enumerate(header) if name == header[date]]
    are_times = all(any(map(is_date, table.cells.iloc[:50, begin])) for begin in begins)
    if len(begins) < 2 or {*np.diff(begins)} != {begins[1]} or not are_times or METER in header:
        return table
    columns = range(min(begins[1], len(header) - begins[-1]))
    of_table = [[header[begin + column] for begin in begins] for column in columns]
    own = [column for column in columns if len({*of_table[column]}) > 1]
    above = [
        [row[begin + column].strip() for begin in begins]
        for row in lines_above
        for column in columns
        if len(row) > begins[-1] + column
    ]
    named = [of_table[own[0]]] if len(own) == 1 else [] if own else above
    named = [row for row in named if len({*row}) == len(begins) and all(map(_NAME.search, row))]
    if not named:
        return table
    units = [[quantities.unit_of(f"[{cell}]") for cell in row] for row in above]
    units += [
        [table.unit_of(str(table.cells.columns[begin + c])) for begin in begins] for c in columns
    ]
    units += [[quantities.unit_of(name) for name in named[0]]]
    reasons = [quantities.why_not_load(name, quantities.unit_of(name)) for name in named[0]]
    stated = [
        row for row in units if all(unit or why for unit, why in zip(row, reasons, strict=True))
    ]
    tables = list(
        zip(begins, named[0], *stated[:1] or [[None] * len(begins)], reasons, strict=True)
    )
    left_out = {
        name: why
        for _, name, unit, reason in tables
        if (why := reason or quantities.why_not_load(name, unit))
    }
    loads = {unit for _, name, unit, _ in tables if name not in left_out}
    meters = [_BESIDE_METER.sub("", name) for name in named[0] if name not in left_out]
    if len(loads) != 1 or (len(meters) > 1 and not quantities.are_names_of_meters(meters)):
        return table
    names_of_columns = ["value" if column in own else header[column] for column in columns]
    parts = []
    for begin, name, *_ in tables:
        part = table.cells.iloc[:, begin : begin + len(columns)].set_axis(names_of_columns, axis=1)
        part = part.set_axis(table.cells.index + begin / len(header) / 2)
        if name not in left_out:
            parts.append(part[part.iloc[:, 0].str.strip() != ""].assign(**{METER: name}))
    form = f"{table.form}, {len(begins)} tables side by side"
    if left_out:
        form += f", no loads: {', '.join(f'{name!r} ({why})' for name, why in left_out.items())}"
    unit_of_rows = loads.pop() or table.unit_of_rows
    return replace(table, cells=pd.concat(parts), form=form, unit_of_rows=unit_of_rows)


def _with_dates_of_name(path: Path, lines: Sequence[str]) -> list[str]:
    """The lines of a table of times of day with the date in the name of the file before each of
    them, and as many fields as the header; empty if the name has no day, or the times are not in
    order from its beginning, or later than the one in the name: those may be of another day."""
    date_in_name = DATE_IN_NAME.search(path.stem)
    rows = {number: match for number, line in enumerate(lines) if (match := _CLOCKED.match(line))}
    if (
        date_in_name is None or sum(map(str.isdigit, date_in_name["date"])) < 8 or len(rows) < 3
    ):  # a month
        return []
    clocks = [int(match["hours"]) * 60 + int(match["minutes"]) for match in rows.values()]
    last_clock = max(clocks)
    if clocks[-1] == 0:  # midnight at the end of the day
        clocks[-1] = MINUTES_PER_DAY
    written = re.sub(r"\D", "", date_in_name["clock"] or "2359")
    head = min(rows) - 1
    if (
        (np.diff(clocks) <= 0).any()
        or clocks[0] > 60
        or int(written[:2]) * 60 + int(written[2:]) < last_clock
        or head < 0
    ):
        return []
    try:
        day = datetime.strptime(re.sub(r"\D", "", date_in_name["date"]), "%Y%m%d").date()
    except ValueError:  # no day of the calendar
        return []
    separator = rows[head + 1]["separator"]
    width = lines[head].count(separator)
    dated_lines = list(lines)
    dated_lines[head] = f"date{separator}{lines[head]}"
    for number, clock in zip(rows, clocks, strict=True):
        padding = separator * (width - lines[number].count(separator))
        date = day + timedelta(days=clock // MINUTES_PER_DAY)
        dated_lines[number] = f"{date}{separator}{lines[number]}{padding}"
    return dated_lines


def split_fields(line: str, separator: str) -> list[str]:
    """The fields of a line."""
    if '"' not in line or separator not in line:  # the csv module refuses long fields
        return [field.lstrip(" ") for field in line.split(separator)]
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])


def _cells(
    path: Path, lines: Sequence[str], begin: int, separator: str, names: Sequence[str], date: int
) -> tuple[pd.DataFrame, int]:
    """The rows of data, and how many rows without a date at the end are left out."""
    last = [
        split_fields(line, separator)
        for line in lines[max(begin, len(lines) - _MOST_UNDATED_LINES) :]
    ]
    end = len(lines) - count_undated(last, date, len(names))
    empty = f"{separator} "
    undated = sum(bool(line.strip(empty)) for line in lines[end:])
    numbers = [number for number in range(begin, end) if lines[number].strip(empty)]
    return cells_of(path, lines, numbers, separator, names), undated


def cells_of(
    path: Path,
    lines: Sequence[str],
    numbers: Sequence[int],
    separator: str,
    names: Sequence[str],
    is_padded: bool = False,
) -> pd.DataFrame:
    """The fields of some lines, given by their positions, as text in columns with these names, one
    row per line. A line with more fields is refused, unless they are empty, and one with fewer,
    unless the table `is_padded` with empty fields."""
    try:
        chosen_lines = [lines[number] for number in numbers]
        rows = list(csv.reader(chosen_lines, delimiter=separator, skipinitialspace=True))
    except csv.Error:  # a field without end
        rows = []
    if len(rows) != len(numbers):
        odd = (number for number in numbers if lines[number].count('"') % 2)
        raise data_error(
            f"{path}: line {next(odd, numbers[0]) + 1}",
            "a field has several lines, or a quotation mark is not closed",
            "fix or remove it",
        )
    width = len(names)
    wrong: list[tuple[int, int]] = []
    for position, row in enumerate(rows):
        if len(row) == width:
            continue
        count = max(len(strip_row(row)), min(len(row), width))
        if count > width or (count < width and not is_padded):
            wrong.append((numbers[position] + 1, count))
        rows[position] = row[:width] + [""] * (width - len(row))
    if wrong:
        number, count = wrong[0]
        raise data_error(
            path,
            f"line {number} has {count_in_words(count, 'field')}, the header has {width} "
            f"({count_in_words(len(wrong), 'such line')})",
            "fix or remove them, or give the line of the header in "
            f"{Key('data.meters.header')} (decimal commas need semicolons as separators)",
        )
    table = np.array(rows, dtype=object).reshape(len(rows), width)
    # As columns of type str, thousands of them would take long.
    return pd.DataFrame(table, pd.Index(numbers) + 1, list(names), dtype=object)
