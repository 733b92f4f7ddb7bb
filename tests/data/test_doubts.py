"""What is odd about loads is named when they are read, in one line for all meters that have it."""

from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from plfl.data.meters.cleaning import Meter
from plfl.data.meters.doubts import doubts

ROWS = 24 * 28


def loads(seed: int = 0) -> np.ndarray:
    """Ordinary hours of a home in kWh."""
    return np.random.default_rng(seed).uniform(0.1, 0.9, ROWS).round(3)


def meter(load: np.ndarray, part: slice = slice(None)) -> Meter:
    ends = pd.date_range("2023-01-02 01:00", periods=len(load), freq="h", tz="UTC")
    series = pd.Series(load, ends, name="load").iloc[part]
    return Meter(series, pd.DataFrame(), 60, ZoneInfo("UTC"))


def told(**columns: np.ndarray) -> list[str]:
    return [str(doubt) for doubt in doubts({name: meter(load) for name, load in columns.items()})]


def late(load: np.ndarray) -> np.ndarray:
    """The load of every six hours in the last of them."""
    sums = np.zeros(ROWS)
    sums[5::6] = load.reshape(-1, 6).sum(axis=1)
    return sums


def few_late(load: np.ndarray, count: int) -> np.ndarray:
    """A load of which some spans of 12 hours are zero but for their sum at the end."""
    late_load = load.copy()
    for start in range(60, 60 + 200 * count, 200):
        late_load[start + 11] = load[start : start + 12].sum()
        late_load[start : start + 11] = 0
    return late_load


VACANT = np.where(np.arange(ROWS) < ROWS // 2, loads(), 0.05)
FAR = np.where(np.arange(ROWS) == 99, 50.0, loads())


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (VACANT, ("x: the load is all but constant", "data.meters.leave_out: [x]")),
        (5 + loads(4).round() / 1000, ("x: the load is all but constant",)),
        (np.where(np.arange(ROWS) % 140 == 99, 15.0, loads(4)), ("x: single loads are 10 times",)),
        (FAR, ("x: single loads are 10 times all others", "data.meters.max_jump")),
        (late(loads(2)), ("x: zeros are followed by their sum", "data.meters.zero_run")),
        (few_late(loads(2), 3), ("x: zeros are followed by their sum", "data.meters.zero_run")),
        (loads(3) / 1000, ("x: the mean load is below 2 W", "data.meters.unit")),
        (loads(3) * 1000, ("x: the mean load is above 100 kW", "data.meters.unit")),
        (loads(0), ("x: the loads are equal to those of another meter",)),
        (loads(0) + loads(1), ("x: the load is the sum of all others", "leave_out: [x]")),
    ],
)
def test_an_odd_meter_is_named(odd: np.ndarray, words: tuple[str, ...]) -> None:
    lines = told(a=loads(0), b=loads(1), x=odd)
    assert [all(word in line for word in words) for line in lines].count(True) == 1, lines


def test_the_sum_of_some_meters_is_named_beside_an_unrelated_one() -> None:
    parts = {"alpha": loads(0), "beta": loads(1), "gamma": loads(2)}
    main = loads(0) + loads(1)
    (line,) = told(**parts, main=main)
    assert line.startswith("main: the load is the sum of alpha and beta; leave it out")
    main[5] += 0.01
    assert told(**parts, main=main) == []


@pytest.mark.parametrize("part", [slice(5, None), slice(None, -5), slice(0, 24 * 20)])
def test_equal_loads_of_different_spans_are_named(part: slice) -> None:
    whole, other = meter(loads(0)), meter(loads(1))
    copy = Meter(whole.load.iloc[part].copy(), pd.DataFrame(), 60, ZoneInfo("UTC"))
    copy.load.iloc[3] = np.nan
    (line,) = map(str, doubts({"a": whole, "b": other, "x": copy}))
    assert line.startswith("x: the loads are equal to those of another meter")
    copy.load.iloc[99] += 0.001
    assert not doubts({"a": whole, "b": other, "x": copy})


