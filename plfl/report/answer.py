"""The first screen of the page: whether a federation is worth it here, client by client."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from plfl.report.forest import Scale
from plfl.report.opening import listed
from plfl.results.findings import LOCAL_TRAINING, Findings
from plfl.results.labels import spaced
from plfl.results.meters import ALONE, BOOSTING, FEDERATION, Choice, Meter, choices, meters
from plfl.results.tables import Tables
from plfl.results.verdict import Answer as Judged

KINDS = {FEDERATION: "federation", ALONE: "training alone", BOOSTING: "LightGBM"}
"""The kinds of forecasters that are drawn for each client, and their names."""
WITHOUT = {ALONE: "with training alone", BOOSTING: "with LightGBM, which needs no federation"}
"""The rivals of the federation, as words in a sentence."""
SHORT: dict[Judged, str] = {
    "holds": "Yes",
    "does not hold": "No",
    "undecided": "Not on this evidence",
}
MOST = 40
"""Largest number of clients of a state with a row; if there are more, those that gain and lose
most."""


@dataclass(frozen=True)
class Row:
    """A client: its gain, and the errors of the forecasters."""

    name: str
    answer: Judged
    gain: str
    """Gain in MASE with its interval."""
    share: str
    """Gain in percent of the error without the federation; all percentages refer to this error."""
    energy: str
    """Gain in kWh per month; empty if loads have another unit."""
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
    def has_intervals(self) -> bool:
        """Whether the test set has enough weeks for intervals."""
        return any("[" in row.gain for rows in self.states.values() for row in rows)

    @property
    def in_energy(self) -> bool:
        """Whether gains are also given in kWh."""
        return any(row.energy for rows in self.states.values() for row in rows)


def answer(tables: Tables, findings: Findings) -> Answer | None:
    """The answer; None if there is no federation, no rival, or no table of errors by day."""
    if not (Path(tables.folder) / "errors.parquet").is_file():  # a deployed study
        return None
    found = [(choice, meters(tables, choice)) for choice in choices(tables)]
    found = [(choice, some) for choice, some in found if some]
    if not found:
        return None
    every = [one for _, some in found for one in some]
    # Persistence, to whose error of 1 the axis has a line, is always in the plot.
    sizes = np.array([1, *(v for one in every for v in one.mase.values() if math.isfinite(v))])
    unit = float(np.median(sizes)) if sizes.max() > 20 * np.median(sizes) else None
    scale = Scale(float(sizes.min()), float(sizes.max()), unit, marked=1.0)
    energy = tables.load_unit.startswith("kWh")
    judged = {choice.state: _judged(findings, choice.state) for choice, _ in found}
    shown = {choice.state: _extremes(some) for choice, some in found}
    return Answer(
        _short(judged),
        [
            *(text for choice, some in found for text in _compared(tables, choice, some, energy)),
            _tested(tables),
        ],
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


def _compared(tables: Tables, choice: Choice, some: Sequence[Meter], energy: bool) -> Iterator[str]:
    """Which forecaster is better and by how much, and how many clients gain and lose."""
    where = f"{choice.state}: " if len(tables.study.data.states) > 1 else ""
    means = {kind: float(np.mean([one.mase[kind] for one in some])) for kind in choice.best}
    rivals = [f"{means[kind]:.2f} {text}" for kind, text in WITHOUT.items() if kind in means]
    rival = means[choice.rival]
    share = (rival - means[FEDERATION]) / rival if rival else 0.0
    compared = f"{_percent(abs(share))} {'better' if share > 0 else 'worse'} than"
    if abs(share) < 0.005:
        compared = "as good as"
    beaten = ", which none of them beats" if min(means.values()) >= 1 else ""
    yield (
        f"{where}The mean error was {means[FEDERATION]:.2f} with the federation, "
        f"{' and '.join(rivals)}; 1 is the error of repeating the last reading (MASE){beaten}. "
        f"The federation is {compared} {KINDS[choice.rival]}. "
        f"{_who(some, energy, tables.study.participant)}"
    )


def _tested(tables: Tables) -> str:
    """The period in which the forecasts were tested."""
    days = pd.to_datetime(tables.errors(["day"])["day"])
    first, last = (f"{day.day} {day:%B %Y}" for day in (days.min(), days.max()))
    return f"Tested on the days from {first} to {last}."


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


def _who(some: Sequence[Meter], energy: bool, one_of_them: str) -> str:
    n = len(some)
    gains, losses = (sum(one.answer == sign for one in some) for sign in (1, -1))
    if all(math.isnan(one.low) for one in some):
        clearly = "The test set has too few weeks to say who clearly gains."
    elif not gains and not losses:
        clearly = f"None of the {n} {one_of_them}s clearly gains or loses."
    else:
        clearly = f"Of {n} {one_of_them}s, {gains or 'none'} clearly gain{'s' * (gains < 2)}"
        clearly += f" and {losses or 'none'} clearly lose{'s' * (losses < 2)}."
    worst, best = (choose(some, key=lambda one: one.gain) for choose in (min, max))
    parts = []
    for one, word in ((best, "gains"), (worst, "loses")):
        if one.gain * (1 if word == "gains" else -1) > 0:
            saved = f", {spaced(abs(one.energy))} kWh of errors a month" if energy else ""
            share = _percent(abs(one.share))
            doubt = "" if one.answer or math.isnan(one.low) else ", but not clearly"
            parts.append(f"{one.client} {word} most{doubt}: {abs(one.gain):.2f} ({share}{saved})")
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
        f"{100 * one.share:+.0f}",
        f"{'-' if one.energy < 0 else '+'}{spaced(abs(one.energy))}" if energy else "",
        [
            (kind, scale.at(one.mase[kind]), f"{one.mase[kind]:.2f}")
            for kind in reversed(KINDS)  # the federation on top
            if math.isfinite(one.mase.get(kind, math.nan))
        ],
    )
