"""Turns a raw file into a table: detects its form, its header and the separator of its fields."""

import csv
import gzip
import io
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plfl.base.errors import DataError
from plfl.config.sections import Meters
from plfl.data.meters import quantities, standards

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".txt", ".parquet", ".xlsx", ".xls", ".xml", ".zip")
"""Endings of the names of raw files."""

_SEPARATORS = (";", "\t", "|", ",")  # a comma last, as it may be a decimal comma
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
DATED = re.compile(
    rf"\s*(?:\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d{{1,4}}|\d{{1,2}}[- ]?{_MONTH}[- ]?\d{{2,4}}"
    rf"|{_MONTH} \d{{1,2}},? \d{{4}})(?!\d)",
    re.IGNORECASE,
)
"""The beginning of a field with a date."""
SERIAL = r"(?:3[6-9]|4\d|5[0-4])\d{3}(?:[.,]\d+)?"
"""Days as spreadsheets count them, from 2000 to 2050."""
DIGITS = re.compile(
    r"\s*(?:\d{8}(?:[T ]?\d{4}(?:\d{2})?)?|\d{9,10}(?:\.\d+)?|\d{13}|\d{16}|\d{19}"
    rf"|{SERIAL.removesuffix('?')})\s*"
)
"""A date without separators, seconds to nanoseconds since 1970, or days with a fraction."""
_SAMPLE = 300  # lines in which the header must be
_LAST = 10  # lines at the end that may be blank or have no date, such as totals
TOTALS = re.compile(
    r"(?:(?:grand|sub)[ -]?)?total\w*|sum(?:me|men|a)?|somm[ae]|soma|gesamt\w*|totaal|average|avg|"
    r"mean|m[ée]dia|moyenne|promedio|mittelwert|durchschnitt|gemiddelde|min|max|minimum|maximum|"
    r"count",
    re.IGNORECASE,
)
"""First words of a row, or the name of a column, that sums up others."""
_CELL = 8  # bytes that a cell of a typed file counts
_MOST_COLUMNS = 30_000
_FOREIGN = {b"\xd0\xcf\x11\xe0": "a workbook of old Excel (.xls)", b"%PDF": "a PDF", b"{": "JSON"}
"""How files begin that are not read, and what they are."""


@dataclass(frozen=True)
class RawTable:
    """The content of a raw file."""

    path: Path
    cells: pd.DataFrame
    """Text (CSV, XLSX) or typed values (Parquet, plug-ins), one row per line, indexed by the number
    of the line or row. Columns of the same name are numbered: `A`, `A (2)`."""
    form: str
    """The detected form, in words."""
    repeated: frozenset[str] = frozenset()
    """Names that several columns have."""
    unit: str = "line"
    """What the index counts: `line` or `row`."""
    separator: str = ""
    """What separates the fields of text."""
    units: Mapping[str, str] = field(default_factory=dict)
    """The units in a line between the header and the readings, by column."""
    above: frozenset[str] = frozenset()
    """The units of energy or power in the lines above the header."""
    stamp: str | None = None
    """What its stamps mark by the form of the file: `start` or `end`; None: nothing."""

    @cached_property
    def plain(self) -> dict[str, "Plain"]:
        """The columns of text that have only plain numbers and empty cells. Wide files have
        thousands of them, and other ways of reading them take long."""
        columns = {}
        for name in map(str, self.cells):
            column = self.cells[name]
            if column.dtype.kind not in "iufbM" and (plain := _plain(column.tolist())):
                columns[name] = plain
        return columns

    def at(self, line: object) -> str:
        """A place in the file, for messages. Several rows of one line have fractions."""
        return f"{self.path}: {self.unit} {int(line) if isinstance(line, float) else line}"


@dataclass(frozen=True)
class Plain:
    """Plain numbers, such as `-1.25`, in a column of text."""

    numbers: NDArray[np.float64]
    """The numbers, if their mark is a decimal one; NaN where a cell is empty."""
    mark: str
    """The mark in them: `.`, `,`, or none."""


def _plain(cells: list[str]) -> Plain | None:
    """The cells of a column as plain numbers; None if some are anything else."""
    if not all(isinstance(cell, str) for cell in cells):
        return None
    letters = {*"".join(cells)}
    if not letters <= {*"0123456789+-.,"} or not letters & {*"0123456789"} or letters >= {*".,"}:
        return None
    mark = next(iter(letters & {*".,"}), "")
    try:
        numbers = np.array([float(cell.replace(mark or ".", ".") or "nan") for cell in cells])
    except ValueError:
        return None
    return Plain(numbers, mark)


