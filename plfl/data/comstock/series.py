"""From the files of NREL's ComStock to the series of buildings.

A *store* is a folder with files under the same keys as in the public bucket, see
`plfl.data.comstock.releases`. It is the cache of `plfl.data.comstock.download`, or sample data.
"""

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from plfl.base.errors import DataError, Problem, suggest_name
from plfl.base.keys import Key
from plfl.base.text import count_in_words
from plfl.config.data import Data, WeatherJoin
from plfl.data.checks import check_finite, check_load, check_stamps
from plfl.data.comstock.releases import PAPER_RELEASE, STATIC, ReleaseKeys
from plfl.data.examples import LazySeries

INTERVAL = 15
"""Minutes between load timestamps. They mark the end of the interval, in EST for every state."""

PER_HOUR = 60 // INTERVAL

LOAD = ("out.electricity.total.energy_consumption", "out.electricity.total.energy_consumption..kwh")
"""Possible names of the load column, in kWh per interval."""

WEATHER = {"temperature": "Dry Bulb Temperature [°C]", "wind_speed": "Wind Speed [m/s]"}
"""Columns of the weather files, by feature; their local standard time is the end of the hour."""

UTC_OFFSET = {
    code: hours
    for hours, codes in {
        -5: "09 10 11 12 13 18 21 23 24 25 26 33 34 36 37 39 42 44 45 50 51 54",
        -6: "01 05 17 19 20 22 27 28 29 31 38 40 46 47 48 55",
        -7: "04 08 16 30 35 49 56",
        -8: "06 32 41 53",
        -9: "02",
        -10: "15",
    }.items()
    for code in codes.split()
}
"""UTC offset of each state's main time zone, by FIPS code, which is the two digits after the G in a
county's GISJOIN. With `join: utc`, counties outside the main zone of their state are off by an
hour."""

EST = -5

DOWNLOAD_REMEDY = "delete the file and download it again"


@dataclass(frozen=True)
class Building:
    """The facts about a building in the metadata."""

    id: int
    metadata: str
    """Key of the metadata file."""
    county: str
    """GISJOIN of the county whose weather it has."""
    static: dict[str, float]
    """The constant features."""


def read(root: Path, data: Data, state: str, ids: Sequence[int]) -> LazySeries:
    """The series of buildings from a store in the folder `root`, by name (the id).

    Returns:
        Tables indexed by `timestamp` (Eastern Standard Time, ends of intervals of 15 minutes) with
        `load` (kWh per interval) and those of `data.features` that the release has: `temperature`
        (°C), `wind_speed` (m/s), `floor_area` (ft²), `wall_area` and `window_area` (m²).

    Raises:
        DataError: a building, file or column is missing or unreadable, or has invalid values.
    """
    release_keys = ReleaseKeys.from_data(data)
    listed_buildings = buildings(root, release_keys, state, ids, data.features)
    by_name = {str(building.id): building for building in listed_buildings}
    columns = {feature: WEATHER[feature] for feature in data.features if feature in WEATHER}
    hourly = {
        county: _weather(root / release_keys.weather(county), columns)
        for county in dict.fromkeys(building.county for building in listed_buildings)
        if columns
    }

    def table(name: str) -> pd.DataFrame:
        building = by_name[name]
        load = _load(root / release_keys.load(state, building.id))
        parts: list[pd.Series | pd.DataFrame] = [load]
        if columns:
            place = f"{root / release_keys.weather(building.county)} (building {building.id})"
            weather, stamps = hourly[building.county], pd.DatetimeIndex(load.index)
            if not release_keys.is_typical_year:
                _check_hours(place, pd.DatetimeIndex(weather.index), stamps)
            parts.append(join(place, weather, stamps, data.comstock.join, building.county))
        return pd.concat(parts, axis=1).assign(**building.static)

    return LazySeries(by_name, table)


