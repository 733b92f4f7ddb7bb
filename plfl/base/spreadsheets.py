"""Tables as files that people open in spreadsheets: CSV and XLSX.

Names of meters and columns come from files of others. A text such as `=HYPERLINK(…)` is never
written as a formula.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, BinaryIO

from plfl.base.extras import require
from plfl.base.files import atomic
from plfl.base.lazy import pandas as pd
from plfl.base.text import list_names

log = logging.getLogger(__name__)

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""First characters of a text that some spreadsheet evaluates (OWASP, CSV injection)."""


def escape_formula(value: Any) -> Any:
    """A value for a CSV file: a text that a spreadsheet would evaluate begins with an apostrophe.

    >>> escape_formula("=1+1"), escape_formula(-1.0)
    ("'=1+1", -1.0)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value


def as_csv(table: pd.DataFrame, digits: int = 6) -> str:
    """A table as CSV, numbers with some significant digits, texts escaped unless all of their
    column are numbers. A warning says which texts were changed."""
    safe = table.rename(columns=escape_formula)
    changed_texts = [str(name) for name in table if escape_formula(name) is not name]
    for column in safe.select_dtypes(["object", "string", "category"]):
        texts = pd.Series(safe[column].dropna().unique(), dtype=object)
        evaluated = [text for text in texts if escape_formula(text) is not text]
        if evaluated and pd.to_numeric(texts[texts != ""], errors="coerce").isna().any():
            safe[column] = safe[column].map(escape_formula)
            changed_texts += evaluated
    if changed_texts:
        log.warning(
            "spreadsheets would evaluate texts that begin with = + - or @, so the CSV has an "
            "apostrophe before %s",
            list_names([repr(text[:60]) for text in changed_texts], 3),
        )
    form = f"%.{digits}g"
    # With this end of lines, Python quotes a text that has one of its two characters.
    text = str(safe.to_csv(index=False, float_format=form, lineterminator="\r\n"))
    return text.replace("\r\n", "\n")


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write the file of `as_csv`."""
    with atomic(path) as temporary:
        temporary.write_text(as_csv(table), encoding="utf-8", newline="")


def write_workbook(table: pd.DataFrame, file: BinaryIO, sheet: str) -> None:
    """Write a table as XLSX. All its texts are text cells, which stay texts if they are edited.
    PlflError without openpyxl."""
    require("xlsx", "a workbook")
    with pd.ExcelWriter(file, engine="openpyxl") as workbook:
        table.to_excel(workbook, sheet_name=sheet, index=False)
        for row in workbook.sheets[sheet].iter_rows():
            for cell in row:
                if isinstance(cell.value, str) and cell.value.startswith(FORMULAS):
                    cell.data_type, cell.quotePrefix = "s", True
