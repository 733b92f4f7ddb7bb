"""Forecasters that need no federation, trained and scored on the same windows as the study."""

from dataclasses import dataclass

from plfl.config.sections import BASELINE

__all__ = ["BASELINE", "Baseline", "catalogue", "find"]


@dataclass(frozen=True)
class Baseline:
    """The description of a forecaster that needs no federation."""

    name: str
    """Its name in tables."""
    label: str
    """Its name in figures and reports."""
    about: str
    """What it forecasts, in one sentence."""
    pooled: bool = False
    """Whether it needs the raw data of all clients in one place."""
    context: bool = False
    """Whether it needs a study with a context."""


def catalogue(context: bool = False) -> dict[str, Baseline]:
    """Every baseline by name, the simplest first. `docs/baselines.md` has the formulas.

    Args:
        context: whether to include those that only a study with `windows.context` has.
    """
    return {baseline.name: baseline for baseline in _ALL if context or not baseline.context}


def find(name: str) -> Baseline:
    """The baseline of this name."""
    return catalogue(context=True)[name]


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
        pooled=True,
    ),
)
