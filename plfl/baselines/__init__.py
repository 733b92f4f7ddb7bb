"""Forecasters that need no federation, trained and scored on the same windows as the study: one
class in the file of its name."""

from collections.abc import Iterable

from plfl.config.named import STANDARD_BASELINES, find_baseline
from plfl.interfaces.baseline import Baseline

__all__ = [
    "catalogue",
    "find",
    "pretrained_names",
    "rivals",
    "send_open_sums",
    "send_sums",
]


def catalogue(
    covariates: bool = False, baselines_of_study: Iterable[Baseline] = ()
) -> dict[str, Baseline]:
    """Every baseline by name, the simplest first, then a study's own, `baselines_of_study`.
    `docs/baselines.md` has the formulas. `covariates`: whether to include those that only a study
    with `windows.covariates` has."""
    standard = [find_baseline(name)() for name in STANDARD_BASELINES]
    fitting = [baseline for baseline in standard if covariates or not baseline.needs_covariates]
    return {baseline.name: baseline for baseline in [*fitting, *baselines_of_study]}


def rivals(baselines_of_study: Iterable[Baseline] = ()) -> list[str]:
    """Names of the baselines that a federation has to beat: those for which clients send nothing.
    Those of the study count only if their pre-training did not include its data."""
    unseen = [baseline for baseline in baselines_of_study if not baseline.has_seen_the_data]
    all_baselines = catalogue(covariates=True, baselines_of_study=unseen)
    return [name for name, baseline in all_baselines.items() if baseline.crosses == "nothing"]


def pretrained_names(baselines_of_study: Iterable[Baseline]) -> set[str]:
    """Names of the baselines whose pre-training included the series of the study, even the test
    set."""
    return {baseline.name for baseline in baselines_of_study if baseline.has_seen_the_data}


def send_sums(baselines_of_study: Iterable[Baseline], is_masked: bool | None = None) -> set[str]:
    """Names of the baselines for which clients grow trees from sums, and of those that use their
    forecasts. `is_masked`: only sums with masks, or only those without; None: all."""
    names: set[str] = set()
    for baseline in baselines_of_study:  # those that another one uses stand before it
        secure: bool | None = getattr(baseline, "secure", None)
        is_meant = secure is not None and is_masked in (None, secure)
        if is_meant or names & {*baseline.needs}:
            names.add(baseline.name)
    return names


def send_open_sums(baselines_of_study: Iterable[Baseline]) -> set[str]:
    """As `send_sums`, for sums without masks. Readings follow from such sums
    (docs/baselines.md)."""
    return send_sums(baselines_of_study, is_masked=False)


find = find_baseline
"""The class of the baseline with a name, with its `label`, what it is `about` and what it
`crosses`; KeyError if there is none."""
