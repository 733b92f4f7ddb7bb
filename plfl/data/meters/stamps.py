"""The stamps of a raw file: their format, their time zone and daylight saving time."""

import itertools
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem, data_error
from plfl.base.keys import Key
from plfl.base.text import count_in_words
from plfl.config.data import Data
from plfl.config.meters import Meters
from plfl.config.values import in_zone
from plfl.data.meters.dates import WEEKDAY
from plfl.data.meters.numbers import as_text, share_of_cells
from plfl.data.meters.tables import RawTable
from plfl.data.meters.vocabulary import WORDS

YEARS = 1970, 2100
"""First and last year of a reading. Any other year is an error in the file."""
_MOST_ROWS = 100_000
"""Rows of a table whose stamps are kept for the next table."""
_ZONE_KEY = Key("data.meters.timezone")
_STANDARD = 2025
"""Year whose standard time is that of a zone."""

_DATES = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y", "%Y%m%d"),
    *("%d-%b-%Y", "%d/%b/%Y", "%d %b %Y", "%d%b%Y", "%d-%b-%y", "%d%b%y", "%b %d %Y", "%b %d, %Y"),
    *("%d %B %Y", "%B %d, %Y", "%B %d %Y"),
)
_TIMES = (
    *(" %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", " %H%M", "%H%M"),
    *(" %H.%M", " %I:%M%p", ", %H:%M", ", %H:%M:%S", ", %I:%M %p", ", %I:%M:%S %p"),
    *("T%H:%M", "T%H:%M:%S", "T%H%M", "T%H%M%S", "%H%M%S", ":%H:%M", ":%H:%M:%S", ""),
)
COMPACT_HOUR = "%Y%m%d%H"
_OFFSET = re.compile(
    r"\d{1,2}:?\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s*[AaPp][Mm])?\s*(?:[Zz]|[+-]\d{2}:?\d{2})$"
    r"|[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?[+-]\d{2}$"
)
_OFFSET_ALONE = re.compile(r"(?:UTC|GMT)? ?[+-]\d{2}:?\d{2}|Z|UTC|GMT")
SIGNED_OFFSET = re.compile(r"(?:UTC|GMT) ?[+-]\d{2}:?\d{2}|[+-]\d{2}:\d{2}")
"""A UTC offset in a column of time zones."""
_OF_ZONE = 0.95
"""Offsets are those of a zone if this part of them is."""
_MOST_OFFSETS = 40
_FARTHEST = 14 * 60
"""Most different UTC offsets in a column, and the farthest one, in minutes."""
_LATE = re.compile(r"(?<=[T ])24(?=:?00(?::?00)?$)|(?<=^(?:19|20)\d{6})24(?=(?:00){0,2}$)")
_MAY_BE_LATE = re.compile(r"T24| 24|19\d{6}24|20\d{6}24")
"""What all of `_LATE` have; in all stamps at once, it is found in less time."""
_ZONE_NAME = re.compile(r"(?<![A-Za-z])([A-Z]{3,5})$")
_ODD_BLANKS = re.compile(r"\s\s|[^\S ]")
HOURS_AND_MINUTES = re.compile(r"\d{1,4}")
_WITH_POINT = re.compile(r"\d{1,2}\.[0-5]\d")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_COMPACT = re.compile(r"(?:19|20)\d{8}")
_COUNT = re.compile(r"\d{9,10}(\.\d+)?|\d{12,13}|\d{15,16}|\d{18,19}")
_ZEROS = str.maketrans("123456789", "0" * 9)
_BETWEEN = "\0"
"""What no stamp has."""
_IN_UTC = re.compile(r"(?<![a-z])(?:utc|gmt)(?![a-z+-])", re.IGNORECASE)
"""Names of columns with times in UTC."""
_PLACE = re.compile(r"[A-Z]\w+(?:/[A-Z][\w+-]+)+")
_EPOCHS = ((10, "s", 1), (13, "ms", 1e3), (16, "µs", 1e6), (19, "ns", 1e9))
"""Digits of a count since 1970, its unit, and how many of them are in a second."""
_HOUR = pd.Timedelta(hours=1)
_FEWEST_DAYS = 2
_MONTH, _FEW_DAYS = pd.Timedelta(days=28), pd.Timedelta(days=3)
"""Days of a file in another date order are at least a month apart in that of the study, and at most
a few days if day and month are exchanged."""
_LATENESS = pd.Timedelta(seconds=1)
"""How far stamps may be from whole minutes that they stand for, as of programs that run on time."""


