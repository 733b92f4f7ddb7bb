"""Forecasts of a meter by a public model: young meters, gaps, short intervals, bad readings."""

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.public.meter import MeterForecast, MeterReadings, forecast_meter
from plfl.public.models import load


def series(days: float, minutes: int = 60, seed: int = 0) -> pd.Series:
    """A home whose load has a daily course, in kWh per interval."""
    step = pd.Timedelta(minutes=minutes)
    ends = pd.date_range(
        pd.Timestamp("2024-01-01") + step, periods=int(days * 1440 / minutes), freq=step
    )
    noise = np.random.default_rng(seed).gamma(4.0, 0.25, len(ends))
    course = 0.5 + 0.4 * np.sin(2 * np.pi * (ends.hour + ends.minute / 60 - 14) / 24)
    return pd.Series(course * noise * minutes / 60, ends)


def forecast(load_: pd.Series, minutes: int = 60, ahead: str = "day") -> MeterForecast:
    return forecast_meter(MeterReadings.from_series(load_, minutes), load("homes"), ahead)


@pytest.mark.parametrize(("ahead", "hours"), [("hour", 1), ("day", 24)])
@pytest.mark.parametrize(("days", "minutes"), [(3, 60), (12.5, 30), (40, 15)])
def test_forecasts_follow_the_last_reading(
    ahead: str, hours: int, days: float, minutes: int
) -> None:
    readings = series(days, minutes)
    table = forecast(readings, minutes, ahead).table
    step = pd.Timedelta(minutes=minutes)
    assert list(table.index) == list(
        readings.index[-1] + step * np.arange(1, hours * 60 // minutes + 1)
    )
    assert (table["made_at"] == readings.index[-1]).all()
    assert table.notna().all(axis=None)
    assert (table["forecast_10"] <= table["forecast"]).all()
    assert (table["forecast"] <= table["forecast_90"]).all()
    assert (table["forecast_10"] >= 0).all()


def test_the_intervals_of_an_hour_add_up_to_it() -> None:
    quarters = series(10, 15)
    hours = quarters.resample("1h", closed="right", label="right").sum()
    quarter_forecasts = forecast(quarters, 15).table["forecast"]
    added = quarter_forecasts.resample("1h", closed="right", label="right").sum()
    np.testing.assert_allclose(added, forecast(hours).table["forecast"], rtol=1e-6)


def test_an_hour_is_divided_as_on_earlier_days() -> None:
    halves = series(28, 30)
    halves[:] = np.where(halves.index.minute == 30, 0.3, 0.1)  # the first half hour has more
    readings = MeterReadings.from_series(halves, 30)
    loads = readings.divide(np.array([28 * 24 - 1]), np.array([1]), np.ones((1, 1)))
    first = (28 * 0.3 + 4 * 0.2) / (28 * 0.4 + 4 * 0.4)  # four days of even halves beside 28
    np.testing.assert_allclose(loads[..., 0], [[first, 1 - first]])


@pytest.mark.parametrize("minutes", [15, 30])
def test_parts_of_hours_whose_sum_is_near_0_stay_within_the_loads(minutes: int) -> None:
    """A home whose panels make about as much as it uses, more in one half of an hour."""
    load = series(20, minutes)
    is_noon = (load.index.hour >= 9) & (load.index.hour < 17)
    surplus = np.where(load.index.minute % 60 == 30, 2.0, 0.1) * minutes / 60
    load[:] = np.where(is_noon, load - 1.05 * load.mean() * surplus / surplus.mean(), load)
    table = forecast(load, minutes).table
    assert (table["forecast_10"] <= table["forecast_90"]).all()
    assert table["forecast"].between(2 * load.min(), 2 * load.max()).all()
    readings = MeterReadings.from_series(load, minutes)
    hours = load.to_numpy().reshape(-1, 60 // minutes)[12::24]  # the hour that ends at 13:00
    (parts,) = readings.divide(np.array([19 * 24 + 11]), np.array([1]), np.zeros((1, 1)))[..., 0]
    deviation = (hours - hours.mean(axis=1, keepdims=True))[:19].sum(axis=0) / (19 + 4)
    np.testing.assert_allclose(parts, deviation)


def test_four_weeks_weigh_an_own_model_in() -> None:
    """A load that no public model expects: it depends on the parity of the day."""

    def parity(days: int) -> pd.Series:
        readings = series(days)
        return readings * np.where(readings.index.day_of_year % 2 == 0, 1.0, 0.1)

    assert forecast(parity(27)).own_weight == 0
    assert forecast(parity(60)).own_weight > 0


def test_earlier_forecasts_are_beside_what_came() -> None:
    readings = series(20)
    pairs = forecast(readings).pairs
    assert len(pairs) == 14 * 24
    np.testing.assert_array_equal(pairs["truth"], readings[pairs.index])
    day, week = pd.Timedelta(days=1), pd.Timedelta(days=7)
    np.testing.assert_array_equal(pairs["naive_day"], readings[pairs.index - day])
    np.testing.assert_array_equal(
        pairs["naive_week"].dropna()[-9:], readings[pairs.index[-9:] - week]
    )
    np.testing.assert_array_equal(
        pairs["last"], np.repeat(readings[pairs.index[::24] - pd.Timedelta("1h")], 24)
    )


def test_earlier_forecasts_do_not_know_what_came() -> None:
    """The forecast of the last day is the one that was made the day before."""
    readings = series(10)
    past = forecast(readings).pairs["forecast"][-24:]
    raw = forecast_meter(MeterReadings.from_series(readings[:-24], 60), load("homes"), "day").table[
        "forecast"
    ]
    np.testing.assert_allclose(past, raw, rtol=1e-6)


def test_a_hole_of_a_week_does_not_stop_it() -> None:
    readings = series(20)
    readings.iloc[200:368] = np.nan
    assert forecast(readings).table["forecast"].notna().all()


def test_readings_end_with_the_last_known_one() -> None:
    readings = series(10)
    unknown = readings.copy()
    unknown.iloc[-30:] = np.nan
    expected = forecast(readings[:-30]).table
    pd.testing.assert_frame_equal(forecast(unknown).table, expected)


@pytest.mark.parametrize(
    ("readings", "minutes", "why"),
    [
        (series(0.5), 60, "12 hours of its last four weeks are known"),
        (0 * series(10), 60, "are 0 or negative"),
        (np.nan * series(10), 60, "has no reading"),
        (series(10, 120), 120, "is no part of an hour"),
    ],
)
def test_no_forecast_of_what_cannot_be_forecast(
    readings: pd.Series, minutes: int, why: str
) -> None:
    with pytest.raises(DataError, match=why):
        MeterReadings.from_series(readings, minutes)
