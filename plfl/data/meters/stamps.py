"""Places timestamps, as the file writes them, on a regular grid in UTC."""

import logging
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from plfl.config.checks import of_zone
from plfl.config.sections import Meters
from plfl.errors import DataError

YEARS = 1970, 2100
"""First and last year of a reading. Any other year is an error in the file."""

_OFFSET = r"[T ]\d.*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$"
# One zone for each rule of daylight saving time in use, to recognise a change of clocks in a file.
_CLOCKS = (
    "America/New_York",
    "Europe/Berlin",
    "Australia/Sydney",
    "Pacific/Auckland",
    "America/Santiago",
)
_HOUR = pd.Timedelta(hours=1)

logger = logging.getLogger(__name__)


def zone_named(name: str) -> ZoneInfo:
    """The time zone with an IANA name.

    Raises:
        DataError: there is none.
    """
    for problem in of_zone("data.meters.timezone", name):
        raise DataError(problem)
    return ZoneInfo(name)


def parse(path: Path, column: pd.Series, form: str | None = None) -> pd.DatetimeIndex:
    """The timestamps as they are written: aware if they have UTC offsets, else naive.

    Args:
        path: the file, for messages.
        column: the timestamps.
        form: their format, `data.meters.date_format`; None: ISO.

    Raises:
        DataError: one cannot be read, only some have offsets, or a year is implausible.
    """
    stamps = column
    if column.dtype.kind != "M":
        text = column.fillna("").astype(str).str.strip()
        aware = text.str.contains(_OFFSET).to_numpy()
        if aware.any() and not aware.all():
            raise DataError(
                f"{path}: {column.index[int((aware != aware[0]).argmax())]}: some stamps have a "
                "UTC offset and some have none; write all of them in the same way"
            )
        if form is None:  # a number is not a timestamp; pandas would read "2018" as a year
            text = text.where(text.str.contains("-", regex=False))
        try:
            stamps = pd.to_datetime(text, format=form or "ISO8601", utc=True, errors="coerce")
        except ValueError as error:
            raise DataError(
                f"data.meters.date_format: {form!r} cannot be read ({error}); write it as in "
                "'%d/%m/%Y %H:%M'"
            ) from None
        if not aware.any():
            stamps = stamps.dt.tz_localize(None)
        elif stamps.notna().all():
            stamps = stamps.dt.tz_convert(pd.Timestamp(text.iloc[0]).tz)
    if (unreadable := stamps.isna().to_numpy()).any():
        at = int(unreadable.argmax())
        written = f"{path}: {column.index[at]}: {str(column.iloc[at])!r}"
        if form is not None:
            raise DataError(f"{written} is not in the format {form!r} of data.meters.date_format")
        raise DataError(
            f"{written} is not an ISO timestamp; write it as 2018-01-31 23:45, with or without a "
            "UTC offset, or name its format in data.meters.date_format"
        )
    years = np.asarray(pd.DatetimeIndex(stamps).year)
    # A single wrong year would make a series of a hundred million rows.
    if (stray := (years < YEARS[0]) | (years > YEARS[1])).any():
        at = int(stray.argmax())
        raise DataError(
            f"{path}: {column.index[at]}: {str(column.iloc[at])!r} is not between the years "
            f"{YEARS[0]} and {YEARS[1]}; fix the stamp"
        )
    return pd.DatetimeIndex(stamps)


def interval_ends(
    path: Path, lines: pd.Index, stamps: pd.DatetimeIndex, meters: Meters, zone: ZoneInfo
) -> pd.DatetimeIndex:
    """The ends of the intervals in UTC, in the order of the file.

    Raises:
        DataError: naive timestamps do not fit the time zone.
    """
    interval = pd.Timedelta(minutes=meters.interval)
    shift = interval if meters.stamp == "start" else pd.Timedelta(0)
    if stamps.tz is not None:
        given, local = stamps[0].isoformat(), stamps[0].tz_convert(zone).isoformat()
        if stamps[0].utcoffset() and given != local:
            logger.warning(
                "%s: %s is %s in data.meters.timezone %s, which sets the time of day of the "
                "inputs; if that is wrong, set the meter's own zone",
                *(path, given, local, zone.key),
            )
        return stamps.tz_convert("UTC") + shift
    # For the interval that ends when clocks change, some meters write the time at its end, others
    # the time at its start plus the interval.
    for lag in (pd.Timedelta(0), interval - shift):
        with suppress(Exception):  # pandas 2 raises pytz's errors here, pandas 3 ValueError
            return _to_utc(stamps - lag, zone) + lag + shift
    raise DataError(f"{path}: {_misfit(lines, stamps, zone)}")


def _to_utc(stamps: pd.DatetimeIndex, zone: ZoneInfo) -> pd.DatetimeIndex:
    return stamps.tz_localize(zone, ambiguous="infer", nonexistent="raise").tz_convert("UTC")


