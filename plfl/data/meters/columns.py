"""From the file of a meter to its columns: text or values, one row per reading."""

import csv
import gzip
import itertools
import zlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from plfl.data.readers import Reader, reader_of
from plfl.errors import DataError, did_you_mean

_MISSING = ("", "na", "n/a", "nan", "null", "none")


def read_columns(path: Path, columns: dict[str, str], header: int = 1) -> pd.DataFrame:
    """The mapped columns of a file, named by their roles.

    One row per reading, indexed by `line n` (CSV) or `row n` (other formats) of the file. The names
    of the columns are in line `header` of a CSV file.

    Raises:
        DataError: the file cannot be read, or has no such column.
    """
    if reader := reader_of(path):
        return _read_with(reader(), path, columns)
    try:
        if path.name.lower().endswith(".parquet"):
            return _read_parquet(path, columns)
        return _read_csv(path, columns, header)
    except FileNotFoundError:
        raise DataError(f"{path}: the file does not exist; check the path") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); replace the file") from error


def _read_with(reader: Reader, path: Path, columns: dict[str, str]) -> pd.DataFrame:
    try:
        frame = reader.read(path)
    except Exception as error:  # whatever a plug-in raises
        said = f"{type(error).__name__}: {error}"
        raise DataError(f"{path}: the reader {reader.name} cannot read it: {said}") from error
    _check_columns(path, columns, list(map(str, frame)))
    return _by_role(frame, columns)


def _by_role(frame: pd.DataFrame, columns: dict[str, str]) -> pd.DataFrame:
    raw = pd.DataFrame({role: frame[column] for role, column in columns.items()})
    raw.index = pd.Index([f"row {number}" for number in range(1, len(raw) + 1)])
    return raw


def _read_parquet(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    with pq.ParquetFile(path) as file:
        _check_columns(path, columns, file.schema_arrow.names)
        table = file.read(columns=list(columns.values()))
    # Some programs write text as binary columns.
    text = [
        field.with_type(pa.string()) if _is_bytes(field.type) else field for field in table.schema
    ]
    # Without the pandas metadata, an index is an ordinary column.
    frame = table.cast(pa.schema(text)).to_pandas(ignore_metadata=True)
    return _by_role(frame, columns)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _read_csv(path: Path, columns: dict[str, str], above: int) -> pd.DataFrame:
    """See `read_columns`. Uses the csv module because pandas hides lines with too many fields."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        skipped = above - 1
        for _ in range(skipped):
            file.readline()
        header = file.readline()
        delimiter = max(",;\t", key=header.count)
        reader = csv.reader(
            itertools.chain([header], file), delimiter=delimiter, skipinitialspace=True
        )
        names = [name.strip() for name in next(reader, [])]
        _check_columns(path, columns, names)
        positions = [names.index(column) for column in columns.values()]
        lines, rows = [], []
        for fields in reader:
            if not any(fields):
                continue
            more = fields[len(names) :]
            # A decimal comma before an empty column can add an empty field.
            if len(fields) < len(names) or any(more) or (more and delimiter == ","):
                raise DataError(
                    f"{path}: line {skipped + reader.line_num} has {len(fields)} fields, the "
                    f"header has {len(names)}; fix the line (decimal commas need semicolons as "
                    "separators)"
                )
            lines.append(f"line {skipped + reader.line_num}")
            rows.append([fields[position].strip() for position in positions])
    raw = pd.DataFrame(rows, columns=list(columns), index=pd.Index(lines), dtype=str)
    for role in raw.columns.drop("timestamp"):
        _check_thousands(path, raw[role])
    if delimiter != ",":
        for role in raw.columns.drop("timestamp"):
            # A comma is decimal only if no value has a point; otherwise 1,234.5 is refused later.
            if not raw[role].str.contains(".", regex=False).any():
                raw[role] = raw[role].str.replace(",", ".", regex=False)
    return raw


def _check_thousands(path: Path, column: pd.Series) -> None:
    """Refuse numbers that may have thousands separators.

    These are columns where every separator is followed by three digits and other numbers have none.
    If the separators were decimal, all numbers would have them, or some would have fewer digits.
    """
    parted = column[column.str.contains("[.,]")]
    whole = column.str.fullmatch(r"-?[1-9]\d*")
    if len(parted) and whole.any() and parted.str.fullmatch(r"-?[1-9]\d{0,2}([.,]\d{3})+").all():
        raise DataError(
            f"{path}: {parted.index[0]}: {column.name} {parted.iloc[0]!r} may have a thousands "
            f"separator, as {column[whole].iloc[0]!r} has no decimals; write numbers without it"
        )


def _check_columns(path: Path, columns: dict[str, str], names: Sequence[str]) -> None:
    raw = "; for a raw export, run `plfl data import` first"
    problems = []
    for role, column in columns.items():
        where = f"{path}: column {column!r} (data.meters.columns.{role})"
        if column not in names:
            problems.append(
                f"{where} is missing; the file has {', '.join(map(repr, names))}"
                f"{did_you_mean(column, names) or raw}"
            )
        if list(names).count(column) > 1:
            problems.append(f"{where} occurs more than once; rename or remove the others")
    if problems:
        raise DataError("\n".join(problems))


def numbers(path: Path, column: pd.Series, missing: Sequence[str] = ()) -> pd.Series:
    """A column as float64, with NaN for missing values: empty ones, and the words `missing`.

    Raises:
        DataError: a value is not a number.
    """
    if not pd.api.types.is_numeric_dtype(column):
        column = column.mask(column.astype(str).str.strip().str.lower().isin([*_MISSING, *missing]))
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    wrong = (numbers.isna() & column.notna()).to_numpy()
    if wrong.any():
        line, value = column.index[int(wrong.argmax())], column.iloc[int(wrong.argmax())]
        raise DataError(
            f"{path}: {line}: {column.name} {value!r} is not a number; write it as 1234.5 or leave "
            "it empty"
        )
    return numbers


def constant(path: Path | str, column: pd.Series) -> float:
    """The only value of a static column, given on every line or once.

    Raises:
        DataError: there is no value, or more than one.
    """
    known = column.dropna()
    if known.empty:
        raise DataError(
            f"{path}: {column.name} is empty; give it once, or remove it from data.meters.columns"
        )
    if (other := known[known != known.iloc[0]]).size:
        raise DataError(
            f"{path}: {other.index[0]}: {column.name} changes from {known.iloc[0]:g} to "
            f"{other.iloc[0]:g}; it must be one number per building"
        )
    return float(known.iloc[0])
