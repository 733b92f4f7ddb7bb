"""Forecasts of one meter by a public model, from a few days of readings on.

Readings of less than an hour are summed to hours that end with the last reading; the forecast of an
hour is divided as its intervals were on earlier days. From four weeks of readings on, a model of
the meter's own is weighed in. The width of the interval between the outer quantiles follows the
errors of the last weeks, so that it also holds for short intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem
from plfl.public.inputs import (
    CONTEXT,
    FEWEST_CONTEXT_HOURS,
    HOURS_PER_DAY,
    HOURS_PER_WEEK,
    LEAD_HOURS,
    Floats,
    HourlyLoads,
    Inputs,
    Integers,
    LeadTime,
    inputs_of,
)
from plfl.public.models import PUBLIC_LEVELS, PublicModel
from plfl.public.training import TreeSizes, fit
from plfl.tasks.metrics import best_share

MEDIAN_LEVELS = (0.5,)
"""The level of a single forecast."""
TESTED_HOURS = 2 * HOURS_PER_WEEK
"""Last hours on whose forecasts, made as if they were not known, errors are measured."""
OWN_FROM = 4 * HOURS_PER_WEEK
"""Hours of readings from which on a model of the meter's own is weighed in."""
OWN_SIZES = TreeSizes(40, 15)
OWN_PARAMETERS: dict[str, Any] = {"learning_rate": 0.15, "max_bin": 31, "min_data_in_leaf": 20}
MOST_OWN_WINDOWS = 4_000
"""Windows on which a model of the meter's own is trained."""
USUAL_DAYS = 4
"""Days that an even division of an hour counts like, beside the days that were read."""
WIDENED = (0.5, 4.0)
"""Least and greatest factor of the distance of an outer quantile from the median."""
FEWEST_PART_HOURS = 3 * HOURS_PER_DAY
"""Forecasts of hours from whose errors this factor is taken."""


