"""Messages of errors."""

from plfl.base.errors import did_you_mean


def test_a_similar_name_is_suggested() -> None:
    assert did_you_mean("wind", ["wend", "sun"]) == "; did you mean 'wend'?"
    assert did_you_mean("load", ["Timestamp", "LOAD"]) == "; did you mean 'LOAD'?"


def test_nothing_is_suggested_where_no_name_is_similar() -> None:
    assert did_you_mean("wind", ["floor area"]) == ""
    assert did_you_mean("wind", []) == ""
