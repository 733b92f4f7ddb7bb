"""The authors' own array for New York client 0, rebuilt from files in the bucket's layout.

It needs the array: `PLFL_REFERENCE_DATA` names a folder with `authors_ny_client0/`.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.config.data import Comstock, Data
from plfl.config.named import FEATURE_UNITS
from plfl.data.comstock.releases import PAPER_RELEASE, STATIC, ReleaseKeys, paper_buildings
from plfl.data.comstock.series import LOAD, WEATHER, read
from plfl.data.features import assemble
from tests.helpers.comstock_files import write_metadata

FILE = Path(os.environ.get("PLFL_REFERENCE_DATA", "none"), "authors_ny_client0")
COUNTY = "G3600050"
"""Of building 205362: Bronx."""
AREAS = {
    "floor_area": "sqft_ft2",
    "wall_area": "ext_wall_area_m2",
    "window_area": "ext_window_area_m2",
}

pytestmark = pytest.mark.skipif(not FILE.is_dir(), reason="PLFL_REFERENCE_DATA names no array")


@pytest.fixture(scope="module")
def golden() -> pd.DataFrame:
    """The first 200 rows of the authors' array, in 50 hours."""
    return pd.read_csv(FILE / "ny_client0_bldg205362_first200.csv", index_col="i")


@pytest.fixture
def authors_store(tmp_path: Path, golden: pd.DataFrame) -> Path:
    """Files as the authors downloaded them, as far as the 200 rows tell what was in them."""
    layout = ReleaseKeys(PAPER_RELEASE, 10)
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
    data = Data(
        folder=authors_store, states=["NY"], comstock=Comstock.model_validate({"join": join})
    )
    table = assemble(read(authors_store, data, "NY", [205362])["205362"], data.features)
    assert list(table) == list(FEATURE_UNITS)
    assert set(table.dtypes) == {np.dtype(float)}
    assert table.index[0] == pd.Timestamp("2018-01-01 00:15")
    np.testing.assert_array_equal(table.to_numpy(), golden.to_numpy())
