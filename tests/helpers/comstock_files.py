"""Small files in the ComStock layout: two days of a few buildings, and their studies."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.config.data import Comstock, Data
from plfl.data.comstock.releases import PAPER_RELEASE, ReleaseKeys
from plfl.data.comstock.series import LOAD, WEATHER

HOURS = 48
STAMPS = pd.date_range("2018-01-01 00:15", periods=4 * HOURS, freq="15min", name="timestamp")
COUNTIES = {205362: "G3600050", 205363: "G3600050", 205364: "G3600470"}
"""Three buildings of New York and the counties of their weather."""
"""The types of buildings with even and odd ids."""


def study(folder: Path, **comstock: Any) -> Data:
    """The data section of a study of New York."""
    return Data(folder=folder, states=["NY"], clients=3, comstock=Comstock(**comstock))


def load_of(building: int) -> pd.Series:
    """A load that tells buildings and rows apart."""
    return pd.Series(building % 1000 + np.arange(len(STAMPS)) / 100, STAMPS, name="load")


def temperature_of(county: str) -> pd.Series:
    """An hourly temperature that tells counties and hours apart."""
    hours = pd.date_range("2018-01-01 01:00", periods=HOURS, freq="h", name="date_time")
    return pd.Series(int(county[1:]) / 1e5 + np.arange(HOURS) / 8, hours)


def write_load(path: Path, building: int, column: str = LOAD[0]) -> None:
    """A time series file as ComStock's: the id is the index, other columns are around."""
    path.parent.mkdir(parents=True, exist_ok=True)
    load = load_of(building)
    table = pd.DataFrame({"timestamp": STAMPS, "out.other": np.nan, column: load.to_numpy()})
    table.index = pd.Index([building] * len(table), name="bldg_id")
    table.to_parquet(path)


def write_weather(path: Path, county: str) -> None:
    """A weather file as ComStock's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temperature = temperature_of(county)
    columns = {WEATHER["temperature"]: temperature, "Relative Humidity [%]": 50.0}
    pd.DataFrame(columns | {WEATHER["wind_speed"]: temperature / 10}).to_csv(path)


def write_metadata(path: Path, columns: Mapping[str, Any], ids: Any) -> None:
    """A metadata file as ComStock's: the id is the index."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(columns, index=pd.Index(list(ids), name="bldg_id")).to_parquet(path)


def areas(ids: Any, floor: str = "in.sqft") -> dict[str, list[float]]:
    """The constant columns of the metadata of buildings."""
    ids = np.array(list(ids), dtype=float)
    return {
        floor: ids * 2,
        "out.params.ext_wall_area..m2": ids + 0.5,
        "out.params.ext_window_area..m2": ids / 2,
    }


def write_store(
    root: Path,
    release: str = PAPER_RELEASE,
    upgrade: int = 10,
    state: str = "NY",
    counties: Mapping[int, str] = COUNTIES,
) -> ReleaseKeys:
    """A whole store of buildings, given by the counties of their weather."""
    layout = ReleaseKeys(release, upgrade)
    floor = "in.sqft..ft2" if layout.is_by_county else "in.sqft"
    groups = {"*": list(counties)}
    if layout.is_by_county:
        groups = {c: [i for i in counties if counties[i] == c] for c in set(counties.values())}
    for county, ids in groups.items():
        columns: dict[str, Any] = {layout.names.county: [counties[i] for i in ids]}
        if layout.names.state:
            columns |= {layout.names.state: state, "in.sqft": areas(ids)["in.sqft"]}
        else:
            columns |= areas(ids, floor)
        write_metadata(root / layout.metadata(state, county), columns, ids)
    for building, county in counties.items():
        column = LOAD[1] if release.startswith("2025") else LOAD[0]
        write_load(root / layout.load(state, building), building, column)
        write_weather(root / layout.weather(county), county)
    return layout
