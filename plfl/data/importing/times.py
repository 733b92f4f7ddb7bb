"""The stamps of a raw file: their format, their time zone and daylight saving time."""

import itertools
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.data.importing.options import Options
from plfl.data.importing.tables import Table
from plfl.data.meters.stamps import YEARS
from plfl.errors import DataError

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
_OFFSET = r"\d{2}:?\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:[Zz]|[+-]\d{2}:?\d{2})$"


@dataclass(frozen=True)
class Times:
    """The stamps of a file."""

    stamps: pd.Series
    """As written, indexed by line: naive local times, or UTC."""
    format: str
    """The format that was given or found out."""


def parse(table: Table, columns: tuple[str, ...], options: Options) -> Times:
    """The stamps of a table.

    Args:
        table: the file.
        columns: the column of the stamp, or those of its date and time.
        options: `date_format`.

    Raises:
        DataError: stamps cannot be read, or in more than one way; the message lists them.
    """
    first = table.cells[columns[0]]
    if len(columns) == 1 and first.dtype.kind == "M":
        stamps = first.dt.tz_convert("UTC") if first.dt.tz is not None else first
        return _checked(table, stamps, first, "as stored")
    text = first.astype(str).str.strip()
    for name in columns[1:]:
        # A date may come with a time of midnight, as from spreadsheets.
        text = text.str.replace(r"[ T]00:00(:00)?$", "", regex=True)
        text += " " + table.cells[name].astype(str).str.strip()
    text = text.str.replace(r"\s+", " ", regex=True)
    epoch = text.str.fullmatch(r"\d{9,10}(\.\d+)?|\d{12,13}")
    if options.date_format is None and epoch.mean() > 0.5 and _is_epoch(text[epoch]):
        unit = "ms" if text[epoch].str.fullmatch(r"\d{12,13}").all() else "s"
        number = pd.to_numeric(text, errors="coerce").astype(float)
        number *= 1000 if unit == "s" else 1
        stamps = pd.to_datetime(number.round(), unit="ms", utc=True, errors="coerce")
        return _checked(table, stamps, text, f"epoch in {unit}")
    aware = text.str.contains(_OFFSET)
    if aware.any() and not aware.all():
        line = (aware != aware.iloc[0]).idxmax()
        raise DataError(
            f"{table.at(line)}: some stamps have a UTC offset and some have none; "
            "write all of them in the same way"
        )
    # Midnight at the end of a day.
    late = text.str.contains(r"[ T]24:00(?::00)?$")
    text = text.mask(late, text.str.replace(r"24:00(?=(:00)?$)", "00:00", regex=True))
    form = options.date_format or _find(table, text)
    stamps = _to_time(text, form)
    stamps = stamps.mask(late, stamps + pd.Timedelta(days=1))
    return _checked(table, stamps, text, form)


def _is_epoch(text: pd.Series) -> bool:
    # Twelve digits are rather YYYYmmddHHMM if they read so.
    if (text.str.len() != 12).any():
        return True
    return bool(_to_time(text.head(50), "%Y%m%d%H%M").isna().any())


def _to_time(text: pd.Series, form: str) -> pd.Series:
    aware = bool(text.str.contains(_OFFSET).any())
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
    unique = text[text != ""].drop_duplicates()
    sample = unique.head(20)
    counts = {}
    for date, time in itertools.product(_DATES, _TIMES):
        try:
            readable = _to_time(sample, date + time).notna().mean()
        except ValueError:
            continue
        if readable > 0.5:
            counts[date + time] = int(_to_time(unique, date + time).notna().sum())
    best = [form for form, count in counts.items() if count == max(counts.values())]
    if not best:
        raise DataError(
            f"{table.at(text.index[0])}: {text.iloc[0]!r} is in no known format; name it, such as "
            "--date-format '%d.%m.%Y %H:%M'"
        )
    readings = {tuple(_to_time(unique, form)) for form in best}
    if len(readings) > 1:
        raise DataError(
            f"{table.at(text.index[0])}: {text.iloc[0]!r} can be read in {len(best)} ways, and so "
            f"can all stamps of the file; choose one: "
            + " or ".join(f"--date-format '{form}'" for form in best)
        )
    return best[0]


def _checked(table: Table, stamps: pd.Series, written: pd.Series, form: str) -> Times:
    wrong = stamps.isna() | ~stamps.dt.year.between(*YEARS)
    if wrong.any():
        line = wrong.idxmax()
        raise DataError(
            f"{table.at(line)}: {str(written[line])!r} is not a time in the format {form} between "
            f"the years {YEARS[0]} and {YEARS[1]} ({int(wrong.sum())} such lines); fix or remove "
            "them, or name the format with --date-format"
        )
    return Times(stamps, form)


@dataclass(frozen=True)
class Instants:
    """The stamps of one meter in UTC."""

    utc: pd.DatetimeIndex
    """NaT where the local time does not exist."""
    skipped: NDArray[np.bool_]
    """Stamps of the hour that clocks skip in spring."""
    lone: NDArray[np.bool_]
    """Stamps of the hour that clocks repeat in autumn of which there is only one."""


def instants(stamps: pd.DatetimeIndex, zone: ZoneInfo, lag: pd.Timedelta) -> Instants:
    """Local stamps of one meter, oldest first, as instants in UTC.

    Of two equal stamps in the repeated hour, the first one is in daylight saving time.

    Args:
        stamps: naive local times.
        zone: their zone.
        lag: for clocks that write the start of the interval plus its length: that length.
    """
    local = stamps - lag
    summer = np.ones(len(local), dtype=bool)
    double = np.asarray(
        local.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward").isna()
    )
    seen = pd.Series(np.asarray(local)).groupby(np.asarray(local)).cumcount().to_numpy()
    summer[double & (seen > 0)] = False
    utc = local.tz_localize(zone, ambiguous=summer, nonexistent="NaT").tz_convert("UTC") + lag
    lone = double & ~local.duplicated(keep=False)
    return Instants(pd.DatetimeIndex(utc), np.asarray(utc.isna()), lone)


def time_words(name: str) -> bool:
    """Whether the name of a column says that it holds the time."""
    return bool(re.search(r"time|date|stamp|epoch|unix|zeit|datum|fecha|heure|^ts$", name, re.I))
