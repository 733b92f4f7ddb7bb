"""Opens a raw file: its lines, cells or content, whatever its kind and its encoding."""

import gzip
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from plfl.base.errors import DataError, Place, data_error
from plfl.base.extras import install_command
from plfl.base.keys import Key
from plfl.base.lazy import xlrd
from plfl.config.meters import Meters
from plfl.data.meters import line_protocol
from plfl.data.meters.vocabulary import is_known

_IN_ARCHIVES = (".csv", ".csv.gz", ".tsv", ".txt", ".log", ".lp", ".xml", ".json", ".jsonl")
SUFFIXES = (*_IN_ARCHIVES, ".parquet", ".xlsx", ".xls", ".zip")
"""Endings of the names of raw files."""
_FORMULA_TEXT = re.compile(
    r'(?:^|(?<=[;,|\t]))(?:"=""([^"\n]*)"""|="([^"\n]*)")(?=[;,|\t\r]|$)', re.MULTILINE
)
"""A cell such as `="00123"`, which keeps spreadsheets from reading a number."""
_CUT_NUMBER = re.compile(r"[;,|\t]\s*[+-]?\d+\.$|[;|\t]\s*[+-]?\d+,$")
"""The end of a line whose last number ends with its decimal mark."""
_LOGGED = re.compile(r"(\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d) ([^ ,]+) ([^ ,]+)")
"""A line of a log of FHEM (FileLog): its date, time, reading and value."""
NO_READING = "no reading yet"
"""What is wrong with a file, or a meter in it, that an hourly export may have just begun."""
NO_CONSUMPTION = "no consumption"
"""What is wrong with a file of feed-in, gas or such: it is left out beside one of consumption."""
_CELL = 8  # bytes that a cell of a typed file counts
MOST_COLUMNS = 30_000
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
    with explain_damage(path):
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


@contextmanager
def explain_damage(path: Path) -> Iterator[None]:
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
    lines = _log_as_table(lines)
    _refuse_cut(path, lines)
    if line_protocol.is_protocol(lines):
        return RawFile(path, line_protocol.NAME, {"": lines}, encoding=encoding)
    return RawFile(path, "text", {"": lines}, encoding=encoding)


def _log_as_table(lines: list[str]) -> list[str]:
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


def _open_parquet(path: Path, max_size: float) -> RawFile:
    """The columns of single values in a Parquet file, and its index, if it has one."""
    with pq.ParquetFile(path) as file:
        flat = [field.name for field in file.schema_arrow if not pa.types.is_nested(field.type)]
        if len(flat) > MOST_COLUMNS:
            raise DataError(describe_width(str(path), len(flat)))
        if file.metadata.num_rows * len(flat) * _CELL > max_size * 1e6:
            raise _too_large(path, max_size)
        table = file.read(columns=flat)
    table.validate(full=True)  # damaged text is refused here
    # Without the pandas metadata, an index is an ordinary column.
    cells: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    names, repeated_names = unique_names(list(map(str, cells.columns)))
    cells = cells.set_axis(pd.RangeIndex(1, len(cells) + 1)).set_axis(names, axis=1)
    return RawFile(path, "Parquet", cells=cells, repeated_names=repeated_names)


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
        rows.append(strip_row([_cell(value) for value in values]))
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


def describe_width(place: str, columns: int) -> str:
    """The problem of a place with more than `MOST_COLUMNS`, with its remedy."""
    return (
        f"{place} has {columns} columns, more than {MOST_COLUMNS}; divide the file, or write one "
        "row per meter and time"
    )


def strip_row(row: Sequence[str]) -> list[str]:
    """The fields of a row without the empty ones at its end."""
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
