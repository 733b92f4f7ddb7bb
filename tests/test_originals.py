"""The tables of measured meters are made from originals as they are published, here tiny ones."""

from pathlib import Path

import numpy as np
import pandas as pd

from plfl.outside import recipes as originals

HOURS = pd.date_range("2016-01-01", "2017-12-31 23:00", freq="h", name="timestamp")


def test_buildings_that_break_a_rule_are_left_out(tmp_path: Path) -> None:
    whole = pd.Series(2 + np.arange(len(HOURS)) % 24, HOURS, dtype=float)
    late = whole.where(HOURS >= "2016-05-01", 0)
    gaps, zeros, flat, negative = (whole.copy() for _ in range(4))
    gaps["2017-03-01":"2017-03-04"] = np.nan
    zeros["2017-03-01":"2017-03-02"] = 0
    flat["2017-03-01":"2017-03-03"] = 5
    negative["2016-02-01 07:00"] = -1
    table = {"Fox_office_B": late, "Fox_office_A": whole, "Bear_a": whole, "Panther_a": whole}
    wrong = {"Fox_gaps": gaps, "Fox_zeros": zeros, "Fox_flat": flat, "Fox_negative": negative}
    pd.DataFrame(table | wrong | {"Rat_a": whole}).to_csv(tmp_path / "electricity_cleaned.csv")
    assert originals.main(tmp_path, tmp_path / "data") == 1  # not as many as published
    fox = pd.read_parquet(tmp_path / "data/bdg2_sites/fox_2016_2017_hourly_kwh.parquet")
    assert list(fox) == ["Fox_office_A", "Fox_office_B"]
    assert fox["Fox_office_B"].first_valid_index() == pd.Timestamp("2016-05-01")
    np.testing.assert_array_equal(fox["Fox_office_A"], whole)


def test_homes_are_the_first_that_keep_to_the_rules(tmp_path, monkeypatch):
    stamps = pd.date_range("2012-12-31 23:30", "2014-01-01", freq="30min")
    load = 0.1 + np.arange(len(stamps)) % 48 / 100
    homes = {"MAC3": load, "MAC1": load, "MAC2": np.full(len(stamps), 0.2), "MAC4": load}
    rows = [
        pd.DataFrame({"LCLid": name, "stdorToU": "Std", "DateTime": stamps, "kwh": own})
        for name, own in homes.items()
    ]
    table = pd.concat(rows).astype({"DateTime": str, "kwh": str})
    table["DateTime"] += ".0000000"
    table.loc[[5, 7], "kwh"] = "Null"
    off = table.iloc[:1].assign(DateTime="2013-06-01 15:13:41.0000000", kwh="99")
    table = pd.concat([table, off]).rename(columns={"kwh": "KWH/hh (per half hour) "})
    table.to_csv(tmp_path / "CC_LCL-FullData.csv", index=False)
    monkeypatch.setattr(originals, "SITE_METERS", originals.SITE_METERS | {"london": 2})
    monkeypatch.setattr(originals, "CHUNK_ROWS", 10_000)
    assert originals.main(tmp_path, tmp_path / "data") == 0
    found = pd.read_parquet(tmp_path / "data/lcl_homes/london_2013_halfhourly_kwh.parquet")
    assert list(found) == ["MAC1", "MAC3"]
    assert len(found) == 365 * 48 and found.index[0] == pd.Timestamp("2013-01-01")
    assert found["MAC1"].isna().sum() == 2 and found["MAC1"].max() < 1


def test_buildings_of_cambridge_are_whole(tmp_path: Path) -> None:
    stamps = pd.date_range("2018-01-01", "2019-12-31 23:00", freq="h", name="datetime")
    load = pd.Series(3 + np.arange(len(stamps)) % 24, stamps, name="equipment load [kWh]")
    archive = tmp_path / "Cambridge-Estates-Building-Energy-Archive"
    for name, own in {"b1": load, "b2": load.iloc[5:], "b3": load * (stamps.hour > 0)}.items():
        folder = archive / "building_data/processed_data" / f"UCam_Building_{name}" / "electricity"
        folder.mkdir(parents=True)
        for year, part in own.groupby(own.index.year):
            part.to_csv(folder / f"{year}.csv")
    ((name, table),) = originals.tables(tmp_path)
    assert list(table) == ["UCam_Building_b1"] and name.startswith("cambridge/")
    assert originals.main(tmp_path / "nothing", tmp_path) == 1


def test_homes_of_fontana_have_loads_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "CityLearn" / "data/datasets/citylearn_challenge_2022_phase_all"
    folder.mkdir(parents=True)
    load = 0.2 + np.arange(8760) % 24 / 10
    homes = {"Building_1": load, "Building_2": load * (load > 0.4), "Building_3": np.ones(8760)}
    for name, own in homes.items():
        pd.DataFrame({"non_shiftable_load": own}).to_csv(folder / f"{name}.csv", index=False)
    ((name, table),) = originals.tables(tmp_path)
    assert list(table) == ["Building_1"] and name.startswith("fontana_homes/")
    assert table.index[[0, -1]].to_list() == [
        pd.Timestamp("2016-07-31 23:00"),
        pd.Timestamp("2017-07-31 22:00"),
    ]
