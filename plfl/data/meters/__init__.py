"""The user's own meters: a folder of CSV or Parquet files, or raw exports, become the clients'
series.

All work is done in UTC, where the grid of every meter is regular: local time skips an hour in
spring and repeats one in autumn. The resulting series are indexed by local *standard* time, which
is UTC plus a constant offset. That grid is regular, too, and the time of day keeps its meaning
except for the hour of daylight saving time.
"""

import logging
from pathlib import Path

import pandas as pd

from plfl.config.features import FEATURES, UNITS
from plfl.config.sections import Data, Meters
from plfl.data.meters import folder
from plfl.data.meters.columns import constant, numbers, read_columns
from plfl.data.meters.faults import without_jumps, without_outages
from plfl.data.meters.folder import SUFFIXES, client_name, is_series, known
from plfl.data.meters.series import STATIC, collected, finished
from plfl.data.meters.stamps import check_grid, interval_ends, parse, zone_named
from plfl.errors import DataError

__all__ = [
    "SUFFIXES",
    "client_name",
    "clients",
    "files",
    "is_series",
    "known",
    "read",
    "read_file",
]

logger = logging.getLogger(__name__)

_KWH = {"kWh": 1.0, "Wh": 1e-3, "kW": 1.0, "W": 1e-3}


def files(data: Data, state: str) -> list[Path]:
    """The files that the series of a state's clients are read from.

    Raises:
        DataError: see `folder.files`, or a raw export does not exist.
    """
    if data.meters.exports:
        from plfl.data.meters import exports  # which imports modules of this package

        return exports.files(data.meters, state)
    return folder.files(data, state)


def clients(data: Data, state: str) -> dict[str, Path]:
    """The names of a state's clients, in order, and the file of each.

    Raises:
        DataError: see `files`; exports are read, and the message lists what is wrong with them.
    """
    if data.meters.exports:
        from plfl.data.meters import exports

        return exports.clients(data, state)
    return {client_name(path): path for path in folder.files(data, state)}


def read(data: Data, state: str) -> dict[str, pd.DataFrame]:
    """The series of a state's clients, by name; see `read_file`.

    Raises:
        DataError: see `files` and `read_file`; the message lists the errors of all files.
    """
    if data.meters.exports:
        from plfl.data.meters import exports

        return exports.read(data, state)
    found: dict[str, pd.DataFrame] = {}
    problems = []
    for path in folder.files(data, state):
        try:
            found[client_name(path)] = read_file(path, data.meters)
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError("\n".join(problems))
    return found


def read_file(path: Path, meters: Meters, client: str | None = None) -> pd.DataFrame:
    """The series of one meter.

    If the study reads raw exports, the file is one, in the same layout.

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
    if meters.exports:
        from plfl.data.meters import exports

        return exports.read_file(path, meters, client or client_name(path))
    raw = read_columns(path, meters.columns, meters.header or 1)
    if len(raw) < 2:
        raise DataError(
            f"{path}: holds fewer than two readings; a series needs at least two; replace the file"
        )
    zone = zone_named(meters.timezone_of(client or client_name(path)))
    problems: list[str] = []
    with collected(problems):
        stamps = parse(path, raw["timestamp"], meters.date_format)
        ends = interval_ends(path, raw.index, stamps, meters, zone)
        check_grid(path, raw.index, stamps, ends, meters, zone)

    # Known features first, in their order.
    roles = [role for role in dict.fromkeys([*FEATURES, *map(str, raw)]) if role in raw]
    series: dict[str, pd.Series] = {}
    constants: dict[str, float] = {}
    for role in roles:
        with collected(problems):
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
    hours = meters.interval / 60 if meters.unit in ("kW", "W") else 1.0
    table["load"] *= _KWH[meters.unit] * hours
    return finished(path, table, constants, meters, zone)


def _values(path: Path, column: pd.Series, meters: Meters) -> pd.Series:
    """A column as numbers in the unit of its feature, NaN where a reading is missing."""
    role = str(column.name)
    words = [str(word).strip().lower() for word in meters.missing]
    values = numbers(path, column, words)
    values = values.mask(values.isin([one for one in meters.missing if not isinstance(one, str)]))
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
