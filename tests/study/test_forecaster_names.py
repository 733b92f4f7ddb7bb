"""Names of forecasters in claims: what they choose, and that a name and its text are one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plfl.study.axes import Axis
from plfl.study.forecaster_names import USE_NAMES, WHOLE_KINDS, ForecasterName, parse_name

WORDS = st.from_regex(r"\A[A-Za-z][A-Za-z0-9_]{0,8}\Z")
PARTS = WORDS | st.just("*")
CELLS = st.builds(ForecasterName, PARTS, PARTS, PARTS, PARTS, is_global=st.booleans())
BASELINES = st.builds(ForecasterName.from_baseline, WORDS)
PHRASES = st.sampled_from([*WHOLE_KINDS, *USE_NAMES]).map(ForecasterName)


@given(CELLS | BASELINES | PHRASES)
def test_a_name_is_its_text(name: ForecasterName) -> None:
    assert ForecasterName.parse(str(name)) == name


@pytest.mark.parametrize(
    ("text", "chosen_axes", "is_global"),
    [
        ("P2", {"sharing": "P2"}, False),
        ("*-fedopt-*-adam", {"method": "fedopt", "server_opt": "adam"}, False),
        ("P1-scaffold-global", {"sharing": "P1", "method": "scaffold"}, True),
        ("baseline-lightgbm_lags", {"sharing": "baseline", "method": "lightgbm_lags"}, False),
    ],
)
def test_what_is_left_out_is_any(text: str, chosen_axes: dict[str, str], is_global: bool) -> None:
    name = ForecasterName.parse(text)
    assert (name.chosen_axes, name.is_global) == (chosen_axes, is_global)


def test_the_three_kinds_of_names_exclude_each_other() -> None:
    kinds = [
        (name.is_whole_kind, name.is_in_use, name.is_baseline)
        for name in map(ForecasterName.parse, ("best alone", "in use alone", "baseline-ridge"))
    ]
    assert kinds == [(True, False, False), (False, True, False), (False, False, True)]


def test_a_place_stands_before_the_name() -> None:
    axes = [Axis("windows.history", "history", {"1": 1, "4": 4})]
    assert parse_name("history=4/P2", axes) == ({"windows.history": "4"}, ForecasterName("P2"))
    assert parse_name("P2", axes) == ({}, ForecasterName("P2"))
    for text in ("history=2/P2", "weeks=4/P2", "/P2"):
        with pytest.raises(ValueError):
            parse_name(text, axes)
