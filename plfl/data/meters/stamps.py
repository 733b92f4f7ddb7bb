"""The stamps of a raw file: their format, their time zone and daylight saving time."""

import itertools
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import DataError
from plfl.config.sections import Meters, in_zone
from plfl.data.checks import counted
from plfl.data.meters.numbers import as_text
from plfl.data.meters.tables import Table

YEARS = 1970, 2100
"""First and last year of a reading. Any other year is an error in the file."""

_DATES = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y", "%Y%m%d"),
    *("%d-%b-%Y", "%d %b %Y", "%d%b%Y", "%d-%b-%y", "%d%b%y", "%b %d %Y", "%b %d, %Y"),
    *("%d %B %Y", "%B %d, %Y", "%B %d %Y"),
)
_TIMES = (
    *(" %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", " %H%M", "%H%M"),
    *("T%H:%M", "T%H:%M:%S", "T%H%M", "T%H%M%S", "%H%M%S", ":%H:%M", ":%H:%M:%S", ""),
)
COMPACT_HOUR = "%Y%m%d%H"
_OFFSET = (
    r"\d{2}:?\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:[Zz]|[+-]\d{2}:?\d{2})$"
    r"|[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?[+-]\d{2}$"
)
# One zone for each rule of daylight saving time in use, to recognise a change of clocks in a file.
_CLOCKS = (
    "America/New_York",
    "Europe/Berlin",
    "Australia/Sydney",
    "Pacific/Auckland",
    "America/Santiago",
)
_HOUR = pd.Timedelta(hours=1)


@dataclass(frozen=True)
class Times:
    """The stamps of a file."""

    stamps: pd.Series
    """Naive local times as written, or times in UTC, indexed by line."""
    format: str
    """The format, given or detected."""
    offset: timedelta | None = None
    """The UTC offset of the first stamp; None: the stamps are local times."""


def parse(table: Table, columns: tuple[str, ...], meters: Meters) -> Times:
    """The stamps of a table.

    Args:
        table: the file.
        columns: the column of the stamp, or those of its date and time.
        meters: `date_format`.

    Raises:
        DataError: stamps cannot be read, or can be read in more than one way.
    """
    first = table.cells[columns[0]]
    if len(columns) == 1 and first.dtype.kind == "M":
        zoned = first.dt.tz is not None
        stamps = first.dt.tz_convert("UTC") if zoned else first
        offset = first.iloc[0].utcoffset() if zoned else None
        return _checked(table, stamps, first, "as stored", offset)
    text = _text(table, columns)
    if meters.date_format is None and (unit := _epoch_unit(text)):
        number = pd.to_numeric(text, errors="coerce").astype(float)
        number *= 1000 if unit == "s" else 1
        stamps = pd.to_datetime(number.round(), unit="ms", utc=True, errors="coerce")
        return _checked(table, stamps, text, f"epoch in {unit}", timedelta(0))
    aware = text.str.contains(_OFFSET)
    if aware.any() and not aware.all():
        line = (aware != aware.iloc[0]).idxmax()
        raise DataError(
            f"{table.at(line)}: some stamps have a UTC offset and some have none; "
            "write all of them in the same way"
        )
    # 24:00 is midnight at the end of a day.
    late = text.str.endswith((" 24:00", "T24:00", " 24:00:00", "T24:00:00"))
    if late.any():
        text = text.mask(late, text.str.replace(r"24:00(?=(:00)?$)", "00:00", regex=True))
    form = meters.date_format or _find(table, text)
    try:
        stamps = _to_time(text, form)
    except ValueError as error:
        raise DataError(
            f"data.meters.date_format: {form!r} cannot be read ({error}); write it as in "
            "'%d/%m/%Y %H:%M'"
        ) from None
    stamps = stamps.mask(late, stamps + pd.Timedelta(days=1))
    offset = _offset_of(text.iloc[0]) if aware.any() else None
    return _checked(table, stamps, text, form, offset)


def _text(table: Table, columns: tuple[str, ...]) -> pd.Series:
    """The stamps as written, with single blanks; a date and a time of day in one."""
    text = as_text(table.cells[columns[0]])
    for name in columns[1:]:
        # A date may come with a time of midnight, as from spreadsheets.
        text = text.str.replace(r"[ T]00:00(:00)?$", "", regex=True)
        text += " " + as_text(table.cells[name])
    if text.str.contains(r"\s\s|[^\S ]").any():
        text = text.str.replace(r"\s+", " ", regex=True)
    return text


def _epoch_unit(text: pd.Series) -> str | None:
    """`s` or `ms` if the stamps are counts of these since 1970."""
    sample = text.head(200)
    epoch = sample.str.fullmatch(r"\d{9,10}(\.\d+)?|\d{12,13}")
    if not (epoch.mean() > 0.5 and _is_epoch(sample[epoch])):
        return None
    return "ms" if sample[epoch].str.fullmatch(r"\d{12,13}").all() else "s"


def _offset_of(stamp: str) -> timedelta | None:
    sign = re.search(r"([+-])(\d{2}):?(\d{2})?$", stamp)
    if sign is None:
        return timedelta(0)
    size = timedelta(hours=int(sign[2]), minutes=int(sign[3] or 0))
    return -size if sign[1] == "-" else size


def _is_epoch(text: pd.Series) -> bool:
    # Twelve digits are read as YYYYmmddHHMM if they parse, ten as YYYYmmddHH: as seconds they would
    # be dates after 2030.
    if (text.str.len() == 12).all():
        return bool(_to_time(text.head(50), "%Y%m%d%H%M").isna().any())
    return not _is_compact_hour(text)


