"""Forecasts without training: a past load, or the mean of several."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from plfl.base.minutes import MINUTES_PER_DAY
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Arrays, Baseline, FitSettings, FittedBaseline, Floats, Starts
from plfl.interfaces.program import ProgramPart, ProgramParts


class Naive(Baseline):
    """The mean of the loads some days before the target."""

    days: ClassVar[tuple[int, ...]] = ()
    """Days before the target; empty: the load of the last input row."""
    is_naive: ClassVar[bool] = True
    needs_training: ClassVar[bool] = False

    @property
    def reach(self) -> int:
        return MINUTES_PER_DAY * max(self.days, default=0)

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> FittedBaseline:
        return PastLoads(dataset, self.days)

    def restore(
        self,
        arrays: Arrays,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> FittedBaseline:
        return PastLoads(dataset, self.days)

    def program(self, arrays: Arrays, parts: ProgramParts) -> ProgramPart:
        return parts.past_loads(self.days)


@dataclass(frozen=True)
class PastLoads(FittedBaseline):
    """The mean of the loads some days before the target, or the last load."""

    dataset: Dataset
    days: tuple[int, ...]

    def predict(self, client: int, starts: Starts) -> Floats:
        if not self.days:
            return self.dataset.persistence(starts)
        loads = [
            last_season(self.dataset, client, starts, days * MINUTES_PER_DAY) for days in self.days
        ]
        return np.asarray(np.mean(loads, axis=0), float)


def last_season(dataset: Dataset, client: int, starts: Starts, season: int) -> Floats:
    """The loads, in the shape of `Dataset.truth`, a `season` (minutes) before the targets. If that
    reading is missing, the load a season earlier is used, and so on. NaN as in `loads_before`."""
    loads = loads_before(dataset, client, starts, season)
    row_numbers = dataset.target_rows(starts) - season // dataset.interval
    gaps = np.isnan(loads) & (row_numbers <= _last(dataset, starts))
    earlier = season
    while (gaps & (row_numbers >= dataset.view.bounds[client, 0])).any():
        earlier, row_numbers = earlier + season, row_numbers - season // dataset.interval
        loads = np.where(gaps, loads_before(dataset, client, starts, earlier), loads)
        gaps &= np.isnan(loads)
    return loads


def loads_before(dataset: Dataset, client: int, starts: Starts, season: int) -> Floats:
    """The loads, in the shape of `Dataset.truth`, a `season` (minutes) before the targets; NaN if
    this is after the last input row, before the client's first row, or in a gap."""
    row_numbers = dataset.target_rows(starts) - season // dataset.interval
    last = _last(dataset, starts)
    is_known = (row_numbers >= dataset.view.bounds[client, 0]) & (row_numbers <= last)
    return np.where(is_known, dataset.load[np.where(is_known, row_numbers, last)], np.nan)


def latest_loads(dataset: Dataset, client: int, starts: Starts, season: int) -> Floats:
    """The loads, in the shape of `Dataset.truth`, a `season` (minutes) before the targets, or for
    targets that are farther than that, two seasons, and so on. NaN as in `loads_before`."""
    leads = (dataset.look_ahead + np.arange(dataset.horizons)) * dataset.interval
    seasons = seasons_back(leads, season)
    loads = np.full((len(starts), dataset.horizons), np.nan)
    for count in np.unique(seasons).tolist():
        earlier_loads = loads_before(dataset, client, starts, count * season).reshape(loads.shape)
        loads[:, seasons == count] = earlier_loads[:, seasons == count]
    return loads if dataset.horizons > 1 else loads[:, 0]


def seasons_back(leads: NDArray[np.int64], season: int) -> NDArray[np.int64]:
    """How many seasons before each target the newest load lies that is known when it is forecast:
    one for lead times (minutes) up to the `season` (minutes), two up to twice as much, and so on.
    """
    return -(-leads // season)


def _last(dataset: Dataset, starts: Starts) -> Starts:
    """The last input rows (W,), or (W, 1) if windows have several targets."""
    last = dataset.persistence_rows(starts)
    return last if dataset.horizons == 1 else last[:, None]
