"""Quantiles of the load at each target of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from plfl.tasks import Floats, Objective, Term
from plfl.tasks.forecast import Forecast

if TYPE_CHECKING:
    from plfl.data.windows import Dataset, Split

MEDIAN = 0.5


class Quantiles(Forecast):
    """Quantiles of the load at each target, trained with the pinball loss instead of
    `federation.loss`.

    A model's quantiles of one target may cross. They are sorted, which never makes them worse
    (Chernozhukov, Fernández-Val and Galichon, "Quantile and Probability Curves Without Crossing",
    Econometrica 2010). The median is the point forecast.
    """

    name = "quantiles"

    levels: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.05, 0.25, 0.5, 0.75, 0.95)
    """Levels of the quantiles, ascending, with 0.5 among them. Two levels that add up to 1 are the
    ends of an interval: 0.05 and 0.95 those of the 90 % interval."""

    @model_validator(mode="after")
    def _ordered(self) -> Quantiles:
        if list(self.levels) != sorted(set(self.levels)):
            raise ValueError(f"levels {list(self.levels)} must increase; sort them, each once")
        if MEDIAN not in self.levels:
            raise ValueError(
                f"levels {list(self.levels)} lack 0.5, the median, which is the point forecast; "
                "add it"
            )
        return self

    def outputs(self, horizons: int) -> int:
        return horizons * len(self.levels)

    def refuses_teacher(self, loss: str) -> str | None:
        return "needs a squared error, but quantiles have the pinball loss; remove the method"

    def objective(self, loss: str, term: Term | None = None) -> Objective:
        from plfl.tasks.losses import Pinball

        return Objective(Pinball(self.levels))

    @property
    def intervals(self) -> dict[str, tuple[int, int]]:
        """The numbers of the levels that are the ends of each interval, by its share in percent,
        the widest first."""
        found = {}
        for low, level in enumerate(self.levels):
            for high in range(low + 1, len(self.levels)):
                if abs(level + self.levels[high] - 1) < 1e-9:
                    found[f"{100 * (self.levels[high] - level):g}"] = (low, high)
        return found

    def predictions(
        self, dataset: Dataset, client: int, starts: NDArray[np.int64], outputs: Floats
    ) -> Floats:
        """Quantiles (W, H, Q) in kWh per interval, ascending."""
        quantiles = outputs.reshape(len(starts), dataset.horizons, len(self.levels))
        return np.sort(dataset.in_kwh(client, starts, quantiles), axis=-1)

    def scores(
        self, dataset: Dataset, client: int, split: Split, predictions: Floats
    ) -> dict[str, float]:
        """Those of the median as a forecast, and those of the quantiles.

        `crps` in kWh per interval, `scaled_crps`: the same over the error of persistence, and for
        each interval its `coverage` and its `width` in kWh, as `coverage_90`. Each target has a
        `crps` and the `coverage` of the widest interval.
        """
        from plfl.tasks import metrics

        found = super().scores(dataset, client, split, self.median(dataset, predictions))
        starts = dataset.starts(client, split)
        truth = dataset.truth(starts).reshape(len(starts), dataset.horizons)
        persistence = metrics.mae(truth.ravel(), dataset.persistence(starts).ravel())
        crps = metrics.crps(truth, predictions, self.levels)
        found["crps"] = crps
        found["scaled_crps"] = crps / persistence if persistence > 0 else float("nan")
        for percent, (low, high) in self.intervals.items():
            ends = predictions[..., low], predictions[..., high]
            found[f"coverage_{percent}"] = metrics.coverage(truth, *ends)
            found[f"width_{percent}"] = metrics.width(*ends)
        for h, column in enumerate(metrics.columns_of(dataset)):
            own = predictions[:, h]
            found[f"crps{column}"] = metrics.crps(truth[:, h], own, self.levels)
            for percent, (low, high) in list(self.intervals.items())[:1]:
                covered = metrics.coverage(truth[:, h], own[:, low], own[:, high])
                found[f"coverage_{percent}{column}"] = covered
        return found

    def median(self, dataset: Dataset, predictions: Floats) -> Floats:
        """The point forecasts (W,) or (W, H)."""
        middle = predictions[..., self.levels.index(MEDIAN)]
        return middle[:, 0] if dataset.horizons == 1 else middle

    def columns(self, name: str, predictions: Floats) -> dict[str, Floats]:
        """The median under the name itself, and the quantiles: `local_5` is the 5 % quantile."""
        found = {name: predictions[..., self.levels.index(MEDIAN)]}
        for i, level in enumerate(self.levels):
            found[f"{name}_{100 * level:g}"] = predictions[..., i]
        return found
