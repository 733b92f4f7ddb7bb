"""The tables of measured meters that the map and the frozen tasks read, made from the public
originals.

- `electricity_cleaned.csv` of the Building Data Genome Project 2 (a column for each building);
- `CC_LCL-FullData.csv` of Low Carbon London, or its parts `LCL-*.csv` (a row for each reading);
- `Cambridge-Estates-Building-Energy-Archive`, a clone (a file for each building and year);
- `CityLearn`, a clone (a file for each home of its challenge of 2022).

An original that is not there is left out. Which meters are kept follows from rules, which are
stricter than the originals' own cleaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from plfl.base.files import atomic

SITE_METERS = {"fox": 38, "panther": 80, "bear": 14, "london": 200, "cambridge": 51, "fontana": 13}
"""Meters of each table that the published results are about."""
CHUNK_ROWS = 2_000_000
"""Rows of London's file that are in memory at a time."""


def longest_run(load: pd.Series) -> int:
    """Rows of the longest run of one value; missing rows end no run."""
    known_loads = load.dropna()
    return (
        int((known_loads != known_loads.shift()).cumsum().value_counts().max())
        if len(known_loads)
        else 0
    )


def sites(file: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Fox, Panther and Bear, 2016 and 2017.

    Kept are buildings that in 2017 lack less than 1 % of their hours, have less than 0.5 % zeros,
    no constant run of 72 hours and nothing negative. Hours before the first positive reading are
    missing.
    """
    whole_table = pd.read_csv(file, index_col="timestamp", parse_dates=True)
    whole_table = whole_table.reindex(
        pd.date_range("2016-01-01", "2017-12-31 23:00", freq="h", name="timestamp")
    )
    for site in ("fox", "panther", "bear"):
        names = map(str, whole_table)
        table = whole_table[sorted(name for name in names if name.startswith(f"{site.title()}_"))]
        last = table.loc["2017"]
        good = (last.isna().mean() < 0.01) & ((last == 0).mean() < 0.005)
        good &= (last.apply(longest_run) < 72) & ~(table < 0).any()
        table = table.loc[:, good]
        yield f"bdg2_sites/{site}_2016_2017_hourly_kwh", table.where((table > 0).cummax())


def london(files: list[Path]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Two hundred homes, half hours of 2013.

    Kept are the first 200, by name, of the homes with less than 2 % missing, 5 % zero and 20 %
    repeated half hours.
    """
    stamps = pd.date_range("2013-01-01", "2013-12-31 23:30", freq="30min", name="timestamp")
    homes: dict[str, np.ndarray] = {}
    for file in files:
        for rows in tqdm(pd.read_csv(file, chunksize=CHUNK_ROWS, dtype=str), desc=file.name):
            rows.columns = rows.columns.str.strip()
            rows = rows[rows["DateTime"].str.startswith("2013")]
            place = stamps.get_indexer(pd.DatetimeIndex(rows["DateTime"].str[:19]))
            load = pd.to_numeric(rows["KWH/hh (per half hour)"], errors="coerce")
            is_known = (place >= 0) & load.notna().to_numpy()  # some rows are off the half hour
            for home, readings in pd.DataFrame({"at": place, "load": load})[is_known].groupby(
                rows["LCLid"]
            ):
                series = homes.setdefault(str(home), np.full(len(stamps), np.nan, np.float32))
                series[readings["at"]] = readings["load"]
    table = pd.DataFrame({home: homes[home] for home in sorted(homes)}, stamps)
    good = (table.isna().mean() < 0.02) & ((table == 0).mean() < 0.05)
    good &= (table.diff() == 0).mean() < 0.2
    yield (
        "lcl_homes/london_2013_halfhourly_kwh",
        table.loc[:, good].iloc[:, : SITE_METERS["london"]],
    )


def cambridge(folder: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Buildings of the University of Cambridge, 2018 and 2019.

    Kept are buildings of which both years are whole, with less than 1 % zeros and no constant run
    of 72 hours.
    """
    stamps = pd.date_range("2018-01-01", "2019-12-31 23:00", freq="h", name="timestamp")
    loads = {}
    for building in sorted(folder.glob("building_data/processed_data/UCam_Building_b*")):
        files = [building / "electricity" / f"{year}.csv" for year in (2018, 2019)]
        if all(file.is_file() for file in files):
            years = [pd.read_csv(file, index_col=0, parse_dates=True).iloc[:, 0] for file in files]
            load = pd.concat(years).reindex(stamps)
            if load.notna().all() and (load == 0).mean() < 0.01 and longest_run(load) < 72:
                loads[building.name] = load
    yield "cambridge/cambridge_2018_2019_hourly_kwh", pd.DataFrame(loads, stamps)


def fontana(folder: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Homes in Fontana, California, August 2016 to July 2017; the first hour is that of 31 July.

    Kept are homes with less than 5 % of the hours below 1 Wh and 20 % repeated: the loads are
    what is left of net readings without solar panels and batteries.
    """
    files = (folder / "data/datasets/citylearn_challenge_2022_phase_all").glob("Building_*.csv")
    loads = {file.stem: pd.read_csv(file)["non_shiftable_load"] for file in sorted(files)}
    table = pd.DataFrame(loads)
    table.index = pd.date_range("2016-07-31 23:00", periods=len(table), freq="h", name="timestamp")
    good = ((table < 0.001).mean() < 0.05) & ((table.diff() == 0).mean() < 0.2)
    yield "fontana_homes/fontana_2016_2017_hourly_kwh", table.loc[:, good]


def tables(originals: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables of all originals in a folder, with the paths of their files."""
    if (file := originals / "electricity_cleaned.csv").is_file():
        yield from sites(file)
    homes = [file for name in ("CC_LCL*.csv", "LCL-*.csv") for file in originals.glob(name)]
    if homes:
        yield from london(sorted(homes))
    if (folder := originals / "Cambridge-Estates-Building-Energy-Archive").is_dir():
        yield from cambridge(folder)
    if (folder := originals / "CityLearn").is_dir():
        yield from fontana(folder)


def write_tables(originals: Path, data: Path) -> dict[Path, int]:
    """Write the tables of all originals in a folder; the number of meters of each."""
    meters = {}
    for name, table in tables(originals):
        path = data / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as temporary:
            table.astype("float32").to_parquet(temporary)
        meters[path] = table.shape[1]
    return meters


def main(originals: Path, data: Path) -> int:
    """Write the tables; the exit status is 1 if there is none, or if one has too few or too many
    meters."""
    as_published = []
    for path, count in write_tables(originals, data).items():
        expected = SITE_METERS[path.name.partition("_")[0]]
        as_published.append(count == expected)
        print(f"{path}: {count} meters (published results: {expected})")
    if not as_published:
        print(f"{originals}: holds no original; `python -m benchmarks.originals` lists them")
    return int(not as_published or not all(as_published))