def unreadable(path: Path) -> str | None:
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


def read(path: Path, meters: Meters) -> list[RawTable]:
    """The table of a raw file, or the tables of a zip archive. The content determines the form, not
    the ending of the name. `meters` has `header`, `encoding` and `max_size`.

    Raises:
        DataError: the file cannot be read, or is too large; the message lists all problems.
    """
    if problem := unreadable(path):
        raise DataError(f"{path}: {problem}")
    try:
        with path.open("rb") as file:
            begins = file.read(8)
            if begins.startswith(b"PAR1"):
                return [_read_parquet(path, meters.max_size)]
            if not begins.startswith(b"PK"):
                file.seek(0)
                return [_read_content(path, file, meters)]
        with ZipFile(path) as archive:
            names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
            if sum(entry.file_size for entry in archive.infolist()) > meters.max_size * 1e6:
                raise _too_large(path, meters.max_size)
            if any(name.startswith("xl/") for name in names):
                return [_read_workbook(path, meters)]
            parts = [name for name in sorted(names) if _is_part(name)]
            if not parts:
                some = ", ".join(map(repr, names[:3])) or "nothing"
                raise DataError(
                    f"{path}: is a zip archive of {some}; unpack it, and name its files"
                )
            tables = []
            for name in parts:
                with archive.open(name) as part:
                    tables.append(_read_content(path / name, part, meters))
            return tables
    except DataError:
        raise
    except MemoryError:
        raise DataError(
            f"{path}: there is too little memory to read it; close other programs, or divide the "
            "file"
        ) from None
    except Exception as error:  # parsers of damaged files raise almost anything
        message = str(error) or type(error).__name__
        raise DataError(f"{path}: cannot be read ({message}); export it again") from error


def _is_part(name: str) -> bool:
    """Whether a file in an archive has readings, by its name."""
    *folders, last = name.split("/")
    is_hidden = last.startswith(".") or "__MACOSX" in folders
    return last.lower().endswith((".csv", ".tsv", ".txt", ".xml", ".csv.gz")) and not is_hidden


def _read_content(path: Path, file: IO[bytes], meters: Meters) -> RawTable:
    """The table of a file of text, of which the content is at the position of `file`."""
    content = file.read(2)
    opened: IO[bytes] | gzip.GzipFile = file
    if content == b"\x1f\x8b":
        file.seek(0)
        opened, content = gzip.GzipFile(fileobj=file), b""
    most = int(meters.max_size * 1e6)
    content += opened.read(most + 1)
    if len(content) > most:
        raise _too_large(path, meters.max_size)
    for begin, kind in _FOREIGN.items():
        if content.startswith(begin):
            raise DataError(f"{path}: is {kind}; export CSV, XLSX or Parquet instead")
    is_xml = re.match(rb"(?:\xef\xbb\xbf)?\s*<(?!/)[?!a-zA-Z]", content[:100])
    try:
        if is_xml:
            return _of_standard(path, standards.green_button(content), "Green Button (XML)")
        lines = _lines(path, content, meters)
        if standards.is_nem12(lines[0]):
            return _of_standard(path, standards.nem12(lines), "NEM12")
    except ValueError as error:
        form = "XML, and not read as Green Button" if is_xml else "NEM12, and damaged"
        raise DataError(f"{path}: is {form}: {error}; export CSV instead") from None
    return _read_text(path, lines, meters)


def _of_standard(path: Path, cells: pd.DataFrame, form: str) -> RawTable:
    """The table of a standard format, whose stamps are the starts of intervals."""
    cells = cells.set_axis(pd.RangeIndex(1, len(cells) + 1))
    return RawTable(path, cells, form, unit="reading", units={"load": "kWh"}, stamp="start")


def _too_large(path: Path, most: float) -> DataError:
    return DataError(
        f"{path}: holds more than {most:g} MB of data; divide it, or raise data.meters.max_size"
    )


# -- typed values --------------------------------------------------------------------------------