def join(
    place: str,
    hourly: pd.DataFrame,
    stamps: pd.DatetimeIndex,
    match_by: WeatherJoin,
    county: str,
) -> pd.DataFrame:
    """Hourly weather at the timestamps of the load.

    `position` repeats each row four times and joins row by row, as the paper's authors do. Load
    timestamps are in Eastern Standard Time but weather is in local time, so this is exact for NY;
    other buildings get the weather of one hour (IL) to three hours (CA) later. `utc` gives each
    interval the hour that contains it; the few hours missing at one end of the year are filled with
    the nearest hour.

    Raises:
        DataError: load and weather have different numbers of hours, or the time zone is unknown.
    """
    if len(hourly) * PER_HOUR != len(stamps):
        raise DataError(
            Problem(
                place,
                f"its {len(hourly)} hours do not match the load's {len(stamps)} intervals of "
                f"{INTERVAL} minutes",
                "both must cover the same year, delete them and download again",
            )
        )
    row = np.arange(len(stamps)) // PER_HOUR
    if match_by == "utc":
        offset = UTC_OFFSET.get(county[1:3])
        if offset is None:
            raise DataError(
                Problem(
                    place,
                    f"the time zone of {county} is unknown",
                    "set data.comstock.join to position",
                )
            )
        row = np.clip(row + offset - EST, 0, len(hourly) - 1)
    return hourly.iloc[row].set_axis(stamps)


def metadata_keys(root: Path, release_keys: ReleaseKeys, state: str) -> list[str]:
    """Keys of the metadata of a state; with one file per county, of those in the store."""
    pattern = release_keys.metadata(state)
    if not release_keys.is_by_county:
        return [pattern]
    return sorted(path.relative_to(root).as_posix() for path in root.glob(pattern))


def metadata(
    root: Path,
    release_keys: ReleaseKeys,
    state: str,
    keys: Sequence[str],
    features: Collection[str] = (),
) -> pd.DataFrame:
    """The buildings of a state in metadata files of the store: `id`, the `key` of the file,
    `county` and constant `features`. Unusable files are refused."""
    names = release_keys.names
    columns: dict[str, tuple[str, ...]] = {"id": ("bldg_id",), "county": (names.county,)}
    columns |= {feature: STATIC[feature] for feature in names.static if feature in features}
    if names.state:
        columns["state"] = (names.state,)
    tables = []
    for key in keys:
        table = _parquet(root / key, columns)
        if not pd.api.types.is_integer_dtype(table["id"]):
            raise DataError(
                Problem(root / key, "column 'bldg_id' has no whole numbers", DOWNLOAD_REMEDY)
            )
        if names.state:
            table = table[table["state"] == state]
        tables.append(table.assign(key=key))
    # In later releases a simulated building has one row for each place that it represents. The
    # columns that are read here are equal in all these rows.
    table = pd.concat(tables) if tables else pd.DataFrame(columns=["id", "county", "key"])
    return table.drop_duplicates("id")


def buildings(
    root: Path, release_keys: ReleaseKeys, state: str, ids: Sequence[int], features: Collection[str]
) -> list[Building]:
    """The facts in the store's metadata about the buildings `ids` of a state, in order. DataError
    if one of them is not in the state or the release, or the metadata are unusable."""
    if len(set(ids)) < len(ids):
        raise DataError(
            Problem(Key(f"data.buildings.{state}"), "duplicate id", "list each building once")
        )
    table = metadata(root, release_keys, state, metadata_keys(root, release_keys, state), features)
    table = table[table["id"].isin(ids)].set_index("id")
    if absent := [i for i in ids if i not in table.index]:
        raise DataError(
            Problem(
                "",
                f"{release_keys.release}, upgrade {release_keys.upgrade}: there is no building "
                f"{', '.join(map(str, absent))} in {state}. Ids belong to one state and are "
                f"renumbered in every release (the paper's hold for {PAPER_RELEASE})",
                f"check data.buildings.{state} and data.comstock",
            )
        )
    metadata_path = root / release_keys.metadata(state)
    with _explain_file_errors(metadata_path):
        static = table[[name for name in STATIC if name in table]].astype(float)
    for feature in static:
        check_finite(f"{metadata_path} (by building)", static[feature])
    for county in table["county"]:
        # It becomes part of a path.
        if not re.fullmatch("[A-Za-z0-9]+", str(county)):
            raise DataError(
                Problem(
                    metadata_path, f"{county!r} is not the GISJOIN of a county", DOWNLOAD_REMEDY
                )
            )
    constants = static.to_dict("index")
    return [
        Building(
            id=i,
            metadata=str(table["key"][i]),
            county=str(table["county"][i]),
            static={str(name): float(value) for name, value in constants[i].items()},
        )
        for i in ids
    ]


