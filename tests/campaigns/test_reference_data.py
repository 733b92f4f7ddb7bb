"""Published files, read and compared as they are; `conftest.reference_data` says where they lie."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from benchmarks.sample_data import (
    NREL_YEARS,
    nrel_week,
    nrel_year,
    sample_year,
    statistics,
    week,
)
from plfl.config.study import Study
from plfl.data import meters
from plfl.data.comstock import series as comstock
from plfl.data.comstock.releases import paper_buildings
from plfl.data.comstock.series import LOAD
from plfl.data.sample.ids import buildings
from tests.data import test_sample as guide
from tests.data.test_measured_guide import GUIDE, block
from tests.helpers import forms, load_profiles
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
    assert len(list(folder.glob("*.parquet"))) == 10
    load_profiles.check(folder, caplog)


def test_the_measured_meters_read_whole(reference_data: Path, tmp_path: Path) -> None:
    table = pd.read_parquet(reference_data / "bdg2_fox" / "fox_2017_hourly_kwh.parquet")
    (tmp_path / "fox_meters").mkdir()
    for name in map(str, table):
        table[name].rename("load").to_csv(tmp_path / "fox_meters" / f"{name}.csv")
    config = yaml.safe_load(block("yaml"))
    config["data"]["meters"]["folder"] = str(tmp_path / "fox_meters")
    found = meters.read(Study.parse(config, str(GUIDE)).data, "fox")
    for name, series in found.items():
        np.testing.assert_allclose(series["load"], table[name], rtol=1e-6)
        assert series.attrs == {"gaps": 0, "filled": 0}


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
    """`python -m tests.helpers.forms` writes them again."""
    assert forms.of(reference_data) == forms.FORMS
