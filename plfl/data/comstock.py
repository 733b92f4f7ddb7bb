"""From files of NREL's ComStock to the series of buildings.

A *store* is a folder that holds files of the public bucket under the same keys, see
`plfl.data.releases`: the cache that `plfl.data.download` fills, or sample data.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from plfl.data.checks import check_finite, check_load, check_stamps
from plfl.data.releases import PAPER_RELEASE, STATIC, Layout, nearest, paper_states
from plfl.errors import DataError

if TYPE_CHECKING:
    from plfl.study import Data

INTERVAL = 15
"""Minutes from one load stamp to the next. A stamp ends its interval, in EST for every state."""

PER_HOUR = 60 // INTERVAL

LOAD = ("out.electricity.total.energy_consumption", "out.electricity.total.energy_consumption..kwh")
"""Names the load column goes by, kWh per interval."""

WEATHER = {"temperature": "Dry Bulb Temperature [°C]", "wind_speed": "Wind Speed [m/s]"}
"""Columns of the weather files by feature. A row ends its hour, in local standard time."""

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
"""Standard time of each state's main zone by FIPS code, the two digits after the G of a county's
GISJOIN. Counties outside the main zone of their state are an hour out with `join: utc`."""

EST = -5

KNOWN = {
    "building type": ("in.comstock_building_type", "in.building_type"),
    "climate zone": (
        "in.as_simulated_ashrae_iecc_climate_zone_2006",
        "in.ashrae_iecc_climate_zone_2006",
        "in.climate_zone_ashrae_2006",
    ),
}
"""What else is told of buildings, and the names its column goes by; nothing is computed from it.
A climate zone is that of ASHRAE 169-2006."""


@dataclass(frozen=True)
class Building:
    """What the metadata say of a building."""

    id: int
    metadata: str
    """Key of the file that says it."""
    county: str
    """GISJOIN of the county of its weather."""
    static: dict[str, float]
    """The constant features."""
    known: dict[str, str]
    """Those of `KNOWN` that the metadata tell, such as "SmallOffice" and "5A"."""


def read(root: Path, data: "Data", state: str, ids: Sequence[int]) -> dict[str, pd.DataFrame]:
    """The series of buildings from a store, by name (the id).

    Args:
        root: folder of the store, e.g. `data.folder / "comstock"`.
        data: names the release, the upgrade, the wanted features and how weather is joined.
        state: postal abbreviation.
        ids: the buildings, in the order of the clients.

    Returns:
        Tables indexed by `timestamp` (Eastern Standard Time, ends of intervals of 15 minutes) with
        `load` (kWh per interval) and those of `data.features` that the release has: `temperature`
        (°C), `wind_speed` (m/s), `floor_area` (ft²), `wall_area` and `window_area` (m²).

    Raises:
        DataError: a building, file or column is missing, unreadable or holds impossible values.
    """
    layout = Layout.of(data)
    found = buildings(root, layout, state, ids, data.features)
    columns = {feature: WEATHER[feature] for feature in data.features if feature in WEATHER}
    hourly = {
        county: _weather(root / layout.weather(county), columns)
        for county in dict.fromkeys(building.county for building in found)
        if columns
    }
    series = {}
    for building in found:
        load = _load(root / layout.load(state, building.id))
        parts: list[pd.Series | pd.DataFrame] = [load]
        if columns:
            where = f"{root / layout.weather(building.county)} (building {building.id})"
            weather, stamps = hourly[building.county], pd.DatetimeIndex(load.index)
            if not layout.typical_year:
                _check_hours(where, pd.DatetimeIndex(weather.index), stamps)
            parts.append(join(where, weather, stamps, data.comstock.join, building.county))
        series[str(building.id)] = pd.concat(parts, axis=1).assign(**building.static)
    return series


def join(
    where: str,
    hourly: pd.DataFrame,
    stamps: pd.DatetimeIndex,
    how: Literal["position", "utc"],
    county: str,
) -> pd.DataFrame:
    """Hourly weather on the stamps of the load.

    `position` repeats each row four times and puts the rows side by side, as the paper's authors
    did. Load stamps are Eastern Standard Time and weather is local, so this is exact for NY and
    gives buildings elsewhere the weather of one hour (IL) to three hours (CA) later. With `utc`
    each interval gets the hour it lies in; the few hours that then lack at an end of the year are
    filled with the nearest.

    Args:
        where: the weather file, as the message names it.
        hourly: a row an hour, over the same local year as the load.
        stamps: ends of the load's intervals, EST.
        how: one of the two ways above.
        county: GISJOIN, from which the time zone of `hourly` follows.

    Raises:
        DataError: the two do not cover equally many hours, or the county's zone is unknown.
    """
    if len(hourly) * PER_HOUR != len(stamps):
        raise DataError(
            f"{where}: its {len(hourly)} hours do not meet the load's {len(stamps)} intervals of "
            f"{INTERVAL} minutes; both must cover the same year, delete them and download again"
        )
    row = np.arange(len(stamps)) // PER_HOUR
    if how == "utc":
        offset = UTC_OFFSET.get(county[1:3])
        if offset is None:
            raise DataError(f"{where}: no time zone is known for {county}; set join to position")
        row = np.clip(row + offset - EST, 0, len(hourly) - 1)
    return hourly.iloc[row].set_axis(stamps)


def buildings(
    root: Path, layout: Layout, state: str, ids: Sequence[int], features: Collection[str]
) -> list[Building]:
    """The buildings `ids` of a state as the metadata in the store describe them, in order.

    Raises:
        DataError: one of them is not in the state or the release, or the metadata are unusable.
    """
    if len(set(ids)) < len(ids):
        raise DataError(f"data.buildings.{state}: an id is there twice; name each building once")
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
    """Those of the buildings that the metadata under `keys` in the store know, by id.

    Raises:
        DataError: one of them is in another state, or the metadata are unusable.
    """
    found: dict[int, Building] = {}
    for key in keys:
        if missing := [i for i in ids if i not in found]:
            found |= _lookup(root, key, layout, state, missing, features)
    return found


def metadata_keys(root: Path, layout: Layout, state: str) -> list[str]:
    """Keys of the metadata of a state: where they are cut by county, of all that the store has."""
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
    """Those of the buildings that one metadata file has."""
    names = layout.names
    columns: dict[str, tuple[str, ...]] = {"id": ("bldg_id",), "county": (names.county,)}
    columns |= {feature: STATIC[feature] for feature in names.static if feature in features}
    if names.state:
        columns["state"] = (names.state,)
    path = root / key
    # Later releases let a simulated building stand for several places, in as many rows; what is
    # read here is the same in all of them.
    table = _parquet(path, columns, optional=KNOWN)
    table = table[table["id"].isin(ids)]
    if names.state:
        abroad = table[table["state"] != state]
        if len(abroad):
            raise _unknown(layout, state, dict(zip(abroad["id"], abroad["state"], strict=True)))
    for county in table["county"]:
        # It becomes part of a path.
        if not re.fullmatch("[A-Za-z0-9]+", str(county)):
            raise DataError(
                f"{path}: {county!r} is no county's GISJOIN; delete the file and download it again"
            )
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


def _unknown(layout: Layout, state: str, absent: dict[int, Any]) -> DataError:
    """The error about buildings that are not in `state`: ids, each with its state if known."""
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
            f"{path}: column 'timestamp' holds no naive times but {table['timestamp'].dtype}; "
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
    """The wanted columns of a weather file under our names, indexed by the ends of its hours."""
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
    """Refuse hours that are not those of `stamps`; their number is the concern of `join`."""
    full = stamps[PER_HOUR - 1 :: PER_HOUR]
    if len(hours) == len(full) and (wrong := np.asarray(hours != full)).any():
        at = int(wrong.argmax())
        raise DataError(
            f"{where}: row {at + 1} is of {hours[at]} where the load has {full[at]}, "
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
    """Only these columns of a Parquet file under our names, each given by the names it goes by.

    Those that are `optional` may be absent.
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
    # `ignore_metadata` alone still has pandas' metadata parsed.
    return pd.DataFrame(table.replace_schema_metadata().to_pandas()).rename(columns=ours)


def _present(path: Path, names: Sequence[str], held: Collection[str]) -> str:
    """The first of `names` that is among the columns held."""
    for name in names:
        if name in held:
            return name
    raise DataError(
        f"{path}: has no column {' or '.join(map(repr, names))}{nearest(names[0], held)}; check "
        "data.comstock.release (features other than the load can be left out of data.features)"
    )


def _absent(path: Path) -> DataError:
    return DataError(f"{path}: does not exist; fetch it with `snakemake --forcerun download`")
