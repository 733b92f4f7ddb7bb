"""Which columns of a raw file hold the time, the readings and the names of meters."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

import pandas as pd

from plfl.data.importing.numbers import is_number
from plfl.data.importing.options import Options
from plfl.data.importing.tables import DATED, DIGITS, Table
from plfl.data.importing.times import time_words
from plfl.errors import DataError, did_you_mean


@dataclass(frozen=True)
class Layout:
    """The parts of a raw file."""

    time: tuple[str, ...]
    """Column of the stamp, or those of its date and time."""
    readings: tuple[str, ...]
    """Columns of readings."""
    name: str | None
    """Column with the names of meters, of long files."""
    inputs: dict[str, str]
    """Columns of inputs, by the name of the input."""
    ignored: tuple[str, ...]
    """Columns that are not read."""

    @property
    def kind(self) -> str:
        """What the receipt calls it."""
        if self.name is not None:
            return "long"
        return "wide" if len(self.readings) > 1 else "one meter"


def find(table: Table, options: Options) -> Layout:
    """The layout of a file: as the options say, else found out.

    Raises:
        DataError: a column is missing, or the layout is not certain.
    """
    cells = table.cells
    for option, given in (
        *(("--time", name) for name in options.time),
        *(("--name", name) for name in (options.name,) if name),
        *(("--load", name) for name in (options.load,) if name),
        *((f"--input {name}", column) for name, column in options.inputs),
    ):
        if given not in cells:
            raise DataError(
                f"{table.path}: has no column {given!r} ({option}); it has "
                f"{', '.join(map(repr, cells))}{did_you_mean(given, map(str, cells))}"
            )
    if not len(cells):
        raise DataError(f"{table.path}: holds no readings; export it again")
    time = options.time or _time(table)
    inputs = dict(options.inputs)
    rest = [str(name) for name in cells if name not in (*time, options.name, *inputs.values())]
    # Of several columns with a time, such as start and end, one was chosen.
    times = [name for name in rest if _is_time(cells[name], name) or _is_clock(cells[name])]
    readings = [name for name in rest if name not in times and is_number(cells[name])]
    words = [name for name in rest if name not in (*times, *readings)]
    if options.load:
        readings = [options.load]
    if not readings:
        raise DataError(
            f"{table.path}: has no column of numbers beside {', '.join(map(repr, time))}; export "
            "it with readings"
        )
    name = options.name or _name(table, time, readings, words)
    if name is not None and len(readings) > 1:
        raise DataError(
            f"{table.path}: has several columns of numbers beside {name!r}; choose that of the "
            f"readings with --load: {', '.join(map(repr, readings))}"
        )
    used = {*time, *readings, *inputs.values(), name}
    ignored = tuple(n for n in map(str, cells) if n not in used)
    return Layout(tuple(time), tuple(readings), name, inputs, ignored)


def _time(table: Table) -> tuple[str, ...]:
    cells = table.cells
    times = [str(name) for name in cells if _is_time(cells[name], str(name))]
    clocks = [str(name) for name in cells if _is_clock(cells[name])]
    if len(times) == 1:
        column = cells[times[0]]
        bare = (
            column.dtype.kind != "M"
            and not column.astype(str)
            .str.contains(r"\d:\d\d(?!:?\d*$)|[1-9]\d?:\d\d|0\d:\d[1-9]")
            .any()
        )
        if len(clocks) == 1 and bare:
            return times[0], clocks[0]
        if not clocks:
            return (times[0],)
    some = ", ".join(map(repr, times + clocks))
    raise DataError(
        f"{table.path}: the column of the time cannot be determined; choose with --time (date and "
        f"time in two columns: --time DATE --time TIME){': ' + some if some else ''}"
    )


def _sample(column: pd.Series) -> pd.Series:
    text = column.head(200).dropna().astype(str).str.strip()
    return text[text != ""]


def _is_time(column: pd.Series, name: str) -> bool:
    if column.dtype.kind == "M":
        return True
    if column.dtype.kind in "fb":
        return False
    text = _sample(column)
    if not len(text):
        return False
    if column.dtype.kind in "iu" or text.str.fullmatch(DIGITS.pattern).mean() > 0.5:
        return time_words(name) and text.str.fullmatch(DIGITS.pattern).mean() > 0.5
    return bool(text.str.match(DATED.pattern, case=False).mean() > 0.5)


def _is_clock(column: pd.Series) -> bool:
    if column.dtype.kind in "iufbM":
        return False
    text = _sample(column)
    clock = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s?[AaPp][Mm])?"
    return bool(len(text) and text.str.fullmatch(clock).mean() > 0.5)


def _name(table: Table, time: tuple[str, ...], readings: list[str], words: list[str]) -> str | None:
    """The column of the meters' names in a long file; None for other files.

    Raises:
        DataError: most times occur more than once, and no single column tells why.
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
        f"{table.path}: most times occur more than once; if a column names the meter, set it with "
        f"--name: {', '.join(map(repr, known or [*words, *readings]))}"
    )


def is_chosen(name: str, options: Options) -> bool:
    """Whether the options select a meter."""
    wanted = not options.only or any(fnmatchcase(name, pattern) for pattern in options.only)
    return wanted and not any(fnmatchcase(name, pattern) for pattern in options.leave_out)


def check_chosen(names: list[str], options: Options) -> None:
    """Refuse selections without effect.

    Raises:
        DataError: a pattern fits none of the names, or no meter is left.
    """
    zoned = tuple(name for name, _ in options.timezones)
    for option, patterns in (
        ("--only", options.only),
        ("--leave-out", options.leave_out),
        ("--timezone", zoned),
    ):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise DataError(
                    f"{option} {pattern}: there is no such meter; there are "
                    f"{', '.join(map(repr, names[:20]))}{' …' if len(names) > 20 else ''}"
                    f"{did_you_mean(pattern, names)}"
                )
    if names and not any(is_chosen(name, options) for name in names):
        raise DataError("--only and --leave-out leave no meter; choose others")
