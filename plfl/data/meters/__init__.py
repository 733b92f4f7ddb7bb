"""The user's own meters: a folder of CSV or Parquet files becomes the clients' series.

All work is done in UTC, where the grid of every meter is regular: local time skips an hour in
spring and repeats one in autumn. The resulting series are indexed by local *standard* time, which
is UTC plus a constant offset. That grid is regular, too, and the time of day keeps its meaning
except for the hour of daylight saving time.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from plfl.config.features import FEATURES, UNITS
from plfl.config.sections import Data, Meters
from plfl.data.checks import check_finite, check_load
from plfl.data.meters.columns import constant, numbers, read_columns
from plfl.data.meters.faults import without_jumps, without_outages
from plfl.data.meters.folder import SUFFIXES, client_name, files, is_series, known
from plfl.data.meters.gaps import fill_gaps
from plfl.data.meters.stamps import check_grid, interval_ends, parse, standard_offset, zone_named
from plfl.errors import DataError

__all__ = ["SUFFIXES", "client_name", "files", "is_series", "known", "read", "read_file"]

STATIC = ("floor_area", "wall_area", "window_area")
"""Columns that hold one number per building."""

logger = logging.getLogger(__name__)

_KWH = {"kWh": 1.0, "Wh": 1e-3, "kW": 1.0, "W": 1e-3}


def read(data: Data, state: str) -> dict[str, pd.DataFrame]:
    """The series of a state's clients, by name; see `read_file`.

    Raises:
        DataError: see `files` and `read_file`; the message lists the errors of all files.
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


def read_file(path: Path, meters: Meters, client: str | None = None) -> pd.DataFrame:
    """The series of one meter.

    Faults that the configuration names (`missing`, `zero_run`, `max_jump`) become gaps. In gaps of
    up to `meters.max_gap` minutes, the last reading before the gap is carried forward, so that no
    value depends on a later one. Longer gaps stay NaN. Warnings report all of this. Rows before the
    first complete row and after the last one are removed.

    Args:
        path: the file.
        meters: how it is laid out.
        client: the name of the meter; None: that of the file.

    Returns:
        `load` (kWh in the interval) and the other mapped columns, float64, indexed by `timestamp`:
        naive local standard time at the end of each interval, regular and unique. `attrs` has
        the number of `gaps` in the load, of readings `filled` there and of those left `missing`.

    Raises:
        DataError: the file cannot be used; the message has a line for what is wrong with the stamps
            and for each column, with the line of the file and the remedy.
    """
    raw = read_columns(path, meters.columns, meters.header)
    if len(raw) < 2:
        raise DataError(
            f"{path}: holds {len(raw)} readings; a series needs at least two; replace the file"
        )
    zone = zone_named(meters.timezone_of(client or client_name(path)))
    problems: list[str] = []
    with _collected(problems):
        stamps = parse(path, raw["timestamp"], meters.date_format)
        ends = interval_ends(path, raw.index, stamps, meters, zone)
        check_grid(path, raw.index, stamps, ends, meters, zone)

    # Known features first, in their order.
    roles = [role for role in dict.fromkeys([*FEATURES, *map(str, raw)]) if role in raw]
    series: dict[str, pd.Series] = {}
    constants: dict[str, float] = {}
    for role in roles:
        with _collected(problems):
            if role in STATIC:
                constants[role] = constant(path, _values(path, raw[role], meters))
            elif role != "timestamp":
                series[role] = _values(path, raw[role], meters)
    if problems:
        raise DataError("\n".join(problems))
    grid = pd.date_range(ends[0], ends[-1], freq=f"{meters.interval}min", name="timestamp")
    table = pd.DataFrame(series).set_axis(ends).reindex(grid)
    if meters.cumulative:
        table = _differences(path, table)
    table["load"] = _without_faults(path, table["load"], meters)
    table = fill_gaps(path, table, meters, zone).assign(**constants)
    hours = meters.interval / 60 if meters.unit in ("kW", "W") else 1.0
    table["load"] *= _KWH[meters.unit] * hours
    utc = pd.DatetimeIndex(table.index).tz_localize(None).as_unit("us")
    table.index = utc + standard_offset(zone, utc[0].year)

    for role in map(str, table):
        with _collected(problems):
            values = table[role].rename(meters.columns[role])
            check_finite(str(path), values, gaps=True)
            if role == "load":
                check_load(str(path), values, allow_negative=meters.allow_negative, gaps=True)
    if problems:
        raise DataError("\n".join(problems))
    return table


@contextmanager
def _collected(problems: list[str]) -> Iterator[None]:
    """Add what is wrong to the problems of a file, so that one message can list all of them."""
    try:
        yield
    except DataError as error:
        problems.append(str(error))


def _values(path: Path, column: pd.Series, meters: Meters) -> pd.Series:
    """A column as numbers in the unit of its feature, NaN where a reading is missing."""
    role = str(column.name)
    values = numbers(path, column)
    values = values.mask(values.isin(meters.missing))
    if role in meters.units and role in UNITS:
        factor, summand = UNITS[role][meters.units[role]]
        values = values * factor + summand
    return values


def _differences(path: Path, table: pd.DataFrame) -> pd.DataFrame:
    """The readings after the first one, with differences of a cumulative load."""
    later = table.iloc[1:].copy()
    later["load"] = table["load"].diff().iloc[1:]
    back = later["load"] < 0
    if back.any():
        logger.warning(
            "%s: the register steps back %d times, first at %s; these intervals become gaps",
            *(path, back.sum(), back.idxmax()),
        )
    later["load"] = later["load"].mask(back)
    return later


def _without_faults(path: Path, load: pd.Series, meters: Meters) -> pd.Series:
    """The load with gaps where it jumps and in outages; a warning reports them."""
    cleaned = load
    if meters.max_jump is not None:
        cleaned = without_jumps(cleaned, meters.max_jump)
    if meters.zero_run is not None:
        cleaned = without_outages(cleaned, meters.interval, meters.zero_run)
    if faults := int(cleaned.isna().sum() - load.isna().sum()):
        logger.warning(
            "%s: load: %d readings are faults (data.meters.max_jump, zero_run) and become gaps",
            *(path, faults),
        )
    return cleaned
