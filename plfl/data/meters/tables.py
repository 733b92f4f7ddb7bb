"""Turns a raw file into a table: detects its form, its header and the separator of its fields."""

import csv
import gzip
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plfl.base.errors import DataError, Place, Problem, data_error
from plfl.base.extras import install_command
from plfl.base.keys import Key
from plfl.base.lazy import xlrd
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.base.text import count_in_words
from plfl.config.meters import Meters
from plfl.data.meters import line_protocol, quantities
from plfl.data.meters.formats import nested_files
from plfl.data.meters.quantities import WITH_UNIT
from plfl.data.meters.vocabulary import WORDS, is_known

_IN_ARCHIVES = (".csv", ".csv.gz", ".tsv", ".txt", ".log", ".lp", ".xml", ".json", ".jsonl")
SUFFIXES = (*_IN_ARCHIVES, ".parquet", ".xlsx", ".xls", ".zip")
"""Endings of the names of raw files."""

SEPARATORS = (";", "\t", "|", ",")
"""What may separate fields; a comma last, as it may be a decimal comma."""
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = (
    rf"(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:\d{{4}}|\d{{2}})"
    rf"|\d{{1,2}}[-/ ]?{_MONTH}[-/ ]?\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}})(?!\d)"
)
WEEKDAY = rf"(?:{WORDS.weekdays.pattern})[.,]*\s+(?={_DATE})"
"""A day of the week before a date."""
DATE_AT_BEGINNING = re.compile(rf"\s*(?:{WEEKDAY})?{_DATE}", re.IGNORECASE)
"""The beginning of a field with a date."""
_AFTER_DATE = re.compile(r"[T\d\s:.+-]*(?:[ap]\.?m\.?|Z)?\W*", re.IGNORECASE)
"""What is beside the date in a stamp."""
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
DATE_SPAN = re.compile(rf"\s*{_DATE}\s*(?:[-–]|to|bis|a)\s*{_DATE}\s*", re.IGNORECASE)
"""A span of days, such as a billing period."""
DATE_DIGITS = re.compile(
    r"\s*(?:\d{8}(?:[T ]?\d{4}(?:\d{2})?)?|\d{9,10}(?:\.\d+)?|\d{13}|\d{16}|\d{19})\s*"
)
"""A date without separators, or seconds to nanoseconds since 1970."""
_FORMULA_TEXT = re.compile(
    r'(?:^|(?<=[;,|\t]))(?:"=""([^"\n]*)"""|="([^"\n]*)")(?=[;,|\t\r]|$)', re.MULTILINE
)
"""A cell such as `="00123"`, which keeps spreadsheets from reading a number."""
DATE_IN_NAME = re.compile(
    r"(?<!\d)(?P<date>20\d\d(?P<mark>[-_.]?)(?:0[1-9]|1[0-2])(?:(?P=mark)[0-3]\d)?)"
    r"(?:[-_T ](?P<clock>[0-2]\d[-_.]?[0-5]\d)(?:[-_.]?[0-5]\d)?)?(?!\d)"
)
"""A month or a day in the name of a file, perhaps with a time of day."""
_FRACTION = re.compile(r"[+-]?\d+[.,]\d+")
_CLOCKED = re.compile(
    r'\s*"?(?P<hours>[0-2]?\d):(?P<minutes>[0-5]\d)(?::00)?"?\s*(?P<separator>[;,\t|])'
)
"""The beginning of a line with a time of day."""
_CUT_NUMBER = re.compile(r"[;,|\t]\s*[+-]?\d+\.$|[;|\t]\s*[+-]?\d+,$")
"""The end of a line whose last number ends with its decimal mark."""
_NAME = re.compile(r"[^\W\d_]|^\s*(?!20\d\d\s*$)\d+\s*$")
"""What the name of a table has, unlike a date, a year or another number."""
_BESIDE_METER = re.compile(rf"{WITH_UNIT.pattern}|\bmain\b", re.IGNORECASE)
"""What does not tell one meter from another: a unit, and the meter of a whole building."""
METER = "meter"
"""The column with the names of tables that stand side by side."""
_LOGGED = re.compile(r"(\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d) ([^ ,]+) ([^ ,]+)")
"""A line of a log of FHEM (FileLog): its date, time, reading and value."""
NO_READING = "no reading yet"
"""What is wrong with a file, or a meter in it, that an hourly export may have just begun."""
NO_CONSUMPTION = "no consumption"
"""What is wrong with a file of feed-in, gas or such: it is left out beside one of consumption."""
_SAMPLE = 300  # lines in which the header must be
_MOST_UNDATED_LINES = 10  # lines at the end that may be blank or have no date, such as totals
_CELL = 8  # bytes that a cell of a typed file counts
_MOST_COLUMNS = 30_000
_HEAD = 2000  # characters of a long line that are looked at
_ENCODINGS = ("cp1252", "cp1250", "cp1251", "cp1253", "cp1255", "cp932")
"""Encodings of text that is not UTF-8, the most usual one first."""
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"
"""How workbooks of old Excel (.xls) begin."""
_MARKED_UP_TABLE = re.compile(
    rb"\s*<(?:!doctype html|html|head|meta|style|table)\b.*?<t[dh][\s>]"
    rb"|\s*<\?.{0,500}urn:schemas-microsoft-com:office:spreadsheet",
    re.IGNORECASE | re.DOTALL,
)
"""A table that spreadsheet programs open, and portals write under the name of workbooks."""


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
    unit: str = "line"
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
        return Place(self.path, f"{self.unit} {int(line) if isinstance(line, float) else line}")


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


