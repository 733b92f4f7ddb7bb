"""The errors of the forecasters that a study keeps, on its test set: by lead time, and of the sum
of the meters of a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.text import format_percent
from plfl.data.dataset import Dataset
from plfl.forecast.backtest import FORECASTS, score_pairs
from plfl.results.records import read_csv, refuse_damage
from plfl.results.totals import Totals
from plfl.study import Study
from plfl.study.forecaster_names import IN_USE

LEADS_FILE, SUMS_FILE = "lead_times.csv", "sums.csv"
"""Names of the tables beside the models."""
LEAD_COLUMNS = ("state", "forecaster", "minutes", "meters", "percent_of_load", "naive_day")
"""Columns: of each lead time in minutes the mean absolute error in percent of the load (WAPE), and
that of the load a day before, of two days for lead times above a day, and so on, each as a mean
over the meters."""
SUM_COLUMNS = (
    *("state", "forecaster", "meters", "forecasts", "mae", "naive_day", "percent_of_load"),
    *("bias_percent", "mase", "peak_percent", "peak_hours"),
)
"""Columns: those of `plfl.forecast.backtest.score_pairs`, of the sum of the meters of a state."""

NEW_FILE = "new_meters.csv"
"""Name of the table of meters as if they were new (`plfl.forecast.new_meters`), which is absent if
no sharing scheme asks for them."""
NEW_COLUMNS = ("state", "client", "weeks", "forecaster", "mase")
"""Its columns: the test MASE of each forecaster for each client as if it were new, with this number
of weeks of readings; the forecaster that a new meter would get is first."""
RIVAL = "public"
"""The forecaster of a new meter that needs no partners."""
LABEL_COLUMNS = ("state", "client", "forecaster")
"""Columns of text."""


class KeptErrors:
    """The tables of the errors of all forecasters that a study keeps."""

    def __init__(self) -> None:
        """Begin without a forecaster."""
        self._leads: list[dict[str, object]] = []
        self._sums: list[dict[str, object]] = []

    def add(
        self, state: str, forecaster: str, dataset: Dataset, totals: Totals, label: str = ""
    ) -> None:
        """Add a forecaster of a state, given the totals of its forecasts of a dataset; `label`:
        what the tables call it instead.

        It has no row of `SUM_COLUMNS` if one of its meters has no forecast in the test set, if
        there is only one meter, or if no forecast of all is made at the same time; and none of
        `LEAD_COLUMNS` if forecasts have one horizon.
        """
        labels = {"state": state, "forecaster": label or forecaster}
        if dataset.horizons > 1:
            self._leads.extend(labels | row for row in _by_lead(dataset, totals, forecaster))
        meters = len(dataset.clients)
        if totals.totals_of(forecaster).meters == meters > 1:
            total = sum_of_meters(dataset, totals, forecaster)
            if len(total):
                self._sums.append(labels | {"meters": meters} | score_pairs(total))

    @property
    def leads(self) -> pd.DataFrame:
        """The table with the columns `LEAD_COLUMNS`."""
        return pd.DataFrame(self._leads, columns=[*LEAD_COLUMNS])

    @property
    def sums(self) -> pd.DataFrame:
        """The table with the columns `SUM_COLUMNS`."""
        return pd.DataFrame(self._sums, columns=[*SUM_COLUMNS])


def sum_of_meters(dataset: Dataset, totals: Totals, forecaster: str) -> pd.DataFrame:
    """The sum of the meters of a dataset and of their forecasts, made at times at which all have
    one: as a table of `plfl.forecast.backtest.pairs`."""
    made_at = np.repeat(totals.made_at, dataset.horizons)
    columns = {name: sums.ravel() for name, sums in totals.loads.items()}
    columns["forecast"] = totals.totals_of(forecaster).loads.ravel()
    stamps = (totals.made_at[:, None] + _leads(dataset)).ravel()
    has_all = np.repeat(totals.clients == len(dataset.clients), dataset.horizons)
    table = pd.DataFrame(columns, pd.DatetimeIndex(stamps))[["truth", *FORECASTS]]
    return table.assign(made_at=made_at)[has_all].dropna()


def _leads(dataset: Dataset) -> np.ndarray:
    """The time (H,) from the last reading to each target."""
    steps_ahead = dataset.look_ahead + np.arange(dataset.horizons)
    return (steps_ahead * dataset.interval).astype("timedelta64[m]")


def _by_lead(dataset: Dataset, totals: Totals, forecaster: str) -> Iterator[dict[str, object]]:
    """The errors by lead time, as means over the meters."""
    forecaster_totals = totals.totals_of(forecaster)
    minutes = _leads(dataset).astype(int).tolist()
    for lead, errors, count in zip(
        minutes, forecaster_totals.percents.T, forecaster_totals.counts, strict=True
    ):
        if count:
            yield {
                "minutes": lead,
                "meters": forecaster_totals.meters,
                "percent_of_load": errors[0] / count,
                "naive_day": errors[1] / count,
            }


def read_errors(results: Path, name: str, columns: tuple[str, ...]) -> pd.DataFrame:
    """A table beside the models; empty if the study keeps none. ResultsError: it is damaged."""
    path = results / "models" / name
    if not path.is_file():
        return pd.DataFrame(columns=[*columns])
    # Without the file, Snakemake would not know that it is to be made again.
    remedy = "run the study again"
    with refuse_damage(path, remedy):
        table = read_csv(path, dict.fromkeys(LABEL_COLUMNS, str), remedy)
        if "bias_percent" in columns and "bias_percent" not in table:  # of an earlier version
            table["bias_percent"] = np.nan
        return table[[*columns]]


def warn_of_sums(results: Path, study: Study, forecaster: str = IN_USE) -> dict[str, str]:
    """What `warn_of_sum` says of a forecaster's sum on the test set, by state; without states of
    which there is nothing to say."""
    table = read_errors(results, SUMS_FILE, SUM_COLUMNS)
    warnings = {
        str(row["state"]): warn_of_sum(row, has_medians(study, forecaster), " in the test")
        for row in table[table["forecaster"] == forecaster].to_dict("records")
    }
    return {state: text for state, text in warnings.items() if text}


def warn_of_sum(scores: Mapping[Any, Any], are_medians: bool, when: str = "") -> str:
    """A sentence that forecasts are not to be added, if their sum has a larger error than repeating
    the load of a day before; else empty. `scores`: those of `score_pairs` of the sum."""
    percent, error, day_error = (scores[name] for name in ("percent_of_load", "mae", "naive_day"))
    day_percent = percent * day_error / error if error else np.nan
    if not round(percent, 1) > round(day_percent, 1):
        return ""
    digits = int(round(percent) == round(day_percent))
    numbers = [format_percent(number, digits) for number in (percent, day_percent)]
    bias, reason = scores["bias_percent"], ""
    if abs(bias) >= 1:
        total = f"in total {format_percent(abs(bias), 0)} too {'low' if bias < 0 else 'high'}"
        reason = f"; they are {'medians and ' if are_medians and bias < 0 else ''}{total}"
    return (
        f"Do not add these forecasts: of the sum they were wrong by {numbers[0]}{when}, repeating "
        f"the load of a day before by {numbers[1]}{reason}."
    )


def has_medians(study: Study, forecaster: str) -> bool:
    """Whether forecasts are medians of the load, as those that least absolute errors train."""
    if forecaster == IN_USE or forecaster in study.sharing:
        return study.federation.loss == "mae"
    return study.baselines.find(forecaster).forecasts_medians