@dataclass(frozen=True)
class Times:
    """The stamps of a file."""

    stamps: pd.Series
    """Naive local times as written, or times in UTC, indexed by line."""
    format: str
    """The format, given or detected."""
    offset: timedelta | None = None
    """The UTC offset of the earliest stamp; None: the stamps are local times."""
    last_offset: timedelta | None = None
    """That of the latest stamp."""

    def with_offsets(self, offsets: "pd.Series[pd.Timedelta]") -> "Times":
        """These local times in UTC, from their offsets."""
        utc = (self.stamps - offsets).dt.tz_localize("UTC")
        first, last = (offsets.iloc[int(n)].to_pytimedelta() for n in (utc.argmin(), utc.argmax()))
        return replace(self, stamps=utc, offset=first, last_offset=last)

    def contradict(self, zone: ZoneInfo) -> bool:
        """Whether the earliest stamp has another UTC offset than the zone then has. Stamps in UTC
        contradict none: portals write them for meters everywhere."""
        offset, stamp = self.offset, self.stamps.min()
        if not offset:  # in London in winter, too
            offset, stamp = self.last_offset, self.stamps.max()
        return bool(offset) and offset != stamp.tz_convert(zone).utcoffset()


@dataclass(frozen=True)
class _StampCells:
    """The stamps of a table as written. The files of a portal often have the same, which are read
    once."""

    cells: tuple[tuple[str, ...], ...]
    lines: tuple[float, ...]
    meters: Meters = field(hash=False)
    table: RawTable = field(compare=False)
    columns: tuple[str, ...] = field(compare=False)


def parse(table: RawTable, columns: tuple[str, ...], meters: Meters) -> Times:
    """The stamps of a table in one column, or in two of date and time. Stamps that cannot be read,
    or in more than one way, are refused."""
    cells = [table.cells[column] for column in columns]
    if len(table.cells) > _MOST_ROWS or not all(map(pd.api.types.is_string_dtype, cells)):
        return _parse(table, columns, meters)
    texts = tuple(tuple(column.tolist()) for column in cells)
    times = _parse_once(
        _StampCells(texts, tuple(table.cells.index.tolist()), meters, table, columns)
    )
    return replace(times, stamps=times.stamps.copy())


@lru_cache(maxsize=2)
def _parse_once(stamp_cells: _StampCells) -> Times:
    return _parse(stamp_cells.table, stamp_cells.columns, stamp_cells.meters)


def _parse(table: RawTable, columns: tuple[str, ...], meters: Meters) -> Times:
    text = table.cells[columns[0]]
    if len(columns) == 1 and text.dtype.kind == "M":
        stamps, form = text, "as stored"
        if text.dt.tz is not None:
            stamps = text.dt.tz_convert("UTC")
    else:
        text = _with_offsets(table, _text(table, columns, meters), meters)
        epoch = _epoch(text) if meters.date_format is None else None
        stamps, form = epoch or _read(table, text, meters.date_format)
    if stamps.hasnans or stamps.min().year < YEARS[0] or stamps.max().year > YEARS[1]:
        wrong = stamps.isna() | ~stamps.dt.year.between(*YEARS)
        line, wrong_count = wrong.idxmax(), int(wrong.sum())
        raise data_error(
            table.place_of(line),
            f"{str(text[line])!r} is not a time in the format {form} between the years "
            f"{YEARS[0]} and {YEARS[1]} ({count_in_words(wrong_count, f'such {table.row_word}')})",
            f"fix or remove them, or name the format in {Key('data.meters.date_format')}",
        )
    minutes = stamps.dt.round("min")
    if ((stamps - minutes).abs() <= _LATENESS).all():
        stamps = minutes
    if stamps.dt.tz is None:
        return _move_midnights(table, Times(stamps, form), meters)
    first, last = (_offset_of(str(text.iloc[int(n)])) for n in (stamps.argmin(), stamps.argmax()))
    return Times(stamps, form, first, last)


