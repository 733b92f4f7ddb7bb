"""Forecasts of meters without any study: by the public models that come with plfl."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from plfl.base.errors import DataError, Problem
from plfl.base.text import count_in_words
from plfl.data.features import resample
from plfl.data.meters.exports import Exports
from plfl.data.meters.paths import client_names
from plfl.data.meters.stamps import standard_offset
from plfl.forecast.backtest import score_pairs
from plfl.forecast.misfits import LOOK_BACK, describe_lag
from plfl.forecast.output import localise
from plfl.public.inputs import LeadTime
from plfl.public.meter import MeterForecast, MeterReadings, forecast_meter
from plfl.public.models import TRAINED_ON, MeterKind, load
from plfl.public.seen import is_meter_seen


@dataclass(frozen=True)
class RawMeter:
    """A meter of raw exports, as a public model reads it."""

    load: pd.Series
    """kWh per interval, indexed by its end in local standard time; NaN in gaps."""
    minutes: int
    zone: ZoneInfo
    read_minutes: int
    """Minutes between its readings, which `minutes` adds up."""

    def forecast(self, client: str, kind: MeterKind, lead_time: LeadTime) -> MeterForecast:
        """Its forecast; DataError, with the name of the meter, if there can be none."""
        try:
            readings = MeterReadings.from_series(self.load, self.minutes)
        except DataError as error:
            raise error.locate_in(client, client) from None
        return forecast_meter(readings, load(kind), lead_time)

    @property
    def end(self) -> pd.Timestamp:
        """When its last reading ends, in UTC."""
        known_load = self.load.dropna()
        stamps = pd.DatetimeIndex((known_load if len(known_load) else self.load).index)
        return stamps[-1] - standard_offset(self.zone)

    def is_seen(self, kind: MeterKind) -> bool:
        """Whether the public model of a kind was trained on it."""
        return is_meter_seen(self.load, self.minutes, load(kind).marks)

    def localise(self, table: pd.DataFrame) -> pd.DataFrame:
        """A table of forecasts in local time, with UTC offsets."""
        return localise(table, self.zone)


def raw_meters(exports: Exports) -> tuple[dict[str, RawMeter], list[Problem]]:
    """The meters of raw exports by client, all in the longest of their intervals, and the problems
    of others."""
    longest = max((meter.minutes for meter in exports.meters.values()), default=0)
    meters, problems = {}, list(exports.problems)
    names = client_names(list(exports.meters))
    for name, meter in exports.meters.items():
        stamps = pd.DatetimeIndex(meter.load.index).tz_localize(None).as_unit("us")
        series = meter.load.set_axis(stamps + standard_offset(meter.zone)).rename("load")
        if meter.minutes < longest:
            try:
                series = resample(series.to_frame(), longest)["load"]
            except DataError as error:
                problems += error.locate_in(str(exports.files[name]), name).problems
                continue
        if series.empty:
            text = f"fewer readings than one interval of {longest} minutes, that of others"
            problems.append(Problem(exports.files[name], text, "forecast it alone", name))
            continue
        meters[names[name]] = RawMeter(series, longest, meter.zone, meter.minutes)
    return meters, problems


def describe(meters: Mapping[str, RawMeter]) -> dict[str, str]:
    """What there is to know about each meter before its forecast is used, in words: its readings
    end long before those of others, or are added up to longer intervals; empty if neither."""
    latest = max((meter.end for meter in meters.values()), default=pd.Timestamp.min)
    texts = {}
    for name, meter in meters.items():
        sentences = [describe_lag(latest - meter.end, LOOK_BACK)]
        if meter.read_minutes < meter.minutes:
            sentences.append(
                f"its readings of {meter.read_minutes} minutes are added up to {meter.minutes}, "
                "the longest interval of all meters; forecast these alone for shorter ones"
            )
        texts[name] = "; ".join(filter(None, sentences))
    return texts


def summary(forecasts: Mapping[str, MeterForecast], kind: MeterKind, seen_meters: int) -> str:
    """One line: what forecast the meters, and how it did in their last weeks. `seen_meters`: number
    of meters that it was trained on."""
    count = len(forecasts)
    own_weighted = sum(forecast.own_weight > 0 for forecast in forecasts.values())
    line = f"model of public {kind} ({'; '.join(TRAINED_ON[kind])})"
    if own_weighted:
        line += f", with models of their own readings for {own_weighted} of "
        line += count_in_words(count, "meter")
    if seen_meters:
        line += f"; it was trained on {seen_meters} of these meters, so the errors are too small"
    known_shares = [
        meter_shares | {"days": _days(f.pairs)}
        for f in forecasts.values()
        if len(f.pairs)
        and (meter_shares := error_percentages(f.pairs))  # not of meters that used nothing
    ]
    table = pd.DataFrame(known_shares)
    # The same meters in each mean; without last week's load if most are younger.
    common = table.dropna()
    if 2 * len(common) < len(table):
        common = table.dropna(axis="columns")
    errors = common.drop(columns="days", errors="ignore").mean()
    if errors.empty:
        return f"{line}; too few readings to say how it did on earlier days"
    sentences = {
        "forecast": "wrong by",
        "naive_day": "yesterday's load by",
        "naive_week": "last week's by",
    }
    words = [f"{text} {errors[name]:.0f} %" for name, text in sentences.items() if name in errors]
    tested_days = f"their last {_span(common['days'])}"
    if len(common) < count:
        of_meters = f"of {len(common)} of {count_in_words(count, 'meter')}"
        tested_days = f"the last {_span(common['days'])} {of_meters}"
    mean = " of a meter on average" if len(common) > 1 else ""
    return f"{line}; on {tested_days} {', '.join(words)} of the load{mean}"


def _span(days: pd.Series) -> str:
    """Numbers of days in words, from the least to the greatest."""
    fewest_days, most_days = int(days.min()), int(days.max())
    if fewest_days < most_days:
        return f"{fewest_days} to {most_days} days"
    return {1: "day", 14: "two weeks"}.get(most_days, f"{most_days} days")


def _days(pairs: pd.DataFrame) -> int:
    """The days from the first to the last of the forecasts of which `error_percentages` are."""
    ends = pd.DatetimeIndex(_comparable_forecasts(pairs).index)
    return (ends[-1] - ends[0]).days + 1


def error_percentages(pairs: pd.DataFrame) -> dict[str, float]:
    """The mean absolute errors of a meter's earlier forecasts in percent of its load, over the
    same intervals: `forecast`, `naive_day`, `naive_week` (NaN if a week before is not known)."""
    common = _comparable_forecasts(pairs)
    load = common["truth"].abs().mean()
    names = ("forecast", "naive_day", "naive_week")
    if not load > 0:
        return {}
    return {
        name: 100 * float((common[name] - common["truth"]).abs().mean()) / load for name in names
    }


def _comparable_forecasts(pairs: pd.DataFrame) -> pd.DataFrame:
    """The earlier forecasts of a meter for which all of `error_percentages` are known."""
    common = pairs.dropna(subset=["naive_day"])
    if common["naive_week"].notna().mean() > 0.5:
        return common.dropna()
    return common.assign(naive_week=float("nan"))


def score_meter(client: str, forecast: MeterForecast, zone: ZoneInfo) -> dict[str, Any]:
    """The scores of a meter's earlier forecasts, as `plfl.forecast.backtest.score_pairs`, and the
    share of loads in the interval; DataError if none was made."""
    pairs = forecast.pairs.dropna(subset=["last", "naive_day"])
    if pairs.empty:
        raise DataError(
            Problem(client, "has too few readings for forecasts of earlier days", "give more")
        )
    is_inside = (pairs["truth"] >= pairs["low"]) & (pairs["truth"] <= pairs["high"])
    forecaster = "public" if not forecast.own_weight else "public and own"
    table = pairs.drop(columns=["low", "high"])
    scores = score_pairs(table, zone)
    return {
        "client": client,
        "forecaster": forecaster,
        **scores,
        "coverage_80": float(is_inside.mean()),
    }
