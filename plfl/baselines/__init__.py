"""Forecasters that need no federation, trained and scored on the same windows as the study."""

from collections.abc import Iterable

from plfl.config.named import STANDARD, BaselineRules, Standard, find_baseline
from plfl.config.sections import BASELINE

__all__ = ["BASELINE", "catalogue", "find", "rivals"]


def catalogue(
    covariates: bool = False, further: Iterable[BaselineRules] = ()
) -> dict[str, Standard | BaselineRules]:
    """Every baseline by name, the simplest first, then the `further` ones of a study.
    `docs/baselines.md` has the formulas. `covariates`: whether to include those that only a study
    with `windows.covariates` has."""
    standard = {
        n: baseline for n, baseline in STANDARD.items() if covariates or not baseline.covariates
    }
    return standard | {baseline.name: baseline for baseline in further}


def rivals(further: Iterable[BaselineRules] = ()) -> list[str]:
    """Names of the baselines that a federation has to beat: those for which clients send nothing.
    The study's `further` baselines count only if their pre-training did not include its data."""
    every = catalogue(
        covariates=True, further=[rules for rules in further if not rules.has_seen_the_data]
    )
    return [name for name, baseline in every.items() if baseline.crosses == "nothing"]


def find(name: str) -> Standard | type[BaselineRules]:
    """The baseline of this name, with its `label`, what it is `about` and what it `crosses`;
    KeyError if there is none."""
    return STANDARD.get(name) or find_baseline(name)
