"""The user's own meters: a folder of CSV or Parquet files becomes the clients' series.

Inside, time is UTC until the last step. A meter on local clocks has a missing hour in spring and a
repeated one in autumn; in UTC its grid is regular and every reading keeps its place. The series
that leave this module are indexed by local *standard* time, UTC plus a constant offset: that grid
is regular and unique too, and the time of day keeps its meaning up to the hour of summer time.
"""

import csv
import difflib
import gzip
import itertools
import logging
import re
import zlib
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from plfl.data.checks import check_finite, check_load
from plfl.data.features import FEATURES
from plfl.errors import DataError
from plfl.study import Data, Meters

SUFFIXES = (".csv", ".csv.gz", ".parquet")
"""How the names of meter files end."""

STATIC = ("floor_area", "wall_area", "window_area")
"""Roles that are one number a building."""

YEARS = 1970, 2100
"""First and last year of a reading; another one is a fault of the file."""

_KWH = {"kWh": 1.0, "Wh": 1e-3, "kW": 1.0, "W": 1e-3}
_MISSING = ("", "na", "n/a", "nan", "null", "none")
_OFFSET = r"[T ]\d.*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$"
# One zone for each rule by which clocks are changed today, to recognise such a change in a file.
_CLOCKS = (
    "America/New_York",
    "Europe/Berlin",
    "Australia/Sydney",
    "Pacific/Auckland",
    "America/Santiago",
)
_HOUR = pd.Timedelta(hours=1)

logger = logging.getLogger(__name__)


def is_series(path: Path) -> bool:
    """Whether a file's name is that of a meter's series; hidden files are somebody else's."""
    return path.name.lower().endswith(SUFFIXES) and not path.name.startswith(".")


def files(data: Data, state: str) -> list[Path]:
    """The files of a state's clients: the first `data.clients` by name.

    They lie in the sub-folder of the state's name, or, when the study has one state and there is
    no such sub-folder, in the folder itself.

    Raises:
        DataError: no folder, too few files, two files for one client, or a link that leads out of
            the folder.
    """
    folder = data.meters.folder / state
    if len(data.states) == 1 and not folder.is_dir():
        folder = data.meters.folder
    if not folder.is_dir():
        raise DataError(
            f"{folder}: there is no such folder; put the files of {state} there, one a meter, or "
            "set data.meters.folder"
        )
    about = data.meters.about and data.meters.about.resolve()
    found = sorted(path for path in folder.iterdir() if is_series(path) and path.resolve() != about)
    if not found:
        raise DataError(f"{folder}: holds no meter files; they must end in {', '.join(SUFFIXES)}")
    if len(found) < data.clients:
        raise DataError(
            f"{folder}: holds {len(found)} of the {data.clients} meter files asked for; add files "
            f"or lower data.clients to {len(found)}"
        )
    chosen = found[: data.clients]
    home = data.meters.folder.resolve()
    for path in chosen:
        if not path.resolve().is_relative_to(home):
            raise DataError(
                f"{path}: is a link to a file outside {data.meters.folder}; copy the file there"
            )
    of: dict[str, Path] = {}
    for path in chosen:
        first = of.setdefault(name := client_name(path), path)
        if first != path:
            raise DataError(f"{path}: {first.name} is also meter {name!r}; rename or remove one")
    return chosen


def client_name(path: Path) -> str:
    """The client a file belongs to: its name without `.csv`, `.csv.gz` or `.parquet`."""
    return re.sub(r"\.(csv|csv\.gz|parquet)$", "", path.name, flags=re.IGNORECASE)


def known(meters: Meters) -> dict[str, dict[str, str]]:
    """What the file `meters.about` tells of each client, by column; empty cells tell nothing.

    Raises:
        DataError: the file is missing or unreadable, has no column `client`, or a client twice.
    """
    path = meters.about
    if path is None:
        return {}
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise DataError(
            f"{path}: there is no such file; mend data.meters.about, or leave it out"
        ) from None
    except (ValueError, OSError) as error:
        raise DataError(f"{path}: cannot be read ({error}); give it as CSV with a header") from None
    if "client" not in table:
        raise DataError(f"{path}: has no column 'client'; add the name of each row's meter")
    if (twice := table["client"].duplicated()).any():
        line = int(twice.to_numpy().argmax()) + 2
        raise DataError(
            f"{path}, line {line}: client {table['client'][line - 2]!r} is there twice; keep one"
        )
    rows = table.set_index("client").to_dict("index")
    return {
        str(client): {str(name): word for name, word in row.items() if word}
        for client, row in rows.items()
    }


