"""One forecaster for all meters, each its own, or something between (docs/forecast.md).

    python -m benchmarks.choice errors DATA FOLDER SITE …     # one file per site, in FOLDER
    python -m benchmarks.choice rules FOLDER SITE …           # the table of rules
    python -m benchmarks.choice days FOLDER SITE …            # what HALF_DAYS is from

`DATA` is the folder of the measured meters (docs/measured-meters.md). A site's study is that of
`plfl init meters` with twelve meters, twenty weeks and fewer trials, so that it takes a minute.
"""

import argparse
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch

from plfl.baselines.fitting import RememberedBaseline, fit
from plfl.baselines.storage import settings_of
from plfl.config.meters import Meters
from plfl.data.dataset import EVALUATED_SPLITS, Dataset, Split, naive_error
from plfl.data.features import days_of
from plfl.data.sources import source_of
from plfl.experiments.client_groups import list_baselines
from plfl.experiments.train import train
from plfl.experiments.training_setup import TrainingSetup
from plfl.first_study.meters import recognise
from plfl.interfaces.baseline import FittedBaseline
from plfl.results.assignment import HALF_DAYS, credible_errors
from plfl.study import Study

METERS = 12
HALF_DAYS_TRIED = (0.0, 10.0, 30.0, 60.0, 90.0, 120.0, 250.0, 500.0, np.inf)
LEFT_OUT = ("lightgbm", "lightgbm_pooled")
"""Baselines that are not scored: raw data cross, or inputs are fewer than the recipe's."""
Floats = np.ndarray


@dataclass(frozen=True)
class Site:
    """Twenty weeks of the meters of a place."""

    file: str
    timezone: str
    since: str
    until: str
    stamp: str = "start"


SITES = {
    "london": Site("lcl_homes/london_2013_halfhourly_kwh", "UTC", "2013-01-07", "2013-05-27"),
    "london-autumn": Site(
        "lcl_homes/london_2013_halfhourly_kwh", "UTC", "2013-07-08", "2013-11-25"
    ),
    "fox": Site("bdg2_sites/fox_2016_2017_hourly_kwh", "Etc/GMT+7", "2017-01-02", "2017-05-22"),
    "panther": Site(
        "bdg2_sites/panther_2016_2017_hourly_kwh", "Etc/GMT+5", "2017-07-03", "2017-11-20"
    ),
    "bear": Site("bdg2_sites/bear_2016_2017_hourly_kwh", "Etc/GMT+8", "2017-03-06", "2017-07-24"),
    "cambridge": Site(
        "cambridge/cambridge_2018_2019_hourly_kwh", "UTC", "2019-01-07", "2019-05-27"
    ),
    "sydney": Site(
        "ausgrid_homes/sydney_2010_2013_halfhourly_kwh", "UTC", "2012-01-02", "2012-05-21", "end"
    ),
    "zonnedael": Site(
        "zonnedael_homes/zonnedael_2013h1_quarterhourly_kwh",
        "Etc/GMT-1",
        "2013-01-07",
        "2013-05-27",
    ),
}
"""The last two took no part in the choice of the rule."""


def study_of(name: str, data: Path) -> Study:
    """The study of a site: that of `plfl init meters`, smaller."""
    site = SITES[name]
    file = data / f"{site.file}.parquet"
    names = pq.read_schema(file).names
    meters = Meters.model_validate(
        {
            "timezone": site.timezone,
            "stamp": site.stamp,
            "interval": 60,
            "since": site.since,
            "until": site.until,
            "only": [
                one for one in names if not one.startswith(("utc", "timestamp", "local", "_"))
            ][:METERS],
        }
    )
    _, raw = recognise([file], meters)
    raw["grid"] |= {"sharing": ["P1", "P2", "P3"], "seeds": [1]}
    raw["federation"] |= {"evaluate_every": raw["federation"]["rounds"]}
    raw["baselines"] |= {"trees": 40, "search": {"leaves": [15], "learning_rate": [0.2]}}
    return Study.parse({"name": name, **raw}, name)


def errors_of(study: Study) -> pd.DataFrame:
    """The errors of every forecaster: a row per `forecaster`, `client`, `split` and `day`, with the
    sum of the absolute `error`, the number of `forecasts`, and the `scale` of the split's MASE."""
    dataset = source_of(study.data).examples_of(study, "all")
    assert isinstance(dataset, Dataset)
    baselines, task = study.baselines, study.task
    fitted_baselines: dict[str, FittedBaseline] = {}
    for baseline in list_baselines(dataset.shape.covariates > 0, baselines.further, LEFT_OUT):
        fitted = fit(baseline, dataset, settings_of(study), fitted_baselines)
        fitted_baselines[baseline.name] = RememberedBaseline(fitted, fitted.sent_bytes)
    tables = [
        _daily(dataset, name, i, split, fitted.predict(i, dataset.starts(i, split)))
        for name, fitted in fitted_baselines.items()
        for i in range(len(dataset.clients))
        for split in EVALUATED_SPLITS
    ]
    engine = TrainingSetup.for_study(study, dataset).engine
    for cell, result in train(study, study.cells, dataset).items():
        assert result.models is not None
        rows = torch.from_numpy(result.models["local"])
        for split in EVALUATED_SPLITS:
            starts = [dataset.starts(i, split) for i in range(len(dataset.clients))]
            outputs = engine.predict(rows, [torch.from_numpy(s) for s in starts])
            tables += [
                _daily(
                    dataset,
                    cell.sharing,
                    i,
                    split,
                    task.predictions(dataset, i, starts[i], output.double().numpy()),
                )
                for i, output in enumerate(outputs)
            ]
    return pd.concat(tables, ignore_index=True)


