"""Turns tables with one row per day, and times such as `a to b`, into rows of one time."""

import re
from collections.abc import Sequence
from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.config.sections import Meters
from plfl.data.meters import stamps
from plfl.data.meters.layout import dates_in, has_clock, unit_of
from plfl.data.meters.numbers import as_text
from plfl.data.meters.paths import client_name
from plfl.data.meters.tables import DATED, RawTable

_CLOCK = r"(\d{1,2})[:.h]?(\d{2})(?::\d{2})?(?: ?([ap])m)?"
_CLOCK_NAME = re.compile(rf"{_CLOCK}(?:\s*(?:-|–|to|bis|a|/)\s*{_CLOCK})?", re.IGNORECASE)
_NUMBER_NAME = re.compile(
    r"(?P<before>[a-z _.-]*?)0*(?P<number>\d{1,3})(\s*[\[(]\w+[\])])?", re.IGNORECASE
)
_TIME = r"\d{1,2}:\d{2}(?::\d{2})?(?: ?[AP]M)?"
_SPAN = re.compile(
    rf"({_TIME})\s*[-–]\s*{_TIME}"
    rf"|({DATED.pattern}[T, ]+{_TIME}(?:Z|[+-]\d\d:?\d\d)?)(?:\s+(?:[-–a]|to|bis|until)\s+|/)\d.*"
    rf"|({_TIME})\s+(?:to|bis|until|a)\s+{_TIME}",
    re.IGNORECASE,
)
"""Two times, of which a group has the first. An offset such as -05:00 is no second time."""
_DAY = 24 * 60
_COUNTS = (24, 48, 96, 144, 288)
"""Readings per day."""


def straight(table: RawTable, meters: Meters) -> RawTable:
    """The table with one row per time.

    Raises:
        DataError: the dates of a table with one row per day cannot be read.
    """
    if not set(meters.columns) & {"timestamp", "load"}:
        table = _by_days(table, meters)
    given = [
        meters.columns[role] for role in ("timestamp", "time_of_day") if role in meters.columns
    ]
    for name in [name for name in map(str, table.cells) if not given or name in given]:
        column = table.cells[name]
        if name in table.plain or column.dtype.kind in "iufbM":
            continue
        sample = as_text(column.head(50))
        if sample.str.fullmatch(_SPAN.pattern, case=False).mean() > 0.5:
            starts = as_text(column).str.replace(_SPAN, r"\1\2\3", regex=True)
            table = replace(table, cells=table.cells.assign(**{name: starts}), stamp="start")
    return table


def _by_days(table: RawTable, meters: Meters) -> RawTable:
    """A table with one row per day and a column for each time of the day, as one with a column
    `load`; other tables as they are."""
    day = _columns_of_day(list(map(str, table.cells)))
    dates = dates_in(table)
    if day is None or len(dates) != 1 or has_clock(table.cells[dates[0]]):
        return table  # such as a column for each of 24 meters
    columns, minutes, stamp = day
    times = stamps.parse(table, tuple(dates), meters)
    days = pd.DatetimeIndex(times.stamps.dt.tz_localize(None))
    order = np.argsort(days, kind="stable")
    days, cells = days[order], table.cells.iloc[order]
    values = cells[columns]
    lengths = (minutes * 60).astype("timedelta64[s]")
    walls = days.to_numpy()[:, None] + lengths[None, :]
    kept = np.ones(values.shape, bool)
    if not _CLOCK_NAME.fullmatch(columns[0].strip()):
        zone = stamps.zone_named(meters.timezone_of(client_name(table.path)))
        walls, kept = _of_numbers(days, lengths, values, zone)
    lines = np.repeat(cells.index.to_numpy(float), len(columns))
    lines += np.tile(np.arange(len(columns)) / 1000, len(cells))
    others = cells.drop(columns=[*columns, *dates])
    long = others.loc[others.index.repeat(len(columns))].set_axis(pd.Index(lines))
    long = long.assign(timestamp=walls.ravel(), load=values.to_numpy().ravel())
    unit = unit_of(table, columns[0])
    return replace(
        table,
        cells=long[kept.ravel()],
        form=f"{table.form}, one row per day",
        units={} if unit is None else {"load": unit},
        stamp=stamp,
    )


def _of_numbers(
    days: pd.DatetimeIndex, lengths: NDArray[np.timedelta64], values: pd.DataFrame, zone: ZoneInfo
) -> tuple[NDArray[np.datetime64], NDArray[np.bool_]]:
    """The local times of numbered values (days, columns), and which of them are not padding.

    Columns count intervals that have passed since midnight if there are some for a day of 25 hours,
    or if a day of 23 hours has its empty ones at the end; otherwise, each stands for a time of day.
    """
    first = days.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
    last = (days + pd.Timedelta(days=1)).tz_localize(
        zone, ambiguous=True, nonexistent="shift_forward"
    )
    day = np.asarray(last - first)[:, None]
    beyond = lengths[None, :] >= day
    empty = values.apply(as_text).isin(["", "nan"]).to_numpy()
    short = day < np.timedelta64(1, "D")
    if lengths[-1] < np.timedelta64(1, "D") and not (short.any() and empty[beyond & short].all()):
        return days.to_numpy()[:, None] + lengths[None, :], np.ones(values.shape, bool)
    passed = first.tz_convert("UTC").tz_localize(None).to_numpy()[:, None] + lengths[None, :]
    local = pd.DatetimeIndex(passed.ravel()).tz_localize("UTC").tz_convert(zone)
    return local.tz_localize(None).to_numpy().reshape(values.shape), ~(beyond & empty)


def _columns_of_day(names: Sequence[str]) -> tuple[list[str], NDArray[np.int64], str] | None:
    """The columns for the times of a day, the minutes from midnight to their stamps, and whether
    these are the starts or the ends; None if there are no such columns."""
    clocks = {name: match for name in names if (match := _CLOCK_NAME.fullmatch(name.strip()))}
    minutes = np.array([_minutes(match) for match in clocks.values()])
    step = round(_DAY / len(clocks)) if len(clocks) in _COUNTS else 0
    if step:
        steps = np.diff(minutes) % _DAY
        if (steps == step).all() and minutes[0] in (0, step):
            stamp = "end" if minutes[0] else "start"
            return list(clocks), minutes[0] + np.arange(len(clocks)) * step, stamp
    numbered = {name: match for name in names if (match := _NUMBER_NAME.fullmatch(name.strip()))}
    befores = [match["before"].lower() for match in numbered.values()]
    for before in dict.fromkeys(befores):
        columns = [name for name, match in numbered.items() if match["before"].lower() == before]
        first, *_ = ordinals = [int(numbered[name]["number"]) for name in columns]
        for count in _COUNTS:
            step = _DAY // count
            longest = count + 60 // step
            if len(columns) not in (count, longest) or first > 1:
                continue
            if ordinals == list(range(first, first + len(columns))):
                return columns, np.arange(len(columns)) * step, "start"
    return None


def _minutes(clock: re.Match[str]) -> int:
    """A time of day in minutes."""
    hours, minutes, half = int(clock[1]), int(clock[2]), (clock[3] or "").lower()
    if half:
        hours = hours % 12 + 12 * (half == "p")
    return hours * 60 + minutes
