"""Quantiles of the load at each target of a window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from plfl.config.named_block import refusal
from plfl.config.task_rules import Margins
from plfl.tasks import Floats, Objective, Term, conformal
from plfl.tasks.forecast import Forecast

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.data.dataset import Dataset, Split

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
    conformal: Margins = "none"
    """Margins at both ends of every interval, by which it covers as many loads of the validation
    set as it says: `personal`, each client its own, or `shared`, one for all by way of the server.
    Clients that train alone always have their own."""

    @model_validator(mode="after")
    def _ordered(self) -> Quantiles:
        if list(self.levels) != sorted(set(self.levels)):
            raise refusal(f"levels: {list(self.levels)} must increase; sort them, each once")
        if MEDIAN not in self.levels:
            raise refusal(
                f"levels: {list(self.levels)} lack 0.5, the median, which is the point forecast; "
                "add it"
            )
        return self

    @model_validator(mode="after")
    def _has_intervals(self) -> Quantiles:
        if self.conformal != "none" and not self.intervals:
            raise refusal(
                f"conformal: {self.conformal!r} widens intervals, but levels {list(self.levels)} "
                "have none; add two levels that add up to 1, such as 0.05 and 0.95"
            )
        return self

    @property
    def margins(self) -> Margins:
        return self.conformal

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

    def uncalibrated(self, dataset: Dataset) -> Iterator[str]:
        if self.conformal == "none":
            return
        percent, share = next(iter(self._shares.items()))
        needed = conformal.least(share)
        for i, name in enumerate(dataset.clients.tolist()):
            if (windows := len(dataset.starts(i, "validation"))) < needed:
                yield (
                    f"client {name}: has {windows} windows in its validation set, but "
                    f"task.conformal needs {needed} for a margin of the {percent} % interval; use "
                    "more rows for validation in windows.split, or set task.conformal to none"
                )

    def margins_of(self, dataset: Dataset, client: int, predictions: Floats) -> Floats:
        """Margins (H, I) of the intervals of each target, the widest interval first."""
        truth = dataset.truth(dataset.starts(client, "validation"))
        truth = truth.reshape(len(predictions), dataset.horizons)
        found = np.empty((dataset.horizons, len(self.intervals)))
        for i, (percent, (low, high)) in enumerate(self.intervals.items()):
            for h in range(dataset.horizons):
                ends = predictions[:, h, low], predictions[:, h, high]
                found[h, i] = conformal.margin(truth[:, h], *ends, self._shares[percent])
        return found / float(dataset.load_scale[client])

    def agreed(self, margins: Floats, windows: NDArray[np.int64]) -> Floats:
        shares = self._shares.values()
        found = [conformal.agreed(margins[..., i], windows, s) for i, s in enumerate(shares)]
        return np.stack(found, axis=-1)

    def with_margins(
        self, dataset: Dataset, client: int, predictions: Floats, margins: Floats
    ) -> Floats:
        """Quantiles (W, H, Q) in kWh per interval, ascending. The median stays as it is.

        Where ends would cross after that, the outer one gives way, which widens its interval.
        """
        found, kwh = predictions.copy(), dataset.load_scale[client] * margins
        for i, (low, high) in enumerate(self.intervals.values()):
            found[..., low] -= kwh[:, i]
            found[..., high] += kwh[:, i]
        middle = self.levels.index(MEDIAN)
        below, above = found[..., middle::-1], found[..., middle:]
        found[..., middle::-1] = np.minimum.accumulate(below, axis=-1)
        found[..., middle:] = np.maximum.accumulate(above, axis=-1)
        return found

    def exported(self, loads: Tensor, margins: Tensor | None) -> Tensor:
        """Quantiles (B, H, Q)."""
        import torch

        # Unlike len(), the shape lets a program take any number of windows.
        found = loads.reshape(loads.shape[0], -1, len(self.levels)).sort(-1).values
        if margins is None:
            return found
        ends = torch.zeros(found.shape[1:], dtype=found.dtype)
        for i, (low, high) in enumerate(self.intervals.values()):
            ends[:, low], ends[:, high] = -margins[:, i], margins[:, i]
        middle = self.levels.index(MEDIAN)
        found = found + ends
        below = found[..., : middle + 1].flip(-1).cummin(-1).values.flip(-1)
        return torch.cat([below, found[..., middle:].cummax(-1).values[..., 1:]], -1)

    @property
    def _shares(self) -> dict[str, float]:
        """The share of loads that each interval is meant to cover, the widest first."""
        return {
            percent: self.levels[high] - self.levels[low]
            for percent, (low, high) in self.intervals.items()
        }

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
