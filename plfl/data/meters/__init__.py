"""The user's own meters: a folder of CSV or Parquet files becomes the clients' series.

All work is done in UTC, where the grid of every meter is regular: local time skips an hour in
spring and repeats one in autumn. The resulting series are indexed by local *standard* time, which
is UTC plus a constant offset. That grid is regular, too, and the time of day keeps its meaning
except for the hour of daylight saving time.
"""

from pathlib import Path

import pandas as pd

from plfl.config.features import FEATURES
from plfl.config.sections import Data, Meters
from plfl.data.checks import check_finite, check_load
from plfl.data.meters.columns import constant, numbers, read_columns
from plfl.data.meters.folder import SUFFIXES, client_name, files, is_series, known
from plfl.data.meters.gaps import fill_gaps
from plfl.data.meters.stamps import check_grid, interval_ends, parse, standard_offset, zone_named
from plfl.errors import DataError

__all__ = ["SUFFIXES", "client_name", "files", "is_series", "known", "read", "read_file"]

STATIC = ("floor_area", "wall_area", "window_area")
"""Columns that hold one number per building."""

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


def read_file(path: Path, meters: Meters) -> pd.DataFrame:
    """The series of one meter.

    In gaps of up to `meters.max_gap` minutes, the last reading before the gap is carried forward,
    so that no value depends on a later one. Longer gaps stay NaN. Warnings report both. Rows before
    the first complete row and after the last one are removed.

    Returns:
        `load` (kWh in the interval) and the other mapped columns, float64, indexed by `timestamp`:
        naive local standard time at the end of each interval, regular and unique. `attrs` has
        the number of `gaps` in the load, of readings `filled` there and of those left `missing`.

    Raises:
        DataError: the file cannot be used; the message names the line and the remedy.
    """
    raw = read_columns(path, meters.columns)
    if len(raw) < 2:
        raise DataError(
            f"{path}: holds {len(raw)} readings; a series needs at least two; replace the file"
        )
    zone = zone_named(meters.timezone)
    stamps = parse(path, raw["timestamp"])
    ends = interval_ends(path, raw.index, stamps, meters, zone)
    check_grid(path, raw.index, stamps, ends, meters)

    # Known features first, in their order.
    roles = [role for role in dict.fromkeys([*FEATURES, *map(str, raw)]) if role in raw]
    series = {role: numbers(path, raw[role]) for role in roles if role != "timestamp"}
    constants = {role: constant(path, series.pop(role)) for role in STATIC if role in raw}
    grid = pd.date_range(ends[0], ends[-1], freq=f"{meters.interval}min", name="timestamp")
    table = pd.DataFrame(series).set_axis(ends).reindex(grid)
    table = fill_gaps(path, table, meters, zone).assign(**constants)
    hours = meters.interval / 60 if meters.unit in ("kW", "W") else 1.0
    table["load"] *= _KWH[meters.unit] * hours
    utc = pd.DatetimeIndex(table.index).tz_localize(None).as_unit("us")
    table.index = utc + standard_offset(zone, utc[0].year)

    for role in map(str, table):
        check_finite(str(path), table[role].rename(meters.columns[role]), gaps=True)
    load = table["load"].rename(meters.columns["load"])
    check_load(str(path), load, allow_negative=meters.allow_negative, gaps=True)
    return table
