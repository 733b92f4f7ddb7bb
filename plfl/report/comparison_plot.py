"""The table of comparisons: each in words, with its difference and interval on a common axis.

The page draws it with HTML and CSS, so that its text stays legible on a narrow screen. This module
computes the positions. Only comparisons that the study names have a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from plfl.base.text import capitalise
from plfl.config.claim_scores import COUNTED, LOADS_SCORE
from plfl.results.words import estimate, word_scope
from plfl.study import Study

MARKS = {"holds": "✓", "does not hold": "✗", "undecided": "○"}
"""A symbol for each verdict, so that colour is not its only sign."""
ROLE_HEADINGS = {
    "claim": "Claims of the study",
    "federation": "The best federation against others, without verdicts",
    "new": "New clients, without verdicts",
    "axis": "Values of the axes against the first one, without verdicts",
}
"""Headings of comparisons by what they are about."""
_EDGE = 6
"""Distance of the ends of the axis from the edges of the plot, in percent: labels need room."""
_APART = 13
"""Smallest distance of two marks on the axis, in percent of its width."""


@dataclass(frozen=True)
class Scale:
    """The common horizontal axis, from 0 to 100 percent of the width of the plot."""

    low: float
    high: float
    marked_value: float = 0.0
    """The value on the axis that always has a mark."""

    @classmethod
    def from_numbers(cls, numbers: Iterable[float], marked_value: float = 0.0) -> Scale:
        """The scale on which all numbers that are known, and the marked one, fit."""
        values = [marked_value, *(value for value in numbers if math.isfinite(value))]
        return cls(min(values), max(values), marked_value)

    def position_of(self, value: float) -> float:
        """The position of a value in percent."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(_EDGE + (100 - 2 * _EDGE) * share, 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Positions and labels of the marks on the axis: round numbers in about four steps."""
        span = (self.high - self.low) or 1.0
        power = 10.0 ** math.floor(math.log10(span / 4))
        step = next(power * k for k in (1, 2, 2.5, 5, 10) if power * k * 4 >= span)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        value_at = {self.position_of(self.marked_value): self.marked_value}
        for value in (step * k for k in range(first, last + 1)):
            if abs(self.position_of(value) - self.position_of(self.marked_value)) >= _APART:
                value_at[self.position_of(value)] = value
        return [
            (position, f"{value:+g}" if value else "0")
            for position, value in sorted(value_at.items())
        ]


@dataclass(frozen=True)
class ComparisonPlot:
    """What the template draws: the rows of comparisons, and their common axis."""

    scale: Scale
    groups: dict[str, list[dict[str, Any]]]
    """The rows of `_row` below each heading."""
    is_judged: bool
    """Whether any comparison has a verdict."""
    data: str
    """The data that most comparisons are based on."""


def plot_comparisons(study: Study, comparisons: pd.DataFrame) -> ComparisonPlot | None:
    """The plot of the comparisons of a study; None if there are none."""
    if comparisons.empty:
        return None
    scored_rows = comparisons[~comparisons["score"].isin((*COUNTED, LOADS_SCORE))]
    scale = Scale.from_numbers(scored_rows[["difference", "low", "high"]].to_numpy(float).ravel())
    data = comparisons.apply(word_scope, axis=1, are_meters=study.client_word == "meter")
    commonest = str(data.mode().iloc[0])
    comparisons = comparisons.assign(data=data.where(data != commonest, ""))
    groups = {
        ROLE_HEADINGS[str(about)]: [_row(row, scale) for _, row in rows.iterrows()]
        for about, rows in comparisons.groupby("about", sort=False)
    }
    return ComparisonPlot(scale, groups, bool((comparisons["verdict"] != "").any()), commonest)


def _row(row: pd.Series, scale: Scale) -> dict[str, Any]:
    """A comparison: its `text`, then its name if it is a claim; `verdict`, `mark` and `p`, empty if
    the study does not name it; `effect`, the difference with its interval, empty if unknown, and
    their positions `at`, `start` and `end`, None if they are not on the axis; `evidence`: which
    forecasters were compared, on which data, and what would decide the claim."""
    place = f"{capitalise(row['place'])}: " if row["place"] else ""
    places = {
        name: scale.position_of(row[column])
        if row["score"] not in (*COUNTED, LOADS_SCORE) and math.isfinite(row[column])
        else None
        for name, column in (("at", "difference"), ("start", "low"), ("end", "high"))
    }
    sides = f"{row['chosen']} against {row['chosen_than']}" if row["chosen_than"] else ""
    data = f"based on {row['data']}" if row["data"] else ""
    remarks = [row["reason"] or sides, data, row["needed"].rstrip(".")]
    sentences = [f"{capitalise(text)}." for text in remarks if text]
    return places | {
        "text": f"{row['text']} ({row['claim']})" if row["claim"] else f"{place}{row['text']}",
        "verdict": row["verdict"],
        "mark": MARKS.get(row["verdict"], ""),
        "effect": estimate(row),
        "p": f"{row['p']:.2g}" if math.isfinite(row["p"]) else "",
        "evidence": " ".join(sentences),
    }