def _read(table: RawTable, text: pd.Series, form: str | None) -> tuple[pd.Series, str]:
    """The stamps in a text, NaT where one cannot be read, and their format, given or detected."""
    # 24:00 is midnight at the end of a day.
    late = text.str.contains(_LATE) if _MAY_BE_LATE.search(_BETWEEN.join(text)) else None
    if late is not None:
        text = text.mask(late, text.str.replace(_LATE, "00", regex=True))
    has_both = len({_OFFSET.search(stamp) is None for stamp in _write_zeros(text)}) > 1
    if has_both and not (aware := text.str.contains(_OFFSET)).all() and aware.any():
        line = (aware != aware.iloc[0]).idxmax()
        raise data_error(
            table.place_of(line),
            "some stamps have a UTC offset and some have none",
            "write all of them in the same way",
        )
    given, form = form, form or _find(table, text)
    if "%Z" in form:
        raise data_error(
            Key("data.meters.date_format"),
            "names of zones (%Z) are not read",
            f"write the name itself in the format, and set {Key('data.meters.timezone')}",
        )
    try:
        stamps = _parse_times(text, form)
    except ValueError as error:
        raise data_error(
            Key("data.meters.date_format"),
            f"{form!r} cannot be read ({error})",
            "write it as in '%d/%m/%Y %H:%M'",
        ) from None
    if given and "%d" in form and "%m" in form:
        _refuse_other_order(table, stamps, form)
    return stamps if late is None else stamps.mask(late, stamps + pd.Timedelta(days=1)), form


def _write_zeros(text: pd.Series) -> set[str]:
    """The different cells, with zeros for all digits. They are few, so that signs and letters are
    found in less time."""
    return {*_BETWEEN.join(text).translate(_ZEROS).split(_BETWEEN)}


def _refuse_other_order(table: RawTable, stamps: pd.Series, form: str) -> None:
    """Refuse stamps of days that are months apart in a given format, but follow each other with day
    and month exchanged."""
    days = stamps.dropna().dt.normalize().drop_duplicates()
    if not _FEWEST_DAYS <= len(days) <= len(stamps) / 2 or (days.dt.day > 12).any():
        return
    parts = {"year": days.dt.year, "month": days.dt.day, "day": days.dt.month}
    distances = days.diff().iloc[1:].abs()
    exchanged_days: pd.Series[pd.Timestamp] = pd.to_datetime(pd.DataFrame(parts))
    exchanged_distances = exchanged_days.diff().iloc[1:].abs()
    if distances.min() < _MONTH or exchanged_distances.max() > _FEW_DAYS:
        return
    exchanged_form = form.translate({ord("d"): "m", ord("m"): "d"})
    raise data_error(
        table.place_of(days.index[0]),
        f"the days are months apart in the format {form}, and follow each other if day and month "
        "are exchanged",
        f"name its format ({Key('data.meters.date_format', repr(exchanged_form))}), or export it "
        "like the others",
    )


