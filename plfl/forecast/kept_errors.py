"""The errors of the forecasters that a study keeps, on its test set: by lead time, and of the sum
of the meters of a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from plfl.base.errors import DataError
from plfl.data.dataset import WEEK, Dataset
from plfl.forecast.backtest import FORECASTS, pairs, scored
from plfl.forecast.choice import Forecasters, readings_of
from plfl.forecast.model import ForecastModel
from plfl.forecast.sums import add_up

LEADS_FILE, SUMS_FILE = "lead_times.csv", "sums.csv"
"""Names of the tables beside the models."""
LEADS = ("state", "forecaster", "minutes", "meters", "percent_of_load", "naive_day")
"""Columns: of each lead time in minutes the mean absolute error in percent of the load (WAPE), and
that of the load a day before, each as a mean over the meters."""
SUMS = (
    *("state", "forecaster", "meters", "forecasts", "mae", "naive_day", "percent_of_load"),
    *("mase", "peak_percent", "peak_hours"),
)
"""Columns: those of `plfl.forecast.backtest.scored`, of the sum of the meters of a state."""


def errors_of_kept(
    results: Path, datasets: Mapping[str, Path]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The errors of all forecasters that a results folder keeps, in tables with the columns `LEADS`
    and `SUMS`, given the files of the datasets by state. ResultsError: the folder keeps none.

    A state has no row of `SUMS` if one of its meters has no forecast in the test set, or if it has
    only one meter; and none of `LEADS` if forecasts have one horizon.
    """
    forecasters = Forecasters(results)
    leads: list[dict[str, object]] = []
    sums: list[dict[str, object]] = []
    columns = forecasters.any_model.readings
    readings = {
        state: readings_of(Dataset.load_file(file), columns) for state, file in datasets.items()
    }
    for row in forecasters.index.to_dict("records"):
        model = forecasters.model(forecasters.folder / str(row["file"]))
        labels = {"state": row["state"], "forecaster": row["name"]}
        tested = dict(_tested(model, readings[str(row["state"])]))
        if model.study.windows.horizons > 1:
            leads.extend(labels | errors for errors in _by_lead(tested))
        if len(tested) == len(model.clients) > 1:
            try:
                total = add_up(tested, ["truth", *FORECASTS])
            except DataError:  # the test sets of the meters have no time in common
                continue
            sums.append(labels | {"meters": len(tested)} | scored(total))
    return pd.DataFrame(leads, columns=[*LEADS]), pd.DataFrame(sums, columns=[*SUMS])


def _tested(
    model: ForecastModel, readings: Mapping[str, pd.DataFrame]
) -> Iterator[tuple[str, pd.DataFrame]]:
    """The `pairs` of the meters of a model that have any in the test set."""
    rows = model.look_back + WEEK // model.interval
    for client in model.clients:
        table = readings[client]
        known_rows = int(table.index.searchsorted(model.scalings[client].known, side="right"))
        try:
            yield client, pairs(model, client, table.iloc[max(0, known_rows - rows) :])
        except DataError:
            continue


def _by_lead(tested: dict[str, pd.DataFrame]) -> Iterator[dict[str, object]]:
    """The errors by lead time, as means over meters."""
    parts = []
    for table in tested.values():
        lead = pd.DatetimeIndex(table.index) - pd.DatetimeIndex(table["made_at"])
        sizes = table[["forecast", "naive_day"]].sub(table["truth"], axis=0).abs()
        sums = sizes.assign(load=table["truth"].abs()).groupby(np.asarray(lead)).sum()
        parts.append(sums.div(sums["load"].where(sums["load"] > 0), axis=0))
    if not parts:
        return
    means = 100 * pd.concat(parts).groupby(level=0).mean()
    minutes = (pd.TimedeltaIndex(means.index) / pd.Timedelta(minutes=1)).tolist()
    for row_minutes, errors in zip(minutes, means.to_dict("records"), strict=True):
        yield {
            "minutes": round(row_minutes),
            "meters": len(parts),
            "percent_of_load": errors["forecast"],
            "naive_day": errors["naive_day"],
        }
