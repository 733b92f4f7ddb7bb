"""The errors of forecasts for later readings, and whether a meter's errors have grown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from plfl.base.errors import DataError, Problem
from plfl.base.minutes import MINUTES_PER_DAY, MINUTES_PER_WEEK
from plfl.base.text import format_span
from plfl.baselines.naive import seasons_back
from plfl.data.dataset import NEGLIGIBLE, held_out_rows
from plfl.data.features import days_of
from plfl.forecast.choice import Forecasters
from plfl.forecast.model import ForecastModel
from plfl.forecast.output import localise_ends, localise_stamps
from plfl.tasks.metrics import daily_peaks, mase

FORECASTS = ("forecast", "last", "naive_day", "naive_week")
"""The columns of `pairs` that forecast the load."""
FEWEST_KNOWN_WEEKS = 2
"""Weeks that must be known, before and after, to say whether the errors have grown."""


def backtest(
    forecasters: Forecasters, client: str, new: pd.DataFrame, wanted: str = ""
) -> tuple[dict[str, object], pd.Series[float], pd.Series[float], pd.DataFrame]:
    """The errors of a client's forecaster for readings that are new, or, if none are after those of
    the study, for those of it that it was neither trained nor chosen on.

    Returns the result of `score_pairs`, in local time, with the MASE of the study's test set
    (`past_mase`) and the `drift` of weeks; the MASE of each week of the test set, and of the new
    readings; and the `pairs`.
    Errors: see `Forecasters.choose` and `pairs`.
    """
    choice = forecasters.choose(client, wanted)
    model = forecasters.model(choice.file)
    known_readings = forecasters.known_readings.study_readings[client]
    joined_readings = forecasters.known_readings.with_earlier(client, new)
    past, past_mase, after = pd.Series(dtype=float), np.nan, None
    if joined_readings.index[-1] > known_readings.index[-1]:
        first = new["load"].dropna().index.min()
        after = max(known_readings.index[-1], first - pd.Timedelta(minutes=model.interval))
        with suppress(DataError):  # no test set that is long enough
            test_pairs = pairs(model, client, known_readings, reports=False)
            past = weekly(test_pairs)
            past_mase = score_pairs(test_pairs)["mase"]
    table = pairs(model, client, joined_readings, after)
    now = weekly(table)
    scores = score_pairs(table, model.meter_files.zone(client))
    row = {"client": client, "forecaster": choice.name, **scores}
    return row | {"past_mase": past_mase, **drift(past, now)}, past, now, table


def backtest_new(
    forecasters: Forecasters, client: str, readings: pd.DataFrame, wanted: str = ""
) -> tuple[dict[str, object], pd.Series[float], pd.Series[float], pd.DataFrame]:
    """The errors for a meter that did not take part, in the last fifth of its readings, at least a
    day, of what `Forecasters.choose_for_new` takes for those before. Nothing is learned from the
    readings that are scored.

    Returns what `backtest` does, without a test set.
    Errors: see `Forecasters.choose_for_new` and `pairs`.
    """
    interval = forecasters.any_model.interval
    # Inputs that are known in advance may have rows after the last load.
    history = readings.loc[: readings["load"].last_valid_index()]
    known_readings = history[: -held_out_rows(len(history), interval)]
    if not known_readings["load"].notna().any():
        raise DataError(
            Problem(
                client,
                f"its files have {format_span(len(history) * pd.Timedelta(minutes=interval))} of "
                "readings, of which the last day is scored, and nothing is known before it",
                "give more readings",
            )
        )
    choice, model = forecasters.choose_for_new(client, known_readings, wanted)
    table = pairs(model, client, readings, known_readings.index[-1], early=True)
    past, now = pd.Series(dtype=float), weekly(table)
    scores = score_pairs(table, model.meter_files.zone(client))
    row = {"client": client, "forecaster": choice.name, **scores}
    return row | {"past_mase": np.nan, **drift(past, now)}, past, now, table


def pairs(
    model: ForecastModel,
    client: str,
    readings: pd.DataFrame,
    after: pd.Timestamp | None = None,
    reports: bool = True,
    early: bool = False,
) -> pd.DataFrame:
    """Loads and forecasts after a time, by default of readings that neither training nor validation
    has seen; DataError if there are none. `reports` and `early` as in `ForecastModel.predict`.

    Returns a row for each forecast whose load and last reading are known, indexed by its time:
    `truth`, `forecast`, and `last`, `naive_day` and `naive_week`, the load of the last reading, and
    those a day and a week before the target, or twice as long for targets that are farther, and so
    on (NaN in a gap); `made_at`, the time of the last reading that the forecast uses.
    """
    after = pd.Timestamp(model.scalings[client].known_until) if after is None else after
    horizon = model.study.windows.farthest * pd.Timedelta(minutes=model.interval)
    forecasts = model.predict(readings, client, early=early, since=after - horizon, reports=reports)
    load = readings["load"]
    at = pd.DatetimeIndex(forecasts.index)
    made_at = pd.DatetimeIndex(forecasts["made_at"])
    lead_times = np.asarray((at - made_at) // pd.Timedelta(minutes=1))
    times = {"truth": at, "last": made_at}
    for name, season in (("naive_day", MINUTES_PER_DAY), ("naive_week", MINUTES_PER_WEEK)):
        times[name] = at - pd.to_timedelta(seasons_back(lead_times, season) * season, unit="min")
    columns = {name: load.reindex(stamps).to_numpy() for name, stamps in times.items()}
    columns["forecast"] = forecasts["forecast"].to_numpy()
    table = pd.DataFrame(columns, index=at).assign(made_at=made_at)[at > after]
    table = table.dropna(subset=["truth", "last", "forecast"])
    if table.empty:
        raise DataError(
            Problem(
                client,
                f"no reading after {model.meter_files.local_time(after, client)} has a forecast of "
                f"{model.name}",
                f"give more readings: a forecast reads the {model.rows_needed} readings before it",
            )
        )
    return table


def describe_all(rows: Sequence[Mapping[str, Any]]) -> str:
    """The errors of several meters, each a row of `backtest`, in a line; empty for a single one."""
    if len(rows) < 2:
        return ""
    table = pd.DataFrame(rows)
    better = int((table["mae"] < table["naive_day"]).sum())
    return (
        f"{len(table)} meters: on average wrong by {table['percent_of_load'].mean():.1f} % of the "
        f"load, MASE {table['mase'].mean():.3f}; better than repeating the load of a day before in "
        f"{better} of {len(table)}"
    )


def score_pairs(table: pd.DataFrame, zone: ZoneInfo | None = None) -> dict[str, Any]:
    """The errors in a table of `pairs`: `first` and `last` time, number of `forecasts`; mean
    absolute errors in kWh per interval of the forecasts (`mae`) and of the loads a day and a week
    before (`naive_day`, `naive_week`), where these are known; `percent_of_load` (WAPE);
    `bias_percent`, by how much the forecasts are in total above the loads, in percent of these;
    `mase`, over the error of the last reading; `peak_percent` and `peak_hours`, see
    `daily_peak_errors`. With the `zone` whose standard time the stamps are, `first` and `last` are
    its local times, and days are its local ones."""
    errors = table[[*FORECASTS]].sub(table["truth"], axis=0).abs().mean()
    size = float(table["truth"].abs().mean())
    bias = float((table["forecast"] - table["truth"]).mean())
    scores = {
        "first": table.index.min(),
        "last": table.index.max(),
        "forecasts": len(table),
        "mae": float(errors["forecast"]),
        "naive_day": float(errors["naive_day"]),
        "naive_week": float(errors["naive_week"]),
        "percent_of_load": 100 * float(errors["forecast"]) / size if size else np.nan,
        "bias_percent": 100 * bias / size if size else np.nan,
        "mase": mase(*(table[name].to_numpy(float) for name in ("truth", "forecast", "last"))),
        **daily_peak_errors(table, zone),
    }
    return localise_ends(scores, zone)


def daily_peak_errors(table: pd.DataFrame, zone: ZoneInfo | None = None) -> dict[str, float]:
    """How far the largest forecast of a day is from its largest load, in a table of `pairs`, as a
    mean over days with all readings: `peak_percent` of that load, and `peak_hours` apart. With
    several horizons the farthest counts. NaN without such a day. Days are the local ones of 24
    hours of the `zone` whose standard time the stamps are, or without one days of that time."""
    if "made_at" in table:
        lead = pd.DatetimeIndex(table.index) - pd.DatetimeIndex(table["made_at"])
        table = table[lead == lead.max()]
    table = table[~table.index.duplicated()].sort_index()
    stamps = pd.DatetimeIndex(table.index)
    steps = stamps.to_series().diff().dropna()
    if steps.empty:
        return {"peak_percent": np.nan, "peak_hours": np.nan}
    row_count = round(pd.Timedelta(days=1) / steps.min())
    if zone is not None:
        stamps = localise_stamps(stamps, zone).tz_localize(None)
    days, day = np.unique(days_of(stamps.to_numpy()), return_inverse=True)
    truth, forecast = (table[name].to_numpy(float) for name in ("truth", "forecast"))
    errors = daily_peaks(day, truth, forecast, len(days), row_count)
    has_peak = ~np.isnan(errors["peak_error"])
    if not has_peak.any():
        return {"peak_percent": np.nan, "peak_hours": np.nan}
    return {
        "peak_percent": 100 * float(errors["peak_error"][has_peak].mean()),
        "peak_hours": float(errors["peak_hours"][has_peak].mean()),
    }


def weekly(table: pd.DataFrame) -> pd.Series[float]:
    """The MASE of each week of a table of `pairs`, by its first day. Weeks with less than half of
    their forecasts, one for each interval and lead time, are left out."""
    sizes = table[["forecast", "last"]].sub(table["truth"], axis=0).abs()
    sizes["truth"] = table["truth"].abs()
    days = pd.DatetimeIndex(days_of(pd.DatetimeIndex(table.index).to_numpy()))
    weeks = days.to_period("W").start_time
    sums = sizes.groupby(weeks).agg(["sum", "size"])
    count, last = sums["forecast", "size"], sums["last", "sum"]
    by_week = sums["forecast", "sum"] / last.where(last > NEGLIGIBLE * sums["truth", "sum"])
    steps = pd.DatetimeIndex(table.index).unique().sort_values().to_series().diff().dropna()
    row_count = pd.Timedelta(days=7) / steps.min() if len(steps) else np.inf
    if "made_at" in table:
        row_count *= (pd.DatetimeIndex(table.index) - pd.DatetimeIndex(table["made_at"])).nunique()
    complete: pd.Series[float] = by_week[count >= row_count / 2].dropna()
    return complete


def drift(past: pd.Series[float], new: pd.Series[float]) -> dict[str, float]:
    """By how much the weekly MASE has grown, with the ends of its 95 % interval (Welch's t, as if
    weeks were independent); NaN if fewer than `FEWEST_KNOWN_WEEKS` weeks are known."""
    from scipy.stats import ttest_ind  # here, because it takes a second to load

    names = ("drift", "drift_low", "drift_high")
    if min(len(past), len(new)) < FEWEST_KNOWN_WEEKS:
        return dict.fromkeys(names, np.nan)
    ends = ttest_ind(new, past, equal_var=False).confidence_interval()
    return dict(zip(names, (new.mean() - past.mean(), *map(float, ends)), strict=True))


def describe_drift(row: Mapping[str, Any], test_weeks: pd.Series[float]) -> str:
    """That the errors of a meter have grown; empty if its `drift` does not show it. `row`, and
    the MASE of the weeks of the test set, as `backtest` returns them."""
    if not row["drift_low"] > 0:
        return ""
    return (
        f"its weekly error has grown from {test_weeks.mean():.2f} MASE by {row['drift']:.2f} "
        f"({row['drift_low']:.2f} to {row['drift_high']:.2f}): look for a change in the building "
        "or its meter; if it stays, run the study again with these readings"
    )