def _with_offsets(table: RawTable, text: pd.Series, meters: Meters) -> pd.Series:
    """The stamps with UTC offsets instead of names of zones, such as EST, which must be those of
    the place: other places have other zones of the same name."""
    if not any(map(_ZONE_NAME.search, _write_zeros(text))):
        return text
    names = text.str.extract(_ZONE_NAME, expand=False)
    form = meters.date_format or ""
    if not names.notna().any() or "%Z" in form or re.search(_ZONE_NAME, form):
        return text
    zone = zone_named(meters.timezone)
    offsets = {"UTC": "+0000", "GMT": "+0000"} | {
        f"{time:%Z}": f"{time:%z}"
        for time in (datetime(_STANDARD, month, 1, tzinfo=zone) for month in (1, 7))
    }
    is_unknown = names.notna() & ~names.isin([*offsets])
    if is_unknown.any():
        stamp, name = str(text[is_unknown].iloc[0]), names[is_unknown].iloc[0]
        form_key = Key("data.meters.date_format", f"'%Y-%m-%d %H:%M {name}'")
        raise data_error(
            table.place_of(text.index[is_unknown][0]),
            f"{stamp!r} ends with the name of a time zone, which is none of {meters.timezone}",
            f"set {Key('data.meters.timezone')} to the place whose clocks have it; if it is a "
            f"fixed zone, set that, and give the name in the format, as in {form_key}",
        )
    return text.str.replace(_ZONE_NAME, lambda name: offsets[name[1]], regex=True)


def _text(table: RawTable, columns: tuple[str, ...], meters: Meters) -> pd.Series:
    """The stamps as written, with single blanks; a date and a time of day in one."""
    text = as_text(table.cells[columns[0]])
    for name in columns[1:]:
        # A date may come with a time of midnight, as from spreadsheets.
        if any("00:00" in date for date in text):
            text = text.str.replace(r"[ T]00:00(:00)?$", "", regex=True)
        text += " " + _clock(as_text(table.cells[name]), meters)
    if any(map(_ODD_BLANKS.search, _write_zeros(text))):
        text = text.str.replace(r"\s+", " ", regex=True)
    first = next(iter(text), "")
    if re.search(r"\d{4}\. ", first):  # as Croatian and Hungarian dates end
        text = text.str.replace(r"(?<=\d{4})\.(?= )", "", regex=True)
    if re.match(r"[^\W\d_]", first):
        text = text.str.replace(WEEKDAY, "", regex=True, case=False)
    return text


def _clock(text: pd.Series, meters: Meters) -> pd.Series:
    """Times of day, with a colon if they are written as hours (7) or as hours and minutes (700)."""
    if all(map(_WITH_POINT.fullmatch, text)):
        return text.str.replace(".", ":", regex=False)
    if not all(HOURS_AND_MINUTES.fullmatch(hours.removesuffix(".0")) for hours in text):
        return text
    plain = text.str.removesuffix(".0")
    numbers = plain.astype(int)
    if numbers.max() > 24 or plain.str.len().max() > 2:
        digits = plain.str.zfill(4)
        return digits.str[:2] + ":" + digits.str[2:]
    # Hour 24 does not start at 24:00: such hours are numbered from 1.
    first = int(meters.stamp == "start" and numbers.max() == 24)
    return (numbers - first).astype(str).str.zfill(2) + ":00"


def _epoch(text: pd.Series) -> tuple[pd.Series, str] | None:
    """The stamps and their form, if they are counts of seconds or their fractions since 1970."""
    sample = [_LATE.sub("00", stamp) for stamp in text.head(200)]
    epoch = pd.Series([stamp for stamp in sample if _COUNT.fullmatch(stamp)], dtype=object)
    if not (len(epoch) > 0.5 * len(sample) and _is_epoch(epoch)):
        return None
    digits = epoch.str.partition(".")[0].str.len().max()
    unit, size = next((unit, size) for most_digits, unit, size in _EPOCHS if digits <= most_digits)
    number = pd.to_numeric(text, errors="coerce").astype(float) * (1000 / size)
    stamps = pd.to_datetime(number.round(), unit="ms", utc=True, errors="coerce")
    return stamps, f"epoch in {unit}"