def _daily(
    dataset: Dataset, name: str, client: int, split: Split, forecasts: Floats
) -> pd.DataFrame:
    """The errors of a client by day."""
    starts = dataset.starts(client, split)
    truth = dataset.truth(starts)
    target_days = days_of(dataset.stamps[dataset.target_rows(starts)]).ravel()
    days, numbers = np.unique(target_days, return_inverse=True)
    return pd.DataFrame(
        {
            "forecaster": name,
            "client": str(dataset.clients[client]),
            "split": split,
            "day": days.astype("datetime64[ms]"),
            "error": np.bincount(numbers, np.abs(truth - forecasts).ravel()),
            "forecasts": np.bincount(numbers),
            "scale": naive_error(truth, dataset.persistence(starts)),
        }
    )


@dataclass(frozen=True)
class SiteErrors:
    """The errors of a site in the form that rules need: MASE, a row per client, a column per
    forecaster."""

    validation: pd.DataFrame
    test: pd.DataFrame
    days: int
    """Days of the validation set."""

    @classmethod
    def read(cls, file: Path) -> "SiteErrors":
        """The errors of `errors_of`; forecasters without a score of every client are left out."""
        table = pd.read_parquet(file)
        keys = ["split", "client", "forecaster"]
        sums = table.groupby(keys)[["error", "forecasts"]].sum()
        mase = sums["error"] / sums["forecasts"] / table.groupby(keys)["scale"].first()
        wide = {split: mase[split].unstack().dropna(axis=1) for split in EVALUATED_SPLITS}
        names = [name for name in wide["validation"] if name in wide["test"]]
        days = table[table["split"] == "validation"].groupby("client")["day"].nunique().median()
        return cls(wide["validation"][names], wide["test"][names], int(days))


def chosen_error(site: SiteErrors, half_days: float) -> tuple[float, float, int]:
    """The test MASE of what is chosen, mean and worst over clients, and how many clients have
    another forecaster than most."""
    days = pd.Series(site.days, site.validation.index)
    names = credible_errors(site.validation, days, half_days).idxmin(axis=1)
    errors = [site.test.loc[client, name] for client, name in names.items()]
    return float(np.mean(errors)), float(np.max(errors)), int((names != names.mode()[0]).sum())


def print_rules(sites: dict[str, SiteErrors]) -> None:
    """Print the test MASE of each rule at each site."""
    rules = {"each its own": 0.0, "one for all": np.inf, "credibility": HALF_DAYS}
    rows = []
    for name, site in sites.items():
        row: dict[str, Any] = {"site": name, "days": site.days}
        for rule, half_days in rules.items():
            row[rule], row[f"worst, {rule}"], row[f"others, {rule}"] = chosen_error(site, half_days)
        row["best of all, known afterwards"] = site.test.mean().min()
        row["common"] = site.validation.mean().idxmin()
        rows.append(row)
    print(pd.DataFrame(rows).set_index("site").T.to_string(float_format="{:.4f}".format))


def print_days(sites: dict[str, SiteErrors]) -> None:
    """Print the test MASE of what credibility chooses, by the days of a validation set that count
    as much as the mean over meters."""
    rows = {
        name: {half_days: chosen_error(site, half_days)[0] for half_days in HALF_DAYS_TRIED}
        for name, site in sites.items()
    }
    table = pd.DataFrame(rows).T
    table.loc["mean"] = table.mean()
    print(table.to_string(float_format="{:.4f}".format))


def main() -> None:
    """Run one of the commands above."""
    logging.basicConfig(level=logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True, dest="command")
    for name in ("errors", "rules", "days"):
        command = commands.add_parser(name)
        if name == "errors":
            command.add_argument("data", type=Path)
        command.add_argument("folder", type=Path)
        command.add_argument("sites", nargs="+", choices=SITES)
    options = parser.parse_args()
    files = {name: options.folder / f"{name}.parquet" for name in options.sites}
    if options.command == "errors":
        options.folder.mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            errors_of(study_of(name, options.data)).to_parquet(file)
            print(f"wrote {file}", flush=True)
        return
    sites = {name: SiteErrors.read(file) for name, file in files.items()}
    (print_rules if options.command == "rules" else print_days)(sites)


if __name__ == "__main__":
    main()
