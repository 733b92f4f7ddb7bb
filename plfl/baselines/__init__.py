"""Forecasters that need no federation, trained and scored on the same windows as the study."""

from collections.abc import Iterable
from dataclasses import dataclass

from plfl.config import baseline_rules
from plfl.config.baseline_rules import BaselineRules, Crosses
from plfl.config.sections import BASELINE

__all__ = ["BASELINE", "STANDARD", "Baseline", "catalogue", "find", "rivals"]


@dataclass(frozen=True)
class Baseline:
    """The description of a forecaster that needs no federation."""

    name: str
    """Its name in tables."""
    label: str
    """Its name in figures and reports."""
    about: str
    """What it forecasts, in one sentence."""
    crosses: Crosses = "nothing"
    """What each client has to send."""
    context: bool = False
    """Whether it needs a study with a context."""


def catalogue(
    context: bool = False, further: Iterable[BaselineRules] = ()
) -> dict[str, Baseline | BaselineRules]:
    """Every baseline by name, the simplest first. `docs/baselines.md` has the formulas.

    Args:
        context: whether to include those that only a study with `windows.context` has.
        further: those that the study lists.
    """
    standard = {n: baseline for n, baseline in STANDARD.items() if context or not baseline.context}
    return standard | {one.name: one for one in further}


def rivals(further: Iterable[BaselineRules] = ()) -> list[str]:
    """Names of the baselines that a federation has to beat: its clients send nothing for them, and
    those of `further`, which the study lists, have not seen its data before."""
    every = catalogue(context=True, further=[one for one in further if not one.has_seen_the_data])
    return [name for name, baseline in every.items() if baseline.crosses == "nothing"]


def find(name: str) -> Baseline | type[BaselineRules]:
    """The baseline of this name, with its `label`, what it is `about` and what it `crosses`.

    Raises:
        KeyError: there is none.
    """
    return STANDARD.get(name) or baseline_rules.find(name)


_ALL = (
    Baseline(
        "persistence",
        "Persistence",
        "The load of the last input row.",
    ),
    Baseline(
        "naive_day",
        "Seasonal naive (day)",
        "The load a day before the target.",
    ),
    Baseline(
        "naive_week",
        "Seasonal naive (week)",
        "The load a week before the target.",
    ),
    Baseline(
        "naive_mean",
        "Seasonal naive (mean of day and week)",
        "The mean of the loads a day and a week before the target.",
    ),
    Baseline(
        "naive_weeks",
        "Seasonal naive (mean of 4 weeks)",
        "The mean of the loads one, two, three and four weeks before the target.",
    ),
    Baseline(
        "linear",
        "Linear",
        "Least squares of the change from the last load on the look-back's loads, one per client.",
    ),
    Baseline(
        "ridge",
        "Ridge",
        "Ridge regression on the look-back's loads, the target's calendar and the study's further "
        "inputs, one per client.",
    ),
    Baseline(
        "ridge_lags",
        "Ridge, day and week lags",
        "Ridge regression that also sees the loads around one day, two days and a week before the "
        "target, one per client.",
    ),
    Baseline(
        "lightgbm",
        "LightGBM",
        "Gradient-boosted trees on the study's own inputs, one model per client.",
    ),
    Baseline(
        "lightgbm_lags",
        "LightGBM, day and week lags",
        "Gradient-boosted trees that also see the loads around one day, two days and a week before "
        "the target and the target's calendar, one model per client.",
    ),
    Baseline(
        "lightgbm_context",
        "LightGBM, the study's context",
        "Gradient-boosted trees on the study's look-back and its context, one model per client.",
        context=True,
    ),
    Baseline(
        "lightgbm_pooled",
        "LightGBM, pooled",
        "One model of gradient-boosted trees with day and week lags, trained on the raw data of "
        "all clients in one place.",
        crosses="raw data",
    ),
)
STANDARD = {baseline.name: baseline for baseline in _ALL}
"""The baselines of every study, by name."""
