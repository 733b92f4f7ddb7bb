"""Published rows through the code that a user's data goes through.

The authors' own array for New York client 0 is rebuilt from files in the bucket's layout that hold
its load, weather and areas; three dwellings that NREL simulated are joined with their counties'
measured weather.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.config.features import FEATURES
from plfl.config.sections import Comstock, Data
from plfl.data.comstock.releases import PAPER_RELEASE, STATIC, Layout, paper_buildings
from plfl.data.comstock.series import LOAD, WEATHER
from plfl.data.comstock.series import read as read_store
from plfl.data.features import assemble
from tests.helpers.comstock_files import write_metadata

GOLDEN = "authors_ny_client0/ny_client0_bldg205362_first200.csv"
COUNTY = "G3600050"
"""Of building 205362: Bronx."""
AREAS = {
    "floor_area": "sqft_ft2",
    "wall_area": "ext_wall_area_m2",
    "window_area": "ext_window_area_m2",
}

DWELLINGS = {100066: "G0101270", 100140: "G0100310", 100171: "G0100890"}
"""The dwellings and the county whose weather explains each one's heating best."""


def tables(folder: Path, state: str, ids: list[int], **comstock: object) -> dict[str, pd.DataFrame]:
    """The clients' tables of a study with the paper's features."""
    data = Data(folder=folder, states=[state], comstock=Comstock.model_validate(comstock))
    series = read_store(folder, data, state, ids)
    return {name: assemble(table, data.features) for name, table in series.items()}


# -- the authors' array --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def golden(reference_data: Path) -> pd.DataFrame:
    """The first 200 rows of the authors' array, in 50 hours."""
    return pd.read_csv(reference_data / GOLDEN, index_col="i")


@pytest.fixture
def authors_store(tmp_path: Path, golden: pd.DataFrame) -> Path:
    """Files as the authors downloaded them, as far as the 200 rows tell what was in them."""
    layout = Layout(PAPER_RELEASE, 10)
    building = paper_buildings("NY")[0]
    areas = {STATIC[feature][0]: golden[name].iloc[:1].tolist() for feature, name in AREAS.items()}
    county = {"in.nhgis_county_gisjoin": [COUNTY]}
    write_metadata(tmp_path / layout.metadata("NY"), county | areas, [building])

    stamps = pd.date_range("2018-01-01 00:15", periods=200, freq="15min")
    series = pd.DataFrame({"timestamp": stamps, LOAD[0]: golden["load_kwh"].to_numpy()})
    series.index = pd.Index([building] * 200, name="bldg_id")
    path = tmp_path / layout.load("NY", building)
    path.parent.mkdir(parents=True)
    series.to_parquet(path)

    ends = pd.date_range("2018-01-01 01:00", periods=50, freq="h", name="date_time")
    columns = {WEATHER["temperature"]: golden["temp_c"], WEATHER["wind_speed"]: golden["wind_ms"]}
    hourly = {name: column.to_numpy()[::4] for name, column in columns.items()}
    path = tmp_path / layout.weather(COUNTY)
    path.parent.mkdir(parents=True)
    pd.DataFrame(hourly, ends).to_csv(path)
    return tmp_path


@pytest.mark.parametrize("join", ["position", "utc"])
def test_the_authors_rows_come_out(authors_store: Path, golden: pd.DataFrame, join: str) -> None:
    """All 200 rows of 8 features, to the bit; in New York the two joins are one."""
    table = tables(authors_store, "NY", [205362], join=join)["205362"]
    assert list(table) == list(FEATURES)
    assert set(table.dtypes) == {np.dtype(float)}
    assert table.index[0] == pd.Timestamp("2018-01-01 00:15")
    np.testing.assert_array_equal(table.to_numpy(), golden.to_numpy())


# -- three simulated dwellings -------------------------------------------------------------------


@pytest.fixture(scope="module")
def nrel_store(tmp_path_factory: pytest.TempPathFactory, reference_data: Path) -> Path:
    """The dwellings' files and their counties' weather, in the layout of the bucket."""
    folder, files = tmp_path_factory.mktemp("nrel"), reference_data / "resstock_al"
    layout = Layout(PAPER_RELEASE, 0)
    areas = {names[0]: [10.0, 20.0, 30.0] for names in STATIC.values()}
    columns = {"in.nhgis_county_gisjoin": list(DWELLINGS.values()), **areas}
    write_metadata(folder / layout.metadata("AL"), columns, DWELLINGS)
    links = {layout.load("AL", building): f"{building}-0.parquet" for building in DWELLINGS}
    links |= {layout.weather(county): f"{county}_2018.csv" for county in DWELLINGS.values()}
    for key, name in links.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).symlink_to(files / name)
    return folder


@pytest.mark.parametrize("join", ["position", "utc"])
def test_simulated_dwellings_meet_their_weather(
    nrel_store: Path, reference_data: Path, join: str
) -> None:
    files = reference_data / "resstock_al"
    dwellings = tables(nrel_store, "AL", list(DWELLINGS), upgrade=0, join=join)
    for building, county in DWELLINGS.items():
        table = dwellings[str(building)]
        series = pd.read_parquet(files / f"{building}-0.parquet")
        weather = pd.read_csv(files / f"{county}_2018.csv", index_col="date_time", parse_dates=True)
        assert list(table) == list(FEATURES)
        assert table.shape == (35_040, 8)
        np.testing.assert_array_equal(table.index, series["timestamp"])
        np.testing.assert_array_equal(table["load"], series[LOAD[0]])
        assert table[["time_index", "weekday"]].iloc[0].tolist() == [1, 0]
        assert table[["time_index", "weekday"]].iloc[-1].tolist() == [0, 1]

        # The hour an interval lies in, by the clock of the weather: Alabama's is an hour behind.
        stamps = pd.DatetimeIndex(table.index)
        hour = stamps.ceil("h") - pd.Timedelta(hours=1 if join == "utc" else 0)
        known = hour >= weather.index[0]
        assert (~known).sum() == (4 if join == "utc" else 0)
        for feature, column in WEATHER.items():
            got = table[feature].to_numpy()
            np.testing.assert_array_equal(got[known], weather.loc[hour[known], column])
            assert (got[~known] == weather[column].iloc[0]).all()