def _move_midnights(table: RawTable, times: Times, meters: Meters) -> Times:
    """Local stamps in which the midnight that ends a day has the date of the next day.

    Some exports write the date of the start of an interval beside the time of its end: then
    midnight comes right after the evening of the same date. A contradiction to `meters.stamp` is
    refused.
    """
    stamps = times.stamps
    unique = stamps.drop_duplicates()
    moments = unique.to_numpy()
    midnight = moments == moments.astype("datetime64[D]")
    hours = np.diff(moments) / np.timedelta64(1, "h")
    follows = precedes = 0
    for distance, is_midnight in ((-hours, midnight[1:]), (hours, midnight[:-1])):  # newest first
        follows += int((is_midnight & (distance >= 22) & (distance < 24)).sum())
        precedes += int((is_midnight & (distance < 0) & (distance >= -2)).sum())
    if follows <= precedes or follows < midnight.sum() / 2:
        return times
    if meters.stamp == "start":
        raise data_error(
            table.place_of(unique.index[midnight][0]),
            "midnight follows the evening of the same date, so stamps mark the ends of intervals",
            f"remove {Key('data.meters.stamp')}",
        )
    is_midnight = stamps == stamps.dt.normalize()
    form = f"{times.format}, midnight at the end of its date"
    return replace(times, stamps=stamps.mask(is_midnight, stamps + 24 * _HOUR), format=form)


def _offset_of(stamp: str) -> timedelta:
    sign = re.search(r"([+-])(\d{2}):?(\d{2})?$", stamp)
    if sign is None:
        return timedelta(0)
    size = timedelta(hours=int(sign[2]), minutes=int(sign[3] or 0))
    return -size if sign[1] == "-" else size


def _is_epoch(text: pd.Series) -> bool:
    # Twelve digits are read as YYYYmmddHHMM if they parse, ten as YYYYmmddHH: as seconds they would
    # be dates after 2030.
    if (text.str.len() == 12).all():
        return bool(_parse_times(text.head(50), "%Y%m%d%H%M").isna().any())
    return not _is_compact_hour(text)


def _is_compact_hour(text: pd.Series) -> bool:
    """Whether stamps are written as YYYYmmddHH, as weather services do."""
    sample = text.head(50)
    if not all(map(_COMPACT.fullmatch, sample)):
        return False
    return not _parse_times(sample, COMPACT_HOUR).isna().any()


def _parse_times(text: pd.Series, form: str) -> pd.Series:
    has_offset = any(map(_OFFSET.search, text.head(1)))
    aware = (has_offset and not form.endswith("Z")) or "%z" in form.lower()  # Z as a mere letter
    if form == "ISO8601":
        text = text.where(np.array(["-" in stamp for stamp in text], dtype=bool))
    elif aware and "%z" not in form.lower():
        form += "%z"
        text = text.str.replace(r"\s+(?=([Zz]|[+-]\d{2}:?\d{2})$)", "", regex=True)
    stamps = pd.to_datetime(text, format=form, utc=aware, errors="coerce")
    return stamps.dt.as_unit("us")


def _find(table: RawTable, text: pd.Series) -> str:
    """The only format in which the stamps can be read; several, or none, are refused."""
    if share_of_cells(text.head(50), _ISO_DATE.match) > 0.5:
        return "ISO8601"
    if _is_compact_hour(text):
        return COMPACT_HOUR
    best, ways_to_read = _formats_of(tuple(dict.fromkeys(filter(None, text))))
    place, stamp = table.place_of(text.index[0]), repr(text.iloc[0])
    if not best:
        raise data_error(
            place,
            f"{stamp} is in no known format",
            f"name it, such as {Key('data.meters.date_format', repr('%d.%m.%Y %H:%M'))}",
        )
    if ways_to_read > 1:
        ways = " or ".join(f"'{form}'" for form in best)
        raise data_error(
            place,
            f"{stamp} can be read in {len(best)} ways, and so can all stamps of the file",
            f"choose {Key('data.meters.date_format', ways)}",
        )
    return best[0]


