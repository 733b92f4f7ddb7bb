"""Makes files of public models from the meters of one or more sites.

Of each site a model reads equally many windows, whatever its number of meters; all quantiles of a
lead time read the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem
from plfl.base.job_state import JobState
from plfl.base.keys import Key
from plfl.base.lazy import pandas as pd
from plfl.base.text import list_names
from plfl.config.error_messages import flow
from plfl.data.features import resample
from plfl.public.inputs import LEAD_HOURS, Floats, HourlyLoads, LeadTime
from plfl.public.models import PUBLIC_LEVELS, booster_name
from plfl.public.packing import pack
from plfl.public.seen import marks_of
from plfl.public.training import TreeSizes, fit, gather

log = logging.getLogger(__name__)

MEDIANS, ENDS = TreeSizes(300, 63), TreeSizes(200, 31)
"""The sizes of the models of medians, and of the ends of the interval."""
MOST_WINDOWS = 400_000
"""Windows that a model is trained on, at most."""


@dataclass(frozen=True)
class SiteMeters:
    """The meters of a site."""

    meters: Sequence[HourlyLoads]
    ends: NDArray[np.datetime64]
    """The ends of their hours, in local standard time."""

    @classmethod
    def from_series(cls, client_series: Mapping[str, pd.DataFrame], minutes: int) -> SiteMeters:
        """The loads in tables by meter with a row every `minutes` minutes, a part of an hour,
        indexed by the ends of the intervals. DataError: hours of meters end at other minutes."""
        loads = [table[["load"]] for table in client_series.values()]
        hours = [resample(load, 60) if minutes < 60 else load for load in loads]
        readings = pd.concat(
            [load["load"] for load in hours], axis=1, sort=True, keys=client_series
        )
        table = readings.asfreq("h")
        if lost := [name for name in client_series if table[name].count() < readings[name].count()]:
            raise DataError(
                Problem(
                    list_names(lost, 3),
                    f"the hours do not end at :{table.index[0]:%M}, as those of the meter with the "
                    "first reading do",
                    f"leave these meters out: {Key('data.meters.leave_out', flow(lost))}, or give "
                    "them a state of their own",
                )
            )
        ends = table.index.to_numpy("datetime64[s]")
        return cls([HourlyLoads.ending_at(ends, load) for load in table.to_numpy().T], ends)


def gather_sites(
    meters_of_sites: Sequence[Sequence[HourlyLoads]], lead_time: LeadTime
) -> tuple[NDArray[np.float32], Floats]:
    """Features (W, K) and targets (W,) of the meters of sites. DataError: see `gather`."""
    parts = []
    for number, meters in enumerate(meters_of_sites):
        count = MOST_WINDOWS // len(meters_of_sites) // len(meters)
        parts.append(gather(meters, lead_time, count, 1 + number))
    features, targets = (np.concatenate(part) for part in zip(*parts, strict=True))
    return features, targets


def train(features: NDArray[np.float32], targets: Floats, level: float) -> str:
    """The model of a quantile of `gather_sites`, as LightGBM writes it."""
    sizes = MEDIANS if level == 0.5 else ENDS
    return str(fit(features, targets, sizes, level).model_to_string())


def make(sites: Mapping[str, SiteMeters]) -> bytes:
    """The content of a file of models for all lead times and `PUBLIC_LEVELS`, trained on all
    readings of the sites.

    Raises:
        DataError: the readings of a site are too few to train on, or to know its meters again.
    """
    marks = {name: marks_of(site.meters, site.ends) for name, site in sites.items()}
    if unmarked := [name for name in marks if not len(marks[name])]:
        raise DataError(
            Problem(
                ", ".join(unmarked),
                "no day of the meters tells them apart, so that a study could not see that a "
                "public model was trained on them",
                "give eight weeks of readings or more, which are not rounded to a few values",
            )
        )
    texts: dict[str, str] = {}
    total = len(LEAD_HOURS) * len(PUBLIC_LEVELS)
    for lead_time in LEAD_HOURS:
        try:
            windows = gather_sites([site.meters for site in sites.values()], lead_time)
        except DataError as error:
            raise error.locate_in(", ".join(sites)) from None
        for level in PUBLIC_LEVELS:
            texts[booster_name(lead_time, level)] = train(*windows, level)
            progress = JobState("model", len(texts), total)
            log.info("%s is trained", progress, extra=progress.as_extra())
    return pack(texts, np.unique(np.concatenate([*marks.values()])))
