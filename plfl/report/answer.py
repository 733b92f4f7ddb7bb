"""The first screen of the page: whether a federation is worth it here, client by client."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from plfl.report.forest import Scale
from plfl.report.opening import listed
from plfl.results.findings import LOCAL_TRAINING, Findings
from plfl.results.meters import ALONE, BOOSTING, FEDERATION, Choice, Meter, choices, meters
from plfl.results.tables import Tables
from plfl.results.verdict import Answer as Judged

KINDS = {FEDERATION: "federation", ALONE: "training alone", BOOSTING: "LightGBM"}
"""What is drawn for each client, and its name."""
SHORT: dict[Judged, str] = {
    "holds": "Yes",
    "does not hold": "No",
    "undecided": "Not on this evidence",
}
MOST = 40
"""Largest number of clients of a state with a row; of more, those that gain and lose most."""


@dataclass(frozen=True)
class Row:
    """A client: its gain, and the errors of the forecasters."""

    name: str
    answer: Judged
    gain: str
    """Gain in MASE with its interval."""
    share: str
    """Gain in percent of the error without the federation."""
    energy: str
    """Gain in kWh a month; empty for loads of another unit."""
    dots: list[tuple[str, float, str]]
    """Kind of forecaster, position in percent, and MASE in print."""


@dataclass(frozen=True)
class Answer:
    """The answer, and the rows of its plot by state."""

    short: str
    sentences: list[str]
    scale: Scale
    states: dict[str, list[Row]]
    left_out: int
    """Clients without a row."""

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds of forecasters in the plot, with their names."""
        drawn = {kind for rows in self.states.values() for row in rows for kind, _, _ in row.dots}
        return {kind: name for kind, name in KINDS.items() if kind in drawn}

    @property
    def in_energy(self) -> bool:
        """Whether gains are also told in kWh."""
        return any(row.energy for rows in self.states.values() for row in rows)


def answer(tables: Tables, findings: Findings) -> Answer | None:
    """The answer; None without a federation, something to compare it with, or errors by day.

    Raises:
        ResultsError: a table is damaged or has another format.
    """
    if not (Path(tables.folder) / "errors.parquet").is_file():  # a deployed study
        return None
    found = [(choice, meters(tables, choice)) for choice in choices(tables)]
    found = [(choice, some) for choice, some in found if some]
    if not found:
        return None
    every = [one for _, some in found for one in some]
    values = [v for one in every for v in one.mase.values() if math.isfinite(v)]
    sizes = np.array(values)
    unit = float(np.median(sizes)) if sizes.max() > 20 * np.median(sizes) else None
    scale = Scale(0.0, float(sizes.max()), unit)
    energy = tables.load_unit.startswith("kWh")
    judged = {choice.scores.state: _judged(findings, choice.scores.state) for choice, _ in found}
    shown = {choice.scores.state: _extremes(some) for choice, some in found}
    return Answer(
        _short(judged),
        [text for choice, some in found for text in _told(tables, choice, some, energy)],
        scale,
        {state: [_row(one, scale, energy) for one in some] for state, some in shown.items()},
        len(every) - sum(map(len, shown.values())),
    )


def _judged(findings: Findings, state: str) -> Judged:
    """Whether the federation is better than training alone and than the best LightGBM."""
    rivals = (LOCAL_TRAINING, "the best LightGBM")
    answers = [v.answer for v in findings.verdicts if v.state == state and v.claim in rivals]
    if "does not hold" in answers:
        return "does not hold"
    return "holds" if answers and all(one == "holds" for one in answers) else "undecided"


def _short(judged: dict[str, Judged]) -> str:
    if len(set(judged.values())) == 1:
        return f"{SHORT[next(iter(judged.values()))]}."
    parts = []
    for one, states in groupby(
        sorted(judged, key=lambda s: list(SHORT).index(judged[s])), judged.get
    ):
        assert one is not None
        parts.append(f"{SHORT[one]} in {listed(states)}")
    return f"{'; '.join(parts)}."


def _told(tables: Tables, choice: Choice, some: Sequence[Meter], energy: bool) -> Iterator[str]:
    """What is better by how much, and who gains and loses."""
    where = f"{choice.scores.state}: " if len(tables.study.data.states) > 1 else ""
    means = {kind: float(np.mean([one.mase[kind] for one in some])) for kind in choice.numbers}
    ours = means[FEDERATION]
    parts = []
    for kind, name in (
        (ALONE, "training alone"),
        (BOOSTING, "LightGBM, which needs no data of others,"),
    ):
        if kind in means:
            less = ours - means[kind]
            word = "better" if less > 0 else "worse"
            share = abs(less) / ours if ours else 0.0
            parts.append(f"{name} was {abs(less):.2f} {word} ({share:.0%} of the federation's)")
    told = " and ".join(parts)
    yield (
        f"{where}The federation's forecasts had a mean error (MASE) of {ours:.2f}: "
        f"{told}. {_who(some, energy)}"
    )


def _who(some: Sequence[Meter], energy: bool) -> str:
    n = len(some)
    gains, losses = (sum(one.answer == sign for one in some) for sign in (1, -1))
    if all(math.isnan(one.low) for one in some):
        clearly = "The test set has too few weeks to say who clearly gains."
    elif not gains and not losses:
        clearly = f"None of the {n} clients clearly gains or loses."
    else:
        clearly = f"Of {n} clients, {gains or 'none'} clearly gain{'s' * (gains < 2)}"
        clearly += f" and {losses or 'none'} clearly lose{'s' * (losses < 2)}."
    worst, best = (choose(some, key=lambda one: one.gain) for choose in (min, max))
    parts = []
    for one, word in ((best, "gains"), (worst, "loses")):
        if one.gain * (1 if word == "gains" else -1) > 0:
            saved = f", errors of {abs(one.energy):,.0f} kWh a month" if energy else ""
            parts.append(
                f"{one.client} {word} most: {abs(one.gain):.2f}, {abs(one.share):.0%} of its error"
                f"{saved}"
            )
    return " ".join([clearly, *(f"{part}." for part in parts)])


def _extremes(some: Sequence[Meter]) -> list[Meter]:
    ordered = sorted(some, key=lambda one: one.gain, reverse=True)
    if len(ordered) <= MOST:
        return ordered
    return [*ordered[: MOST // 2], *ordered[-MOST // 2 :]]


def _row(one: Meter, scale: Scale, energy: bool) -> Row:
    words: dict[int, Judged] = {1: "holds", 0: "undecided", -1: "does not hold"}
    interval = f" [{one.low:+.2f}, {one.high:+.2f}]" if math.isfinite(one.low) else ""
    return Row(
        one.client,
        words[one.answer],
        f"{one.gain:+.2f}{interval}",
        f"{one.share:+.0%}",
        f"{one.energy:+,.0f}" if energy else "",
        [
            (kind, scale.at(one.mase[kind]), f"{one.mase[kind]:.2f}")
            for kind in reversed(KINDS)  # the federation on top
            if math.isfinite(one.mase.get(kind, math.nan))
        ],
    )