def _signs_of(stamp: str) -> str:
    """What a stamp consists of besides digits and blanks, with an `a` for every word."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"[\d\s]+", " ", stamp)).replace(" ", "")


@cache
def _signs_of_format(form: str) -> str:
    """`_signs_of` every stamp in a format."""
    return _signs_of(re.sub(r"%[bBp]", "1a1", re.sub(r"%[^bBp]", "1", form)))


@lru_cache(maxsize=4)  # the files of a portal often have the same stamps
def _formats_of(stamps: tuple[str, ...]) -> tuple[list[str], int]:
    """The formats that read the most of different stamps, and how many different times these can
    be."""
    unique = pd.Series(stamps, dtype=object)
    sample = unique.head(20)
    signs = [_signs_of(stamp) for stamp in sample]
    has_offsets = any(map(_OFFSET.search, sample))
    times: dict[str, pd.Series] = {}
    for date, time in itertools.product(_DATES, _TIMES):
        if date.endswith("%y") and time.startswith("%H"):
            continue  # 2023 would be the year 20 and the hour 23
        # Most formats need no attempt, which takes milliseconds.
        if not has_offsets and 2 * signs.count(_signs_of_format(date + time)) <= len(signs):
            continue
        try:
            readable = _parse_times(sample, date + time).notna().mean()
        except ValueError:
            continue
        if readable > 0.5:
            times[date + time] = _parse_times(unique, date + time)
    counts = {form: stamps_of_form.count() for form, stamps_of_form in times.items()}
    best = [form for form, count in counts.items() if count == max(counts.values())]
    # 2345 has no seconds: 23:4:5 is not a way to write a time.
    best = [form for form in best if not (form.endswith("%H%M%S") and form[:-2] in best)]
    return best, len({pd.DatetimeIndex(times[form]).asi8.tobytes() for form in best})


@dataclass(frozen=True)
class Instants:
    """The stamps of one meter in UTC."""

    utc: pd.DatetimeIndex
    """NaT where the local time does not exist."""
    is_skipped: NDArray[np.bool_]
    """Stamps of the hour that clocks skip in spring."""
    lone: NDArray[np.bool_]
    """Stamps in the hour that clocks repeat in autumn that occur only once."""
    duplicates: NDArray[np.bool_]
    """Stamps in that hour that occur more than once."""


def instants(stamps: pd.DatetimeIndex, zone: ZoneInfo, lag: pd.Timedelta) -> Instants:
    """Naive local stamps of one meter, oldest first, as instants in UTC.

    Of two equal stamps in the repeated hour, the first is in daylight saving time. Where stamps
    step back in it, those before are, too, and the others are not. `lag`: the length of the
    intervals, for meters that write the start of an interval plus its length.
    """
    local = stamps - lag
    repeated = np.asarray(
        local.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward").isna()
    )

    def localise(is_second: NDArray[np.bool_]) -> pd.DatetimeIndex:
        return local.tz_localize(zone, ambiguous=~is_second, nonexistent="NaT").tz_convert("UTC")

    is_second = repeated & local.duplicated()
    duplicates = repeated & local.duplicated(keep=False)
    lone = repeated & ~duplicates
    utc = localise(is_second)
    if lone.any():
        times = local[repeated]
        days = times.normalize()
        steps = pd.Series(times.asi8).groupby(days).diff()
        steps_of_day = (steps < 0).groupby(days)
        is_second[repeated] |= (steps_of_day.cumsum() > 0).to_numpy()
        ordered_utc = localise(is_second)
        if ordered_utc.dropna().is_monotonic_increasing:
            utc = ordered_utc
            lone[repeated] &= ~steps_of_day.transform("any").to_numpy()
    utc += lag
    return Instants(pd.DatetimeIndex(utc), np.asarray(utc.isna()), lone, duplicates)


def names_offset(column: str) -> bool:
    """Whether a column has UTC offsets, by its name, such as `UTC Offset (minutes)`."""
    return re.sub(r"[\W\d_]", "", column) in WORDS.offsets


def read_offsets(cells: pd.Series) -> "pd.Series[pd.Timedelta] | None":
    """The UTC offsets in a column, such as `+01:00`, or numbers of hours, minutes or seconds; None
    if it has any other value."""
    text = as_text(cells)
    values = list(map(str, text.unique()))
    if len(values) > _MOST_OFFSETS:
        return None
    if are_texts := all(map(_OFFSET_ALONE.fullmatch, values)):
        minutes = pd.Series([_offset_of(v) / timedelta(minutes=1) for v in values], values)
    if not are_texts or minutes.abs().max() > _FARTHEST:
        numbers = pd.to_numeric(pd.Series(values, values), errors="coerce")
        largest = numbers.abs().max()
        minutes = numbers * (60 if largest <= 14 else 1 if largest <= _FARTHEST else 1 / 60)
    if not (minutes % 15 == 0).all() or minutes.abs().max() > _FARTHEST:
        return None
    return text.map(pd.to_timedelta(minutes, unit="min"))


def names_utc(column: str) -> bool:
    """Whether a column has offsets from UTC, by its name, not such as those of JavaScript,
    which are from local times to UTC."""
    return re.search("utc|gmt", column, re.IGNORECASE) is not None


def are_local(stamps: pd.Series, offsets: "pd.Series[pd.Timedelta]") -> bool:
    """Whether stamps beside UTC offsets are local times: they then follow each other as evenly in
    UTC when clocks change. Zones that are farther apart are those of several places."""
    is_apart = offsets.max() - offsets.min() > _HOUR
    return is_apart or _unevenness(stamps - offsets) <= _unevenness(stamps)


def are_of_zone(stamps: pd.Series, offsets: "pd.Series[pd.Timedelta]", zone: ZoneInfo) -> bool:
    """Whether offsets beside local times are those that a zone then has."""
    utc = (stamps - offsets).dt.tz_localize("UTC")
    return bool((utc.dt.tz_convert(zone).dt.tz_localize(None) == stamps).mean() >= _OF_ZONE)


def fit_negated(stamps: pd.Series, offsets: "pd.Series[pd.Timedelta]") -> bool:
    """Whether stamps follow each other as evenly in UTC if offsets have the opposite sign."""
    return _unevenness(stamps + offsets) <= _unevenness(stamps - offsets)


def _unevenness(times: pd.Series) -> int:
    unique = np.unique(times.to_numpy())
    steps = np.diff(unique)
    return int((steps != np.median(steps)).sum()) - len(unique) if len(steps) else 0


@lru_cache
def zone_in(name: str) -> str | None:
    """The time zone that the name of a column of stamps states; None: none."""
    if _IN_UTC.search(name):
        return "UTC"
    return next((place for place in _PLACE.findall(name) if place in available_timezones()), None)


@cache  # thousands of meters have the same
def zone_named(name: str, place: Key | str = _ZONE_KEY) -> ZoneInfo:
    """The time zone with an IANA name, which stands at `place`; DataError if there is none."""
    try:
        return ZoneInfo(in_zone(name))
    except ValueError as error:
        raise DataError(Problem(place, f"{name!r} is not allowed: {error}")) from None


def zone_of(data: Data, client: str) -> ZoneInfo | None:
    """The time zone of a client's readings, if it is known."""
    return zone_named(data.meters.timezone_of(client)) if data.source == "meters" else None


def may_be_clock_change(wall: pd.Timestamp) -> bool:
    """Whether clocks may change around a local time: on most continents in the first hours of a
    Sunday."""
    return wall.day_of_week == 6 and wall.hour <= 3


@cache
def standard_offset(zone: ZoneInfo) -> timedelta:
    """UTC offset of standard time, in either hemisphere.

    It is that of one year for all readings, so that all meters of a zone are on one clock even if
    its standard time changed between them.
    """
    return min(_offset_at(zone, datetime(_STANDARD, month, 1)) for month in (1, 7))


def fixed_zone(zone: ZoneInfo) -> str:
    """` (NAME)` of the fixed zone with the same standard time; empty if there is none."""
    hours, remainder = divmod(standard_offset(zone), timedelta(hours=1))
    # Names of fixed zones have POSIX signs, which are positive west of Greenwich.
    return "" if remainder else f" ({f'Etc/GMT{-hours:+d}' if hours else 'UTC'})"


def _offset_at(zone: ZoneInfo, wall: datetime) -> timedelta:
    offset = wall.replace(tzinfo=zone).utcoffset()
    assert offset is not None  # it is None only for times without a date
    return offset
