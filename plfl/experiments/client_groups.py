"""The clients of a state in groups whose baselines are jobs of their own."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from plfl.baselines import catalogue
from plfl.interfaces.baseline import Baseline
from plfl.study import Study

LARGEST_GROUP = 24
"""Most clients of a group."""


def list_baselines(
    has_covariates: bool, additional: Sequence[Baseline], left_out: Collection[str]
) -> list[Baseline]:
    """All baselines of a study, each after those that it needs."""
    standard = catalogue(covariates=has_covariates)
    return [*(standard[name] for name in standard if name not in left_out), *additional]


def baselines_of(study: Study) -> list[Baseline]:
    """The baselines of a study, each after those that it needs."""
    keys = study.baselines
    return list_baselines(study.windows.covariates_width > 0, keys.further, keys.leave_out)


def common_baseline_names(baselines: Sequence[Baseline]) -> set[str]:
    """The baselines that need all clients together, and those that these need."""
    names: set[str] = set()
    for baseline in reversed(baselines):
        fits_each = baseline.fits_each_client
        if not (baseline.crosses == "nothing" if fits_each is None else fits_each):
            names.add(baseline.name)
        if baseline.name in names:
            names.update(baseline.needs)
    return names


def count_groups(study: Study, state: str) -> int:
    """The number of groups of a state; 1: one job evaluates all baselines.

    Of baselines that are fitted to all clients, forecasts for validation and test are handed over.
    That is all that combinations read, but not what other baselines of each client may read.
    """
    baselines = baselines_of(study)
    common = common_baseline_names(baselines)
    reads_more = any(
        baseline.name not in common
        and baseline.needs_training_forecasts
        and not common.isdisjoint(baseline.needs)
        for baseline in baselines
    )
    return 1 if reads_more else max(1, -(-study.data.clients_of(state) // LARGEST_GROUP))


def groups_of(study: Study, state: str) -> list[NDArray[np.int64]]:
    """The numbers of the clients of each group."""
    clients = np.arange(study.data.clients_of(state))
    return [*np.array_split(clients, count_groups(study, state))]