def reason_unreadable(path: Path) -> str | None:
    """Why a path cannot be read; None if it can. A pipe or a device is refused, because reading it
    might never end, and a name that is not UTF-8, because no table can hold it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8; rename it"
    if path.is_file():
        return None
    if path.exists():
        return "is a pipe, a device or a folder, not a file; copy its content into a file"
    return "the file does not exist; check the path"


@dataclass(frozen=True)
class RawFile:
    """The content of a file, before anything about its columns is known."""

    path: Path
    kind: str
    """`text`, `XLSX`, `XLS`, `Parquet`, `XML` or `JSON`."""
    sheets: Mapping[str, list[str]] = field(default_factory=dict)
    """The lines of a text (as the only sheet), or a line for each row of a workbook's sheets, whose
    cells are separated by tabs."""
    cells: pd.DataFrame | None = None
    """The columns of Parquet."""
    repeated_names: frozenset[str] = frozenset()
    """Names that several of these columns have."""
    content: bytes = b""
    """XML or JSON."""
    encoding: str = ""
    """That of a text, if it was assumed."""

    @property
    def is_workbook(self) -> bool:
        """Whether its cells are numbers and dates of a spreadsheet program."""
        return self.kind in ("XLSX", "XLS")

    @property
    def is_blank(self) -> bool:
        """Whether it is text without any."""
        return self.kind == "text" and not any(map(str.strip, self.sheets[""]))

    @property
    def head(self) -> str:
        """Its first lines."""
        if self.content:
            return self.content[:_HEAD].decode("utf-8", "replace")
        return "\n".join(line[:_HEAD] for lines in self.sheets.values() for line in lines[:60])


def open_files(path: Path, meters: Meters) -> list[RawFile]:
    """The content of a file, or of the files in a zip archive. It determines the kind, not the
    ending of the name. `meters` has `encoding` and `max_size`.

    Raises:
        DataError: the file cannot be read, or is too large; the message lists all problems.
    """
    if problem := reason_unreadable(path):
        raise data_error(path, problem)
    with _damage_explained(path):
        with path.open("rb") as file:
            begins = file.read(8)
            if begins.startswith(b"PAR1"):
                return [_open_parquet(path, meters.max_size)]
            if not begins.startswith(b"PK"):
                file.seek(0)
                return [_open_content(path, file, meters)]
        with ZipFile(path) as archive:
            names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
            if sum(entry.file_size for entry in archive.infolist()) > meters.max_size * 1e6:
                raise _too_large(path, meters.max_size)
            if any(name.startswith("xl/") for name in names):
                return [_open_workbook(path, meters)]
            parts = [name for name in sorted(names) if _is_readings_file(name)]
            parts = [name for name in parts if not name.lower().endswith(".log")] or parts
            if not parts:
                listing = ", ".join(map(repr, names[:3])) or "nothing"
                raise data_error(
                    path, f"is a zip archive of {listing}", "unpack it, and name its files"
                )
            files = []
            for name in parts:
                with archive.open(name) as part:
                    files.append(_open_content(path / name, part, meters))
            return files


def read(raw: RawFile, meters: Meters) -> RawTable:
    """The table of a file in no known format: `header` of `meters` is the line of its header,
    which is found out otherwise.

    Raises:
        DataError: there is no table; the message says what to do.
    """
    path = raw.path
    with _damage_explained(path):
        if raw.cells is not None:
            return RawTable(path, raw.cells, "Parquet", raw.repeated_names, "row")
        if raw.content and (way := nested_files.way_to_rows(raw.content)) is not None:
            cells = nested_files.read(raw.content, way)
            text = cells.map(lambda value: "" if pd.isna(value) else str(value))
            return RawTable(path, text, f"{raw.kind}, rows in {way or 'the list'!r}", unit="entry")
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


@contextmanager
def _damage_explained(path: Path) -> Iterator[None]:
    """Whatever a damaged file makes its parser raise becomes a DataError."""
    try:
        yield
    except DataError:
        raise
    except MemoryError:
        raise data_error(
            path,
            "there is too little memory to read it",
            "close other programs, or divide the file",
        ) from None
    except Exception as error:  # parsers of damaged files raise almost anything
        message = str(error) or type(error).__name__
        raise data_error(path, f"cannot be read ({message})", "export it again") from error


def _is_readings_file(name: str) -> bool:
    """Whether a file in an archive has readings, by its name."""
    *folders, last = name.split("/")
    is_hidden = last.startswith(".") or "__MACOSX" in folders
    return last.lower().endswith(_IN_ARCHIVES) and not is_hidden


def _open_content(path: Path, file: IO[bytes], meters: Meters) -> RawFile:
    """The content of a file of text, which is at the position of `file`."""
    content = file.read(2)
    opened_file: IO[bytes] | gzip.GzipFile = file
    if content == b"\x1f\x8b":
        file.seek(0)
        opened_file, content = gzip.GzipFile(fileobj=file), b""
    most_bytes = int(meters.max_size * 1e6)
    content += opened_file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise _too_large(path, meters.max_size)
    if content.startswith(_OLD_EXCEL):
        return _open_old_workbook(path, content, meters.max_size)
    if content.startswith(b"%PDF"):
        raise data_error(path, "is a PDF", "export CSV, XLSX or Parquet instead")
    if _MARKED_UP_TABLE.match(content.removeprefix(BOM_UTF8)):
        remedy = "open it in a spreadsheet program, and save it as XLSX or CSV"
        raise data_error(
            path,
            "is a table in HTML or XML for spreadsheet programs, whatever its name says",
            remedy,
        )
    if re.match(rb"(?:\xef\xbb\xbf)?\s*<(?!/)[?!a-zA-Z]", content[:100]):
        return RawFile(path, "XML", content=content)
    if re.match(rb"(?:\xef\xbb\xbf)?\s*[\[{]\s*[\[{\"\]}]", content[:1000]):
        return RawFile(path, "JSON", content=content)
    lines, encoding = _lines(path, content, meters)
    lines = _without_blanks(lines)
    _refuse_cut(path, lines)
    if line_protocol.is_protocol(lines):
        return RawFile(path, line_protocol.NAME, {"": lines}, encoding=encoding)
    return RawFile(path, "text", {"": lines}, encoding=encoding)


def _without_blanks(lines: list[str]) -> list[str]:
    """The lines, or, of a log of FHEM, such as `2015-01-05_00:04:25 kWh 12345.6`, a table."""
    if not _LOGGED.fullmatch(lines[0]):
        return lines
    logged = [_LOGGED.fullmatch(line) for line in lines if line.strip()]
    if not all(logged):
        return lines
    return ["time,reading,value", *(f"{m[1]} {m[2]},{m[3]},{m[4]}" for m in logged if m)]


def _refuse_cut(path: Path, lines: Sequence[str]) -> None:
    """Refuse a text that ends within a number: at a decimal mark, with which no other line ends."""
    if _CUT_NUMBER.search(lines[-1]) and not any(map(_CUT_NUMBER.search, lines[:-1])):
        raise data_error(
            Place(path, f"line {len(lines)}"),
            f"the file ends within a number, {lines[-1][-20:]!r}",
            "copy it again when it is whole, or complete its last line",
        )


def _too_large(path: Path, max_size: float) -> DataError:
    return data_error(
        path,
        f"holds more than {max_size:g} MB of data",
        f"divide it, or raise {Key('data.meters.max_size')}",
    )


# -- typed values --------------------------------------------------------------------------------


def _open_parquet(path: Path, max_size: float) -> RawFile:
    """The columns of single values in a Parquet file, and its index, if it has one."""
    with pq.ParquetFile(path) as file:
        flat = [field.name for field in file.schema_arrow if not pa.types.is_nested(field.type)]
        if len(flat) > _MOST_COLUMNS:
            raise DataError(_too_wide(str(path), len(flat)))
        if file.metadata.num_rows * len(flat) * _CELL > max_size * 1e6:
            raise _too_large(path, max_size)
        table = file.read(columns=flat)
    table.validate(full=True)  # damaged text is refused here
    # Without the pandas metadata, an index is an ordinary column.
    cells: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    names, repeated_names = unique_names(list(map(str, cells.columns)))
    cells = cells.set_axis(pd.RangeIndex(1, len(cells) + 1)).set_axis(names, axis=1)
    return RawFile(path, "Parquet", cells=cells, repeated_names=repeated_names)


# -- workbooks -----------------------------------------------------------------------------------


def _open_workbook(path: Path, meters: Meters) -> RawFile:
    """The sheets of a workbook, as lines of text with a line for each row."""
    if find_spec("openpyxl") is None:
        raise data_error(
            path, "XLSX files need openpyxl", f"{install_command('xlsx')}, or save the sheet as CSV"
        )
    from openpyxl import load_workbook

    values_book, formulas_book = (
        load_workbook(path, read_only=True, data_only=data_only, keep_links=False)
        for data_only in (True, False)
    )
    sheets = {}
    for name in [sheet.title for sheet in values_book.worksheets]:
        views = values_book[name], formulas_book[name]
        sheets[name] = _rows_of_sheet(path, views, meters.max_size)
    return RawFile(path, "XLSX", sheets)


def _rows_of_sheet(path: Path, sheets: Sequence[Any], max_size: float) -> list[str]:
    """The rows of a sheet as lines, given with the values and with the formulas of its cells."""
    for sheet in sheets:
        sheet.reset_dimensions()  # the size in the file may be wrong
    both_views = zip(*(s.iter_rows(values_only=True) for s in sheets), strict=True)
    return _lines_of_rows(path, _with_formulas_checked(path, both_views), max_size)


def _with_formulas_checked(path: Path, views: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """The values of rows, given with their formulas, whose values must be stored."""
    for number, (values, formulas) in enumerate(views, 1):
        for value, formula in zip(values, formulas, strict=False):
            if value is None and formula is not None:
                raise data_error(
                    path,
                    f"row {number}: the value of the formula {str(formula)!r} is not stored",
                    "open the workbook in a spreadsheet program and save it, or save it as CSV",
                )
        yield values


def _open_old_workbook(path: Path, content: bytes, max_size: float) -> RawFile:
    """The sheets of a workbook of old Excel, with cells as those of newer ones."""
    book = xlrd.open_workbook(file_contents=content, logfile=StringIO())

    def value_of(cell: xlrd.sheet.Cell) -> object:
        if cell.ctype == xlrd.XL_CELL_DATE:
            stamp = pd.Timestamp(xlrd.xldate_as_datetime(cell.value, book.datemode)).round("s")
            return stamp.time() if cell.value < 1 else stamp.to_pydatetime()
        if cell.ctype == xlrd.XL_CELL_NUMBER and cell.value == int(cell.value):
            return int(cell.value)
        if cell.ctype == xlrd.XL_CELL_BOOLEAN:
            return bool(cell.value)
        if cell.ctype == xlrd.XL_CELL_ERROR:
            return xlrd.error_text_from_code[cell.value]
        return cell.value

    sheets = {}
    for sheet in book.sheets():
        rows = (list(map(value_of, row)) for row in sheet.get_rows())
        sheets[sheet.name] = _lines_of_rows(path, rows, max_size)
    return RawFile(path, "XLS", sheets)


def _lines_of_rows(
    path: Path, values_of_rows: Iterable[Sequence[Any]], max_size: float
) -> list[str]:
    """The rows of a sheet as lines."""
    rows: list[list[str]] = []
    width = 0
    for values in values_of_rows:
        rows.append(_strip_row([_cell(value) for value in values]))
        width = max(width, len(rows[-1]))
        if width * len(rows) * _CELL > max_size * 1e6:
            raise _too_large(path, max_size)
    while rows and not rows[-1]:
        rows.pop()
    return ["\t".join(row + [""] * (width - len(row))) for row in rows]


def _cell(cell: object) -> str:
    """A cell of a workbook as a field of a line."""
    if isinstance(cell, datetime):
        return str(pd.Timestamp(cell).round("s"))  # Excel's days have rounding errors
    return "" if cell is None else re.sub(r'[\t\r\n"]', " ", str(cell))


# -- text ----------------------------------------------------------------------------------------


def _read_text(path: Path, lines: list[str], meters: Meters, kind: str = "text") -> RawTable:
    """The table in lines of text, whose separator is detected, or of a workbook, with tabs."""
    stated_separator = re.fullmatch(r'"?sep=(.)"?\s*', lines[0], re.IGNORECASE)
    if stated_separator:
        lines[0] = ""
    if meters.header is not None and _has_stamp(lines[meters.header - 1 :][:1]):
        raise data_error(
            path,
            f"line {meters.header} has a date, so it is no header",
            f"name the line of the columns' names in {Key('data.meters.header')}, or write one",
        )
    empty = " ".join(SEPARATORS)
    for number, line in enumerate(lines[:_SAMPLE], 1):
        if (count := max(map(line.count, SEPARATORS)) + 1) > _MOST_COLUMNS:
            raise DataError(_too_wide(f"{path}: line {number}", count))
    sample = [number for number, line in enumerate(lines[:_SAMPLE], 1) if line.strip(empty)]
    failure = None
    separators = (
        ["\t"] if kind != "text" else [stated_separator[1]] if stated_separator else SEPARATORS
    )
    for separator in separators if sample else ():
        try:
            rows = [split_fields(lines[number - 1], separator) for number in sample]
            head, begin = _header(path, rows, sample, meters.header)
        except (DataError, csv.Error) as error:
            # Only with the right separator is a line a header.
            failure = error if failure is None or _is_of_no_reading(error) else failure
            continue
        names, repeated = unique_names(rows[head] if head >= 0 else [""] * len(rows[begin]))
        date = _date_in(rows[begin])
        cells, undated = _cells(path, lines, sample[begin] - 1, separator, names, date)
        # Lines that end with a separator have a last column without a name or content.
        if names[-1] == f"column {len(names)}" and (cells[names[-1]] == "").all():
            cells = cells.drop(columns=names[-1])
        form = f"{kind}, " + (f"header in line {sample[head]}" if head >= 0 else "no header")
        if kind == "text":
            form += f", separator {'tab' if separator == chr(9) else separator}"
        if undated:
            form += f", {count_in_words(undated, 'line')} without a date at the end left out"
        units = _units(names, rows[begin - 1]) if begin - 1 > head else {}
        lines_above = rows[: max(head, 0)]
        stated_unit = _stated_above(lines_above)
        above = frozenset() if stated_unit else _above(lines_above)
        table = RawTable(path, cells, form, repeated, separator=separator, units=units, above=above)
        table = replace(table, unit_of_rows=stated_unit)
        is_chosen = head < 0 or "timestamp" in meters.columns
        return table if is_chosen else _stack(table, rows[head], date, lines_above)
    raise failure or DataError(Problem(path, "is empty", "export it again", kind=NO_READING))


def _stack(
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


def _lines(path: Path, content: bytes, meters: Meters) -> tuple[list[str], str]:
    """The lines of a text, and the encoding that was assumed, if it is neither that of the keys nor
    UTF-16 and no key names one: the one in which the most words are known. Letters of names may be
    wrong then, but no number.
    """
    encoding, assumed = meters.encoding, ""
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        encoding = "utf-16"
    elif b"\0" in content[:2] and "encoding" not in meters.model_fields_set:
        encoding = "utf-16-le" if content[1] == 0 else "utf-16-be"
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeError:
        text = "\0"
        if "encoding" not in meters.model_fields_set:
            encoding = assumed = max(
                _ENCODINGS, key=lambda name: _known_words(content[:_HEAD].decode(name, "replace"))
            )
            text = content.decode(encoding, "replace")
    if "\0" in text[:1000]:
        other_encoding = "utf-16" if b"\0" in content[:1000] else "cp1252"
        raise data_error(
            path,
            f"is not {encoding} text",
            f"save it as UTF-8, or set {Key('data.meters.encoding', repr(other_encoding))} "
            "or another one",
        )
    if '="' in text:
        text = _FORMULA_TEXT.sub(r'"\1\2"', text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines, assumed


def _known_words(text: str) -> int:
    """How many words with letters that depend on the encoding are known."""
    words = {*re.findall(r"[^\W\d_]+", text)}
    return sum(not word.isascii() and is_known(word) for word in words)


def _too_wide(place: str, columns: int) -> str:
    return (
        f"{place} has {columns} columns, more than {_MOST_COLUMNS}; divide the file, or write one "
        "row per meter and time"
    )


def split_fields(line: str, separator: str) -> list[str]:
    """The fields of a line."""
    if '"' not in line or separator not in line:  # the csv module refuses long fields
        return [field.lstrip(" ") for field in line.split(separator)]
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])


def _header(
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
        dates += [_dates_in(row) if len(row) > 1 else set() for row in next_rows]
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
        if begin == 0 or dates[begin - 1] & dates[begin] or len(_strip_row(rows[begin - 1])) < 2:
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
    if rows and len(rows) < _SAMPLE and _is_header_only(rows):
        text = "has a header and no reading yet"
        raise DataError(Problem(path, text, "export it again", kind=NO_READING))
    if not any(_dates_in(row) or _has_date(row) for row in rows[:_SAMPLE]):
        raise data_error(
            path,
            f"no date was found in the first {_SAMPLE} lines",
            "write dates in digits, such as 2023-01-31 13:00, in a column with a header; if the "
            "file has numbers such as 45412.25 instead, format these cells as dates",
        )
    may_be_named = not all(map(_has_date, rows[:_SAMPLE]))
    raise data_error(
        path,
        f"no header followed by lines with a date was found in the first {_SAMPLE} lines",
        "write one with a name for each field, such as `time,load`"
        + (f", or give its line in {Key('data.meters.header')}" if may_be_named else ""),
    )


def _has_date(row: Sequence[str]) -> bool:
    """Whether some field of a row has a date, whatever separates the fields."""
    return any(map(DATE_AT_BEGINNING.match, _fields_of(row)))


def _has_stamp(row: Sequence[str]) -> bool:
    """Whether some field of a row is a date, or one and a time, whatever separates the fields."""
    dates = filter(None, map(DATE_AT_BEGINNING.match, _fields_of(row)))
    return any(_AFTER_DATE.fullmatch(date.string, date.end()) for date in dates)


def _fields_of(row: Sequence[str]) -> list[str]:
    return re.split("|".join(map(re.escape, SEPARATORS)), SEPARATORS[0].join(row))


def _has_clear_fields(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows without a header have two fields, or one with a fraction: more of whole numbers
    may be parts of numbers with decimal commas."""
    return len(rows[0]) == 2 or any(_FRACTION.fullmatch(field) for row in rows for field in row)