def read(data: Data, state: str) -> dict[str, pd.DataFrame]:
    """The series of a state's clients by name, each as `read_file` gives it.

    Raises:
        DataError: see `files` and `read_file`, of which it tells what all the files lack.
    """
    found: dict[str, pd.DataFrame] = {}
    problems = []
    for path in files(data, state):
        try:
            found[client_name(path)] = read_file(path, data.meters)
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError("\n".join(problems))
    return found


def read_file(path: Path, meters: Meters) -> pd.DataFrame:
    """The series of one meter.

    Gaps up to `meters.max_gap` are filled by straight lines and reported as a warning; rows before
    the first and after the last complete one are cut off.

    Returns:
        `load` (kWh in the interval) and the other mapped columns, float64, indexed by `timestamp`:
        naive local standard time at the end of each interval, regular and unique. `attrs` says
        how many `gaps` there were in the load and how many readings were `filled`.

    Raises:
        DataError: what in the file cannot be used, at which line, and what to do.
    """
    raw = _read_columns(path, meters.columns)
    if len(raw) < 2:
        raise DataError(f"{path}: holds {len(raw)} readings; a series needs two, replace the file")
    zone = _zone(meters.timezone)
    stamps = _parsed(path, raw["timestamp"])
    ends = _instants(path, raw.index, stamps, meters, zone)
    _check_grid(path, raw.index, stamps, ends, meters)

    numbers = {role: _numbers(path, raw[role]) for role in FEATURES if role in raw}
    constants = {role: _constant(path, numbers.pop(role)) for role in STATIC if role in raw}
    grid = pd.date_range(ends[0], ends[-1], freq=f"{meters.interval}min", name="timestamp")
    table = pd.DataFrame(numbers).set_axis(ends).reindex(grid)
    table = _without_gaps(path, table, meters, zone).assign(**constants)
    hours = meters.interval / 60 if meters.unit in ("kW", "W") else 1.0
    table["load"] *= _KWH[meters.unit] * hours
    utc = pd.DatetimeIndex(table.index).tz_localize(None).as_unit("us")
    table.index = utc + _standard_offset(zone, utc[0].year)

    for role in map(str, table):
        check_finite(str(path), table[role].rename(meters.columns[role]))
    load = table["load"].rename(meters.columns["load"])
    check_load(str(path), load, allow_negative=meters.allow_negative)
    return table


# -- from files to columns of text or values -----------------------------------------------------


def _read_columns(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    """The mapped columns under their roles, one row a reading, indexed by `line n` or `row n`."""
    try:
        if path.name.lower().endswith(".parquet"):
            return _read_parquet(path, columns)
        return _read_csv(path, columns)
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); replace the file") from error