@dataclass(frozen=True)
class MeterReadings:
    """The readings of a meter, in rows of an hour that end with the last one."""

    load: Floats
    """kWh (R, P) of the P intervals of each hour; NaN where unknown."""
    stamps: NDArray[np.datetime64]
    """End of each hour (R,), local standard time."""
    minutes: int
    """Minutes of an interval."""

    @classmethod
    def from_series(cls, load: pd.Series, minutes: int) -> MeterReadings:
        """Readings in kWh per interval, on a regular grid, indexed by the ends of the intervals in
        local standard time. What follows the last known one is left out. DataError: the intervals
        are no part of an hour, less than a day is known, or all loads are 0."""
        if minutes > 60 or 60 % minutes:
            raise DataError(
                Problem(
                    "",
                    f"its readings are {minutes} minutes apart, which is no part of an hour",
                    "give readings of an hour or less",
                )
            )
        known_rows = np.flatnonzero(load.notna().to_numpy())
        if not len(known_rows):
            raise DataError(Problem("", "it has no reading", "look at the meter"))
        load = load.iloc[: known_rows[-1] + 1]
        parts_of_hour = 60 // minutes
        row_count = -(-len(load) // parts_of_hour)
        values = np.full(row_count * parts_of_hour, np.nan)
        values[-len(load) :] = load.to_numpy(float)
        ends = load.index.to_numpy("datetime64[s]")[-1] - np.arange(row_count)[
            ::-1
        ] * np.timedelta64(3600, "s")
        readings = cls(values.reshape(row_count, parts_of_hour), ends, minutes)
        hours = readings.hours.load[-CONTEXT:]
        if np.isfinite(hours).sum() < FEWEST_CONTEXT_HOURS:
            raise DataError(
                Problem(
                    "",
                    f"{np.isfinite(hours).sum()} hours of its last four weeks are known, and a "
                    f"forecast needs {FEWEST_CONTEXT_HOURS}",
                    "give more readings",
                )
            )
        if not np.nansum(hours) > 0:
            raise DataError(
                Problem(
                    "", "the loads of its last four weeks are 0 or negative", "look at the meter"
                )
            )
        return readings

    @cached_property
    def hours(self) -> HourlyLoads:
        """The loads of the hours, in kWh, of which at least half is known."""
        is_known = np.isfinite(self.load)
        count, parts = is_known.sum(axis=1), self.load.shape[1]
        with np.errstate(invalid="ignore"):
            mean = np.where(is_known, self.load, 0).sum(axis=1) / count
        return HourlyLoads.ending_at(
            self.stamps, np.where(2 * count >= parts, mean * parts, np.nan)
        )

    def divide(self, last: Integers, lead: Integers, loads: Floats) -> Floats:
        """Loads (W, P, Q) of the intervals of the hours that are forecast, given those (W, Q) of
        the hours: in the proportions of the same hours of the last four weeks, drawn towards an
        even division where few are known. If one of their intervals has a negative load, the sum
        of an hour can be near 0, and the differences from the hour's mean count instead."""
        parts_of_hour = self.load.shape[1]
        days = np.arange(1, CONTEXT // HOURS_PER_DAY + 1)
        row_numbers = (last + lead)[:, None] - HOURS_PER_DAY * days
        is_known = (row_numbers >= 0) & (row_numbers <= last[:, None])
        earlier = np.where(is_known[..., None], self.load[np.maximum(row_numbers, 0)], np.nan)
        earlier = np.where(np.isfinite(earlier).all(axis=-1, keepdims=True), earlier, np.nan)
        count = np.isfinite(earlier[..., 0]).sum(axis=1)[:, None]
        sums = np.nansum(earlier, axis=1)
        even = USUAL_DAYS * np.maximum(sums.sum(axis=1, keepdims=True), 1e-9) / np.maximum(count, 1)
        shares = sums + even / parts_of_hour
        divided = (shares / shares.sum(axis=1, keepdims=True))[..., None] * loads[:, None, :]
        differences = (sums - sums.mean(axis=1, keepdims=True)) / (count + USUAL_DAYS)
        shifted = loads[:, None, :] / parts_of_hour + differences[..., None]
        has_negative = np.any(earlier < 0, axis=(1, 2), keepdims=True)
        return np.asarray(np.where(has_negative, shifted, divided), float)


def public_quantiles(
    model: PublicModel,
    hours: HourlyLoads,
    lead_time: LeadTime,
    last: Integers,
    lead: Integers,
    levels: Sequence[float] = PUBLIC_LEVELS,
) -> Floats:
    """Quantiles (W, Q) of windows, in kWh per hour. The first of 24 hours is that of the model of
    the next hour."""
    quantiles = model.predict(hours, lead_time, last, lead, levels=levels)
    first = lead == 1
    if lead_time == "day" and first.any():
        quantiles[first] = model.predict(hours, "hour", last[first], lead[first], levels=levels)
    return quantiles


def predict_intervals(
    model: PublicModel,
    readings: MeterReadings,
    last: Integers,
    leads: Integers,
    levels: Sequence[float] = MEDIAN_LEVELS,
) -> Floats:
    """Quantiles (W, H, P, Q), in kWh, of the intervals of the hours `leads` (H,) after the last
    known hours (W,). Nothing after these is read. `levels`: within `PUBLIC_LEVELS`, between which
    they are interpolated. The median is the same whatever the others are."""
    lead_time: LeadTime = "hour" if leads[-1] == 1 else "day"
    last_rows, lead = np.repeat(last, len(leads)), np.tile(leads, len(last))
    hours = public_quantiles(model, readings.hours, lead_time, last_rows, lead, MEDIAN_LEVELS)
    if tuple(levels) != MEDIAN_LEVELS:
        # Quantiles are sorted, which could take another one for the median.
        quantiles = public_quantiles(model, readings.hours, lead_time, last_rows, lead)
        quantiles[:, PUBLIC_LEVELS.index(0.5)] = hours[:, 0]
        shares_of_levels = [
            np.interp(levels, PUBLIC_LEVELS, unit) for unit in np.eye(len(PUBLIC_LEVELS))
        ]
        hours = quantiles @ np.array(shares_of_levels)
    forecasts_of_parts = readings.divide(last_rows, lead, hours)
    return forecasts_of_parts.reshape(len(last), len(leads), -1, len(levels))


@dataclass(frozen=True)
class MeterForecast:
    """Forecasts of a meter after its last reading, and how such forecasts did before."""

    table: pd.DataFrame
    """`forecast`, `forecast_10`, `forecast_90` in kWh per interval and `made_at`, indexed by the
    ends of the intervals in local standard time."""
    own_weight: float
    """Weight of the meter's own model."""
    pairs: pd.DataFrame
    """Earlier forecasts with what came: `truth`, `forecast`, `low`, `high`, and `last`, `naive_day`
    and `naive_week`, the last load before it and those a day and a week before; kWh per interval,
    indexed by the ends of the intervals. May be empty."""


@dataclass(frozen=True)
class _MeterWindows:
    """Windows of one model: last known rows and leads (W,)."""

    lead_time: LeadTime
    last: Integers
    lead: Integers


def forecast_meter(
    readings: MeterReadings, model: PublicModel, lead_time: LeadTime
) -> MeterForecast:
    """Forecast the next hour, or the next 24, after the last reading. The first of 24 is that of
    the model of the next hour."""
    return _Forecaster(readings, model, lead_time).forecast()


@dataclass(frozen=True)
class _Forecaster:
    readings: MeterReadings
    model: PublicModel
    lead_time: LeadTime

    @property
    def _hours(self) -> HourlyLoads:
        return self.readings.hours

    def forecast(self) -> MeterForecast:
        end = len(self._hours.load)
        tested = self._test_windows()
        public = self._quantiles(tested)
        truth = self._hours.load[tested.last + tested.lead]
        is_known = np.isfinite(truth) & np.isfinite(public).all(axis=1)
        tested = _MeterWindows(self.lead_time, tested.last[is_known], tested.lead[is_known])
        public, truth = public[is_known], truth[is_known]
        future = _MeterWindows(
            self.lead_time,
            np.full(LEAD_HOURS[self.lead_time], end - 1),
            np.arange(1, LEAD_HOURS[self.lead_time] + 1),
        )
        quantiles, weight = self._quantiles(future), 0.0
        # What is scored must choose nothing: each half of these weeks has what the other chose.
        is_late = tested.last + tested.lead >= end - TESTED_HOURS // 2
        halves = [~is_late, is_late]
        if np.isfinite(self._hours.load).sum() >= OWN_FROM and len(truth):
            own_loads = self._own_loads(self._fit_own(end - TESTED_HOURS), tested)
            median = public[:, 1].copy()
            for half in halves:
                weight = _own_weight(own_loads[~half], median[~half], truth[~half])
                public[half] += (weight * (own_loads - median)[half])[:, None]
            weight = _own_weight(own_loads, median, truth)
            own_next = self._own_loads(self._fit_own(end), future)
            quantiles += weight * (own_next - quantiles[:, 1])[:, None]
        parts = self.readings.divide(future.last, future.lead, quantiles)
        past_parts = self.readings.divide(tested.last, tested.lead, public)
        past_truth = self.readings.load[tested.last + tested.lead]
        parts = _widen(parts, _factor(past_parts, past_truth))
        factors = [_factor(past_parts[~half], past_truth[~half]) for half in halves]
        for half, factor in zip(halves, factors, strict=True):
            past_parts[half] = _widen(past_parts[half], factor)
        if np.nanmin(self.readings.load) >= 0:
            parts, past_parts = np.maximum(parts, 0), np.maximum(past_parts, 0)
        pairs = self._pairs(tested, past_parts, past_truth)
        return MeterForecast(self._table(future, parts), weight, pairs)

    def _test_windows(self) -> _MeterWindows:
        """Windows in the last weeks: of 24 hours, those made at the same time of day as now."""
        end, step = len(self._hours.load), LEAD_HOURS[self.lead_time]
        origins = np.arange(
            end - 1 - step, max(end - 1 - TESTED_HOURS - step, FEWEST_CONTEXT_HOURS - 2), -step
        )[::-1]
        lead = np.arange(1, step + 1)
        return _MeterWindows(self.lead_time, np.repeat(origins, step), np.tile(lead, len(origins)))

    def _quantiles(self, windows: _MeterWindows) -> Floats:
        """Quantiles (W, Q) of the public model, in kWh per hour."""
        return public_quantiles(
            self.model, self._hours, windows.lead_time, windows.last, windows.lead
        )

    def _fit_own(self, end: int) -> Any:
        """A model of the readings before a row."""
        target = np.flatnonzero(np.isfinite(self._hours.load[:end]))
        target = target[target >= HOURS_PER_DAY + LEAD_HOURS[self.lead_time]]
        random = np.random.default_rng(1)
        if len(target) > MOST_OWN_WINDOWS:
            target = np.sort(random.choice(target, MOST_OWN_WINDOWS, replace=False))
        lead = random.integers(1, LEAD_HOURS[self.lead_time] + 1, len(target))
        windows = _MeterWindows(self.lead_time, target - lead, lead)
        inputs = self._inputs(windows)
        targets = inputs.outputs_of_loads(self._hours.load[target])
        usable = np.isfinite(targets)
        return fit(inputs.features[usable], targets[usable], OWN_SIZES, **OWN_PARAMETERS)

    def _inputs(self, windows: _MeterWindows) -> Inputs:
        return inputs_of(self._hours, windows.lead_time, windows.last, windows.lead)

    def _own_loads(self, booster: Any, windows: _MeterWindows) -> Floats:
        inputs = self._inputs(windows)
        return inputs.loads_of_outputs(booster.predict(inputs.features, num_threads=1))

    def _ends(self, windows: _MeterWindows) -> pd.DatetimeIndex:
        """The ends of the intervals of windows."""
        parts_of_hour = self.readings.load.shape[1]
        hours = self.readings.stamps[windows.last] + windows.lead * np.timedelta64(3600, "s")
        offsets = np.arange(parts_of_hour)[::-1] * np.timedelta64(60 * self.readings.minutes, "s")
        return pd.DatetimeIndex((hours[:, None] - offsets).ravel(), name="timestamp")

    def _table(self, windows: _MeterWindows, parts: Floats) -> pd.DataFrame:
        low, median, high = parts.reshape(-1, len(PUBLIC_LEVELS)).T
        columns = {"forecast": median, "forecast_10": low, "forecast_90": high}
        made_at = pd.Timestamp(self.readings.stamps[-1])
        return pd.DataFrame(columns, self._ends(windows)).assign(made_at=made_at)

    def _pairs(self, windows: _MeterWindows, parts: Floats, truth: Floats) -> pd.DataFrame:
        low, median, high = parts.reshape(-1, len(PUBLIC_LEVELS)).T
        load, target = self.readings.load, windows.last + windows.lead
        week = np.where(
            (target >= HOURS_PER_WEEK)[:, None],
            load[np.maximum(target - HOURS_PER_WEEK, 0)],
            np.nan,
        )
        last = np.repeat(load[windows.last, -1:], load.shape[1], axis=1)
        naive = {"last": last, "naive_day": load[target - HOURS_PER_DAY], "naive_week": week}
        columns = {"truth": truth.ravel(), "forecast": median, "low": low, "high": high}
        columns |= {name: values.ravel() for name, values in naive.items()}
        table = pd.DataFrame(columns, self._ends(windows))
        return table[table["truth"].notna() & table["forecast"].notna()]


def _own_weight(own_loads: Floats, public: Floats, truth: Floats) -> float:
    """The weight of own forecasts, in tenths, with the least error; 0 without windows."""
    return best_share(own_loads, public, truth, 10) if len(truth) else 0.0


def _factor(parts: Floats, truth: Floats) -> float:
    """What the outer quantiles' distances from the median are multiplied by, so that as many past
    loads are between them as should be; 1 if there are too few."""
    low, median, high = np.moveaxis(parts, -1, 0)
    distance = np.where(truth > median, high - median, median - low)
    with np.errstate(invalid="ignore", divide="ignore"):
        scores = np.abs(truth - median) / distance
    scores = scores[np.isfinite(scores)]
    wanted_share = PUBLIC_LEVELS[-1] - PUBLIC_LEVELS[0]
    if len(parts) < FEWEST_PART_HOURS or not len(scores):
        return 1.0
    return float(np.clip(np.quantile(scores, wanted_share), *WIDENED))


def _widen(parts: Floats, factor: float) -> Floats:
    median = parts[..., 1:2]
    return median + factor * (parts - median)
