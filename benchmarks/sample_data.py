"""Compares the sample data with NREL's simulations: prints the table of `docs/sample-data.md`.

`python -m benchmarks.sample_data FILE` needs 1,000 ComStock buildings of California in columns, of
the first week of 2018, half-hourly, with a column `Timestamp`.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from plfl.data.sample import store as sample
from plfl.data.sample.end_uses import simulate
from plfl.data.sample.places import STATES, buildings

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


def week(load: pd.DataFrame) -> pd.DataFrame:
    """Quantiles over Californian buildings, in columns, of the statistics of one week's load.

    From 2 to 7 January 2018, half-hourly: New Year's Day is left out, on which ComStock's
    buildings work and sample buildings rest.
    """
    days = load.loc["2018-01-02":"2018-01-07"].resample("30min").mean()
    table = statistics(days, STATES["CA"].zone).quantile(QUANTILES).T
    return table.set_axis([f"{100 * q:g} %" for q in QUANTILES], axis=1)


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path, help="CSV file of ComStock's buildings")
    nrel = pd.read_csv(parser.parse_args().file, index_col="Timestamp", parse_dates=True)
    sampled = sample_year("CA", buildings("CA"), seed=2018)
    weeks = {"ComStock": week(nrel), "sample": week(sampled)}
    both = pd.concat([w.set_axis(w.index + f", {who}") for who, w in weeks.items()])
    order = [f"{name}, {who}" for name in weeks["sample"].index for who in weeks]
    shown = both.loc[order].rename_axis("2–7 January 2018, California").map("{:.3g}".format)
    print(shown.to_markdown(disable_numparse=True))


if __name__ == "__main__":
    main()