def _read_parquet(path: Path, most: float) -> RawTable:
    """The columns of single values in a Parquet file, and its index, if it has one."""
    with pq.ParquetFile(path) as file:
        kinds = {field.name: field.type for field in file.schema_arrow}
    flat = [name for name, kind in kinds.items() if not pa.types.is_nested(kind)]
    if len(flat) > _MOST_COLUMNS:
        raise DataError(_too_wide(str(path), len(flat)))
    # A dictionary stores each text once, however often it occurs.
    text = [name for name in flat if _is_text(kinds[name])]
    batches, size = [], 0
    with pq.ParquetFile(path, read_dictionary=text) as file:
        for batch in file.iter_batches(2**16, columns=flat):
            size += batch.num_rows * batch.num_columns * _CELL
            for column in batch.columns:
                if pa.types.is_dictionary(column.type):
                    lengths = pc.binary_length(column.dictionary)
                    size += pc.sum(lengths.take(column.indices)).as_py() or 0
            if size > most * 1e6:
                raise _too_large(path, most)
            batches.append(batch)
        table = pa.Table.from_batches(batches, None if batches else file.schema_arrow)
    table.validate(full=True)  # damaged text is refused here
    fields = [
        field.with_type(pa.string())
        if _is_text(field.type) or pa.types.is_dictionary(field.type)
        else field
        for field in table.schema
    ]
    # Without the pandas metadata, an index is an ordinary column.
    cells: pd.DataFrame = table.cast(pa.schema(fields)).to_pandas(ignore_metadata=True)
    names, repeated = _unique(list(map(str, cells.columns)))
    cells = cells.set_axis(pd.RangeIndex(1, len(cells) + 1)).set_axis(names, axis=1)
    return RawTable(path, cells, "Parquet", repeated, "row")


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


# -- workbooks -----------------------------------------------------------------------------------


def _read_workbook(path: Path, meters: Meters) -> RawTable:
    if find_spec("openpyxl") is None:
        raise DataError(
            f"{path}: XLSX files need openpyxl; pip install 'plfl[xlsx]', or save the sheet as CSV"
        )
    names = _sheets(path)
    failure = None
    for sheet in names:
        rows, cells = [], 0
        for row in _sheet(path, sheet):
            rows.append(_stripped([_cell(cell) for cell in row]))
            cells += len(rows[-1])
            if cells * _CELL > meters.max_size * 1e6:
                raise _too_large(path, meters.max_size)
        while rows and not rows[-1]:
            rows.pop()
        try:
            head, begin = _header(path, rows, range(1, len(rows) + 1), meters.header)
            break
        except DataError as error:
            failure = failure or error
    else:
        raise failure or DataError(f"{path}: has no sheets; export it again")
    others = [name for name in names if name != sheet]
    width = len(rows[head])
    kept = [at for at in range(begin, len(rows)) if rows[at]]
    date, dated = _date_in(rows[begin]), len(kept)
    kept = kept[: len(kept) - _undated([rows[at] for at in kept[-_LAST:]], date, width)]
    if wide := [at for at in kept if len(rows[at]) > width]:
        raise DataError(_misfit(path, "row", wide[0] + 1, len(rows[wide[0]]), width, len(wide)))
    data = [rows[at] + [""] * (width - len(rows[at])) for at in kept]
    if any("" in row for row in data):
        _check_formulas(path, sheet, begin)
    names, repeated = _unique(rows[head])
    table = pd.DataFrame(data, columns=names, dtype=str)
    table.index = pd.Index(kept) + 1
    units = _units(names, rows[begin - 1]) if begin - 1 > head else {}
    table = _without_totals(table, date)
    form = f"XLSX, header in row {head + 1}{_left_out(dated - len(table), 'row')}"
    if others:
        form += f", sheet {sheet!r}, not {', '.join(map(repr, others))}"
    return RawTable(path, table, form, repeated, "row", units=units, above=_above(rows[:head]))


def _sheets(path: Path) -> list[str]:
    """The names of the sheets with cells."""
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, keep_links=False)
    try:
        return [sheet.title for sheet in book.worksheets]
    finally:
        book.close()


def _sheet(path: Path, name: str, *, formulas: bool = False) -> Iterator[tuple[Any, ...]]:
    """The rows of a sheet, with their formulas or with the values stored for them."""
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, data_only=not formulas, keep_links=False)
    try:
        book[name].reset_dimensions()  # the size in the file may be wrong
        yield from book[name].iter_rows(values_only=True)
    finally:
        book.close()


