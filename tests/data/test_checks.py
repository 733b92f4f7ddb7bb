from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError, Place, Problem, equal_lines, shared_lines
from plfl.data.checks import check_load, check_stamps, is_register
from tests.helpers.refusals import naming

STAMPS = pd.date_range("2018-01-01 00:15", periods=8, freq="15min")
LOAD = pd.Series(np.arange(8.0), STAMPS, name="load")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_an_unbroken_run_of_stamps_is_accepted(unit, zone):
    check_stamps("m.csv", STAMPS.as_unit(unit).tz_localize(zone), 15)
    check_stamps("m.csv", STAMPS[:1], 15)


@pytest.mark.parametrize(
    ("stamps", "message"),
    [
        (STAMPS[:0], "m.csv: has no rows"),
        (STAMPS.insert(3, pd.NaT), "00:45:00 is followed by NaT (2 such steps)"),
        (STAMPS[[0, 1, 3, 2, 5, 4]], "00:30:00 is followed by 2018-01-01 01:00:00 (4 such steps)"),
        (STAMPS[[0, 1, 1, 2, 3]], "00:30:00 is followed by 2018-01-01 00:30:00 (1 such step)"),
    ],
)
def test_faulty_stamps_are_refused_with_the_first_and_the_remedy(stamps, message):
    with naming(DataError, "m.csv: ", message):
        check_stamps("m.csv", stamps, 15)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "2 values missing (NaN), first at 2018-01-01 00:45:00"),
        (np.inf, "2 values infinite, first at 2018-01-01 00:45:00"),
        (-1.0, "2 values negative, first at 2018-01-01 00:45:00"),
    ],
)
def test_impossible_loads_are_refused(value: float, message: str) -> None:
    load = LOAD.copy()
    load.iloc[[2, 5]] = value
    with naming(DataError, "m.csv", "'load'") as error:
        check_load("m.csv", load)
    assert message in str(error.value)


def test_negative_load_can_be_allowed() -> None:
    check_load("m.csv", LOAD)
    check_load("m.csv", -LOAD, allow_negative=True)


@pytest.mark.parametrize("value", [0.0, 3.25])
def test_a_constant_load_is_refused(value: float) -> None:
    with naming(DataError, "8 values", f"{value:g}"):
        check_load("m.csv", LOAD * 0 + value)


def test_a_load_that_is_missing_everywhere_is_refused() -> None:
    missing = LOAD * np.nan
    assert not is_register(missing)
    with naming(DataError, "m.csv", "'load'"):
        check_load("m.csv", missing, may_have_gaps=True)


def test_problems_of_a_kind_are_shared() -> None:
    names = "abcde"
    alike = [
        Problem(Path(f"{name}.csv"), f"has {at} gaps", meter=name, kind="gaps")
        for at, name in enumerate(names)
    ]
    others = [Problem(name, "no load", meter=name) for name in "abc"]
    first = "5 meters (a, b, c …); of a: has 0 gaps"
    assert shared_lines([*alike, *others]) == [first, "a: no load", "b: no load", "c: no load"]
    alike = [replace(problem, remedy="fill them", kind="") for problem in alike]
    assert shared_lines(alike) == [f"{first}; fill them"]
    same = [Problem(Place(Path(f"{name}.csv"), "line 2"), "no load", meter=name) for name in "abcd"]
    assert shared_lines(same, "home") == ["4 homes (a, b, c …): line 2: no load"]
    assert shared_lines([Problem("", "of no meter")] * 4) == ["of no meter"]


@pytest.mark.parametrize(
    ("meter_of_place", "words"),
    [
        ("", "5 meters (1, 2, 3 …); of 1: line 1: 1 gaps"),
        ("1", "5 meters (1, 2, 3 …): line 1: 1: 1 gaps"),
    ],
)
def test_a_shared_line_names_the_meter_of_its_numbers(meter_of_place: str, words: str) -> None:
    """The number of a line is none, even if a meter has the same name."""
    places = {name: Place(Path("a.csv"), f"line {name}", meter_of_place) for name in "12345"}
    problems = [Problem(places[n], f"{n} gaps", meter=n, kind="gaps") for n in places]
    assert shared_lines(problems) == [words]


def test_equal_lines_differ_in_their_excerpts_only() -> None:
    questions = [
        Problem(Path(f"{name}.csv"), "no unit", "set it", meter=name, excerpt=f"seen: {name}")
        for name in "abcd"
    ]
    assert equal_lines(questions) == ["4 meters (a, b, c …); of a: no unit; set it\n  seen: a"]
    assert len(shared_lines(questions)) == 4
