"""The mean of the same time of the day in the look-back: BuildingsBench's persistence ensemble.

Source: Emami, Sahu and Graf (2023), "BuildingsBench", arXiv 2307.00142.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from plfl.base.errors import PlflError
from plfl.baselines.further import Further
from plfl.baselines.model import Floats, Predict, Rows
from plfl.data.dataset import WEEK, Dataset


class WeekMean(Further):
    """The mean of the loads at the target's time on each day of the look-back, and a Gaussian with
    their standard deviation for quantiles."""

    name: ClassVar[str] = "week_mean"
    label: ClassVar[str] = "Mean of the days of the look-back"
    about: ClassVar[str] = "The mean of the loads at the same time on each day of the look-back."

    def fit(self, dataset: Dataset) -> Predict:
        predict = self.quantiles(dataset, [0.5])
        return lambda client, starts: predict(client, starts).reshape(dataset.truth(starts).shape)

    def quantiles(self, dataset: Dataset, levels: Sequence[float]) -> Predict:
        from scipy.stats import norm

        day = WEEK // 7 // dataset.interval
        days = dataset.look_back // day
        if days < 2 or dataset.look_ahead + dataset.horizons - 1 > day:
            raise PlflError(
                "the baseline week_mean needs at least two days of look-back and targets within "
                "the next day; raise windows.look_back, or take it out of baselines.further"
            )

        def predict(client: int, starts: Rows) -> Floats:
            rows = dataset.target_rows(starts).reshape(len(starts), -1, 1)
            loads = dataset.load[rows - day * np.arange(1, days + 1)]
            deviation = np.maximum(loads.std(axis=-1, ddof=1), 1e-3)
            found = loads.mean(axis=-1)[..., None] + deviation[..., None] * norm.ppf(levels)
            return np.asarray(found, float)

        return predict
