"""Trains public models: LightGBMs (Ke et al. 2017) of the meters of one or more places."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem
from plfl.base.lazy import lightgbm
from plfl.public.inputs import (
    CONTEXT,
    HOURS_PER_DAY,
    HOURS_PER_WEEK,
    LEAD_HOURS,
    Floats,
    HourlyLoads,
    Integers,
    LeadTime,
    inputs_of,
)

CONTEXTS = (
    2 * HOURS_PER_DAY,
    4 * HOURS_PER_DAY,
    HOURS_PER_WEEK,
    HOURS_PER_WEEK,
    2 * HOURS_PER_WEEK,
    CONTEXT,
    CONTEXT,
    CONTEXT,
)
"""Hours that a training window knows of its meter, drawn with equal chances: so a model has learned
to forecast meters of a few days."""
PUBLIC_PARAMETERS: dict[str, Any] = {
    "learning_rate": 0.08,
    "max_bin": 63,
    "min_data_in_leaf": 50,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.6,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
"""Parameters of every public model; all others are LightGBM's defaults."""


@dataclass(frozen=True)
class TreeSizes:
    """How large a model is."""

    trees: int = 300
    leaves: int = 63


def drawn_windows(
    loads: HourlyLoads, lead_time: LeadTime, count: int, random: np.random.Generator
) -> tuple[Integers, Integers, Integers]:
    """At most `count` windows of a meter with a known target: last known row, lead, first row.

    Windows that would know more hours than there are before them are drawn, too, but left out: a
    window for `CONTEXTS` of 672 hours is at least 672 hours after the first reading."""
    target = np.flatnonzero(np.isfinite(loads.load))
    target = target[target >= HOURS_PER_DAY + LEAD_HOURS[lead_time]]
    target = np.sort(random.choice(target, min(count, len(target)), replace=False))
    lead = random.integers(1, LEAD_HOURS[lead_time] + 1, len(target))
    last = target - lead
    first = last + 1 - random.choice(CONTEXTS, len(target))
    is_whole = first >= 0
    return last[is_whole], lead[is_whole], first[is_whole]


def gather(
    meters: Iterable[HourlyLoads], lead_time: LeadTime, count: int, seed: int = 1
) -> tuple[NDArray[np.float32], Floats]:
    """Features (W, K) and targets (W,) of at most `count` windows of each meter. DataError: no
    meter has a window."""
    random = np.random.default_rng(seed)
    features: list[NDArray[np.float32]] = []
    relative: list[Floats] = []
    for loads in meters:
        last, lead, first = drawn_windows(loads, lead_time, count, random)
        inputs = inputs_of(loads, lead_time, last, lead, first)
        targets = inputs.outputs_of_loads(loads.load[last + lead])
        usable = np.isfinite(targets)
        features.append(inputs.features[usable])
        relative.append(targets[usable])
    if not any(map(len, relative)):
        raise DataError(
            Problem(
                "",
                "no meter has a window to train on",
                f"give meters with more than {CONTEXT} hours",
            )
        )
    return np.concatenate(features), np.concatenate(relative)


def fit(
    features: NDArray[np.float32],
    targets: Floats,
    sizes: TreeSizes,
    level: float = 0.5,
    seed: int = 1,
    **parameters: Any,
) -> Any:
    """A booster for the quantile `level`; the median minimises the mean absolute error."""
    objective: dict[str, Any] = (
        {"objective": "l1"} if level == 0.5 else {"objective": "quantile", "alpha": level}
    )
    settings = (
        PUBLIC_PARAMETERS | objective | {"num_leaves": sizes.leaves, "seed": seed} | parameters
    )
    return lightgbm.train(settings, lightgbm.Dataset(features, targets), sizes.trees)
