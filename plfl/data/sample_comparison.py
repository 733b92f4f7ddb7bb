"""Holds the sample data against real buildings and prints the tables of `docs/sample-data.md`.

`python -m plfl.data.sample_comparison FOLDER` needs a folder with these real files:
`comstock_ca_week/comstock_30min_small.csv` (ComStock buildings of California, the first week of 2018,
in columns), `eulp_buildings/{461,466,467,468}.parquet` and `comstock_ga/98542-10.parquet` (whole
years).
"""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from plfl.data import sample
from plfl.data.sample_buildings import simulate
from plfl.data.sample_weather import STATES

TOTAL = "out.electricity.total.energy_consumption"

REAL_YEARS = {
    "eulp_buildings/461.parquet": "America/Los_Angeles",
    "eulp_buildings/466.parquet": "America/Chicago",
    "eulp_buildings/467.parquet": "America/New_York",
    "eulp_buildings/468.parquet": "America/New_York",
    "comstock_ga/98542-10.parquet": "America/New_York",
}
"""Real commercial buildings with a whole year of data, and the time their people live by."""

QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95]


def statistics(load: pd.DataFrame, zone: str) -> pd.DataFrame:
    """One row per building (column of `load`) that describes the shape of its load.

    Args:
        load: kWh per 15 minutes, indexed by the start of the interval in Eastern Standard Time.
        zone: time zone of the buildings, for day and night.

    Returns:
        `mean` (kWh per 15 minutes); `load factor`: mean / peak; `day / night`: mean of 9–17 h / mean
        of 0–5 h; `weekday / weekend`: the same of Monday–Friday / Saturday–Sunday; autocorrelation at
        lags of 1, 24 and 168 h; `persistence`: mean |y_t − y_(t − 1 h)| / mean.
    """
    stamps = pd.DatetimeIndex(load.index)
    local = stamps.tz_localize("Etc/GMT+5").tz_convert(zone)
    hour = int(pd.Timedelta("1h") / (stamps[1] - stamps[0]))
    working = local.day_of_week < 5
    table = {
        "mean": load.mean(),
        "load factor": load.mean() / load.max(),
        "day / night": load[(local.hour >= 9) & (local.hour < 17)].mean()
        / load[local.hour < 5].mean(),
        "weekday / weekend": load[working].mean() / load[~working].mean(),
        "persistence": load.diff(hour).abs().mean() / load.mean(),
    }
    for lag in (1, 24, 168):
        if 2 * lag * hour < len(load):
            table[f"autocorrelation {lag} h"] = load.apply(
                lambda y, lag=lag: y.autocorr(lag * hour)
            )
    return pd.DataFrame(table)


def sample_year(state: str, ids: Iterable[int], seed: int) -> pd.DataFrame:
    """Total load of sample buildings, as `statistics` wants it."""
    load = pd.DataFrame(
        {i: simulate(sample.describe(state, i, seed), seed).sum(axis=1) for i in ids}
    )
    return load.set_axis(pd.DatetimeIndex(load.index) - pd.Timedelta("15min"))


def real_years(folder: Path) -> pd.DataFrame:
    """Statistics of the real buildings of `REAL_YEARS`, one row each."""
    rows = []
    for name, zone in REAL_YEARS.items():
        table = pd.read_parquet(folder / name).set_index("timestamp")[[TOTAL]]
        table = table.set_axis([Path(name).stem], axis=1)
        table = table.set_axis(pd.DatetimeIndex(table.index) - pd.Timedelta("15min"))
        rows.append(statistics(table, zone))
    return pd.concat(rows)


def real_week(folder: Path) -> pd.DataFrame:
    """A week of 1,000 real ComStock buildings of California, as `statistics` wants it."""
    path = folder / "comstock_ca_week" / "comstock_30min_small.csv"
    return pd.read_csv(path, index_col="Timestamp", parse_dates=True)


def compare(folder: Path, samples: Mapping[str, pd.DataFrame]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables: the real Californian week and the real years, each beside the sample data.

    Args:
        folder: folder of the real files.
        samples: the result of `sample_year` by state; CA must be among them.
    """
    real = real_week(folder)
    made = samples["CA"].loc["2018-01-01":"2018-01-07"].resample("30min").mean()  # type: ignore[misc]
    weeks = {"ComStock": real, "sample": made}
    week = pd.concat(
        {
            who: statistics(load, STATES["CA"].zone).quantile(QUANTILES)
            for who, load in weeks.items()
        }
    )
    years = pd.concat(statistics(load, STATES[state].zone) for state, load in samples.items())
    spread = years.quantile([0, *QUANTILES, 1])
    spread.index = pd.Index([f"sample, {100 * q:g} %" for q in spread.index])
    return week.unstack(0).T, pd.concat([real_years(folder), spread])  # type: ignore[return-value]


def _markdown(table: pd.DataFrame, corner: str) -> str:
    """A GitHub table of numbers with three significant digits."""
    rows = [[corner, *map(str, table.columns)], ["---", *["---:"] * len(table.columns)]]
    for name, values in table.iterrows():
        label = ", ".join(name) if isinstance(name, tuple) else str(name)
        rows.append([label, *(f"{value:.3g}" for value in values)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the real files")
    parser.add_argument("--seed", type=int, default=2018, help="seed of the sample data")
    arguments = parser.parse_args()
    samples = {s: sample_year(s, sample.buildings(s), arguments.seed) for s in STATES}
    week, years = compare(arguments.folder, samples)
    week.columns = [f"{100 * q:g} %" for q in week.columns]
    print(_markdown(week, "first week of 2018, California"))
    print()
    print(_markdown(years.T, "2018"))


if __name__ == "__main__":
    main()