def _is_compact_hour(text: pd.Series) -> bool:
    """Whether stamps are written as YYYYmmddHH, as weather services do."""
    sample = text.head(50)
    if not sample.str.fullmatch(r"(?:19|20)\d{8}").all():
        return False
    return not _to_time(sample, COMPACT_HOUR).isna().any()


def _to_time(text: pd.Series, form: str) -> pd.Series:
    aware = bool(text.head(1).str.contains(_OFFSET).any())
    if form == "ISO8601":
        text = text.where(text.str.contains("-", regex=False))
    elif aware and "%z" not in form.lower():
        form += "%z"
        text = text.str.replace(r"\s+(?=([Zz]|[+-]\d{2}:?\d{2})$)", "", regex=True)
    stamps = pd.to_datetime(text, format=form, utc=aware or "%z" in form, errors="coerce")
    return stamps.dt.as_unit("us")


def _find(table: Table, text: pd.Series) -> str:
    """The only format in which the stamps can be read.

    Raises:
        DataError: there are several, or none.
    """
    if text.head(50).str.match(r"\d{4}-\d{2}-\d{2}").mean() > 0.5:
        return "ISO8601"
    if _is_compact_hour(text):
        return COMPACT_HOUR
    unique = text[text != ""].drop_duplicates()
    sample = unique.head(20)
    counts = {}
    for date, time in itertools.product(_DATES, _TIMES):
        if date.endswith("%y") and time.startswith("%H"):
            continue  # 2023 would be the year 20 and the hour 23
        try:
            readable = _to_time(sample, date + time).notna().mean()
        except ValueError:
            continue
        if readable > 0.5:
            counts[date + time] = int(_to_time(unique, date + time).notna().sum())
    best = [form for form, count in counts.items() if count == max(counts.values())]
    where = f"{table.at(text.index[0])}: {text.iloc[0]!r}"
    if not best:
        raise DataError(
            f"{where} is in no known format; name it, such as data.meters.date_format: "
            "'%d.%m.%Y %H:%M'"
        )
    readings = {tuple(_to_time(unique, form)) for form in best}
    if len(readings) > 1:
        ways = " or ".join(f"'{form}'" for form in best)
        raise DataError(
            f"{where} can be read in {len(best)} ways, and so can all stamps of the file; choose "
            f"data.meters.date_format: {ways}"
        )
    return best[0]


def _checked(
    table: Table, stamps: pd.Series, written: pd.Series, form: str, offset: timedelta | None
) -> Times:
    wrong = stamps.isna() | ~stamps.dt.year.between(*YEARS)
    if wrong.any():
        line = wrong.idxmax()
        raise DataError(
            f"{table.at(line)}: {str(written[line])!r} is not a time in the format {form} between "
            f"the years {YEARS[0]} and {YEARS[1]} "
            f"({counted(int(wrong.sum()), f'such {table.unit}')}); fix or remove them, or name "
            "the format in data.meters.date_format"
        )
    return Times(stamps, form, offset)


@dataclass(frozen=True)
class Instants:
    """The stamps of one meter in UTC."""

    utc: pd.DatetimeIndex
    """NaT where the local time does not exist."""
    skipped: NDArray[np.bool_]
    """Stamps of the hour that clocks skip in spring."""
    lone: NDArray[np.bool_]
    """Stamps in the hour that clocks repeat in autumn that occur only once."""


def instants(stamps: pd.DatetimeIndex, zone: ZoneInfo, lag: pd.Timedelta) -> Instants:
    """Local stamps of one meter, oldest first, as instants in UTC.

    Of two equal stamps in the repeated hour, the first is in daylight saving time.

    Args:
        stamps: naive local times.
        zone: their zone.
        lag: the length of the intervals, for meters that write the start of an interval plus its
            length.
    """
    local = stamps - lag
    repeated = np.asarray(
        local.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward").isna()
    )
    summer = ~(repeated & local.duplicated())
    utc = local.tz_localize(zone, ambiguous=summer, nonexistent="NaT").tz_convert("UTC") + lag
    lone = repeated & ~local.duplicated(keep=False)
    return Instants(pd.DatetimeIndex(utc), np.asarray(utc.isna()), lone)


def zone_named(name: str) -> ZoneInfo:
    """The time zone with an IANA name.

    Raises:
        DataError: there is none.
    """
    try:
        return ZoneInfo(in_zone(name))
    except ValueError as error:
        raise DataError(f"data.meters.timezone: {name!r} is not allowed: {error}") from None


def clock_change(wall: pd.Timestamp) -> str | None:
    """A zone whose clocks change within three hours of `wall`; it represents all zones with the
    same rule."""
    before, after = wall - 3 * _HOUR, wall + 3 * _HOUR
    for name in _CLOCKS:
        if _offset_at(ZoneInfo(name), before) != _offset_at(ZoneInfo(name), after):
            return name
    return None


def standard_offset(zone: ZoneInfo, year: int) -> timedelta:
    """UTC offset of standard time, in either hemisphere."""
    return min(_offset_at(zone, datetime(year, month, 1)) for month in (1, 7))


def fixed_zone(zone: ZoneInfo, year: int) -> str:
    """` (NAME)` of the fixed zone with the same standard time; empty if there is none."""
    hours, rest = divmod(standard_offset(zone, year), timedelta(hours=1))
    # Names of fixed zones have POSIX signs, which are positive west of Greenwich.
    return "" if rest else f" ({f'Etc/GMT{-hours:+d}' if hours else 'UTC'})"


def _offset_at(zone: ZoneInfo, wall: datetime) -> timedelta:
    offset = wall.replace(tzinfo=zone).utcoffset()
    assert offset is not None  # it is None only for times without a date
    return offset