def draw(root: Path, data: Data, state: str) -> list[int]:
    """The ids of buildings of a state that are drawn at random from the metadata in the store; too
    few, and unusable metadata, are refused.

    They are the first `data.clients` ids in the order of the SHA-256 of "seed/state/id", so more
    clients do not change the order.
    """
    release_keys = ReleaseKeys.from_data(data)
    table = metadata(root, release_keys, state, metadata_keys(root, release_keys, state))
    if len(table) < (clients := data.clients_of(state)):
        raise DataError(
            Problem(
                Key("data.clients"),
                f"{clients} clients, but {release_keys.release} has {len(table)} buildings "
                f"in {state}",
                "lower it",
            )
        )

    def order(building: int) -> str:
        return hashlib.sha256(f"{data.comstock.draw}/{state}/{building}".encode()).hexdigest()

    return sorted(map(int, table["id"]), key=order)[:clients]


def _load(path: Path) -> pd.Series:
    table = _parquet(path, {"timestamp": ("timestamp",), "load": LOAD})
    if not pd.api.types.is_datetime64_dtype(table["timestamp"]):
        raise DataError(
            Problem(
                path,
                f"column 'timestamp' has type {table['timestamp'].dtype}, not naive times",
                DOWNLOAD_REMEDY,
            )
        )
    with _explain_file_errors(path):
        stamps = pd.DatetimeIndex(table["timestamp"], name="timestamp").as_unit("ns")
        load = table["load"].astype(float).set_axis(stamps)
    check_stamps(str(path), stamps, INTERVAL)
    check_load(str(path), load)
    return load


def _weather(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    """Columns of a weather file, named by feature and indexed by the ends of the hours."""
    with _explain_file_errors(path):
        columns_in_file = pd.read_csv(path, nrows=0).columns
        names = [
            _present(path, [name], columns_in_file) for name in ("date_time", *columns.values())
        ]
        table = pd.read_csv(path, usecols=names)
        stamps = pd.DatetimeIndex(pd.to_datetime(table["date_time"])).as_unit("ns")
        table = table[list(columns.values())].set_axis(stamps).astype(float)
    for column in table:
        check_finite(str(path), table[column])
    return table.set_axis(list(columns), axis=1)


def _check_hours(place: str, hours: pd.DatetimeIndex, stamps: pd.DatetimeIndex) -> None:
    """Refuse hours that differ from those of `stamps`. `join` checks their number."""
    full = stamps[PER_HOUR - 1 :: PER_HOUR]
    if len(hours) == len(full) and (wrong := np.asarray(hours != full)).any():
        row = int(wrong.argmax())
        raise DataError(
            Problem(
                place,
                f"row {row + 1} is for {hours[row]}, but the load has {full[row]} "
                f"({count_in_words(int(wrong.sum()), 'such row')})",
                DOWNLOAD_REMEDY,
            )
        )


def _parquet(path: Path, columns: dict[str, tuple[str, ...]]) -> pd.DataFrame:
    """Columns of a Parquet file, by new name; each is given by its possible names in the file."""
    with _explain_file_errors(path):
        columns_in_file = pq.read_schema(path).names
        ours = {_present(path, names, columns_in_file): name for name, names in columns.items()}
        table = pq.read_table(path, columns=list(ours), partitioning=None)
        # With `ignore_metadata` alone, pandas' metadata would still be parsed.
        return pd.DataFrame(table.replace_schema_metadata().to_pandas()).rename(columns=ours)


def _present(path: Path, names: Sequence[str], columns_in_file: Collection[str]) -> str:
    """The first of `names` that is among `columns_in_file`."""
    for name in names:
        if name in columns_in_file:
            return name
    raise DataError(
        Problem(
            path,
            f"has no column {' or '.join(map(repr, names))}",
            "check data.comstock.release (features other than the load can be removed from "
            f"data.features){suggest_name(names[0], columns_in_file)}",
        )
    )


@contextmanager
def _explain_file_errors(path: Path) -> Iterator[None]:
    """Turn errors in reading and converting a file into a message."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(
            Problem(path, "does not exist", "fetch it with `plfl study … --forcerun download`")
        ) from None
    except (pa.ArrowException, ValueError, TypeError, OSError) as error:
        raise DataError(Problem(path, f"cannot be read ({error})", DOWNLOAD_REMEDY)) from None
