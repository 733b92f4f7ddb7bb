"""Compares the sample data with NREL's simulations: prints the tables of `docs/sample-data.md`.

`python -m benchmarks.sample_data FOLDER` needs a folder with these of NREL's files:
`comstock_ca_week/comstock_30min_small.csv` (1,000 ComStock buildings of California in columns, the
first week of 2018) and, of whole years, the commercial `eulp_buildings/{461,466,467,468}.parquet`
and `comstock_ga/98542-10.parquet`.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from plfl.data.comstock.series import LOAD
from plfl.data.sample import store as sample
from plfl.data.sample.end_uses import simulate
from plfl.data.sample.places import STATES, buildings

NREL_YEARS = {
    "eulp_buildings/461.parquet": ("CA", "America/Los_Angeles"),
    "eulp_buildings/466.parquet": ("AR", "America/Chicago"),
    "eulp_buildings/467.parquet": ("SC", "America/New_York"),
    "eulp_buildings/468.parquet": ("VA", "America/New_York"),
    "comstock_ga/98542-10.parquet": ("GA", "America/New_York"),
}
"""Commercial buildings that NREL simulated for a whole year: their state, and their local time."""

QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95]

_STAMP_ENDS = pd.Timedelta("15min")


def statistics(load: pd.DataFrame, zone: str) -> pd.DataFrame:
    """One row per building (column of `load`) that describes the shape of its load.

    Args:
        load: kWh per 15 minutes, indexed by the start of the interval in Eastern Standard Time.
        zone: time zone of the buildings, for day and night.

    Returns:
        `mean` (kWh per 15 minutes); `load factor`: mean / peak; `day / night`: mean of 9–17 h /
        mean of 0–5 h; `weekday / weekend`: the same of Monday–Friday / Saturday–Sunday;
        `persistence error`: mean |y_t − y_(t − 1 h)| / mean; autocorrelation at those lags of 1, 24
        and 168 h that fit twice into the series.
    """
    stamps = pd.DatetimeIndex(load.index)
    local = stamps.tz_localize("Etc/GMT+5").tz_convert(zone)
    hour = int(pd.Timedelta("1h") / (stamps[1] - stamps[0]))
    working = local.day_of_week < 5
    day, night = (local.hour >= 9) & (local.hour < 17), local.hour < 5
    table = {
        "mean": load.mean(),
        "load factor": load.mean() / load.max(),
        "day / night": load[day].mean() / load[night].mean(),
        "weekday / weekend": load[working].mean() / load[~working].mean(),
        "persistence error": load.diff(hour).abs().mean() / load.mean(),
    }
    for lag in (1, 24, 168):
        if 2 * lag * hour < len(load):
            correlation = {building: load[building].autocorr(lag * hour) for building in load}
            table[f"autocorrelation {lag} h"] = pd.Series(correlation)
    return pd.DataFrame(table)


def sample_year(state: str, ids: Iterable[int], seed: int) -> pd.DataFrame:
    """Total load of sample buildings, as `statistics` requires it."""
    load = pd.DataFrame(
        {i: simulate(sample.describe(state, i, seed), seed).sum(axis=1) for i in ids}
    )
    return load.set_axis(pd.DatetimeIndex(load.index) - _STAMP_ENDS)


def nrel_year(path: Path) -> pd.DataFrame:
    """Total load of a building from its file, as `statistics` requires it."""
    table = pd.read_parquet(path, columns=["timestamp", LOAD[0]]).set_index("timestamp")
    return table.set_axis(pd.DatetimeIndex(table.index) - _STAMP_ENDS)


def nrel_week(folder: Path) -> pd.DataFrame:
    """Half-hourly loads of ComStock's Californian buildings, as `statistics` requires them."""
    path = folder / "comstock_ca_week" / "comstock_30min_small.csv"
    return pd.read_csv(path, index_col="Timestamp", parse_dates=True)


def week(load: pd.DataFrame) -> pd.DataFrame:
    """Quantiles over Californian buildings, in columns, of the statistics of one week's load.

    From 2 to 7 January 2018, half-hourly: New Year's Day is left out, on which ComStock's
    buildings work and sample buildings rest.
    """
    days = load.loc["2018-01-02":"2018-01-07"].resample("30min").mean()
    table = statistics(days, STATES["CA"].zone).quantile(QUANTILES).T
    return table.set_axis([f"{100 * q:g} %" for q in QUANTILES], axis=1)


def year(load: pd.DataFrame, state: str) -> pd.DataFrame:
    """Quantiles over sample buildings of a state, in rows, of the statistics of a year's load."""
    table = statistics(load, STATES[state].zone).quantile([0.05, 0.5, 0.95])
    return table.set_axis([f"sample {state}, {100 * q:g} %" for q in table.index])


def markdown(table: pd.DataFrame, corner: str) -> list[str]:
    """The lines of a GitHub table of numbers with three significant digits."""
    rows = [[corner, *map(str, table.columns)]]
    for name, values in table.iterrows():
        rows.append([str(name), *(f"{value:.3g}" for value in values)])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], f"|---|{'---:|' * len(table.columns)}", *lines[1:]]


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of NREL's files")
    parser.add_argument("--seed", type=int, default=2018, help="seed of the sample data")
    arguments = parser.parse_args()

    samples = {s: sample_year(s, buildings(s), arguments.seed) for s in STATES}
    weeks = {"ComStock": week(nrel_week(arguments.folder)), "sample": week(samples["CA"])}
    both = pd.concat([w.set_axis(w.index + f", {who}") for who, w in weeks.items()])
    order = [f"{name}, {who}" for name in weeks["sample"].index for who in weeks]
    years = [
        statistics(nrel_year(arguments.folder / name), zone).set_axis(
            [f"NREL {state}, {Path(name).stem}"]
        )
        for name, (state, zone) in NREL_YEARS.items()
    ]
    years += [year(load, state) for state, load in samples.items()]
    print("\n".join(markdown(both.loc[order], "2–7 January 2018, California")), end="\n\n")
    print("\n".join(markdown(pd.concat(years), "2018")))


if __name__ == "__main__":
    main()
