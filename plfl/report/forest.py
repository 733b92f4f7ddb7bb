"""A forest plot: a row per verdict, with its effect and interval on a common axis.

The page draws it with HTML and CSS, so that its text stays legible on a narrow screen. This module
computes the positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from plfl.report.rendering import ticks
from plfl.results.claims import describe, estimate
from plfl.results.verdict import Answer, Verdict

MARKS: dict[Answer, str] = {"holds": "✓", "does not hold": "✗", "undecided": "○"}
"""A symbol for each answer, so that colour is not its only sign."""
_WIDE = 20
"""The axis is compressed if the longest bar ends at this multiple of the median bar's end, or
further out."""
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
    def of(cls, verdicts: Iterable[Verdict]) -> Scale:
        """The scale on which all effects, their intervals, and zero fit."""
        numbers = (v for verdict in verdicts for v in (verdict.effect, verdict.low, verdict.high))
        values = [v for v in numbers if v is not None]
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
class Row:
    """A verdict, drawn."""

    label: str
    """The state and the model that it is about, if the verdicts differ in them."""
    answer: Answer
    mark: str
    effect: str
    """The effect with its interval; empty if there is none."""
    size: str
    """Clients × weeks × seeds of the effect."""
    at: float | None
    """Position of the effect; None for effects of another unit, which are not on the axis."""
    start: float | None
    """Positions of the ends of the interval; None if it has none."""
    end: float | None
    evidence: str
    """How the verdict came about, and what would decide it."""


@dataclass(frozen=True)
class Group:
    """The rows of one claim."""

    title: str
    rows: list[Row]


@dataclass(frozen=True)
class Forest:
    """The plot."""

    scale: Scale
    groups: list[Group]
    about: str
    """The heading of the rows' labels, such as "State, model"; empty if rows have no labels."""
    single_seed: bool
    """Whether all verdicts about scores are undecided because there is only one seed."""


def forest(verdicts: Sequence[Verdict]) -> Forest | None:
    """The plot of the verdicts that the study can give; None if there are none."""
    drawn = [verdict for verdict in verdicts if verdict.answer in MARKS]
    if not drawn:
        return None
    scores = [verdict for verdict in drawn if verdict.unit == "MASE"]
    scale = Scale.of(scores)
    # Values that all verdicts have in common are not shown.
    about = [(v.state or "", v.model or "") for v in drawn]
    told = [i for i in (0, 1) if len({pair[i] for pair in about} - {""}) > 1]
    labels = [", ".join(filter(None, (pair[i] for i in told))) for pair in about]
    return Forest(
        scale,
        [
            Group(title, [_row(verdict, label, scale) for verdict, label in some])
            for title, some in groupby(
                zip(drawn, labels, strict=True), key=lambda pair: pair[0].text
            )
        ],
        ", ".join(("state", "model")[i] for i in told).capitalize(),
        any(verdict.seeds == 1 for verdict in scores)
        and all(verdict.seeds <= 1 and verdict.answer == "undecided" for verdict in scores),
    )


def left_out(verdicts: Sequence[Verdict]) -> list[tuple[str, list[str]]]:
    """The claims that the study cannot test, each with what the study lacks."""
    lacking: dict[str, list[str]] = {}
    for verdict in verdicts:
        reasons = lacking.setdefault(verdict.text, [])
        if verdict.answer not in MARKS and verdict.reason not in reasons:
            reasons.append(verdict.reason)
    return [(text, reasons) for text, reasons in lacking.items() if reasons]


def _row(verdict: Verdict, label: str, scale: Scale) -> Row:
    on_axis = verdict.unit == "MASE" and verdict.effect is not None
    ends = [end for end in (verdict.low, verdict.high) if end is not None]
    start, end = map(scale.at, ends) if on_axis and len(ends) == 2 else (None, None)
    size = " × ".join(str(n) for n in (verdict.clients, verdict.weeks, verdict.seeds) if n)
    return Row(
        label,
        verdict.answer,
        MARKS[verdict.answer],
        "" if verdict.effect is None else estimate(verdict).replace(" MASE", ""),
        size if verdict.clients else "",
        scale.at(verdict.effect) if on_axis and verdict.effect is not None else None,
        start,
        end,
        _evidence(verdict),
    )


def _evidence(verdict: Verdict) -> str:
    facts = [describe(verdict)] if verdict.effect is not None else []
    told = filter(None, [*facts, verdict.reason, verdict.needed.rstrip(".")])
    return ". ".join(sentence[0].upper() + sentence[1:] for sentence in told) + "."
