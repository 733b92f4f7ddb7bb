"""Forecasters that need no federation, trained and scored on the same windows as the study."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from plfl.config import baseline_rules
from plfl.config.baseline_rules import BaselineRules, Crosses
from plfl.config.sections import BASELINE

__all__ = ["BASELINE", "STANDARD", "Baseline", "catalogue", "find", "rivals"]


@dataclass(frozen=True)
class Baseline:
    """The description of a forecaster that needs no federation."""

    name: str
    """The name in tables."""
    label: str
    """The name in figures and reports."""
    about: str
    """A sentence about what it forecasts."""
    crosses: Crosses = "nothing"
    """What each client has to send."""
    context: bool = False
    """Whether it needs a study with a context."""


def catalogue(
    context: bool = False, further: Iterable[BaselineRules] = ()
) -> dict[str, Baseline | BaselineRules]:
    """Every baseline by name, the simplest first, then the `further` ones of a study.
    `docs/baselines.md` has the formulas.

    `context`: whether to include those that only a study with `windows.context` has.
    """
    standard = {n: baseline for n, baseline in STANDARD.items() if context or not baseline.context}
    return standard | {one.name: one for one in further}


def rivals(further: Iterable[BaselineRules] = ()) -> list[str]:
    """Names of the baselines that a federation has to beat: those for which clients send nothing.
    The study's `further` baselines count only if their pre-training did not include its data."""
    every = catalogue(context=True, further=[one for one in further if not one.has_seen_the_data])
    return [name for name, baseline in every.items() if baseline.crosses == "nothing"]


def find(name: str) -> Baseline | type[BaselineRules]:
    """The baseline of this name, with its `label`, what it is `about` and what it `crosses`.

    Raises:
        KeyError: there is none.
    """
    return STANDARD.get(name) or baseline_rules.find(name)


_LISTED = tomllib.loads(Path(__file__).with_name("standard.toml").read_text(encoding="utf-8"))
STANDARD = {name: Baseline(name, **about) for name, about in _LISTED.items()}
"""The baselines of every study, by name."""