def _read_parquet(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    with pq.ParquetFile(path) as file:
        _check_columns(path, columns, file.schema_arrow.names)
        table = file.read(columns=list(columns.values()))
    # Some programs write text without saying that it is text.
    text = [
        field.with_type(pa.string()) if _is_bytes(field.type) else field for field in table.schema
    ]
    # Without the pandas metadata an index is a column as any other.
    frame = table.cast(pa.schema(text)).to_pandas(ignore_metadata=True)
    raw = pd.DataFrame({role: frame[column] for role, column in columns.items()})
    raw.index = pd.Index([f"row {number}" for number in range(1, len(raw) + 1)])
    return raw


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _read_csv(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    """See `_read_columns`. The csv module, because pandas hides lines with a field too many."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        header = file.readline()
        delimiter = max(",;\t", key=header.count)
        reader = csv.reader(
            itertools.chain([header], file), delimiter=delimiter, skipinitialspace=True
        )
        names = [name.strip() for name in next(reader, [])]
        _check_columns(path, columns, names)
        positions = [names.index(column) for column in columns.values()]
        lines, rows = [], []
        for fields in reader:
            if not any(fields):
                continue
            more = fields[len(names) :]
            # An empty field too many can come from a decimal comma before an empty column.
            if len(fields) < len(names) or any(more) or (more and delimiter == ","):
                raise DataError(
                    f"{path}: line {reader.line_num} has {len(fields)} fields, the header has "
                    f"{len(names)}; mend the line (a decimal comma needs semicolons between fields)"
                )
            lines.append(f"line {reader.line_num}")
            rows.append([fields[position].strip() for position in positions])
    raw = pd.DataFrame(rows, columns=list(columns), index=pd.Index(lines), dtype=str)
    for role in raw.columns.drop("timestamp"):
        _check_thousands(path, raw[role])
    if delimiter != ",":
        for role in raw.columns.drop("timestamp"):
            # A decimal comma only where no value has a point: 1,234.5 is left to be refused.
            if not raw[role].str.contains(".", regex=False).any():
                raw[role] = raw[role].str.replace(",", ".", regex=False)
    return raw


def _check_thousands(path: Path, column: pd.Series) -> None:
    """Refuse numbers whose separators may be of thousands.

    They are followed by three digits in each, and there are whole numbers beside them: decimals
    that are written with three digits would have them everywhere, and others would have fewer.
    """
    parted = column[column.str.contains("[.,]")]
    whole = column.str.fullmatch(r"-?[1-9]\d*")
    if len(parted) and whole.any() and parted.str.fullmatch(r"-?[1-9]\d{0,2}([.,]\d{3})+").all():
        raise DataError(
            f"{path}: {parted.index[0]}: {column.name} {parted.iloc[0]!r} may have a separator of "
            f"thousands, as {column[whole].iloc[0]!r} has none; write numbers without"
        )


def _check_columns(path: Path, columns: dict[str, str], names: Sequence[str]) -> None:
    for role, column in columns.items():
        where = f"{path}: column {column!r}, data.meters.columns.{role},"
        if column not in names:
            lowered = {name.lower(): name for name in names}
            near = difflib.get_close_matches(column.lower(), lowered, n=1)
            hint = f"; did you mean {lowered[near[0]]!r}?" if near else ""
            raise DataError(
                f"{where} is not there; the file has {', '.join(map(repr, names))}{hint}"
            )
        if list(names).count(column) > 1:
            raise DataError(f"{where} is there twice; rename or remove one of them")


def _numbers(path: Path, column: pd.Series) -> pd.Series:
    """`column` as float64, NaN where a value is missing."""
    if not pd.api.types.is_numeric_dtype(column):
        column = column.mask(column.astype(str).str.strip().str.lower().isin(_MISSING))
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    wrong = (numbers.isna() & column.notna()).to_numpy()
    if wrong.any():
        line, value = column.index[int(wrong.argmax())], column.iloc[int(wrong.argmax())]
        raise DataError(
            f"{path}: {line}: {column.name} {value!r} is not a number; write it as 1234.5 or leave "
            "it empty"
        )
    return numbers


def _constant(path: Path, column: pd.Series) -> float:
    """The single value of a static column, given on every line or only once."""
    known = column.dropna()
    if known.empty:
        raise DataError(
            f"{path}: {column.name} is empty; give it once or take it out of data.meters.columns"
        )
    if (other := known[known != known.iloc[0]]).size:
        raise DataError(
            f"{path}: {other.index[0]}: {column.name} changes from {known.iloc[0]:g} to "
            f"{other.iloc[0]:g}; it must be one number a building"
        )
    return float(known.iloc[0])


# -- time ----------------------------------------------------------------------------------------


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        near = difflib.get_close_matches(name, available_timezones(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DataError(
            f"data.meters.timezone: {name!r} is not an IANA time zone such as 'America/New_York' "
            f"or 'Etc/GMT+5'{hint}"
        ) from None


def _parsed(path: Path, column: pd.Series) -> pd.DatetimeIndex:
    """The stamps as they stand in the file: aware if they carry UTC offsets, else naive."""
    stamps = column
    if column.dtype.kind != "M":
        text = column.fillna("").astype(str).str.strip()
        aware = text.str.contains(_OFFSET).to_numpy()
        if aware.any() and not aware.all():
            raise DataError(
                f"{path}: {column.index[int((aware != aware[0]).argmax())]}: some stamps have a "
                "UTC offset and some have none; write all of them alike"
            )
        # A bare number is no stamp, or "2018" would be read as a year.
        text = text.where(text.str.contains("-", regex=False))
        stamps = pd.to_datetime(text, format="ISO8601", utc=True, errors="coerce")
        if not aware.any():
            stamps = stamps.dt.tz_localize(None)
        elif stamps.notna().all():
            stamps = stamps.dt.tz_convert(pd.Timestamp(text.iloc[0]).tz)
    if (unreadable := stamps.isna().to_numpy()).any():
        at = int(unreadable.argmax())
        raise DataError(
            f"{path}: {column.index[at]}: {str(column.iloc[at])!r} is not an ISO stamp; write it "
            "as 2018-01-31 23:45, with or without a UTC offset"
        )
    years = np.asarray(pd.DatetimeIndex(stamps).year)
    # One stray year would make a series of a hundred million rows.
    if (stray := (years < YEARS[0]) | (years > YEARS[1])).any():
        at = int(stray.argmax())
        raise DataError(
            f"{path}: {column.index[at]}: {str(column.iloc[at])!r} is not between the years "
            f"{YEARS[0]} and {YEARS[1]}; mend the stamp"
        )
    return pd.DatetimeIndex(stamps)


def _instants(
    path: Path, lines: pd.Index, stamps: pd.DatetimeIndex, meters: Meters, zone: ZoneInfo
) -> pd.DatetimeIndex:
    """The ends of the intervals in UTC, in the order of the file."""
    interval = pd.Timedelta(minutes=meters.interval)
    shift = interval if meters.stamp == "start" else pd.Timedelta(0)
    if stamps.tz is not None:
        given, local = stamps[0].isoformat(), stamps[0].tz_convert(zone).isoformat()
        if stamps[0].utcoffset() and given != local:
            logger.warning(
                "%s: %s is %s in data.meters.timezone %s, which sets the time of day; set the "
                "meter's own zone",
                *(path, given, local, zone.key),
            )
        return stamps.tz_convert("UTC") + shift
    # The interval that ends when clocks change is stamped by the clock at its end, or by the clock
    # at its start plus the interval; meters do both.
    for lag in (pd.Timedelta(0), interval - shift):
        with suppress(Exception):  # pandas 2 raises pytz's errors here, pandas 3 ValueError
            return _to_utc(stamps - lag, zone) + lag + shift
    raise DataError(f"{path}: {_misfit(lines, stamps, zone)}")


def _to_utc(stamps: pd.DatetimeIndex, zone: ZoneInfo) -> pd.DatetimeIndex:
    return stamps.tz_localize(zone, ambiguous="infer", nonexistent="raise").tz_convert("UTC")


def _misfit(lines: pd.Index, stamps: pd.DatetimeIndex, zone: ZoneInfo) -> str:
    """Why naive `stamps` cannot be the clock of `zone`."""
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
        why = "occurs twice when clocks go back, and the file does not tell which it is"
    offset = _standard_offset(zone, stamps[at].year)
    hours, rest = divmod(offset, timedelta(hours=1))
    # Names of fixed zones have POSIX signs: hours west of Greenwich count up.
    fixed = "" if rest else f" ({f'Etc/GMT{-hours:+d}' if hours else 'UTC'})"
    return (
        f"{lines[at]}: {stamps[at]} {why} in data.meters.timezone {zone.key}; set the meter's own "
        f"zone, a fixed one{fixed} if its clock never changes, or write UTC offsets into the stamps"
    )


def _out_of_order(lines: pd.Index, stamps: pd.DatetimeIndex, at: int) -> str:
    return f"{lines[at]}: {stamps[at]} comes after {stamps[at - 1]}; sort the file by time"


def _check_grid(
    path: Path, lines: pd.Index, stamps: pd.DatetimeIndex, ends: pd.DatetimeIndex, meters: Meters
) -> None:
    """Refuse instants, in the order of the file, that are no ascending part of a regular grid."""
    interval = meters.interval
    steps = np.asarray((ends[1:] - ends[:-1]) / pd.Timedelta(minutes=1))
    lengths, counts = np.unique(steps[steps > 0], return_counts=True)
    usual = lengths[counts.argmax()] if len(lengths) else interval
    if usual != interval:
        remedy = (
            f"set data.meters.interval to {usual:g}, which holds for all files, or resample it"
            if usual in (15, 30, 60)
            else "resample the file to 15, 30 or 60 minutes"
        )
        raise DataError(
            f"{path}: its readings are {usual:g} minutes apart, data.meters.interval is "
            f"{interval}; {remedy}"
        )
    for at in map(int, np.flatnonzero(abs(steps - interval) == 60) + 1):
        if stamps.tz is None and (clock := _clock_change(stamps[at])):
            raise DataError(
                f"{path}: {lines[at]}: the stamps jump from {stamps[at - 1]} to {stamps[at]}, as "
                f"clocks do in {clock}, but not in data.meters.timezone {meters.timezone}; set the "
                "meter's own zone, or write UTC offsets into the stamps if this is a real gap"
            )
    if (wrong := steps < 0).any():
        raise DataError(f"{path}: {_out_of_order(lines, stamps, int(wrong.argmax()) + 1)}")
    if (wrong := steps == 0).any():
        at = int(wrong.argmax()) + 1
        raise DataError(f"{path}: {lines[at]}: {stamps[at]} is there twice; keep one of the two")
    if (wrong := steps % interval != 0).any():
        at = int(wrong.argmax()) + 1
        raise DataError(
            f"{path}: {lines[at]}: {stamps[at]} is {steps[at - 1]:g} minutes after the line "
            f"before; stamps must be {interval} minutes apart, resample the file"
        )
    if ends[0] != ends[0].floor("15min"):
        raise DataError(
            f"{path}: {lines[0]}: {stamps[0]} is not on a quarter of an hour; round the stamps"
        )


def _clock_change(wall: pd.Timestamp) -> str | None:
    """A zone, one for all with its rule, whose clocks change within three hours of `wall`."""
    before, after = wall - 3 * _HOUR, wall + 3 * _HOUR
    for name in _CLOCKS:
        if _offset(ZoneInfo(name), before) != _offset(ZoneInfo(name), after):
            return name
    return None


def _standard_offset(zone: ZoneInfo, year: int) -> timedelta:
    """UTC offset of the winter clock, on either hemisphere."""
    return min(_offset(zone, datetime(year, month, 1)) for month in (1, 7))


def _offset(zone: ZoneInfo, wall: datetime) -> timedelta:
    offset = wall.replace(tzinfo=zone).utcoffset()
    assert offset is not None  # it is only for times of day without a date
    return offset


# -- gaps ----------------------------------------------------------------------------------------


def _without_gaps(path: Path, table: pd.DataFrame, meters: Meters, zone: ZoneInfo) -> pd.DataFrame:
    """`table` from its first to its last complete row, short gaps filled and long ones refused."""
    complete = table.notna().all(axis=1).to_numpy()
    if not complete.any():
        columns = ", ".join(repr(meters.columns[str(role)]) for role in table)
        raise DataError(f"{path}: no row has a value in all of {columns}; leave this meter out")
    first, last = np.flatnonzero(complete)[[0, -1]]
    if cut := len(table) - (last + 1 - first):
        logger.warning("%s: %d incomplete rows cut off at the beginning or end", path, cut)
    table = table.iloc[first : last + 1]
    gaps = {role: _runs(table[role].isna().to_numpy()) for role in map(str, table)}
    for role, (starts, lengths) in gaps.items():
        if not len(lengths):
            continue
        longest = int(lengths.argmax())
        minutes = int(lengths[longest]) * meters.interval
        since = table.index[starts[longest]].tz_convert(zone).isoformat(" ", "minutes")
        if minutes > meters.max_gap:
            raise DataError(
                f"{path}: {role} is missing for {minutes} minutes, from the reading of {since} on; "
                f"data.meters.max_gap is {meters.max_gap}: raise it, cut the file, or leave this "
                "meter out"
            )
        logger.warning(
            "%s: %s: %d missing readings in %d gaps filled by straight lines, the longest %d "
            "minutes from %s on",
            *(path, role, lengths.sum(), len(lengths), minutes, since),
        )
    table = table.interpolate("linear")
    table.attrs = {"gaps": len(gaps["load"][1]), "filled": int(gaps["load"][1].sum())}
    return table


def _runs(missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First positions and lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(int)))
    return edges[::2], edges[1::2] - edges[::2]
