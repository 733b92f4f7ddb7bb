"""The table of comparisons: each in words, with its difference and interval on a common axis.

The page draws it with HTML and CSS, so that its text stays legible on a narrow screen. This module
computes the positions. Only comparisons that the study names have a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from plfl.report.rendering import ticks
from plfl.results.claims import COUNTED, LOADS, estimate, scope
from plfl.study import Study

MARKS = {"holds": "✓", "does not hold": "✗", "undecided": "○"}
"""A symbol for each verdict, so that colour is not its only sign."""
HEADINGS = {
    "claim": "Claims of the study",
    "federation": "The best federation against others, without verdicts",
    "new": "New clients, without verdicts",
    "axis": "Values of the axes against the first one, without verdicts",
}
"""Headings of comparisons by what they are about."""
_WIDE = 20
"""The axis is compressed if the longest bar is this multiple of the median bar or longer."""
_EDGE = 6
"""Distance of the ends of the axis from the edges of the plot, in percent: labels need room."""
_APART = 13
"""Smallest distance of two marks on the axis, in percent of its width."""


@dataclass(frozen=True)
class Scale:
    """The common horizontal axis, from 0 to 100 percent of the width of the plot."""

    low: float
    high: float
    unit: float | None
    """The value where the axis changes from linear to logarithmic (asinh); None if it is linear."""
    marked: float = 0.0
    """The value on the axis that always has a mark."""

    @classmethod
    def of(cls, numbers: Iterable[float]) -> Scale:
        """The scale on which all numbers that are known, and zero, fit."""
        values = [v for v in numbers if math.isfinite(v)]
        sizes = np.abs([v for v in values if v] or [1.0])
        unit = float(np.median(sizes))
        wide = sizes.max() > _WIDE * unit
        return cls(min([0, *values]), max([0, *values]), unit if wide else None)

    def at(self, value: float) -> float:
        """The position of a value in percent."""
        low, high = self._bent(self.low), self._bent(self.high)
        share = (self._bent(value) - low) / (high - low) if high > low else 0.5
        return round(_EDGE + (100 - 2 * _EDGE) * share, 2)

    def _bent(self, value: float) -> float:
        return value if self.unit is None else math.asinh(value / self.unit)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Positions and labels of the marks on the axis."""
        if self.unit is None:
            nice = ticks(self.low, self.high)
        else:
            powers = [10.0**k for k in range(-3, 7)]
            nice = [sign * power for power in powers for sign in (-1, 1)]
        shown = [(self.at(self.marked), self.marked)]
        # The outer marks first, because they show how far the axis reaches.
        for value in sorted(nice, key=abs, reverse=True):
            at = self.at(value)
            if self.low <= value <= self.high and all(
                abs(at - other) >= _APART for other, _ in shown
            ):
                shown.append((at, value))
        return [(at, f"{value:+g}" if value else "0") for at, value in sorted(shown)]


@dataclass(frozen=True)
class ComparisonRow:
    """A comparison, drawn."""

    text: str
    """The comparison in words, then its name if it is a claim."""
    verdict: str
    """Empty if the study does not name it."""
    mark: str
    effect: str
    """The difference with its interval; empty if there is none."""
    p: str
    at: float | None
    """Position of the difference; None if it is not on the axis."""
    start: float | None
    """Positions of the ends of the interval; None if it has none."""
    end: float | None
    evidence: str
    """Which forecasters were compared, on which data, and what would decide the claim."""


@dataclass(frozen=True)
class ForestPlot:
    """The plot."""

    scale: Scale
    groups: dict[str, list[ComparisonRow]]
    """The rows below each heading."""
    judged: bool
    """Whether any comparison has a verdict."""
    data: str
    """The data that most comparisons are based on."""


def forest(study: Study, comparisons: pd.DataFrame) -> ForestPlot | None:
    """The plot of the comparisons of a study; None if there are none."""
    if comparisons.empty:
        return None
    drawn = comparisons[~comparisons["score"].isin((*COUNTED, LOADS))]
    scale = Scale.of(drawn[["difference", "low", "high"]].to_numpy(float).ravel())
    data = comparisons.apply(scope, axis=1, meters=study.participant == "meter")
    most = str(data.mode().iloc[0])
    comparisons = comparisons.assign(data=data.where(data != most, ""))
    groups = {
        HEADINGS[str(about)]: [_row(row, scale) for _, row in rows.iterrows()]
        for about, rows in comparisons.groupby("about", sort=False)
    }
    return ForestPlot(scale, groups, bool((comparisons["verdict"] != "").any()), most)


def _row(row: pd.Series, scale: Scale) -> ComparisonRow:
    place = f"{row['place'][0].upper()}{row['place'][1:]}: " if row["place"] else ""
    at, start, end = (
        scale.at(row[column])
        if row["score"] not in (*COUNTED, LOADS) and math.isfinite(row[column])
        else None
        for column in ("difference", "low", "high")
    )
    sides = f"{row['chosen']} against {row['chosen_than']}" if row["chosen_than"] else ""
    data = f"based on {row['data']}" * bool(row["data"])
    remarks = [row["reason"] or sides, data, row["needed"].rstrip(".")]
    sentences = [text[0].upper() + text[1:] for text in remarks if text]
    return ComparisonRow(
        f"{row['text']} ({row['claim']})" if row["claim"] else f"{place}{row['text']}",
        row["verdict"],
        MARKS.get(row["verdict"], ""),
        estimate(row),
        f"{row['p']:.2g}" if math.isfinite(row["p"]) else "",
        at,
        start,
        end,
        ". ".join(sentences) + "." * bool(sentences),
    )
