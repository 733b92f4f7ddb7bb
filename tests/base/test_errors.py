"""Errors: problems with fields, and the one place that words them."""

import pickle
from dataclasses import replace
from pathlib import Path

from plfl.base.errors import ConfigError, DataError, Place, Problem
from plfl.base.keys import Key, word_keys
from plfl.cli.init import word_as_option


def test_a_problem_is_worded_from_its_fields() -> None:
    assert str(Problem("", "no date")) == "no date"
    assert str(Problem(Path("a.csv"), "no date")) == "a.csv: no date"
    problem = Problem(Place(Path("a.csv"), "line 3"), "no date", "add one", note="in P1")
    assert str(problem) == "a.csv: line 3: no date; add one (in P1)"
    assert problem.describe_at("b") == "b: no date; add one (in P1)"
    of_meter = Problem(Place(Path("a.csv"), "line 3", "attic"), "no date", excerpt="seen: x")
    assert str(of_meter) == "a.csv: line 3: attic: no date\n  seen: x"


def test_a_key_stays_a_key_and_is_in_the_words_of_its_reader() -> None:
    with word_keys(word_as_option):
        problem = Problem(Key("data.meters.unit"), "is unknown")
    assert str(problem) == "--unit: is unknown"
    assert str(replace(problem, note="in P1")) == "--unit: is unknown (in P1)"
    assert problem.place == Key("data.meters.unit")


def test_an_error_keeps_its_problems() -> None:
    error = DataError("a.csv: no date", Problem("b.csv", "\x1b no date"))
    assert [problem.text for problem in error.problems] == ["a.csv: no date", "\x1b no date"]
    assert str(error) == "a.csv: no date\nb.csv: \\x1b no date"


def test_an_error_within_a_larger_place_stays_what_it_is() -> None:
    error = DataError(Problem("", "no date", "add one"), Problem("line 3", "no load"))
    inside = error.locate_in(Path("a.csv"), "attic")
    assert type(inside) is DataError
    assert str(inside) == "a.csv: no date; add one\na.csv: line 3: no load"
    assert {problem.meter for problem in inside.problems} == {"attic"}
    assert str(error) == "no date; add one\nline 3: no load"


def test_errors_of_a_configuration_survive_another_process() -> None:
    error = ConfigError("a.yaml", [Problem(Key("name"), "is unknown"), "no data"])
    text = "a.yaml: 2 errors in the configuration\n  - name: is unknown\n  - no data"
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == text
    (unknown, _) = error.problems
    of_one = ConfigError("a.yaml", [unknown])
    assert str(pickle.loads(pickle.dumps(of_one))) == str(of_one)
    assert "b.yaml: name: is unknown" in str(of_one.locate_in(Path("b.yaml")))
