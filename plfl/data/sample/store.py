"""Writes the sample data: generated buildings in ComStock's layout.

`generate` writes the same files as in ComStock's bucket, so that `plfl.data.comstock.series` can
read them. They are neither measured nor simulated by NREL. `docs/sample-data.md` describes how they
are generated and compares them with NREL's.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from plfl.data.comstock.releases import RELEASES, Layout
from plfl.data.sample.buildings import Building, draw, simulate
from plfl.data.sample.weather import STATES, weather
from plfl.errors import DataError
from plfl.files import atomic

_MIX = (
    *("SmallOffice", "RetailStandalone", "QuickServiceRestaurant", "Warehouse", "MediumOffice"),
    *("RetailStripmall", "PrimarySchool", "FullServiceRestaurant", "SmallHotel", "Outpatient"),
    *("LargeOffice", "SecondarySchool", "Hospital", "LargeHotel"),
    *("SmallOffice", "RetailStripmall", "Warehouse", "RetailStandalone"),
    *("FullServiceRestaurant", "MediumOffice", "PrimarySchool"),
    *("SmallOffice", "RetailStripmall", "Warehouse", "RetailStandalone"),
    *("QuickServiceRestaurant", "SmallHotel", "Outpatient"),
    *("SmallOffice", "RetailStripmall", "Warehouse", "RetailStandalone"),
    *("FullServiceRestaurant", "SecondarySchool", "MediumOffice"),
    *("SmallOffice", "RetailStripmall", "Warehouse", "RetailStandalone"),
    *("QuickServiceRestaurant", "SmallOffice", "Warehouse"),
)
"""The types of a state's buildings, in order: all 14 once, then mainly common ones."""


MOST = 9_999
"""Maximum number of sample buildings per state, which the ids have room for."""


def buildings(state: str, count: int = 0) -> list[int]:
    """Ids of the first 42 sample buildings of a state, in order, or of `count` if that is more.

    The first 12 have 12 different types. After the 42nd, the types repeat in the same order. An id
    consists of 9, the state's FIPS code and a number; no building of ComStock has such an id.

    Raises:
        DataError: there are no sample data for the state.
    """
    if state not in STATES:
        raise DataError(
            f"data.states: there are no sample data for {state!r}, only for {', '.join(STATES)}"
        )
    first = 9_000_000 + 10_000 * STATES[state].fips + 1
    return list(range(first, first + min(max(count, len(_MIX)), MOST)))


def generate(
    root: Path, release: str, upgrade: int, state: str, ids: Sequence[int], seed: int
) -> list[Path]:
    """Write the files of these buildings, each atomically.

    These are the time series of each building, the metadata of all sample buildings of the state
    (ComStock's file also contains a whole state), and the weather of the buildings' counties. The
    series of a building depends only on `seed`, `state` and its id. The same arguments give the
    same bytes, and studies that differ only in `ids` share all files.

    Args:
        root: folder of the store; keys below it are ComStock's, see `plfl.data.comstock.releases`.
        release: a release that keeps its metadata by state, e.g. `2023/comstock_amy2018_release_1`.
        upgrade: number in the file names; it does not change the series.
        state: one of CA, IL, NY.
        ids: some of `buildings(state, MOST)`.
        seed: fixes every building and the weather.

    Returns:
        The paths of the files: series in the order of `ids`, metadata, weather.

    Raises:
        DataError: there are no sample data for the state, an id or the release.
    """
    known = buildings(state, MOST)
    if unknown := [i for i in ids if i not in known]:
        raise DataError(
            f"data.buildings.{state}: there is no sample building {', '.join(map(str, unknown))}; "
            f"the sample data of {state} have {known[0]} to {known[-1]}"
        )
    layout = _layout(release, upgrade)
    all_buildings = [describe(state, i, seed) for i in known]
    wanted = [all_buildings[i - known[0]] for i in ids]
    paths = [_write_series(root / layout.load(state, b.bldg_id), b, seed) for b in wanted]
    paths.append(_write_metadata(root / layout.metadata(state), all_buildings, upgrade))
    counties = dict.fromkeys(b.county.gisjoin for b in wanted)
    paths += [_write_weather(root / layout.weather(c), state, c, seed) for c in counties]
    return paths


def describe(state: str, bldg_id: int, seed: int) -> Building:
    """The sample building of this id (see `buildings`), as the metadata describe it."""
    return draw(state, bldg_id, _MIX[(bldg_id - buildings(state)[0]) % len(_MIX)], seed)


def _layout(release: str, upgrade: int) -> Layout:
    by_state = [
        name for name in RELEASES if not Layout(name, 0).by_county and RELEASES[name].state is None
    ]
    if release not in by_state:
        raise DataError(
            f"data.comstock.release: the sample data cannot take the layout of {release!r}; "
            f"allowed: {', '.join(by_state)}"
        )
    return Layout(release, upgrade)


def _write_series(path: Path, building: Building, seed: int) -> Path:
    uses = simulate(building, seed)
    table = uses.add_prefix("out.electricity.").add_suffix(".energy_consumption")
    table["out.electricity.total.energy_consumption"] = uses.sum(axis=1).round(4)
    table.insert(0, "timestamp", uses.index)
    table.index = pd.Index([building.bldg_id] * len(uses), name="bldg_id", dtype="int64")
    return _write_parquet(path, table)


def _write_metadata(path: Path, buildings: Sequence[Building], upgrade: int) -> Path:
    rows = [
        {
            "bldg_id": building.bldg_id,
            "upgrade": upgrade,
            "in.upgrade_name": "sample data generated by plfl",
            "in.state": building.state,
            "in.nhgis_county_gisjoin": building.county.gisjoin,
            "in.ashrae_iecc_climate_zone_2006": building.county.zone,
            "in.comstock_building_type": building.kind,
            "in.sqft": float(building.sqft),
            "in.number_stories": building.stories,
            "in.heating_fuel": "NaturalGas" if building.heating == "gas" else "Electricity",
            "out.params.ext_wall_area..m2": building.wall_area,
            "out.params.ext_window_area..m2": building.window_area,
        }
        for building in buildings
    ]
    return _write_parquet(path, pd.DataFrame(rows).set_index("bldg_id"))


def _write_parquet(path: Path, table: pd.DataFrame) -> Path:
    with atomic(path) as temporary:
        table.to_parquet(temporary, engine="pyarrow", compression="snappy", index=True)
    return path


def _write_weather(path: Path, state: str, county: str, seed: int) -> Path:
    year = weather(state, county, seed).loc["2018-01-01 01:00":"2019-01-01 00:00"]
    with atomic(path) as temporary:
        year.to_csv(temporary, date_format="%Y-%m-%d %H:%M:%S", lineterminator="\n")
    return path
