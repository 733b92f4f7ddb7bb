"""Converts readings to numbers: decimal commas, separators of thousands, values for "missing"."""

import math
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem, data_error
from plfl.base.keys import Key
from plfl.base.text import count_in_words
from plfl.config.error_messages import write_value
from plfl.config.meters import Meters
from plfl.data.meters.tables import MISSING, THOUSANDS, WHOLE_NUMBER, RawTable

_GROUPS = re.compile(r"(?<=\d)[\s'\u00a0\u202f](?=\d)")  # between thousands, never decimal
_NUMBER = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:e[+-]?\d+)?")

_SEVERAL_MARKS = r"[+-]?\d{1,3}(?:([.,])\d{3})(?:\1\d{3})+"
"""A number with the same mark at all its thousands, of which it has several."""


def is_number(table: RawTable, name: str) -> bool:
    """Whether a column has readings: at least half of its first values are numbers."""
    if name in table.plain:
        return True
    column = table.cells[name]
    if column.dtype.kind in "iuf":
        return True
    if column.dtype.kind in "Mb":
        return False
    for rows in (2000, len(column)):  # mostly, the first rows have enough values
        cells = as_text(column.iloc[:rows]).tolist()
        cells = [_GROUPS.sub("", cell) for cell in cells if cell.lower() not in MISSING][:500]
        if cells:
            return share_of_cells(cells, _NUMBER.fullmatch) >= 0.5
    return True


def decimal(table: RawTable, columns: Sequence[str], meters: Meters) -> str:
    """The decimal separator of a file's text, `.` or `,`; refused where both are possible."""
    if mark := meters.decimal or _decimal_of_plain(table, columns):
        return mark
    first: dict[str, tuple[str, object, str]] = {}
    certain: set[str] = set()
    for name in columns:
        plain = table.plain.get(name)
        if plain and (not plain.mark or plain.mark in first):
            certain |= {plain.mark} if plain.is_decimal else set()
            continue
        if table.cells[name].dtype.kind in "iuf":
            continue
        text = as_text(table.cells[name])
        for mark, other_mark in (".,", ",."):
            marked_cells = text[text.str.contains(mark, regex=False)]
            marked_cells = marked_cells[marked_cells.str.contains(r"\d")]  # no N.D.
            if decimal_mark := _mark_beside(marked_cells, other_mark):
                return decimal_mark
            if len(marked_cells):
                first.setdefault(mark, (name, marked_cells.index[0], str(marked_cells.iloc[0])))
                if not marked_cells.str.fullmatch(THOUSANDS.pattern).all():
                    certain.add(mark)
    if not first:
        return "."
    if len(certain) == 1:
        return certain.pop()
    # Three digits follow every mark: then it is decimal, unless other numbers have no mark.
    mark = next(iter(first))
    quoted = mark == table.separator  # 1,234 in quotes is more likely a thousand
    if len(first) == 1 and not quoted and not _has_whole_numbers(table, columns):
        return mark
    name, line, value = first[mark]
    raise data_error(
        table.place_of(line),
        f"{name} {value!r} may have a decimal separator or one of thousands",
        f"say which in {Key('data.meters.decimal', repr('.'))} or ','",
    )


def _mark_beside(cells: pd.Series, other_mark: str) -> str | None:
    """The decimal separator of numbers with a mark, if some have the other one, too, or several
    marks, as of thousands only, which all others may be, too; else None. One may be a fault."""
    cells_with_both = cells[cells.str.contains(other_mark, regex=False)]
    if len(cells_with_both):
        return max(".,", key=str(cells_with_both.iloc[0]).rfind)
    are_thousands = (
        cells.str.fullmatch(_SEVERAL_MARKS).sum() > 1
        and cells.str.fullmatch(THOUSANDS.pattern).all()
    )
    return other_mark if are_thousands else None


def _decimal_of_plain(table: RawTable, columns: Sequence[str]) -> str | None:
    """The decimal separator of columns with plain numbers, of which some can have no other meaning;
    None if some columns have others."""
    plain_columns = [plain for name in columns if (plain := table.plain.get(name))]
    marks = {plain.mark for plain in plain_columns} - {""}
    is_certain = any(plain.is_decimal for plain in plain_columns)
    is_only = is_certain and len(marks) == 1 and len(plain_columns) == len(columns)
    return marks.pop() if is_only else None


