"""From the files of NREL's ComStock to the series of buildings.

A *store* is a folder with files under the same keys as in the public bucket, see
`plfl.data.comstock.releases`. It is the cache of `plfl.data.comstock.download`, or sample data.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from plfl.base.errors import DataError, did_you_mean
from plfl.config.sections import Data
from plfl.data.checks import check_finite, check_load, check_stamps
from plfl.data.comstock.releases import PAPER_RELEASE, STATIC, Layout, paper_states
from plfl.data.examples import Tables

INTERVAL = 15
"""Minutes between load timestamps. They mark the end of the interval, in EST for every state."""

PER_HOUR = 60 // INTERVAL

LOAD = ("out.electricity.total.energy_consumption", "out.electricity.total.energy_consumption..kwh")
"""Possible names of the load column, in kWh per interval."""

WEATHER = {"temperature": "Dry Bulb Temperature [°C]", "wind_speed": "Wind Speed [m/s]"}
"""Columns of the weather files, by feature. Timestamps mark the end of the hour, in local standard
time."""

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

KNOWN = {
    "building type": ("in.comstock_building_type", "in.building_type"),
    "climate zone": (
        "in.as_simulated_ashrae_iecc_climate_zone_2006",
        "in.ashrae_iecc_climate_zone_2006",
        "in.climate_zone_ashrae_2006",
    ),
}
"""Further information about buildings, and the possible names of its columns. It is only shown.
Climate zones are those of ASHRAE 169-2006."""


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
    known: dict[str, str]
    """The entries of `KNOWN` in the metadata, such as "SmallOffice" and "5A"."""


def read(root: Path, data: Data, state: str, ids: Sequence[int]) -> Tables:
    """The series of buildings from a store in the folder `root`, by name (the id).

    Returns:
        Tables indexed by `timestamp` (Eastern Standard Time, ends of intervals of 15 minutes) with
        `load` (kWh per interval) and those of `data.features` that the release has: `temperature`
        (°C), `wind_speed` (m/s), `floor_area` (ft²), `wall_area` and `window_area` (m²).

    Raises:
        DataError: a building, file or column is missing or unreadable, or has invalid values.
    """
    layout = Layout.of(data)
    known = buildings(root, layout, state, ids, data.features)
    columns = {feature: WEATHER[feature] for feature in data.features if feature in WEATHER}
    hourly = {
        county: _weather(root / layout.weather(county), columns)
        for county in dict.fromkeys(building.county for building in known)
        if columns
    }
    by_name = {str(building.id): building for building in known}

    def table(name: str) -> pd.DataFrame:
        building = by_name[name]
        load = _load(root / layout.load(state, building.id))
        parts: list[pd.Series | pd.DataFrame] = [load]
        if columns:
            where = f"{root / layout.weather(building.county)} (building {building.id})"
            weather, stamps = hourly[building.county], pd.DatetimeIndex(load.index)
            if not layout.typical_year:
                _check_hours(where, pd.DatetimeIndex(weather.index), stamps)
            parts.append(join(where, weather, stamps, data.comstock.join, building.county))
        return pd.concat(parts, axis=1).assign(**building.static)

    return Tables(by_name, table)


def join(
    where: str,
    hourly: pd.DataFrame,
    stamps: pd.DatetimeIndex,
    how: Literal["position", "utc"],
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
            f"{where}: its {len(hourly)} hours do not match the load's {len(stamps)} intervals of "
            f"{INTERVAL} minutes; both must cover the same year, delete them and download again"
        )
    row = np.arange(len(stamps)) // PER_HOUR
    if how == "utc":
        offset = UTC_OFFSET.get(county[1:3])
        if offset is None:
            raise DataError(
                f"{where}: the time zone of {county} is unknown; set data.comstock.join to position"
            )
        row = np.clip(row + offset - EST, 0, len(hourly) - 1)
    return hourly.iloc[row].set_axis(stamps)


def buildings(
    root: Path, layout: Layout, state: str, ids: Sequence[int], features: Collection[str]
) -> list[Building]:
    """The facts in the store's metadata about the buildings `ids` of a state, in order.

    Raises:
        DataError: one of them is not in the state or the release, or the metadata are unusable.
    """
    if len(set(ids)) < len(ids):
        raise DataError(f"data.buildings.{state}: duplicate id; list each building once")
    found = find(root, layout, state, metadata_keys(root, layout, state), ids, features)
    if absent := {i: None for i in ids if i not in found}:
        raise _unknown(layout, state, absent)
    return [found[i] for i in ids]


def find(
    root: Path,
    layout: Layout,
    state: str,
    keys: Iterable[str],
    ids: Iterable[int],
    features: Collection[str] = (),
) -> dict[int, Building]:
    """The buildings that are in the metadata files `keys` of the store, by id.

    Raises:
        DataError: one of them is in another state, or the metadata are unusable.
    """
    found: dict[int, Building] = {}
    for key in keys:
        if missing := [i for i in ids if i not in found]:
            found |= _lookup(root, key, layout, state, missing, features)
    return found


def metadata_keys(root: Path, layout: Layout, state: str) -> list[str]:
    """Keys of the metadata of a state; with one file per county, of those in the store."""
    pattern = layout.metadata(state)
    if not layout.by_county:
        return [pattern]
    return sorted(path.relative_to(root).as_posix() for path in root.glob(pattern))


def _lookup(
    root: Path,
    key: str,
    layout: Layout,
    state: str,
    ids: Sequence[int],
    features: Collection[str],
) -> dict[int, Building]:
    """The buildings that are in one metadata file."""
    names = layout.names
    columns: dict[str, tuple[str, ...]] = {"id": ("bldg_id",), "county": (names.county,)}
    columns |= {feature: STATIC[feature] for feature in names.static if feature in features}
    if names.state:
        columns["state"] = (names.state,)
    path = root / key
    # In later releases a simulated building has one row for each place that it represents. The
    # columns that are read here are equal in all these rows.
    table = _parquet(path, columns, optional=KNOWN)
    table = table[table["id"].isin(ids)]
    _check_places(path, table, layout, state)
    areas = table.set_index("id")[[name for name in STATIC if name in table]]
    static = _numbers(f"{path} (by building)", areas)
    for feature in static:
        check_finite(f"{path} (by building)", static[feature])
    known = table[[name for name in KNOWN if name in table]].astype("string")
    return {
        int(i): Building(
            id=int(i),
            metadata=key,
            county=str(county),
            static={str(name): float(value) for name, value in constants.items()},
            known={str(name): str(word) for name, word in words.items() if pd.notna(word)},
        )
        for i, county, constants, words in zip(
            table["id"],
            table["county"],
            static.to_dict("records"),
            known.to_dict("records"),
            strict=True,
        )
    }


def _check_places(path: Path, table: pd.DataFrame, layout: Layout, state: str) -> None:
    """Check that buildings are in the state, and that their counties can be part of a path."""
    if "state" in table:
        abroad = table[table["state"] != state]
        if len(abroad):
            raise _unknown(layout, state, dict(zip(abroad["id"], abroad["state"], strict=True)))
    for county in table["county"]:
        # It becomes part of a path.
        if not re.fullmatch("[A-Za-z0-9]+", str(county)):
            raise DataError(
                f"{path}: {county!r} is not the GISJOIN of a county; delete the file and "
                "download it again"
            )


def _unknown(layout: Layout, state: str, absent: dict[int, Any]) -> DataError:
    """The error for buildings that are not in `state`; `absent` has their states if known."""
    paper = paper_states() if layout.release == PAPER_RELEASE else {}
    told = {i: elsewhere or paper.get(i) for i, elsewhere in absent.items()}
    named = ", ".join(
        f"{i} (it is in {where})" if where not in (None, state) else str(i)
        for i, where in told.items()
    )
    return DataError(
        f"{layout.release}, upgrade {layout.upgrade}: there is no building {named} in {state}. Ids "
        "belong to one state and are renumbered in every release (the paper's hold for "
        f"{PAPER_RELEASE}); check data.buildings.{state} and data.comstock"
    )


def _load(path: Path) -> pd.Series:
    table = _parquet(path, {"timestamp": ("timestamp",), "load": LOAD})
    if not pd.api.types.is_datetime64_dtype(table["timestamp"]):
        raise DataError(
            f"{path}: column 'timestamp' has type {table['timestamp'].dtype}, not naive times; "
            "delete the file and download it again"
        )
    try:
        stamps = pd.DatetimeIndex(table["timestamp"], name="timestamp").as_unit("ns")
    except pd.errors.OutOfBoundsDatetime as error:
        raise DataError(f"{path}: {error}; delete the file and download it again") from None
    check_stamps(str(path), stamps, INTERVAL)
    load = _numbers(str(path), table[["load"]])["load"].set_axis(stamps)
    check_load(str(path), load)
    return load


def _weather(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    """Columns of a weather file, named by feature and indexed by the ends of the hours."""
    try:
        held = pd.read_csv(path, nrows=0).columns
        wanted = [_present(path, [name], held) for name in ("date_time", *columns.values())]
        table = pd.read_csv(path, usecols=wanted)
        stamps = pd.DatetimeIndex(pd.to_datetime(table["date_time"])).as_unit("ns")
        table = table[list(columns.values())].set_axis(stamps).astype(float)
    except FileNotFoundError:
        raise _absent(path) from None
    except (ValueError, OSError) as error:  # ValueError: the parser, a number, a date or UTF-8
        raise DataError(
            f"{path}: cannot be read as weather ({error}); delete it and download it again"
        ) from None
    for column in table:
        check_finite(str(path), table[column])
    return table.set_axis(list(columns), axis=1)


def _check_hours(where: str, hours: pd.DatetimeIndex, stamps: pd.DatetimeIndex) -> None:
    """Refuse hours that differ from those of `stamps`. `join` checks their number."""
    full = stamps[PER_HOUR - 1 :: PER_HOUR]
    if len(hours) == len(full) and (wrong := np.asarray(hours != full)).any():
        at = int(wrong.argmax())
        raise DataError(
            f"{where}: row {at + 1} is for {hours[at]}, but the load has {full[at]}; "
            f"{int(wrong.sum())} such rows; delete the file and download it again"
        )


def _numbers(where: str, table: pd.DataFrame) -> pd.DataFrame:
    """The columns of `table` as float64."""
    try:
        return table.astype(float)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{where}: {', '.join(map(str, table))}: not a number ({error}); delete the file and "
            "download it again"
        ) from None


def _parquet(
    path: Path,
    columns: dict[str, tuple[str, ...]],
    optional: Mapping[str, tuple[str, ...]] | None = None,
) -> pd.DataFrame:
    """Columns of a Parquet file, by new name; each is given by its possible names in the file.

    `optional` columns can be missing.
    """
    try:
        held = pq.read_schema(path).names
        ours = {_present(path, names, held): name for name, names in columns.items()}
        for name, names in (optional or {}).items():
            ours |= dict.fromkeys([n for n in names if n in held][:1], name)
        table = pq.read_table(path, columns=list(ours), partitioning=None)
    except FileNotFoundError:
        raise _absent(path) from None
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path}: cannot be read as Parquet ({error}); delete it and download it again"
        ) from None
    # With `ignore_metadata` alone, pandas' metadata would still be parsed.
    return pd.DataFrame(table.replace_schema_metadata().to_pandas()).rename(columns=ours)


def _present(path: Path, names: Sequence[str], held: Collection[str]) -> str:
    """The first of `names` that is among the columns `held` by the file."""
    for name in names:
        if name in held:
            return name
    raise DataError(
        f"{path}: has no column {' or '.join(map(repr, names))}{did_you_mean(names[0], held)}; "
        "check data.comstock.release (features other than the load can be removed from "
        "data.features)"
    )


def _absent(path: Path) -> DataError:
    return DataError(f"{path}: does not exist; fetch it with `plfl study … --forcerun download`")
