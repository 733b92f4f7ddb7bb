"""The rows of a plot of comparisons are where their numbers say."""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.report.comparison_plot import ComparisonPlot, Scale, plot_comparisons
from plfl.results.comparisons import COMPARISON_COLUMNS, NUMBER_COLUMNS
from tests.helpers import tiny


def comparisons(*rows: dict[str, Any]) -> pd.DataFrame:
    """A table of comparisons with these values."""
    numbers = dict.fromkeys(NUMBER_COLUMNS, np.nan) | {"seeds": 3.0, "weeks": 5.0, "clients": 12.0}
    blank = dict.fromkeys(COMPARISON_COLUMNS, "") | numbers
    return pd.DataFrame([blank | row for row in rows], columns=COMPARISON_COLUMNS)


def test_positions_are_linear_and_zero_is_inside() -> None:
    scale = Scale.from_numbers([0.5, 0.2, 0.8, -0.3, -0.4, 0.1, np.nan])
    assert scale.position_of(-0.4) == 6 and scale.position_of(0.8) == 94
    assert scale.position_of(0.2) == pytest.approx(50)
    ticks = dict(scale.ticks)
    assert ticks[scale.position_of(0)] == "0"
    for at, text in ticks.items():
        assert at == scale.position_of(float(text))
        assert 6 <= at <= 94
    places = sorted(ticks)
    assert all(b - a >= 13 for a, b in pairwise(places))


@pytest.fixture(scope="module")
def plot() -> ComparisonPlot:
    """Of two claims and a comparison."""
    plot = plot_comparisons(
        tiny.study(),
        comparisons(
            {"about": "claim", "claim": "c1", "text": "A beats B"}
            | {"difference": 0.5, "low": 0.2, "high": 0.8}
            | {"verdict": "holds", "p": 0.004, "reason": "a against b"},
            {"about": "federation", "place": "1 week of history", "text": "A against B"}
            | {"difference": -0.4, "low": -0.5, "high": -0.3, "chosen": "a", "chosen_than": "b"},
            {"about": "claim", "claim": "c2", "seeds": 5.0, "text": "Bytes", "score": "bytes"}
            | {"difference": 0.0581, "verdict": "holds", "low": 0.0581, "high": 0.0581},
        ),
    )
    assert plot is not None
    return plot


def rows_of(plot: ComparisonPlot) -> list[dict[str, Any]]:
    return [row for rows in plot.groups.values() for row in rows]


def test_only_a_claim_has_a_verdict(plot: ComparisonPlot) -> None:
    assert plot.is_judged
    assert [len(rows) for rows in plot.groups.values()] == [2, 1]
    first, _, second = rows_of(plot)
    assert (first["text"], first["mark"], first["p"]) == ("A beats B (c1)", "✓", "0.004")
    assert (second["text"], second["verdict"]) == ("1 week of history: A against B", "")


def test_a_row_has_its_numbers_and_their_evidence(plot: ComparisonPlot) -> None:
    first, counted, second = rows_of(plot)
    assert (first["effect"], plot.data) == ("+0.5 [+0.2, +0.8]", "12 clients, 5 weeks, 3 seeds")
    assert counted["evidence"] == "Based on 12 clients, 5 weeks, 5 seeds."
    assert first["evidence"] == second["evidence"] == "A against b."
    assert second["end"] < plot.scale.position_of(0) < first["start"] < first["at"] < first["end"]
    assert (counted["effect"], counted["at"]) == ("5.81% [5.81%, 5.81%]", None)


def test_nothing_to_compare_has_no_plot() -> None:
    assert plot_comparisons(tiny.study(), comparisons().head(0)) is None