def _misfit(lines: pd.Index, stamps: pd.DatetimeIndex, zone: ZoneInfo) -> str:
    """Explains why naive `stamps` cannot be local times of `zone`."""
    summer = np.ones(len(stamps), dtype=bool)
    missing = stamps.tz_localize(zone, ambiguous=summer, nonexistent="NaT").isna()
    double = np.asarray(
        stamps.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward").isna()
    )
    back = np.append(False, np.diff(stamps.asi8) < 0) & ~double
    if back.any():
        return _out_of_order(lines, stamps, int(back.argmax()))
    if missing.any():
        at, why = int(missing.argmax()), "is skipped when clocks go forward"
    else:
        single = double & ~stamps.duplicated(keep=False)
        at = int((single if single.any() else double).argmax())
        why = "occurs twice when clocks go back, and the file does not say which one it is"
    fixed = fixed_zone(zone, stamps[at].year)
    return (
        f"{lines[at]}: {stamps[at]} {why} in data.meters.timezone {zone.key}; set the meter's own "
        f"zone, a fixed one{fixed} if its clock never changes, or write UTC offsets into the stamps"
    )


def _out_of_order(lines: pd.Index, stamps: pd.DatetimeIndex, at: int) -> str:
    return f"{lines[at]}: {stamps[at]} follows the later {stamps[at - 1]}; sort the file by time"


def check_grid(
    path: Path,
    lines: pd.Index,
    stamps: pd.DatetimeIndex,
    ends: pd.DatetimeIndex,
    meters: Meters,
    zone: ZoneInfo,
) -> None:
    """Refuse instants that are not an ascending part of a regular grid.

    Args:
        path: the file, for messages.
        lines: the line or row of each reading, for messages.
        stamps: the timestamps as they are written.
        ends: the same as ends of intervals in UTC, in the order of the file.
        meters: `interval` is the step of the grid.
        zone: the zone of the meter.

    Raises:
        DataError: the interval differs, a timestamp is unsorted, duplicate or off the grid, or
            clocks seem to change that do not change in the time zone.
    """
    interval = meters.interval
    steps = np.asarray((ends[1:] - ends[:-1]) / pd.Timedelta(minutes=1))
    lengths, counts = np.unique(steps[steps > 0], return_counts=True)
    usual = lengths[counts.argmax()] if len(lengths) else interval
    if usual != interval:
        remedy = (
            f"set data.meters.interval to {usual:g}, for all files, or resample this file"
            if usual in (15, 30, 60)
            else "resample the file to 15, 30 or 60 minutes"
        )
        raise DataError(
            f"{path}: its readings are {usual:g} minutes apart, data.meters.interval is "
            f"{interval}; {remedy}"
        )
    for at in map(int, np.flatnonzero(abs(steps - interval) == 60) + 1):
        if stamps.tz is None and (clock := clock_change(stamps[at])):
            raise DataError(
                f"{path}: {lines[at]}: the stamps jump from {stamps[at - 1]} to {stamps[at]}, as "
                f"clocks do in {clock}, but not in data.meters.timezone {zone.key}; set the "
                "meter's own zone, or write UTC offsets into the stamps if this is a real gap"
            )
    if (wrong := steps < 0).any():
        raise DataError(f"{path}: {_out_of_order(lines, stamps, int(wrong.argmax()) + 1)}")
    if (wrong := steps == 0).any():
        at = int(wrong.argmax()) + 1
        raise DataError(f"{path}: {lines[at]}: duplicate stamp {stamps[at]}; keep one of the two")
    if (wrong := steps % interval != 0).any():
        at = int(wrong.argmax()) + 1
        raise DataError(
            f"{path}: {lines[at]}: {stamps[at]} is {steps[at - 1]:g} minutes after the line "
            f"before; stamps must be {interval} minutes apart; resample the file"
        )
    if ends[0] != ends[0].floor("15min"):
        raise DataError(
            f"{path}: {lines[0]}: {stamps[0]} is not on a quarter of an hour; round the stamps"
        )


def clock_change(wall: pd.Timestamp) -> str | None:
    """A zone whose clocks change within three hours of `wall`; it stands for all with its rule."""
    before, after = wall - 3 * _HOUR, wall + 3 * _HOUR
    for name in _CLOCKS:
        if _offset(ZoneInfo(name), before) != _offset(ZoneInfo(name), after):
            return name
    return None


def standard_offset(zone: ZoneInfo, year: int) -> timedelta:
    """UTC offset of standard time, in either hemisphere."""
    return min(_offset(zone, datetime(year, month, 1)) for month in (1, 7))


def fixed_zone(zone: ZoneInfo, year: int) -> str:
    """` (NAME)` of the fixed zone with the same standard time; empty if there is none."""
    hours, rest = divmod(standard_offset(zone, year), timedelta(hours=1))
    # Names of fixed zones have POSIX signs, which are positive west of Greenwich.
    return "" if rest else f" ({f'Etc/GMT{-hours:+d}' if hours else 'UTC'})"


def _offset(zone: ZoneInfo, wall: datetime) -> timedelta:
    offset = wall.replace(tzinfo=zone).utcoffset()
    assert offset is not None  # it is None only for times without a date
    return offset