def _is_of_no_reading(error: Exception) -> bool:
    """Whether an error says that a file has no reading yet."""
    return isinstance(error, DataError) and error.problems[0].kind == NO_READING


def _is_header_only(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the last row may be a header, of several words and no number, one of them for times,
    without a date in it or in a row of as many fields."""
    *_, last = map(_strip_row, rows)
    is_header = len(last) > 1 and all(re.search(r"[^\W\d_]", field) for field in last)
    is_table = any(_dates_in(row) for row in rows if len(_strip_row(row)) >= len(last))
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


def _above(rows: Sequence[Sequence[str]]) -> frozenset[str]:
    """The units of energy or power that the lines above the header name."""
    units = {quantities.unit_of(field.strip()) for row in rows for field in row}
    return frozenset(unit for unit in units if unit in quantities.LOAD_UNITS)


def _stated_above(rows: Sequence[Sequence[str]]) -> str | None:
    """The only unit above the header, if a line of its own says what is measured in it, such as
    `Consumption in kWh`, or that it is the unit, such as `Unit;kWh`."""
    units = {unit for row in rows for field in row if (unit := quantities.unit_of(field.strip()))}
    stripped_rows = [_strip_row(row) for row in rows]
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


def _date_in(row: Sequence[str]) -> int:
    """The position of the date in a row of data."""
    forms: tuple[Callable[[str], object], ...] = (DATE_AT_BEGINNING.match, is_date)
    return next(position for form in forms for position, words in enumerate(row) if form(words))


def _count_undated(rows: Sequence[Sequence[str]], date: int, width: int) -> int:
    """The number of rows at the end, of up to `width` fields, that have no date at its position, or
    are called totals."""
    undated = 0
    for row in reversed(rows):
        is_dated = date < len(row) and is_date(row[date])
        if len(_strip_row(row)) > width or (is_dated and not any(f in WORDS.totals for f in row)):
            break
        undated += 1
    return undated


def _units(names: Sequence[str], row: Sequence[str]) -> dict[str, str]:
    """The units of the columns in the row between header and readings, if it is one of units."""
    if not _is_units(row):
        return {}
    return {
        name: unit.strip("[()] ")
        for name, unit in zip(names[1:], row[1:], strict=False)
        if unit.strip("[()] ")
    }


def is_date(field: str) -> bool:
    """Whether a field begins with a date or is a number that can be one."""
    return bool(DATE_AT_BEGINNING.match(field) or DATE_DIGITS.fullmatch(field))


def _dates_in(row: Sequence[str]) -> set[int]:
    """The positions of the dates in a row."""
    return {position for position, field in enumerate(row) if is_date(field)}


def _strip_row(row: Sequence[str]) -> list[str]:
    row = list(row)
    while row and not row[-1].strip():
        row.pop()
    return row


def unique_names(row: Sequence[str]) -> tuple[list[str], frozenset[str]]:
    """Unique names of the columns, and the names that several columns have. Columns without a name
    and those of the same name are numbered."""
    names = [name.strip() or f"column {n}" for n, name in enumerate(row, 1)]
    unique: dict[str, None] = {}
    repeated_names = set()
    for name in names:
        free, n = name, 1
        while free in unique or (n > 1 and free in names):
            n += 1
            free = f"{name} ({n})"
        if n > 1:
            repeated_names.add(name)
        unique[free] = None
    return list(unique), frozenset(repeated_names)


def _cells(
    path: Path, lines: Sequence[str], begin: int, separator: str, names: Sequence[str], date: int
) -> tuple[pd.DataFrame, int]:
    """The rows of data, and how many rows without a date at the end are left out."""
    last = [
        split_fields(line, separator)
        for line in lines[max(begin, len(lines) - _MOST_UNDATED_LINES) :]
    ]
    end = len(lines) - _count_undated(last, date, len(names))
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
        count = max(len(_strip_row(row)), min(len(row), width))
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