def test_zeros_are_ordinary_if_what_follows_them_is() -> None:
    assert told(a=loads(0), x=few_late(loads(2), 2)) == []
    vacant = few_late(loads(2), 4)
    assert told(a=loads(0), x=np.minimum(vacant, loads(2).max())) == []


def test_loads_of_a_coarse_resolution_are_not_constant() -> None:
    assert told(a=loads(0).round(1), b=2 + loads(1).round(1)) == []


def test_ordinary_homes_are_not_odd() -> None:
    hours = np.arange(ROWS) % 24
    evening = np.where((hours > 17) & (hours < 22), 6.0, 0.0) * (np.arange(ROWS) // 24 % 3 == 0)
    homes = {f"h{seed}": loads(seed) * (1 + seed % 3) + evening for seed in range(30)}
    assert told(**homes) == []


def test_what_many_share_is_one_line() -> None:
    columns = {
        f"m{number}": np.where(np.arange(ROWS) < 9, loads(number), 0.1) for number in range(9)
    }
    (line,) = told(**columns)
    assert line.startswith("9 meters (m0, m1, m2 …): the load is all but constant")


def test_solar_cells_are_named() -> None:
    noon = np.clip(np.sin((np.arange(ROWS) % 24 - 6) / 12 * np.pi), 0, None) * (1 + loads())
    (line,) = told(roof=noon, home=loads())
    assert line.startswith("roof: the load is zero at night and highest around noon")
    assert told(office=noon + 0.2, home=loads()) == []


def test_registers_that_take_turns_are_named() -> None:
    is_day = np.arange(ROWS) % 24 >= 7
    (line,) = told(high=loads() * is_day, low=loads() * ~is_day)
    assert "high, low): only one of them counts at a time" in line
    assert """add: "^(high|low)\"""" in line
    assert told(high=loads() * is_day, low=loads(1)) == []


def test_feed_in_is_not_offered_to_be_added() -> None:
    is_day = np.arange(ROWS) % 24 >= 7
    (line,) = told(p1_import_tariff_1=loads() * is_day, p1_import_tariff_2=loads() * ~is_day)
    assert """add: "(1|2)$\"""" in line
    assert told(p1_import=loads() * ~is_day, p1_export=loads() * is_day) == []
    noon = np.clip(np.sin((np.arange(ROWS) % 24 - 6) / 12 * np.pi), 0, None) * loads()
    (line,) = told(first=noon, second=np.where(noon == 0, loads(), 0))
    assert line.startswith("first: the load is zero at night and highest around noon")


def test_registers_with_blanks_at_their_ends_are_named() -> None:
    is_day = np.arange(ROWS) % 24 >= 7
    high, low = np.where(is_day, loads(), np.nan), np.where(is_day, np.nan, loads())
    both = {"high": meter(high, slice(7, None)), "low": meter(low, slice(0, -17))}
    (line,) = map(str, doubts(both))
    assert "high, low): only one of them counts at a time" in line
    later = meter(loads(1), slice(ROWS // 3 * 2, None))
    assert [*doubts({"old": meter(loads(), slice(0, ROWS // 2)), "new": later})] == []


def test_a_meter_that_is_ten_times_other_homes_is_named() -> None:
    homes = {"a": loads(0), "b": loads(1)}
    (line,) = told(**homes, x=loads(2) * 12)
    assert line.startswith("x: the mean load is more than 10 times that of every other meter")
    assert told(**homes, x=loads(2) * 8) == []
    buildings = {name: load * 10 for name, load in homes.items()}
    assert told(**buildings, x=loads(2) * 120) == []
    (line,) = told(**homes, x=loads(2) * 0.009)
    assert line.startswith("x: the mean load is less than a hundredth")


def test_of_a_file_and_its_copy_the_copy_is_left_out() -> None:
    copies = {"home1 (1)": loads(), "home1 (2)": loads(), "home1": loads(), "home2": loads(2)}
    assert any("[home1 (1), home1 (2)]" in line for line in told(**copies))
    assert any("[other]" in line for line in told(home1=loads(), other=loads()))
