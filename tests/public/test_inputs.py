"""The inputs of public models: what they hold, and what they must not know."""

import numpy as np
import pytest

from plfl.public.inputs import (
    CONTEXT,
    FEWEST_CONTEXT_HOURS,
    HOURS_PER_WEEK,
    HourlyLoads,
    LeadTime,
    inputs_of,
)

FIRST = np.datetime64("2024-01-01T01", "s")  # the end of the first hour of a Monday


def meter(hours: int, seed: int = 0) -> HourlyLoads:
    load = np.random.default_rng(seed).gamma(2.0, 1.0, hours)
    return HourlyLoads.ending_at(FIRST + np.arange(hours) * np.timedelta64(3600, "s"), load)


def changed(loads: HourlyLoads, rows: slice, load: float) -> HourlyLoads:
    other = loads.load.copy()
    other[rows] = load
    return HourlyLoads(other, loads.hour, loads.weekday)


def features(
    loads: HourlyLoads, ahead: LeadTime, last: int, lead: int, first: int = 0
) -> np.ndarray:
    return inputs_of(loads, ahead, np.array([last]), np.array([lead]), first).features


def test_the_calendar_is_that_of_the_beginning_of_an_hour() -> None:
    loads = meter(24 * 8)
    assert loads.hour[:3].tolist() == [0, 1, 2]
    assert loads.weekday[[0, 23, 24, 24 * 7]].tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize(("ahead", "lead"), [("hour", 1), ("day", 1), ("day", 24)])
class TestInputs:
    def test_nothing_after_the_last_reading_is_read(self, ahead: LeadTime, lead: int) -> None:
        loads = meter(6 * HOURS_PER_WEEK)
        other = changed(loads, slice(901, None), 99.0)
        np.testing.assert_array_equal(
            features(loads, ahead, 900, lead), features(other, ahead, 900, lead)
        )

    def test_nothing_before_the_context_is_read(self, ahead: LeadTime, lead: int) -> None:
        loads = meter(6 * HOURS_PER_WEEK)
        other = changed(loads, slice(0, 901 - CONTEXT), 99.0)
        np.testing.assert_array_equal(
            features(loads, ahead, 900, lead), features(other, ahead, 900, lead)
        )

    def test_nothing_that_the_meter_does_not_know_is_read(self, ahead: LeadTime, lead: int) -> None:
        loads = meter(6 * HOURS_PER_WEEK)
        unknown, other = (changed(loads, slice(0, 700), load) for load in (np.nan, 99.0))
        np.testing.assert_array_equal(
            features(unknown, ahead, 900, lead), features(other, ahead, 900, lead, first=700)
        )

    def test_the_unit_of_the_loads_does_not_matter(self, ahead: LeadTime, lead: int) -> None:
        loads = meter(6 * HOURS_PER_WEEK)
        watts = HourlyLoads(1024 * loads.load, loads.hour, loads.weekday)
        np.testing.assert_allclose(
            features(loads, ahead, 900, lead), features(watts, ahead, 900, lead), rtol=1e-5
        )


def test_outputs_are_changes_from_the_base_over_the_mean() -> None:
    loads = meter(6 * HOURS_PER_WEEK)
    last = np.array([900])
    next_hour = inputs_of(loads, "hour", last, np.array([1]))
    assert next_hour.base == loads.load[900]
    assert next_hour.scale == pytest.approx(loads.load[901 - CONTEXT : 901].mean())
    day = inputs_of(loads, "day", last, np.array([5]))
    assert day.base == loads.load[905 - 24]
    assert day.outputs_of_loads(day.loads_of_outputs(np.array([0.3]))) == pytest.approx(0.3)


def test_the_base_of_a_young_meter_is_the_nearest_that_it_knows() -> None:
    loads = changed(meter(HOURS_PER_WEEK), slice(80, 100), np.nan)
    inputs = inputs_of(loads, "day", np.array([110]), np.array([3]))
    assert inputs.base == loads.load[110]  # 113 - 24 is in the gap, 113 - 168 before the readings


def test_less_than_a_day_gives_no_forecast() -> None:
    loads = meter(HOURS_PER_WEEK)
    last = np.array([FEWEST_CONTEXT_HOURS - 2, FEWEST_CONTEXT_HOURS - 1])
    scale = inputs_of(loads, "hour", last, np.array([1, 1])).scale
    assert np.isnan(scale).tolist() == [True, False]


def test_the_last_readings_come_first() -> None:
    loads = meter(6 * HOURS_PER_WEEK)
    inputs = inputs_of(loads, "hour", np.array([900]), np.array([1]))
    recent = loads.load[900 - np.arange(12)]
    expected = (recent - inputs.base) / inputs.scale
    np.testing.assert_allclose(inputs.features[0, :12], expected, rtol=1e-5)
