"""The columns of a raw file with the time, the readings and the names of meters."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import get_args

import pandas as pd

from plfl.base.errors import DataError, did_you_mean
from plfl.config.sections import Meters
from plfl.data.meters.numbers import as_text, is_number
from plfl.data.meters.tables import DATED, DIGITS, Table

_TIME_WORDS = re.compile(r"time|date|stamp|epoch|unix|zeit|datum|fecha|heure|^ts$", re.IGNORECASE)
_QUANTITY = re.compile(
    r"(?:\w+[ _])?(?:load|energy|power|consumption|demand|usage|electricity|readings?|values?|"
    r"meter|register|index|counter|total|"
    r"Verbrauch|Leistung|Energie|Wert|Zählerstand|Stand|[kM]?Wh?)"
    r"(?:[ _]?[\[(]?[kM]?Wh?[\])]?)?|column \d+",
    re.IGNORECASE,
)
"""Names of columns that are about what is measured, not about which meter measures it."""


@dataclass(frozen=True)
class Layout:
    """The parts of a raw file."""

    time: tuple[str, ...]
    """Column of the stamp, or the two columns of its date and time."""
    readings: tuple[str, ...]
    """Columns of readings."""
    name: str | None
    """Column with the names of meters, in long files."""
    inputs: dict[str, str]
    """Columns of inputs, by the name of the input."""
    ignored: tuple[str, ...]
    """Columns that are not read."""
    meter: str | None = None
    """Name of the meter if the only column of readings has it; None: the file has it."""

    @property
    def kind(self) -> str:
        """Its name in reports."""
        if self.name is not None:
            return "long"
        return "wide" if len(self.readings) > 1 else "one meter"


def find(table: Table, meters: Meters) -> Layout:
    """The layout of a file: from `meters.columns`, otherwise detected.

    If several columns are possible, a column `load` has the readings and a column `timestamp` the
    time.

    Raises:
        DataError: a column is missing, or the layout is ambiguous.
    """
    cells, given = table.cells, meters.columns
    _check_given(table, meters)
    if not len(cells):
        raise DataError(f"{table.path}: holds no readings; export it again")
    named = (given.get(role) for role in ("timestamp", "time_of_day"))
    time = tuple(column for column in named if column is not None) or _time(table)
    inputs, name = meters.inputs, given.get("meter")
    rest = [str(column) for column in cells if column not in (*time, name, *inputs.values())]
    # Of several columns with a time, such as start and end, one was chosen.
    times = [column for column in rest if _is_time(cells[column]) or _is_clock(cells[column])]
    readings = [column for column in rest if column not in times and is_number(cells[column])]
    words = [column for column in rest if column not in (*times, *readings)]
    load = given.get("load", "load" if "load" in readings else None)
    if load is not None:
        readings = [load]
    if not readings:
        raise DataError(
            f"{table.path}: has no column of numbers beside {', '.join(map(repr, time))}; export "
            "it with readings"
        )
    name = name or _name(table, time, readings, words)
    if len(readings) > 1 and (name is not None or not meters.exports):
        beside = f" beside {name!r}" if name is not None else ", but the folder has one meter each"
        raise DataError(
            f"{table.path}: has several columns of numbers{beside}; choose that of the readings in "
            f"data.meters.columns.load: {', '.join(map(repr, readings))}"
        )
    used = {*time, *readings, *inputs.values(), name}
    ignored = tuple(column for column in map(str, cells) if column not in used)
    alone = load is None and name is None and len(readings) == 1
    meter = readings[0] if alone and not _QUANTITY.fullmatch(readings[0]) else None
    return Layout(time, tuple(readings), name, inputs, ignored, meter)


def _check_given(table: Table, meters: Meters) -> None:
    """Refuse columns that the user names but the file lacks or has more than once.

    Raises:
        DataError: the message lists all of them.
    """
    problems = []
    for role, column in meters.columns.items():
        where = f"{column!r} (data.meters.columns.{role})"
        if column not in table.cells:
            known = list(map(str, table.cells))
            problems.append(
                f"{table.path}: has no column {where}; it has {_some(known)}"
                f"{did_you_mean(column, known)}"
            )
        elif column in table.repeated:
            problems.append(
                f"{table.path}: has several columns {where}; rename or remove the others"
            )
    if problems:
        raise DataError("\n".join(problems))


def _some(names: Sequence[str], most: int = 20) -> str:
    return ", ".join(map(repr, names[:most])) + (" …" if len(names) > most else "")


def _time(table: Table) -> tuple[str, ...]:
    cells = table.cells
    times = [str(name) for name in cells if _is_time(cells[name])]
    clocks = [str(name) for name in cells if _is_clock(cells[name])]
    if len(times) > 1 and "timestamp" in times:
        return ("timestamp",)
    if len(times) == 1:
        if len(clocks) == 1 and not _has_clock(cells[times[0]]):
            return times[0], clocks[0]
        if not clocks:
            return (times[0],)
    some = ", ".join(map(repr, times + clocks))
    raise DataError(
        f"{table.path}: the column of the time cannot be determined; choose it in "
        "data.meters.columns.timestamp, and that of the time of day beside one of dates in "
        f"data.meters.columns.time_of_day{': ' + some if some else ''}"
    )


def _has_clock(column: pd.Series) -> bool:
    """Whether a column of dates has times of day other than midnight."""
    clock = r"\d:\d\d(?!:?\d*$)|[1-9]\d?:\d\d|0\d:\d[1-9]"
    return column.dtype.kind == "M" or bool(column.astype(str).str.contains(clock).any())


def unit_of(table: Table, column: str) -> str | None:
    """The unit of energy or power that a file states for a column of readings."""
    # A W after a space may be a part of a name, such as that of a wing.
    written = table.units.get(column) or re.split(r"[_(\[]| (?!W$)", column.rstrip(")] "))[-1]
    return written if written in get_args(Meters.model_fields["unit"].annotation) else None


def _sample(column: pd.Series) -> pd.Series:
    text = as_text(column.head(200))
    return text[text != ""]


def _is_time(column: pd.Series) -> bool:
    if column.dtype.kind == "M":
        return True
    if column.dtype.kind in "fb":
        return False
    text = _sample(column)
    if not len(text):
        return False
    digits = text.str.fullmatch(DIGITS.pattern).mean() > 0.5
    if column.dtype.kind in "iu" or digits:
        return bool(digits and _TIME_WORDS.search(str(column.name)))
    return bool(text.str.match(DATED.pattern, case=False).mean() > 0.5)


def _is_clock(column: pd.Series) -> bool:
    if column.dtype.kind in "iufbM":
        return False
    text = _sample(column)
    clock = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s?[AaPp][Mm])?"
    return bool(len(text) and text.str.fullmatch(clock).mean() > 0.5)


def _name(
    table: Table, time: Sequence[str], readings: Sequence[str], words: Sequence[str]
) -> str | None:
    """The column with the meters' names in a long file; None for other files.

    Raises:
        DataError: most times occur more than once, and no single column explains it.
    """
    if table.cells.duplicated(list(time)).mean() <= 0.4:
        return None
    known = [
        word
        for word in words
        if len(table.cells[word].unique()) > 1
        and table.cells.duplicated([*time, word]).mean() <= 0.4
    ]
    if len(known) == 1:
        return known[0]
    if not known and len(readings) == 1 and not words:
        return None  # the readings themselves are duplicates
    raise DataError(
        f"{table.path}: most times occur more than once; if a column names the meter, set it in "
        f"data.meters.columns.meter: {', '.join(map(repr, known or [*words, *readings]))}"
    )


def is_chosen(name: str, meters: Meters) -> bool:
    """Whether `only` and `leave_out` select a meter."""
    wanted = not meters.only or any(fnmatchcase(name, pattern) for pattern in meters.only)
    return wanted and not any(fnmatchcase(name, pattern) for pattern in meters.leave_out)


def check_chosen(names: Sequence[str], meters: Meters, one_of_several: bool = False) -> None:
    """Refuse selections without effect.

    If these are the meters of `one_of_several` states, `timezones` may be for the others.

    Raises:
        DataError: a pattern fits none of the names, or no meter is left.
    """
    for key in ("only", "leave_out", *(["timezones"] if not one_of_several else [])):
        for pattern in getattr(meters, key):
            if not any(fnmatchcase(name, pattern) for name in names):
                raise DataError(
                    f"data.meters.{key}: there is no meter {pattern!r}; there are {_some(names)}"
                    f"{did_you_mean(pattern, names)}"
                )
    if names and not any(is_chosen(name, meters) for name in names):
        raise DataError("data.meters.only and data.meters.leave_out leave no meter; choose others")
