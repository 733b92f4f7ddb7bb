"""Finds the header of a table in rows of text, its dates, and the units that stand around it."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from plfl.base.errors import DataError, Problem, data_error
from plfl.base.keys import Key
from plfl.data.meters import quantities
from plfl.data.meters.dates import AFTER_DATE, DATE_AT_BEGINNING, find_dates, is_date
from plfl.data.meters.file_contents import NO_READING, strip_row
from plfl.data.meters.vocabulary import WORDS

SEPARATORS = (";", "\t", "|", ",")
"""What may separate fields; a comma last, as it may be a decimal comma."""
_FRACTION = re.compile(r"[+-]?\d+[.,]\d+")
SAMPLE_LINES = 300  # lines in which the header must be


def find_header(
    path: Path, rows: Sequence[Sequence[str]], numbers: Sequence[int], header: int | None
) -> tuple[int, int]:
    """Positions of the header, -1 if the first row is one of data, and of the first row of data.

    The data begin with the first three consecutive rows (fewer at the end of the file) that have
    a date in the same column and the same number of fields; the header is the row before them, or
    the one before a row of units.
    """
    dates: list[set[int]] = []
    for begin in range(len(rows)):
        run = slice(begin, begin + 3)
        next_rows = rows[len(dates) : begin + 3]
        dates += [find_dates(row) if len(row) > 1 else set() for row in next_rows]
        if header is not None and numbers[begin] <= header:
            continue
        if not set.intersection(*dates[run]) or len({len(row) for row in rows[run]}) > 1:
            continue
        if header is not None:
            if header not in numbers:
                break
            return numbers.index(header), begin
        if begin == 0 and any(map(DATE_AT_BEGINNING.match, rows[0])) and _has_clear_fields(rows):
            return -1, 0
        # Data often end their lines with a separator that the header does not have.
        if begin == 0 or dates[begin - 1] & dates[begin] or len(strip_row(rows[begin - 1])) < 2:
            break
        # A row of data with a damaged date is not the header of the rows below it. Spreadsheets pad
        # the lines of a preamble, perhaps with a date, to the same length, so a header must have
        # only words.
        words = all(re.search(r"[^\W\d_]", field) for field in rows[begin - 1])
        is_after_data = begin > 1 and dates[begin - 2] and len(rows[begin - 2]) == len(rows[begin])
        if is_after_data and not words:
            break
        head = begin - 1
        if head > 0 and _is_units(rows[head]) and len(rows[head - 1]) == len(rows[head]):
            head -= 1
        return head, begin
    if rows and len(rows) < SAMPLE_LINES and _is_header_only(rows):
        text = "has a header and no reading yet"
        raise DataError(Problem(path, text, "export it again", kind=NO_READING))
    if not any(find_dates(row) or _has_date(row) for row in rows[:SAMPLE_LINES]):
        raise data_error(
            path,
            f"no date was found in the first {SAMPLE_LINES} lines",
            "write dates in digits, such as 2023-01-31 13:00, in a column with a header; if the "
            "file has numbers such as 45412.25 instead, format these cells as dates",
        )
    may_be_named = not all(map(_has_date, rows[:SAMPLE_LINES]))
    raise data_error(
        path,
        f"no header followed by lines with a date was found in the first {SAMPLE_LINES} lines",
        "write one with a name for each field, such as `time,load`"
        + (f", or give its line in {Key('data.meters.header')}" if may_be_named else ""),
    )


def _has_date(row: Sequence[str]) -> bool:
    """Whether some field of a row has a date, whatever separates the fields."""
    return any(map(DATE_AT_BEGINNING.match, _fields_of(row)))


def has_stamp(row: Sequence[str]) -> bool:
    """Whether some field of a row is a date, or one and a time, whatever separates the fields."""
    dates = filter(None, map(DATE_AT_BEGINNING.match, _fields_of(row)))
    return any(AFTER_DATE.fullmatch(date.string, date.end()) for date in dates)


def _fields_of(row: Sequence[str]) -> list[str]:
    return re.split("|".join(map(re.escape, SEPARATORS)), SEPARATORS[0].join(row))


def _has_clear_fields(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows without a header have two fields, or one with a fraction: more of whole numbers
    may be parts of numbers with decimal commas."""
    return len(rows[0]) == 2 or any(_FRACTION.fullmatch(field) for row in rows for field in row)


