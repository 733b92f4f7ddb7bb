"""The weather that is joined to meters: measured, or forecast and known in time."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from plfl.base.errors import data_error
from plfl.base.keys import Key, Wording, word_keys
from plfl.config.meters import Meters
from plfl.config.named import FEATURE_UNITS
from plfl.data.meters import column_roles, file_contents, tables
from plfl.data.meters.cleaning import rows_in_utc
from plfl.data.meters.formats.reading import read as read_file
from plfl.data.meters.stamps import zone_named

_DETECTED = {"header": None, "date_format": None, "decimal": None, "stamp": "end"}
"""Keys about the form of files, which are for the meters: that of the weather is detected."""


def _word_weather(key: Key, wording: Wording) -> str:
    """A key in a message about the file of the weather."""
    if key.path == "data.meters.timezone":
        key = Key("data.meters.weather_timezone", key.value)
    is_detected = key.path.removeprefix("data.meters.") in _DETECTED
    hint = " (a key of the meters; of the weather, change the file)" if is_detected else ""
    return wording(key) + hint


@dataclass(frozen=True)
class Weather:
    """A file of the weather."""

    measurements: pd.DataFrame
    """By role, indexed by the time in UTC when they became known; of forecasts, those of
    `forecasts_in_time` at the times that they are for."""
    words: str
    """Its path and its form, in words."""
    needs_place: bool
    """Whether the times depend on a zone that only the user knows."""


@word_keys(_word_weather)
def read_weather(path: Path, meters: Meters) -> Weather:
    """The measurements of a weather station. DataError: the file has none of the inputs."""
    # A given unit is not compared with that of a column: a station does not measure energy.
    keys = {"only": [], "leave_out": [], "exports": [path], "unit": "kWh"}
    station = meters.model_copy(update=_DETECTED | keys)
    zone = meters.weather_timezone or meters.timezone
    raw, *_ = file_contents.open_files(path, station)
    columns = tables.read(raw, station).cells
    if meters.weather_issued is not None:
        columns = forecasts_in_time(path, columns, meters, zone)
        raw = replace(raw, cells=columns)
    present_columns = {role: c for role, c in meters.columns.items() if c in columns}
    roles = [role for role in present_columns if role in meters.input_columns]
    if not roles:
        input_names = ", ".join(map(repr, meters.input_columns.values())) or "inputs"
        raise data_error(
            path,
            f"no {input_names} among its columns {', '.join(map(repr, columns))}",
            f"say which of them the model reads, as {Key('data.meters.columns.temperature')} (°C)",
        )
    present_columns["load"] = present_columns[roles[0]]  # its first input is read like a load
    station = station.model_copy(update={"columns": present_columns})
    recognised_file = column_roles.find_format(raw, station)
    if name_column := recognised_file.form.meters.column:
        raise data_error(path, f"has several stations ({name_column[0]!r})", "keep one of them")
    file = read_file(recognised_file, station)
    ((name, piece),) = file.pieces.items()
    measurements = rows_in_utc(piece, name, zone_named(zone), file.keys, Counter())
    units = {role: FEATURE_UNITS[role] for role in roles if role in FEATURE_UNITS} | meters.units
    roles_and_units = ", ".join(
        f"{role} in {units.get(role, 'a unit of its own')}" for role in roles
    )
    words = f"{path}: weather, {roles_and_units}: {file.words}"
    return Weather(measurements[roles].sort_index(), words, file.needs_place)


def forecasts_in_time(path: Path, rows: pd.DataFrame, meters: Meters, zone: str) -> pd.DataFrame:
    """The rows of a table of forecasts, of each time the last one that was issued at least
    `weather_ahead` hours before it.

    Where clocks change, stamps without a UTC offset count as an hour nearer than they may be.
    DataError: a column is missing, or a stamp is not written as 2024-01-31 12:00.
    """
    issued_column = str(meters.weather_issued)
    if issued_column not in rows:
        raise data_error(
            path,
            f"has no column {issued_column!r} ({Key('data.meters.weather_issued')})",
            f"it has {', '.join(map(repr, rows))}",
        )
    stated_column = meters.columns.get("timestamp")
    stamp_columns = (
        [stated_column] if stated_column in rows else [str(c) for c in rows if c != issued_column]
    )
    stamps = {name: _iso_stamps(rows[name]) for name in stamp_columns}
    time_columns = {name: column for name, column in stamps.items() if column is not None}
    issued = _iso_stamps(rows[issued_column])
    if issued is None or not time_columns:
        raise data_error(
            path,
            f"needs two columns of times such as 2024-01-31 12:00, {issued_column!r} and "
            "the time that a forecast is for",
        )
    valid_column, valid = next(iter(time_columns.items()))
    if (valid.dt.tz is None) != (issued.dt.tz is None):
        raise data_error(
            path,
            f"only one of {issued_column!r} and {valid_column!r} has UTC offsets",
            "write both in one way",
        )
    hours = float(meters.weather_ahead or 0)
    if valid.dt.tz is None and not zone.startswith(("Etc/", "UTC")):
        hours += 1
    is_early = issued <= valid - pd.Timedelta(hours=hours)
    order = issued[is_early].sort_values(kind="stable").index
    last = rows.loc[order[~valid[order].duplicated(keep="last").to_numpy()]]
    if last.empty:
        raise data_error(
            path,
            f"no forecast was issued {hours:g} hours before the time that it is for",
            f"lower {Key('data.meters.weather_ahead')} and windows.horizons, or give "
            "earlier forecasts",
        )
    in_order = last.loc[valid[last.index].sort_values().index]
    return in_order.drop(columns=issued_column).reset_index(drop=True)


def _iso_stamps(texts: pd.Series) -> pd.Series | None:
    """Times in the format of ISO 8601, in UTC if they have offsets; None if they are others."""
    if pd.api.types.is_numeric_dtype(texts):
        return None
    try:
        pd.to_numeric(texts.head())
        return None
    except (ValueError, TypeError):
        pass
    for utc in (False, True):
        try:
            stamps: pd.Series = pd.to_datetime(texts, format="ISO8601", utc=utc)
        except (ValueError, TypeError):
            continue
        if isinstance(stamps.dtype, pd.DatetimeTZDtype):
            in_utc: pd.Series = stamps.dt.tz_convert("UTC")
            return in_utc
        if pd.api.types.is_datetime64_dtype(stamps.dtype):
            return stamps
    return None