def _check_formulas(path: Path, name: str, begin: int) -> None:
    """Refuse a sheet with formulas in its data whose values are not stored: programs that write
    workbooks without computing them leave such cells empty."""
    both = zip(_sheet(path, name), _sheet(path, name, formulas=True), strict=True)
    for number, (values, formulas) in enumerate(both, 1):
        for value, formula in zip(values, formulas, strict=False):
            if number > begin and value is None and formula is not None:
                raise DataError(
                    f"{path}: row {number}: the value of the formula {str(formula)!r} is not "
                    "stored; open the workbook in a spreadsheet program and save it, or save it "
                    "as CSV"
                )


def _cell(cell: object) -> str:
    """A cell of a workbook as text."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return str(pd.Timestamp(cell).round("s"))  # Excel's days have rounding errors
    return str(cell)


# -- text ----------------------------------------------------------------------------------------


def _read_text(path: Path, lines: list[str], meters: Meters) -> RawTable:
    given = re.fullmatch(r'"?sep=(.)"?\s*', lines[0], re.IGNORECASE)
    if given:
        lines[0] = ""
    empty = " ".join(_SEPARATORS)
    for number, line in enumerate(lines[:_SAMPLE], 1):
        if (count := max(map(line.count, _SEPARATORS)) + 1) > _MOST_COLUMNS:
            raise DataError(_too_wide(f"{path}: line {number}", count))
    sample = [number for number, line in enumerate(lines[:_SAMPLE], 1) if line.strip(empty)]
    failure = None
    separators = [given[1]] if given else _SEPARATORS
    for separator in separators if sample else ():
        try:
            rows = [_fields(lines[number - 1], separator) for number in sample]
            head, begin = _header(path, rows, sample, meters.header)
        except (DataError, csv.Error) as error:
            failure = failure or error
            continue
        names, repeated = _unique(rows[head])
        date = _date_in(rows[begin])
        cells, undated = _cells(path, lines, sample[begin] - 1, separator, names, date)
        # Lines that end with a separator have a last column without a name or content.
        if names[-1] == f"column {len(names)}" and (cells[names[-1]] == "").all():
            cells = cells.drop(columns=names[-1])
        shown = {"\t": "tab"}.get(separator, separator)
        form = f"text, header in line {sample[head]}, separator {shown}"
        form += _left_out(undated, "line")
        units = _units(names, rows[begin - 1]) if begin - 1 > head else {}
        above = _above(rows[:head])
        return RawTable(path, cells, form, repeated, separator=separator, units=units, above=above)
    raise failure or DataError(f"{path}: is empty; export it again")


def _lines(path: Path, content: bytes, meters: Meters) -> list[str]:
    encoding = meters.encoding
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        encoding = "utf-16"
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeError:
        text = "\0"
    if "\0" in text[:1000]:
        other = "utf-16" if b"\0" in content[:1000] else "cp1252"
        raise DataError(
            f"{path}: is not {encoding} text; save it as UTF-8, or set data.meters.encoding: "
            f"'{other}' or another one"
        )
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _too_wide(where: str, columns: int) -> str:
    return (
        f"{where} has {columns} columns, more than {_MOST_COLUMNS}; divide the file, or write one "
        "row per meter and time"
    )


def _fields(line: str, separator: str) -> list[str]:
    if '"' not in line or separator not in line:  # the csv module refuses long fields
        return [field.lstrip(" ") for field in line.split(separator)]
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])


def _header(
    path: Path, rows: Sequence[Sequence[str]], numbers: Sequence[int], header: int | None
) -> tuple[int, int]:
    """Positions of the header and of the first row of data.

    The data begin with the first three consecutive rows (fewer at the end of the file) that contain
    a date and have the same number of fields; the header is the row before them, or the one before
    a row of units.
    """
    dated = [len(row) > 1 and any(map(is_date, row)) for row in rows[:_SAMPLE]]
    for begin in range(len(dated)):
        run = slice(begin, begin + 3)
        if header is not None and numbers[begin] <= header:
            continue
        if not all(dated[run]) or len({len(row) for row in rows[run]}) > 1:
            continue
        # The days of spreadsheets have no fraction at midnight.
        if begin and re.fullmatch(SERIAL, rows[begin - 1][0].strip() if rows[begin - 1] else ""):
            begin -= 1
        if header is not None:
            if header not in numbers:
                break
            return numbers.index(header), begin
        # Data often end their lines with a separator that the header does not have.
        if begin == 0 or dated[begin - 1] or len(_stripped(rows[begin - 1])) < 2:
            break
        # A row of data with a damaged date is not the header of the rows below it. Spreadsheets pad
        # the lines of a preamble, perhaps with a date, to the same length, so a header must have
        # only words.
        words = all(re.search(r"[^\W\d_]", field) for field in rows[begin - 1])
        is_after_data = begin > 1 and dated[begin - 2] and len(rows[begin - 2]) == len(rows[begin])
        if is_after_data and not words:
            break
        head = begin - 1
        while head > 0 and _is_total(rows[head]) and any(map(_is_amount, rows[head])):
            head -= 1
        if head > 0 and _is_units(rows[head]) and len(rows[head - 1]) == len(rows[head]):
            head -= 1
        return head, begin
    if not any(DATED.match(field) for row in rows[:_SAMPLE] for field in row):
        raise DataError(
            f"{path}: no date was found in the first {_SAMPLE} lines; write dates in digits, such "
            "as 2023-01-31 13:00, in a column with a header"
        )
    raise DataError(
        f"{path}: no header followed by lines with a date was found in the first {_SAMPLE} lines; "
        "write one, such as `time,load`, or give its line in data.meters.header"
    )


def _is_units(row: Sequence[str]) -> bool:
    """Whether a row states units, and otherwise has only empty fields, `-` or brackets; its first
    field may say so."""
    first, *others = (field.strip() for field in row or [""])
    match = re.fullmatch(r"units?|einheit(en)?", first, re.IGNORECASE)
    fields = [*([] if match else [first]), *others]
    units = [quantities.unit_of(f"[{field.strip('[()] ')}]") for field in fields]
    return any(units[-len(others) :]) and all(
        unit or re.fullmatch(r"-?|\[.*\]|\(.*\)", field)
        for unit, field in zip(units, fields, strict=True)
    )


def _above(rows: Sequence[Sequence[str]]) -> frozenset[str]:
    """The units of energy or power in the lines above the header: fields that consist of a unit or
    name it as one, and short titles such as `Power (kW)`. The `6 kW` of a contract are none."""
    unit = r".*\b(?:unit|einheit|unidad|unité|unità|eenheid)\w*(?: of measure\w*)?\W+"
    values = r"(?:all )?(?:values|readings|data|werte|valeurs|valores|valori)\b.*\b(?:in|en) "
    pattern = re.compile(rf"(?:{unit}|{values})?\W?(\w+)\W*", re.IGNORECASE)
    is_about = re.compile(r"quantity|measur\w*|channel|kanal|messgr\w*|grandeur|magnitud|grandezza")
    amount = re.compile(
        r"(?<![\d.,])(?!(?:19|20)\d\d\b)\d[\d.,]*\s*[kM]?Wh?\b|\b[kM]?Wh?\b\W*[\d.,]+\W*$",
        re.IGNORECASE,
    )
    units_above = set()
    for row in rows:
        fields = [words.strip() for words in row if words.strip()]
        for at, words in enumerate(fields):
            known = pattern.fullmatch(words)
            stated = known and quantities.unit_of(f"[{known[1]}]")
            is_title = len(fields) == 1 or (at == 1 and is_about.match(fields[0].lower()))
            if not stated and is_title and len(words.split()) < 6 and not amount.search(words):
                stated = quantities.unit_of(words)
            beside = fields[at - 1]  # of the first field, the last one
            if stated in quantities.LOADS and not re.fullmatch(r"[\d.,]+", beside):
                units_above.add(stated)
    return frozenset(units_above)


def _date_in(row: Sequence[str]) -> int:
    """The position of the date in a row of data."""
    forms: tuple[Callable[[str], object], ...] = (DATED.match, _may_be_date)
    return next(at for form in forms for at, words in enumerate(row) if form(words))


def _may_be_date(words: str) -> bool:
    """Whether a field is a date, also one of the days of spreadsheets without a time."""
    return is_date(words) or re.fullmatch(SERIAL, words.strip()) is not None


def _undated(rows: Sequence[Sequence[str]], date: int, width: int) -> int:
    """The number of rows at the end, of up to `width` fields, that have no date at its position."""
    undated = 0
    for row in reversed(rows):
        if len(_stripped(row)) > width or (date < len(row) and _may_be_date(row[date])):
            break
        undated += 1
    return undated


def _is_total(row: Sequence[str]) -> bool:
    """Whether a row has a total, and no date."""
    words = (re.match(r"[^\W\d_]+(?:[ -]total\w*)?", field.strip()) for field in row)
    is_named = any(word and TOTALS.fullmatch(word[0]) for word in words)
    return is_named and not any(map(is_date, row))


def _without_totals(cells: pd.DataFrame, date: int) -> pd.DataFrame:
    """The rows without totals where the date should be."""
    total = rf"\s*(?:{TOTALS.pattern})\b|.*\btotal\b"
    return cells[~cells.iloc[:, date].str.match(total, case=False)]


def _left_out(rows: int, unit: str) -> str:
    return f", {rows} {unit}{'s' * (rows > 1)} of totals or without a date left out" * (rows > 0)


def _units(names: Sequence[str], row: Sequence[str]) -> dict[str, str]:
    """The units of the columns in the row between header and readings, if it is one of units."""
    if not _is_units(row):
        return {}
    return {
        name: unit.strip("[()] ")
        for name, unit in zip(names[1:], row[1:], strict=False)
        if unit.strip("[()] ")
    }


def _is_amount(field: str) -> bool:
    return re.fullmatch(r"\s*-?[\d.,]*\d\s*", field) is not None


def is_date(field: str) -> bool:
    """Whether a field begins with a date or is a number that can be one."""
    return bool(DATED.match(field) or DIGITS.fullmatch(field))


def _stripped(row: Sequence[str]) -> list[str]:
    row = list(row)
    while row and not row[-1].strip():
        row.pop()
    return row


def _unique(row: Sequence[str]) -> tuple[list[str], frozenset[str]]:
    """Unique names of the columns, and the names that several columns have. Columns without a name
    and those of the same name are numbered."""
    names = [name.strip() or f"column {n}" for n, name in enumerate(row, 1)]
    unique: dict[str, None] = {}
    repeated = set()
    for name in names:
        free, n = name, 1
        while free in unique or (n > 1 and free in names):
            n += 1
            free = f"{name} ({n})"
        if n > 1:
            repeated.add(name)
        unique[free] = None
    return list(unique), frozenset(repeated)


def _misfit(path: Path, unit: str, number: int, count: int, width: int, lines: int) -> str:
    return (
        f"{path}: {unit} {number} has {count} fields, the header has {width} ({lines} such "
        f"{unit}s); fix or remove them, or give the line of the header in data.meters.header "
        "(decimal commas need semicolons as separators)"
    )


def _cells(
    path: Path, lines: list[str], begin: int, separator: str, names: list[str], date: int
) -> tuple[pd.DataFrame, int]:
    """The rows of data, and how many rows of totals or without a date at the end are left out."""
    kept: list[int] = []
    wrong: list[tuple[int, int]] = []
    widest = len(names)
    last = [_fields(line, separator) for line in lines[max(begin, len(lines) - _LAST) :]]
    end = len(lines) - _undated(last, date, widest)
    totals = sum(bool(line.strip(f"{separator} ")) for line in lines[end:])
    for at in range(begin, end):
        line = lines[at]
        if not line.strip(f"{separator} "):
            continue
        count = line.count(separator) + 1
        if '"' in line or count > len(names):
            fields = _fields(line, separator)
            count = max(len(_stripped(fields)), min(len(fields), len(names)))
            widest = max(widest, len(fields))
        if count == len(names):
            kept.append(at)
        elif _is_total(_fields(line, separator)):
            totals += 1
        else:
            wrong.append((at + 1, count))
    if wrong:
        raise DataError(_misfit(path, "line", *wrong[0], len(names), len(wrong)))
    cells = pd.read_csv(
        io.StringIO("\n".join(lines[at] for at in kept)),
        sep=separator,
        header=None,
        names=list(range(widest)),
        dtype=str,
        na_filter=False,
        skipinitialspace=True,
        index_col=False,
    ).iloc[:, : len(names)]
    cells.columns = pd.Index(names)
    cells.index = pd.Index(kept) + 1
    dated = _without_totals(cells, date)
    return dated, totals + len(cells) - len(dated)
