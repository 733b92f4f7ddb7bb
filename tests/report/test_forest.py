"""The rows of a forest plot are where their numbers say."""

from itertools import pairwise
from typing import Any

import pytest

from plfl.report.forest import Scale, forest
from plfl.results.verdict import Answer, Verdict


def verdict(
    effect: float | None = 0.5,
    low: float | None = 0.2,
    high: float | None = 0.8,
    answer: Answer = "holds",
    text: str = "a",
    **more: Any,
) -> Verdict:
    numbers: dict[str, Any] = {"effect": effect, "low": low, "high": high, "seeds": 3, "weeks": 5}
    return Verdict(text, "local", "CA", answer=answer, clients=12, text=text, **numbers | more)


def test_positions_are_linear_and_zero_is_inside() -> None:
    scale = Scale.of([verdict(), verdict(-0.3, -0.4, 0.1)])
    assert scale.unit is None
    assert scale.at(-0.4) == 6 and scale.at(0.8) == 94
    assert scale.at(0.2) == pytest.approx(50)
    ticks = dict(scale.ticks)
    assert ticks[scale.at(0)] == "0"
    for at, text in ticks.items():
        assert at == scale.at(float(text))
        assert 6 <= at <= 94
    places = sorted(ticks)
    assert all(b - a >= 13 for a, b in pairwise(places))


def test_far_effects_do_not_flatten_the_others() -> None:
    scale = Scale.of([verdict() for _ in range(9)] + [verdict(-80, -200, -20)])
    assert scale.unit == pytest.approx(0.5)
    assert scale.at(0.8) - scale.at(0.2) > 4, "of a linear axis it would be 0.3"
    places = [scale.at(x) for x in (-200, -80, -20, 0, 0.2, 0.8)]
    assert places == sorted(places)
    assert {text for _, text in scale.ticks} >= {"0", "-100"}


def test_a_row_has_its_numbers_its_mark_and_its_size() -> None:
    plot = forest([verdict(), verdict(-0.4, -0.5, -0.3, "does not hold", "b")])
    assert plot is not None and plot.about == ""
    (first,), (second,) = (group.rows for group in plot.groups)
    assert [group.title for group in plot.groups] == ["a", "b"]
    assert (first.effect, first.size, first.mark) == ("+0.5 [+0.2, +0.8]", "12 × 5 × 3", "✓")
    assert (second.answer, second.mark, second.label) == ("does not hold", "✗", "")
    assert first.start is not None and first.at is not None and first.end is not None
    assert second.end is not None
    assert second.end < plot.scale.at(0) < first.start < first.at < first.end
    assert not plot.single_seed


def test_one_seed_is_said_once() -> None:
    one = verdict(0.2, 0.1, 0.3, "undecided", seeds=1)
    share = Verdict("d", None, answer="holds", effect=0.05, unit="share", seeds=1, text="d")
    plot = forest([one, share])
    assert plot is not None and plot.single_seed
    several = forest([verdict(answer="undecided")])
    assert several is not None and not several.single_seed
