"""Readings as numbers: decimal commas, separators of thousands, values that mean "missing"."""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.data.importing.options import Options
from plfl.data.importing.tables import Table
from plfl.errors import DataError

_MISSING = ("", "na", "n/a", "nan", "null", "none", "-", "#n/a")
_GROUPS = r"(?<=\d)[\s'\u00a0\u202f](?=\d)"  # between thousands, never decimal
_THOUSANDS = r"[+-]?[1-9]\d{0,2}(?:[.,]\d{3})+"


def is_number(column: pd.Series) -> bool:
    """Whether a column holds readings: at least half of its first values are numbers."""
    if column.dtype.kind in "iuf":
        return True
    if column.dtype.kind in "Mb":
        return False
    text = _text(column)
    text = text[~text.str.lower().isin(_MISSING)].head(500).str.replace(_GROUPS, "", regex=True)
    return not len(text) or bool(
        text.str.fullmatch(r"[+-]?[\d.,]*\d[\d.,]*(?:e[+-]?\d+)?").mean() >= 0.5
    )


def decimal(table: Table, columns: list[str], options: Options) -> str:
    """The decimal separator of a file's text: `.` or `,`.

    Raises:
        DataError: it may be either.
    """
    if options.decimal:
        return options.decimal
    first: dict[str, tuple[str, object, str]] = {}
    certain: set[str] = set()
    for name in columns:
        if table.cells[name].dtype.kind in "iuf":
            continue
        text = _text(table.cells[name])
        for mark, other in (".,", ",."):
            marked = text[text.str.contains(mark, regex=False)]
            both = marked[marked.str.contains(other, regex=False)]
            if len(both):
                return max(".,", key=both.iloc[0].rfind)
            if len(marked):
                first.setdefault(mark, (name, marked.index[0], str(marked.iloc[0])))
                if not marked.str.fullmatch(_THOUSANDS).all():
                    certain.add(mark)
    if not first:
        return "."
    if len(certain) == 1:
        return certain.pop()
    # Three digits after every mark: a decimal one, unless other numbers have none.
    mark = next(iter(first))
    quoted = mark == table.separator  # 1,234 in quotes is rather a thousand
    if len(first) == 1 and not quoted and not _some_whole(table, columns):
        return mark
    name, line, value = first[mark]
    raise DataError(
        f"{table.at(line)}: {name} {value!r} may have a decimal separator or one of thousands; say "
        "which with --decimal . or --decimal ,"
    )


def _some_whole(table: Table, columns: list[str]) -> bool:
    """Whether some numbers have no separator: then others may have separators of thousands."""
    return any(
        _text(table.cells[name]).str.fullmatch(r"[+-]?[1-9]\d*").any()
        for name in columns
        if table.cells[name].dtype.kind not in "iuf"
    )


def numbers(column: pd.Series, mark: str, missing: tuple[str, ...]) -> pd.Series:
    """A column as float64, NaN where a reading is missing and infinite where it is no number."""
    sentinels = [float(word) for word in missing if re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", word)]
    if column.dtype.kind in "iuf":
        values = column.astype(float)
        return values.mask(values.isin(sentinels))
    text = _text(column)
    gone = text.str.lower().isin([*_MISSING, *(word.strip().lower() for word in missing)])
    other = "," if mark == "." else "."
    text = text.str.replace(_GROUPS, "", regex=True)
    grouped = text.str.fullmatch(rf"[+-]?\d{{1,3}}(?:\{other}\d{{3}})+(?:\{mark}\d*)?")
    text = text.mask(grouped, text.str.replace(other, "", regex=False))
    text = text.mask(text.str.contains(other, regex=False), "wrong")
    values = pd.to_numeric(text.str.replace(mark, ".", regex=False), errors="coerce").astype(float)
    values = values.mask(values.isna() & ~gone, np.inf)
    return values.mask(gone | values.isin(sentinels))


def whole(values: pd.Series) -> NDArray[np.bool_]:
    """Where the values are numbers or missing."""
    return np.asarray(~np.isinf(values), dtype=bool)


def _text(column: pd.Series) -> pd.Series:
    return column.astype(object).where(column.notna(), "").astype(str).str.strip()
