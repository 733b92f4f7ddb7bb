"""Reading a store: every release, both ways of joining the weather, and files that are bad."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plfl.base.errors import DataError
from plfl.data.comstock import series as comstock
from plfl.data.comstock.releases import PAPER_RELEASE, RELEASES
from plfl.data.comstock.series import LOAD, UTC_OFFSET, WEATHER, join
from tests.helpers.comstock_files import (
    COUNTIES,
    HOURS,
    STAMPS,
    load_of,
    study,
    temperature_of,
    write_store,
)
from tests.helpers.refusals import naming

IDS = list(COUNTIES)
COLUMNS = ["load", "temperature", "wind_speed", "floor_area", "wall_area", "window_area"]
LACKING = {
    "2021/comstock_amy2018_release_1": ("wall_area", "window_area"),
    "2021/comstock_tmy3_release_1": ("wall_area", "window_area"),
}
"""Features that the metadata of a release lack."""


def read(folder: Path, ids: list[int] = IDS, **keys: Any) -> dict[str, pd.DataFrame]:
    """The series of buildings of New York from a store."""
    return dict(comstock.read(folder, study(folder, **keys), "NY", ids))


# -- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_gives_the_same_series(tmp_path: Path, release: str) -> None:
    upgrade = 0 if release.startswith("2021") else 10
    write_store(tmp_path, release, upgrade)
    tables = read(tmp_path, IDS[::-1], release=release, upgrade=upgrade)
    assert list(tables) == [str(building) for building in IDS[::-1]]
    for building, county in COUNTIES.items():
        table = tables[str(building)]
        assert list(table) == [c for c in COLUMNS if c not in LACKING.get(release, ())]
        assert table.index.name == "timestamp"
        assert table.index.equals(STAMPS)
        np.testing.assert_array_equal(table["load"], load_of(building))
        hourly = temperature_of(county).to_numpy()
        np.testing.assert_allclose(table["temperature"], np.repeat(hourly, 4), rtol=1e-15)
        np.testing.assert_allclose(table["wind_speed"], np.repeat(hourly, 4) / 10, rtol=1e-15)
        assert (table["floor_area"] == building * 2).all()
        if "window_area" in table:
            assert (table["wall_area"] == building + 0.5).all()
            assert (table["window_area"] == building / 2).all()
        assert set(table.dtypes) == {np.dtype(float)}


def test_a_typical_year_may_be_of_other_years(tmp_path: Path) -> None:
    release = "2021/comstock_tmy3_release_1"
    layout = write_store(tmp_path, release, 0)
    path = tmp_path / layout.weather(COUNTIES[IDS[0]])
    path.write_text(path.read_text(encoding="utf-8").replace("2018-01-01", "1993-01-01"), "utf-8")
    assert len(read(tmp_path, release=release, upgrade=0)) == len(IDS)


def test_a_building_that_stands_for_several_places_is_read_once(tmp_path: Path) -> None:
    layout = write_store(tmp_path)
    change(tmp_path / layout.metadata("NY"), lambda table: pd.concat([table, table]))
    assert list(read(tmp_path)) == [str(building) for building in IDS]


def test_metadata_by_county_are_looked_through(tmp_path: Path) -> None:
    layout = write_store(tmp_path, release := "2024/comstock_amy2018_release_2", 0)
    found = comstock.buildings(tmp_path, layout, "NY", IDS, ["floor_area"])
    assert {b.id: b.metadata for b in found} == {
        building: layout.metadata("NY", county) for building, county in COUNTIES.items()
    }
    assert found[0].static == {"floor_area": 2.0 * IDS[0]}
    (tmp_path / found[2].metadata).unlink()
    with naming(DataError, IDS[2]):
        read(tmp_path, release=release, upgrade=0)


# -- joining the weather -------------------------------------------------------------------------


def joined(how: Literal["position", "utc"], fips: str, hours: int = HOURS) -> pd.Series:
    """For each load stamp the end of the hour of local weather that it got."""
    stamps = pd.date_range("2018-01-01 00:15", periods=4 * hours, freq="15min")
    ends = pd.date_range("2018-01-01 01:00", periods=hours, freq="h")
    hourly = pd.DataFrame({"end": ends}, ends)
    return join("w.csv", hourly, stamps, how, f"G{fips}00010")["end"]


@given(fips=st.sampled_from(sorted(UTC_OFFSET)), hours=st.integers(12, 40))
def test_by_true_time_each_interval_gets_the_hour_it_lies_in(fips: str, hours: int) -> None:
    weather = joined("utc", fips, hours)
    local = (
        pd.DatetimeIndex(weather.index)
        .tz_localize("Etc/GMT+5")
        .tz_convert(f"Etc/GMT{-UTC_OFFSET[fips]:+d}")
    )
    true = pd.Series(local.tz_localize(None).ceil("h"), weather.index)
    known = true >= pd.Timestamp("2018-01-01 01:00")
    assert known.sum() == 4 * (hours + UTC_OFFSET[fips] + 5)
    np.testing.assert_array_equal(weather[known], true[known])
    assert (weather[~known] == pd.Timestamp("2018-01-01 01:00")).all()


def test_offsets_are_those_of_the_zones() -> None:
    zones = {"06": "Los_Angeles", "17": "Chicago", "36": "New_York", "08": "Denver"}
    for fips, zone in zones.items():
        noon = pd.Timestamp("2018-01-01 12:00", tz=f"America/{zone}")
        assert noon.utcoffset() == pd.Timedelta(hours=UTC_OFFSET[fips])


def test_a_county_without_a_zone_is_joined_by_position_only() -> None:
    assert len(joined("position", "72")) == 4 * HOURS
    with naming(DataError, "G7200010", "data.comstock.join"):
        joined("utc", "72")


# -- bad input -----------------------------------------------------------------------------------


def change(path: Path, edit: "Change") -> None:
    """Rewrite a Parquet file."""
    edit(pd.read_parquet(path)).to_parquet(path)


Change = Callable[[pd.DataFrame], pd.DataFrame]
SERIES: list[tuple[tuple[str, ...], Change]] = [
    ((LOAD[0], LOAD[1]), lambda t: t.drop(columns=LOAD[0])),
    (
        ("'timestamp'", "did you mean 'timestmp'", "data.comstock.release"),
        lambda t: t.rename(columns={"timestamp": "timestmp"}),
    ),
    # What else a load or stamps may be, tests/data/test_checks.py says.
    (
        ("'load'", "1 value missing", "2018-01-01 01:30:00"),
        lambda t: t.assign(**{LOAD[0]: t[LOAD[0]].where(np.arange(len(t)) != 5)}),
    ),
    (("1 such step", "2018-01-01 01:30:00"), lambda t: t.iloc[[*range(6), *range(5, 192)]]),
    (
        ("'timestamp'", "datetime64[us, UTC]"),
        lambda t: t.assign(timestamp=t["timestamp"].dt.tz_localize("UTC").dt.as_unit("us")),
    ),
]
METADATA: list[tuple[tuple[str, ...], Change]] = [
    (("'in.nhgis_county_gisjoin'",), lambda t: t.drop(columns="in.nhgis_county_gisjoin")),
    (("'in.sqft' or 'in.sqft..ft2'",), lambda t: t.drop(columns="in.sqft")),
    (
        ("'floor_area'", "1 value missing", "205363"),
        lambda t: t.assign(**{"in.sqft": [1.0, np.nan, 3.0]}),
    ),
    (("could not convert string to float: 'wide'",), lambda t: t.assign(**{"in.sqft": "wide"})),
    (
        ("'bldg_id' has no whole numbers",),
        lambda t: t.set_axis(pd.Index(map(str, t.index), name="bldg_id")),
    ),
]
"""What a message names, of a file that was changed."""


@pytest.mark.parametrize(
    ("kind", "names", "edit"),
    [("load", *one) for one in SERIES] + [("metadata", *one) for one in METADATA],
    ids=lambda of: None if callable(of) else str(of),
)
def test_bad_tables_are_refused(tmp_path, kind, names, edit):
    layout = write_store(tmp_path)
    path = tmp_path / (layout.load("NY", IDS[1]) if kind == "load" else layout.metadata("NY"))
    change(path, edit)
    with naming(DataError, path, *names):
        read(tmp_path)


COUNTY = COUNTIES[IDS[0]]
AT_SEVEN = "(?<=01-01 07:00:00,)[^,]+"
WEATHER_FILES = {
    f"has no column '{WEATHER['temperature']}'; check data.comstock.release (features other than "
    "the load can be removed from data.features); did you mean 'Dry Bulb": (r"\[°C\]", "[F]"),
    "has no column 'date_time'": (r"\A.+\Z", "<!DOCTYPE html>\n<html>Log in first</html>\n"),
    "cannot be read (could not convert string to float: 'cold'": (AT_SEVEN, "cold"),
    f"column '{WEATHER['temperature']}': 1 value missing (NaN), first at 2018": (AT_SEVEN, ""),
    "(building 205362): row 1 is for 2012-01-01 01:00:00, but the load has 2018-01-01 01:00:00 "
    "(48 such rows); delete the file": ("2018-", "2012-"),
    "(building 205362): row 7 is for 2018-01-01 09:00:00": ("01-01 07:00:00", "01-01 09:00:00"),
    "its 47 hours do not match the load's 192 intervals": (r"2018-[^\n]+\n\Z", ""),
}
"""What is said of a weather file in which a pattern was replaced."""


@pytest.mark.parametrize("message", WEATHER_FILES)
def test_wrong_weather_is_refused(tmp_path: Path, message: str) -> None:
    path = tmp_path / write_store(tmp_path).weather(COUNTY)
    pattern, new = WEATHER_FILES[message]
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(pattern, new, text, flags=re.DOTALL), encoding="utf-8")
    with naming(DataError, path, message):
        read(tmp_path)


def test_files_that_are_not_there_or_not_parquet(tmp_path: Path) -> None:
    layout = write_store(tmp_path)
    series = tmp_path / layout.load("NY", IDS[0])
    whole = series.read_bytes()
    for content in (whole[:-100], b"PAR1" + whole[:500], b"<html></html>", b""):
        series.write_bytes(content)
        with naming(DataError, "-10.parquet"):
            read(tmp_path)
    series.unlink()
    with naming(DataError, "-10.parquet", "--forcerun"):
        read(tmp_path)
    series.write_bytes(whole)
    (tmp_path / layout.weather(COUNTY)).unlink()
    with naming(DataError, "_2018.csv", "--forcerun"):
        read(tmp_path)


def test_an_unknown_building_is_named_with_state_release_and_remedy(tmp_path: Path) -> None:
    write_store(tmp_path)
    for unknown in (7, -1, 10**30):
        told = (f"{PAPER_RELEASE}, upgrade 10: ", f"building {unknown} in NY", "data.buildings.NY")
        with naming(DataError, *told, "data.comstock"):
            read(tmp_path, [*IDS, unknown])
    release = "2021/comstock_amy2018_release_1"
    layout = write_store(tmp_path, release, 0)
    change(tmp_path / layout.metadata("NY"), lambda t: t.assign(**{"in.state_abbreviation": "VT"}))
    with naming(DataError, f"building {IDS[0]} in NY"):
        read(tmp_path, IDS[:1], release=release, upgrade=0)