def _has_whole_numbers(table: RawTable, columns: Sequence[str]) -> bool:
    """Whether some numbers have no separator: then others may have separators of thousands."""
    return any(
        table.plain[name].has_whole
        if name in table.plain
        else table.cells[name].dtype.kind not in "iuf"
        and as_text(table.cells[name]).str.fullmatch(WHOLE_NUMBER.pattern).any()
        for name in columns
    )


def _numbers(
    table: RawTable, name: str, mark: str, missing: Sequence[float | str]
) -> NDArray[np.float64]:
    """A column as float64, NaN where a reading is missing and infinite where it is not a number."""
    words = [str(word).strip().lower() for word in missing]
    sentinels = [float(word) for word in words if re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", word)]
    plain = table.plain.get(name)
    if (plain and plain.mark in ("", mark)) or table.cells[name].dtype.kind in "iuf":
        numbers = table.cells[name].to_numpy(np.float64) if plain is None else plain.numbers
        return np.where(np.isin(numbers, sentinels), np.nan, numbers) if sentinels else numbers
    text = as_text(table.cells[name])
    is_missing = text.str.lower().isin([*MISSING, *words])
    if mark == ",":
        for old, new in (",\0", ".,", "\0."):
            text = text.str.replace(old, new, regex=False)
    values = pd.to_numeric(text, errors="coerce").astype(float)
    odd = text[values.isna() & ~is_missing]
    if len(odd):
        odd = odd.str.replace(_GROUPS, "", regex=True)
        grouped = odd.str.fullmatch(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")
        odd = odd.mask(grouped, odd.str.replace(",", "", regex=False))
        values.loc[odd.index] = pd.to_numeric(odd, errors="coerce").astype(float).fillna(np.inf)
    return np.asarray(values.mask(is_missing | values.isin(sentinels)), dtype=np.float64)


def as_text(column: pd.Series) -> pd.Series:
    """The cells without surrounding blanks; empty if there is no value."""
    if column.dtype == "str":
        column = column.fillna("")
    elif column.dtype != object or {*map(type, column.tolist())} - {str}:
        column = column.astype(object).where(column.notna(), "").astype(str)
    cells = [cell.strip() for cell in column.tolist()]
    # Of type str, they would be moved to Arrow and back for most expressions.
    return pd.Series(cells, column.index, object, column.name)


def share_of_cells(cells: Iterable[str], match: Callable[[str], object]) -> float:
    """The share of cells of text that have a match; NaN without cells. Of few cells, pandas takes
    longer to read the pattern than to look at them."""
    matches = [match(cell) is not None for cell in cells]
    return sum(matches) / len(matches) if matches else math.nan


def read_numbers(table: RawTable, columns: Sequence[str], meters: Meters) -> pd.DataFrame:
    """The numbers in some columns. Text other than numbers and marks of missing readings is
    refused, with a line for each column."""
    mark = decimal(table, columns, meters)
    values = pd.DataFrame(
        {column: _numbers(table, column, mark, meters.missing) for column in columns},
        index=table.cells.index,
    )
    is_wrong, problems = np.isinf(values.to_numpy(np.float64)), []
    for position in map(int, np.flatnonzero(is_wrong.any(axis=0))):
        column, row = str(values.columns[position]), int(is_wrong[:, position].argmax())
        value = str(table.cells[column].iloc[row]).strip()
        problems.append(
            Problem(
                table.place_of(table.cells.index[row]),
                f"{column} {value!r} is not a number "
                f"({count_in_words(int(is_wrong[:, position].sum()), 'such value')})",
                "say that it means a missing reading with "
                f"{Key('data.meters.missing', f'[{write_value(value)}]')}, or set "
                f"{Key('data.meters.decimal')}",
            )
        )
    if problems:
        raise DataError(*problems)
    return values


def read_names(table: RawTable, column: str) -> pd.Series:
    """The names of meters in a column, numbers as written. If there is only one name, it is that of
    all rows; otherwise, rows without one are refused."""
    cells = table.cells[column]
    if cells.dtype.kind == "f" and (cells.dropna() % 1 == 0).all():
        cells = cells.astype("Int64")  # whole numbers beside missing ones
    names = as_text(cells)
    if (empty := names == "").any() and len({*names} - {""}) == 1:
        return names.mask(empty, names[~empty].iloc[0])
    if empty.any():
        rows = count_in_words(int(empty.sum()), "such row")
        raise data_error(
            table.place_of(empty.idxmax()),
            f"has no name in {column!r} ({rows})",
            "fill them, or remove the rows",
        )
    return names
