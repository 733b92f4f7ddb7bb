"""Published files, read and compared as they are; `conftest.reference_data` says where they lie."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.sample_data import (
    NREL_YEARS,
    nrel_week,
    nrel_year,
    sample_year,
    statistics,
    week,
)
from plfl.base.errors import DataError
from plfl.config.sections import Data
from plfl.data import meters
from plfl.data.comstock import series as comstock
from plfl.data.comstock.releases import paper_buildings
from plfl.data.comstock.series import LOAD
from plfl.data.sample.places import buildings
from tests.data import test_sample as guide
from tests.data.test_guides import studies
from tests.helpers.comstock_files import study, write_store


def test_a_building_of_comstock(tmp_path: Path, reference_data: Path) -> None:
    original = reference_data / "comstock_ga" / "98542-10.parquet"
    counties = {98542: "G1301210"}
    release = "2024/comstock_amy2018_release_1"
    layout = write_store(tmp_path, release, 10, "GA", counties)
    path = tmp_path / layout.load("GA", 98542)
    path.unlink()
    path.symlink_to(original)
    data = study(tmp_path, release=release).model_copy(update={"features": ["load", "wall_area"]})
    table = comstock.read(tmp_path, data, "GA", [98542])["98542"]
    file = pd.read_parquet(original)
    np.testing.assert_array_equal(table["load"], file[LOAD[0]])
    np.testing.assert_array_equal(table.index, file["timestamp"])
    assert (table["wall_area"] == 98542.5).all()


def test_the_papers_buildings_are_the_authors(reference_data: Path) -> None:
    authors = pd.read_csv(reference_data / "paper_buildings.csv")
    for state, table in authors.groupby("state"):
        table = table.sort_values("order")
        assert paper_buildings(str(state)) == table["bldg_id"].tolist()
        clients = table.loc[table["paper_client"], "bldg_id"].tolist()
        assert paper_buildings(str(state))[:12] == clients


def test_ten_simulated_buildings(reference_data: Path, caplog: pytest.LogCaptureFixture) -> None:
    """NREL's End-Use Load Profiles, simulated: a year, naive EST stamps at the end of intervals."""
    folder = reference_data / "eulp_buildings"
    load = "out.electricity.total.energy_consumption"
    files = {path.stem: path for path in sorted(folder.glob("*.parquet"))}
    columns = {"timestamp": "timestamp", "load": load}
    data = Data.model_validate(
        {
            "source": "meters",
            "states": ["A"],
            "clients": len(files),
            "meters": {"folder": folder, "columns": columns, "timezone": "Etc/GMT+5"},
        }
    )
    tables = meters.read(data, "A")
    assert list(tables) == list(files)
    assert len(files) == 10
    for name, table in tables.items():
        file = pd.read_parquet(files[name])
        np.testing.assert_array_equal(table["load"], file[load])
        np.testing.assert_array_equal(table.index, file["timestamp"])
        assert table.attrs == {"gaps": 0, "filled": 0, "missing": 0}
    assert not caplog.records

    eastern = data.meters.model_copy(update={"timezone": "America/New_York"})
    with pytest.raises(DataError, match=r"does not exist in America.New_York.*Etc/GMT\+5"):
        meters.read_file(folder / "460.parquet", eastern)


def test_the_measured_meters_read_whole(reference_data: Path, tmp_path: Path) -> None:
    table = pd.read_parquet(reference_data / "bdg2_fox" / "fox_2017_hourly_kwh.parquet")
    starts = table.set_axis(table.index - pd.Timedelta(hours=1))
    starts.rename_axis("timestamp").to_csv(export := tmp_path / "electricity_cleaned.csv")
    data = studies()[0].data
    of_guide = data.meters.model_copy(update={"exports": [export]})
    found = meters.read(data.model_copy(update={"meters": of_guide}), "fox")
    for name, series in found.items():
        np.testing.assert_allclose(series["load"], table[name], rtol=1e-6)
        assert series.attrs == {"gaps": 0, "filled": 0, "missing": 0}


def test_the_guide_shows_the_buildings_of_nrel(reference_data: Path) -> None:
    theirs = week(nrel_week(reference_data))
    guide.assert_current(
        theirs.set_axis(theirs.index + ", ComStock"), guide.table("2–7 January 2018, California")
    )
    for name, (state, zone) in NREL_YEARS.items():
        row = statistics(nrel_year(reference_data / name), zone)
        guide.assert_current(
            row.set_axis([f"NREL {state}, {Path(name).stem}"]), guide.table("2018")
        )


def test_the_sample_is_near_the_week_of_comstock(
    reference_data: Path,
) -> None:
    """Medians of every statistic lie between ComStock's quartiles, or almost."""
    made = week(sample_year("CA", buildings("CA"), guide.SEED))["50 %"]
    theirs = week(nrel_week(reference_data))
    assert (made > 0.95 * theirs["25 %"]).all()
    assert (made < 1.05 * theirs["75 %"]).all()


def test_the_forms_are_those_of_the_files(reference_data: Path) -> None:
    guide.assert_series_form(reference_data / "comstock_ga" / "98542-10.parquet")
    guide.assert_weather_form(reference_data / "resstock_al" / "G0100310_2018.csv")
