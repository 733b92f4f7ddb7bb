"""Turns tables with times such as `a to b` or a column of units into plain ones."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from plfl.base.errors import data_error
from plfl.base.keys import Key
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.config.meters import Meters
from plfl.data.meters import quantities
from plfl.data.meters.dates import DATE_AT_BEGINNING
from plfl.data.meters.numbers import as_text, share_of_cells
from plfl.data.meters.tables import RawTable
from plfl.data.meters.vocabulary import WORDS, words_in

_CLOCK = r"(\d{1,2})[:.h]?(\d{2})(?::\d{2})?(?: ?([ap])m)?"
_CLOCK_NAME = re.compile(rf"{_CLOCK}(?:\s*(?:[-–~～〜/]|to|bis|a)\s*{_CLOCK})?", re.IGNORECASE)
_UNIT_AFTER = re.compile(r"\s*[\[(]?\bk?Wh?[\])]?$", re.IGNORECASE)
_TIME = r"\d{1,2}:\d{2}(?::\d{2})?(?: ?[AP]M)?"
_TIME_OF_DAY = re.compile(_TIME, re.IGNORECASE)
_DATED = re.compile(DATE_AT_BEGINNING.pattern)
_HAS_CLOCK = re.compile(r"\d:\d")
_SPAN = re.compile(
    rf"({_TIME})\s*[-–]\s*{_TIME}"
    rf"|({DATE_AT_BEGINNING.pattern}[T, ]+{_TIME}(?:Z|[+-]\d\d:?\d\d)?)"
    r"(?:\s+(?:[-–a]|to|bis|until)\s+|/)\d.*"
    rf"|({_TIME})\s+(?:to|bis|until|a)\s+{_TIME}",
    re.IGNORECASE,
)
"""Two times, of which a group has the first. An offset such as -05:00 is no second time."""
_HOURS = re.compile(r"(\d{1,2})\s?[-–]\s?\d{1,2}")
"""The first and the last edge of an interval in hours."""
_NUMBER = re.compile(r"\d{1,2}")
"""The number of an interval of a day."""
_WITH_UNIT = re.compile(r"([+-]?[\d.,]*\d)\s?(kWh|MWh|Wh|kW|MW|W)")
"""A reading with its unit in one cell."""
_NUMBERED = re.compile(r"(?:([^\W\d_]+)[ _.-]?)?0?(\d{1,2})([a-zA-Z]?)")
"""The name of a column with a numbered hour of the day, or, with a letter at the end, such as `2A`,
with one that clocks repeat."""
_COUNTS = (24, 48, 96, 144, 288)
"""Readings per day."""


def simplify(table: RawTable, meters: Meters) -> RawTable:
    """The table with the starts of times such as `a to b`, and without a column of units. Readings
    in several units are refused."""
    time_columns = [
        meters.columns[role] for role in ("timestamp", "time_of_day") if role in meters.columns
    ]
    for name in map(str, table.cells):
        if name in table.plain or (column := table.cells[name]).dtype.kind in "iufbM":
            continue
        sample = as_text(column.head(50)).tolist()
        if share_of_cells(sample, _WITH_UNIT.fullmatch) > 0.5:
            table = _without_units(table, name)
            continue
        if _are_units({*sample} - {""}, name):
            table = replace(table, unit_of_rows=_unit_of_rows(table, name, meters))
        elif time_columns and name not in time_columns:
            continue
        elif share_of_cells(sample, _SPAN.fullmatch) > 0.5:
            starts = as_text(column).str.replace(_SPAN, r"\1\2\3", regex=True)
            table = replace(table, cells=table.cells.assign(**{name: starts}), stamp="start")
        elif names_hours(name) and all(map(_HOURS.fullmatch, sample)):
            starts = as_text(column).str.replace(_HOURS, r"\1:00", regex=True)
            table = replace(table, cells=table.cells.assign(**{name: starts}), stamp="start")
    return table if time_columns else _with_clocks(table, meters)


def _with_clocks(table: RawTable, meters: Meters) -> RawTable:
    """The table with times of day instead of numbers of hours or intervals, such as 1 to 48, in a
    column that repeats them beside one of dates without times of day."""
    is_end = meters.stamp == "end" and "stamp" in meters.model_fields_set
    names = [name for name in map(str, table.cells) if not _has_fractions(table, name)]
    sample = {name: as_text(table.cells[name].head(2000)).tolist() for name in names}
    if any(share_of_cells(text, _TIME_OF_DAY.fullmatch) > 0.5 for text in sample.values()):
        return table
    dates = [name for name, text in sample.items() if share_of_cells(text, _DATED.match) > 0.5]
    if len(dates) != 1 or any(map(_HAS_CLOCK.search, sample[dates[0]])):
        return table
    for name, text in sample.items():
        if name == dates[0] or not all(map(_NUMBER.fullmatch, text)):
            continue
        numbers = sorted({*map(int, text)})
        first, count = numbers[0], len(numbers)
        if count == _COUNTS[0] and names_hours(name):
            continue  # may end or start at these hours
        is_whole_day = count in _COUNTS and numbers == [*range(first, first + count)]
        if is_whole_day and first in (0, 1) and not table.cells.duplicated([*dates, name]).any():
            mark = "end" if is_end and first == 1 else "start"
            positions = as_text(table.cells[name]).astype(int) - (mark == "start") * first
            minutes = positions * (MINUTES_PER_DAY // count)
            clocks = minutes.map(lambda time: f"{time // 60:02}:{time % 60:02}")
            return replace(table, cells=table.cells.assign(**{name: clocks}), stamp=mark)
    return table


def _has_fractions(table: RawTable, name: str) -> bool:
    """Whether a column has plain numbers that are not whole, and so neither dates nor hours."""
    plain = table.plain.get(name)
    return plain is not None and bool((np.nan_to_num(plain.numbers) % 1).any())


def _without_units(table: RawTable, column: str) -> RawTable:
    """The table with plain numbers in a column with readings such as `300 W` and `1.2 kW`, which
    are written in the unit of the first of them."""
    parts = as_text(table.cells[column]).str.extract(_WITH_UNIT)
    units = parts[1].dropna()
    unit = str(units.iloc[0])
    numbers = as_text(table.cells[column]).mask(parts[0].notna(), parts[0])
    for other_unit in units.unique():
        factor = quantities.KWH[other_unit] / quantities.KWH[unit]
        is_other = (parts[1] == other_unit) & (factor != 1)
        if is_other.any() and (other_unit.endswith("h") != unit.endswith("h")):
            raise data_error(
                table.place_of(is_other.idxmax()),
                f"{column!r} is in {other_unit}, and in {unit} in other rows",
                "keep those of one unit",
            )
        scaled = pd.to_numeric(numbers[is_other].str.replace(",", "."), errors="coerce") * factor
        numbers = numbers.mask(is_other, scaled.map(lambda number: f"{number:.12g}"))
    units_by_column = {**table.units, column: unit}
    return replace(table, cells=table.cells.assign(**{column: numbers}), units=units_by_column)


def _are_units(cells: Collection[str], column: str) -> bool:
    """Whether cells of a column are units, some of them of loads, and not names of meters that end
    with one, such as `Hall kWh`. A lone `W` may be a mark of true values."""
    names_meters = column in WORDS.meters and column not in WORDS.units
    if names_meters and any(" " in cell for cell in cells):
        return False
    units = set[str]()
    for cell in cells:
        unit = quantities.unit_of(f"[{cell}]")
        if unit is None or "_" in cell:  # mostly of the first cell: all take long
            return False
        units.add(unit)
    load_units = units & {*quantities.LOAD_UNITS}
    return bool(load_units) and (load_units != {"W"} or WORDS.units.has_word_of(column))


def _unit_of_rows(table: RawTable, column: str, meters: Meters) -> str | None:
    """The only unit in a column of units. Several are refused, unless the keys give the unit."""
    cells = as_text(table.cells[column])
    is_other = cells != cells.iloc[0]
    if not is_other.any():
        return quantities.unit_of(f"[{cells.iloc[0]}]")
    if meters.unit is None:
        raise data_error(
            table.place_of(is_other.idxmax()),
            f"{column!r} says {cells[is_other].iloc[0]!r}, and {cells.iloc[0]!r} in other rows",
            f"keep those of one unit, or set {Key('data.meters.unit')} if it is that of all rows",
        )
    return None


def names_hours(name: str) -> bool:
    """Whether the whole numbers of a column may be times of day, such as 7 or 700, by its name."""
    words = words_in(name)
    hours = WORDS.hours.among(words)
    return bool(hours) and WORDS.hours_beside.among(words) >= words - hours


def columns_of_day(names: Sequence[str]) -> list[str]:
    """The columns for the times of a day, in their order; empty if there are none."""
    numbers = {
        name: int(match[2])
        for name in names
        if (match := _NUMBERED.fullmatch(name))
        and (match[1] is None or match[1] in WORDS.hours_numbered)
    }
    positions = positions_of_day([*numbers])
    hours = [hour for hour, n in zip(numbers.values(), positions, strict=True) if n == int(n)]
    if hours in ([*range(24)], [*range(1, 25)]):
        return [*numbers]
    plain_names = {name: _UNIT_AFTER.sub("", name.strip()) for name in names}
    clocks = {
        n: match for n, plain in plain_names.items() if (match := _CLOCK_NAME.fullmatch(plain))
    }
    if len(clocks) not in _COUNTS:
        return []
    minutes = np.array([_minutes(match) for match in clocks.values()])
    step = MINUTES_PER_DAY // len(clocks)
    if (np.diff(minutes) % MINUTES_PER_DAY != step).any() or minutes[0] not in (0, step):
        return []
    return list(clocks)


def positions_of_day(columns: Sequence[str]) -> list[float]:
    """The numbers of the intervals that columns have, from 1; half a number more for that of an
    hour that clocks repeat, such as `2A` after `2`."""
    positions: list[float] = []
    hours: list[str] = []
    for column in columns:
        match = _NUMBERED.fullmatch(column)
        is_repeated = match is not None and bool(match[3]) and hours[-1:] == [match[2]]
        hours.append(match[2] if match else column)
        positions.append(positions[-1] + 0.5 if is_repeated else int((positions or [0])[-1]) + 1)
    return positions


def _minutes(clock: re.Match[str]) -> int:
    """A time of day in minutes."""
    hours, minutes, half = int(clock[1]), int(clock[2]), (clock[3] or "").lower()
    if half:
        hours = hours % 12 + 12 * (half == "p")
    return hours * 60 + minutes
