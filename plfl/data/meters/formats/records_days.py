"""The reader of tables in which the dates have lines of their own, above the rows of their days."""

import re

import pandas as pd

from plfl.data.meters.file_contents import RawFile

_DATE = re.compile(r"\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}")


def read_days(raw: RawFile) -> pd.DataFrame:
    """The rows of a table with semicolons, in which a line with nothing but a date stands above the
    rows of each day: its own columns, and `day`. Its header is the first line with semicolons."""
    (lines,) = raw.sheets.values()
    header: list[str] = []
    day = ""
    rows: dict[int, dict[str, str]] = {}
    for number, line in enumerate(lines, 1):
        cells = [cell.strip(' "') for cell in line.split(";")]
        if len(cells) < 2:
            continue
        if not header:
            header = cells
        elif _DATE.fullmatch(cells[0]) and not any(cells[1:]):
            day = cells[0]
        elif not day:
            raise ValueError(f"line {number} comes before a line with a date")
        elif cells[0]:
            rows[number] = {"day": day, **dict(zip(header, cells, strict=False))}
    if not rows:
        raise ValueError("it has no rows below its dates")
    return pd.DataFrame.from_dict(rows, orient="index").fillna("")
