"""From a raw file to a table: where its header is, how its fields are separated."""

import csv
import gzip
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from plfl.errors import DataError

SUFFIXES = (".csv", ".csv.gz", ".txt", ".tsv", ".parquet", ".xlsx")
"""Endings of the names of raw files."""

_SEPARATORS = (";", "\t", "|", ",")  # a comma last, as it may be a decimal comma
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
DATED = re.compile(
    rf"\s*(?:\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d{{1,4}}|\d{{1,2}}[- ]?{_MONTH}[- ]?\d{{2,4}}"
    rf"|{_MONTH} \d{{1,2}},? \d{{4}})(?!\d)",
    re.IGNORECASE,
)
"""The beginning of a field that holds a date."""
DIGITS = re.compile(r"\s*(?:\d{8}(?:[T ]?\d{4}(?:\d{2})?)?|\d{9,10}(?:\.\d+)?|\d{13})\s*")
"""A date without separators, or seconds or milliseconds since 1970."""
_SAMPLE = 300  # lines in which the header must be


@dataclass(frozen=True)
class Table:
    """The content of a raw file."""

    path: Path
    cells: pd.DataFrame
    """Text (CSV, XLSX) or typed values (Parquet), one row per line, indexed by line number."""
    form: str
    """What was found out, for the receipt."""
    unit: str = "line"
    """What the index counts: `line` or `row`."""
    separator: str = ""
    """What separates the fields of text."""

    def at(self, line: object) -> str:
        """A place in the file, for messages."""
        return f"{self.path}: {self.unit} {line}"


def read(path: Path, header: int | None) -> Table:
    """The table of a raw file.

    Args:
        path: the file.
        header: line number of the header; None: found out.

    Raises:
        DataError: the file cannot be read; the message lists all that is wrong.
    """
    name = path.name.lower()
    try:
        if name.endswith(".parquet"):
            return _read_parquet(path)
        if name.endswith(".xlsx"):
            return _read_xlsx(path, header)
        return _read_text(path, header)
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    except (OSError, EOFError, ValueError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read ({error}); export it again") from error


def _read_parquet(path: Path) -> Table:
    with pq.ParquetFile(path) as file:
        table = file.read()
    text = [
        field.with_type(pa.string())
        if pa.types.is_binary(field.type) or pa.types.is_dictionary(field.type)
        else field
        for field in table.schema
    ]
    # Without the pandas metadata, an index is an ordinary column.
    cells = table.cast(pa.schema(text)).to_pandas(ignore_metadata=True)
    cells.columns = pd.Index(_names(list(map(str, cells.columns))))
    cells.index = pd.RangeIndex(1, len(cells) + 1)
    return Table(path, cells, "Parquet", "row")


def _read_xlsx(path: Path, header: int | None) -> Table:
    if find_spec("openpyxl") is None:
        raise DataError(
            f"{path}: XLSX files need openpyxl; pip install plfl[xlsx], or save the sheet as CSV"
        )
    sheet = pd.read_excel(path, header=None, dtype=object, engine="openpyxl")
    rows = [[_cell(cell) for cell in row] for row in sheet.itertuples(index=False)]
    head, begin = _header(path, rows, list(range(1, len(rows) + 1)), header)
    cells = pd.DataFrame(rows[begin:], columns=_names(rows[head]), dtype=str)
    cells.index = pd.RangeIndex(begin + 1, len(rows) + 1)
    blank = (cells == "").all(axis=1)
    return Table(path, cells[~blank], f"XLSX, header in row {head + 1}", "row")


def _cell(cell: object) -> str:
    """A cell of a spreadsheet as text."""
    if cell is None or cell is pd.NaT or (isinstance(cell, float) and np.isnan(cell)):
        return ""
    if isinstance(cell, datetime):
        return str(pd.Timestamp(cell).round("s"))  # Excel's days have rounding errors
    return str(cell)


def _read_text(path: Path, header: int | None) -> Table:
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline=None) as file:
        lines = file.read().split("\n")
    given = re.fullmatch(r'"?sep=(.)"?\s*', lines[0], re.IGNORECASE)
    if given:
        lines[0] = ""
    sample = [number for number, line in enumerate(lines[:_SAMPLE], 1) if line.strip()]
    failure = None
    for separator in [given[1]] if given else _SEPARATORS:
        rows = [_fields(lines[number - 1], separator) for number in sample]
        try:
            head, begin = _header(path, rows, sample, header)
        except DataError as error:
            failure = failure or error
            continue
        names = _names(rows[head])
        cells = _cells(path, lines, sample[begin] - 1, separator, names)
        # Lines that end with a separator have a last column without a name or content.
        if names[-1] == f"column {len(names)}" and (cells[names[-1]] == "").all():
            cells = cells.drop(columns=names[-1])
        shown = {"\t": "tab"}.get(separator, separator)
        form = f"text, header in line {sample[head]}, separator {shown}"
        return Table(path, cells, form, separator=separator)
    raise failure or DataError(f"{path}: is empty; export it again")


def _fields(line: str, separator: str) -> list[str]:
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])


def _header(
    path: Path, rows: Sequence[Sequence[str]], numbers: Sequence[int], header: int | None
) -> tuple[int, int]:
    """Positions of the header and of the first row of data.

    The data begin with the first three consecutive rows (fewer at the end of the file) that hold a
    date and have the same number of fields; the header is the row before them.
    """
    dated = [len(row) > 1 and any(map(is_date, row)) for row in rows]
    for begin in range(len(rows)):
        run = slice(begin, begin + 3)
        if header is not None and numbers[begin] <= header:
            continue
        if not all(dated[run]) or len({len(row) for row in rows[run]}) > 1:
            continue
        if header is not None:
            if header not in numbers:
                break
            return numbers.index(header), begin
        # Data often end their lines with a separator that the header does not have.
        if begin == 0 or dated[begin - 1] or len(_stripped(rows[begin - 1])) < 2:
            break
        return begin - 1, begin
    raise DataError(
        f"{path}: no header followed by lines with a date was found in the first {_SAMPLE} lines; "
        "give the line of the header with --header"
    )


def is_date(field: str) -> bool:
    """Whether a field begins with a date or is a number that can be one."""
    return bool(DATED.match(field) or DIGITS.fullmatch(field))


def _stripped(row: Sequence[str]) -> list[str]:
    row = list(row)
    while row and not row[-1].strip():
        row.pop()
    return row


def _names(row: Sequence[str]) -> list[str]:
    """Unique names of the columns; those without a name are numbered."""
    names = [name.strip() or f"column {n}" for n, name in enumerate(row, 1)]
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique


def _cells(
    path: Path, lines: list[str], begin: int, separator: str, names: list[str]
) -> pd.DataFrame:
    kept: list[int] = []
    wrong: list[tuple[int, int]] = []
    widest = len(names)
    for at in range(begin, len(lines)):
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
        else:
            wrong.append((at + 1, count))
    if wrong:
        number, count = wrong[0]
        raise DataError(
            f"{path}: line {number} has {count} fields, the header has {len(names)} "
            f"({len(wrong)} such lines); fix or remove them, or give the line of the header with "
            "--header (decimal commas need semicolons as separators)"
        )
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
    return cells
