"""Quantiles a day ahead, with the scores of BuildingsBench beside the usual ones.

Source: Patrick Emami, Abhijeet Sahu and Peter Graf, "BuildingsBench: A Large-Scale Dataset of 900K
Buildings and Benchmark for Short-Term Load Forecasting", NeurIPS 2023, arXiv 2307.00142.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plfl.data.dataset import SPLITS, WEEK
from plfl.tasks import Floats
from plfl.tasks.quantiles import Quantiles

if TYPE_CHECKING:
    from plfl.data.dataset import Dataset, Split


class BuildingsBench(Quantiles):
    """`quantiles`, and the scores of BuildingsBench on one window per day: `daily_nrmse` of the
    median, and for each target the CRPS of a Gaussian fitted to its quantiles by least squares,
    `daily_crps_h1` and so on."""

    name = "buildingsbench"

    def scores(
        self, dataset: Dataset, client: int, split: Split, predictions: Floats
    ) -> dict[str, float]:
        from plfl.tasks import metrics

        found = super().scores(dataset, client, split, predictions)
        starts = dataset.starts(client, split)
        first, end = dataset.bounds[client, SPLITS.index(split) :][:2]
        day = WEEK // 7 // dataset.interval
        # As in BuildingsBench, a window that ends with the last row of the set is left out.
        days = max(1, (end - first - dataset.length) // day)
        daily = ((starts - first) % day == 0) & (starts < first + days * day)
        truth = dataset.truth(starts).reshape(len(starts), dataset.horizons)[daily]
        own = predictions[daily]
        found["daily_nrmse"] = metrics.nrmse(truth, own[..., self.middle])
        mean, deviation = metrics.gaussian_of(own, self.levels)
        crps = metrics.gaussian_crps(truth, mean, deviation).mean(axis=0)
        names = metrics.columns_of(dataset) or [""]
        return found | {f"daily_crps{h}": float(c) for h, c in zip(names, crps, strict=True)}