def is_of_no_reading(error: Exception) -> bool:
    """Whether an error says that a file has no reading yet."""
    return isinstance(error, DataError) and error.problems[0].kind == NO_READING


def _is_header_only(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the last row may be a header, of several words and no number, one of them for times,
    without a date in it or in a row of as many fields."""
    *_, last = map(strip_row, rows)
    is_header = len(last) > 1 and all(re.search(r"[^\W\d_]", field) for field in last)
    is_table = any(find_dates(row) for row in rows if len(strip_row(row)) >= len(last))
    return is_header and not is_table and any(map(WORDS.times.has_word_of, last))


def _is_units(row: Sequence[str]) -> bool:
    """Whether a row states units, and otherwise has only empty fields, `-` or brackets; its first
    field may say so."""
    first, *other_fields = (field.strip() for field in row or [""])
    fields = [*([] if first in WORDS.units else [first]), *other_fields]
    units = [quantities.unit_of(f"[{field.strip('[()] ')}]") for field in fields]
    return any(units[-len(other_fields) :]) and all(
        unit or re.fullmatch(r"-?|\[.*\]|\(.*\)", field)
        for unit, field in zip(units, fields, strict=True)
    )


def units_above(rows: Sequence[Sequence[str]]) -> frozenset[str]:
    """The units of energy or power that the lines above the header name."""
    units = {quantities.unit_of(field.strip()) for row in rows for field in row}
    return frozenset(unit for unit in units if unit in quantities.LOAD_UNITS)


def find_stated_unit(rows: Sequence[Sequence[str]]) -> str | None:
    """The only unit above the header, if a line of its own says what is measured in it, such as
    `Consumption in kWh`, or that it is the unit, such as `Unit;kWh`."""
    units = {unit for row in rows for field in row if (unit := quantities.unit_of(field.strip()))}
    stripped_rows = [strip_row(row) for row in rows]
    lone = [row[0] for row in stripped_rows if len(row) == 1]
    stated_units = {
        quantities.unit_of(row[1].strip())
        for row in stripped_rows
        if len(row) == 2 and row[0].strip(": ") in WORDS.units
    } | {
        quantities.unit_of(field)
        for field in lone
        if quantities.kind_of(field) and quantities.names_quantity(field)
        if not re.search(r"\d", field)
    }
    return (
        stated_units.pop()
        if len(units) == len(stated_units) == 1 and units <= {*quantities.LOAD_UNITS}
        else None
    )


def find_date(row: Sequence[str]) -> int:
    """The position of the date in a row of data."""
    forms: tuple[Callable[[str], object], ...] = (DATE_AT_BEGINNING.match, is_date)
    return next(position for form in forms for position, words in enumerate(row) if form(words))


def count_undated(rows: Sequence[Sequence[str]], date: int, width: int) -> int:
    """The number of rows at the end, of up to `width` fields, that have no date at its position, or
    are called totals."""
    undated = 0
    for row in reversed(rows):
        is_dated = date < len(row) and is_date(row[date])
        if len(strip_row(row)) > width or (is_dated and not any(f in WORDS.totals for f in row)):
            break
        undated += 1
    return undated


def units_below(names: Sequence[str], row: Sequence[str]) -> dict[str, str]:
    """The units of the columns in the row between header and readings, if it is one of units."""
    if not _is_units(row):
        return {}
    return {
        name: unit.strip("[()] ")
        for name, unit in zip(names[1:], row[1:], strict=False)
        if unit.strip("[()] ")
    }
