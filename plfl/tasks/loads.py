"""Tasks that predict loads, with or without intervals around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.base import DataFrame, Tensor
from plfl.base.errors import Problem
from plfl.base.lazy import pandas as pd
from plfl.base.lazy import torch
from plfl.base.minutes import MINUTES_PER_DAY, MINUTES_PER_WEEK
from plfl.data.dataset import SPLITS
from plfl.interfaces.annotations import Dataset
from plfl.interfaces.task import Floats, Task
from plfl.tasks import conformal, metrics


class LoadTask(Task):
    """Loads at the targets of a window. Subclasses say whether there are intervals around them.

    The ends of an interval are two of the numbers that are predicted for a target. Its widths are
    found on the validation set, see `plfl.tasks.conformal`.
    """

    choosing_score = "mase"
    # The MASE differs from it only by a factor, but is undefined if the load never changes.
    own_choosing_score = "mae"

    @property
    def shares(self) -> dict[str, float]:
        """The share of loads that each interval should cover, by this share in percent, the widest
        first; empty without intervals."""
        raise NotImplementedError

    @property
    def intervals(self) -> dict[str, tuple[int, int]]:
        """The places in `as_bands` of the ends of each interval, in the order of `shares`."""
        raise NotImplementedError

    @property
    def middle(self) -> int:
        """The place in `as_bands` of the point forecast."""
        raise NotImplementedError

    def as_bands(self, dataset: Dataset, predictions: Floats) -> Floats:
        """Predictions (W, H, K): of each target all ends and the point forecast, ascending."""
        raise NotImplementedError

    def ends(self, name: str) -> dict[str, tuple[str, str]]:
        """The names that `columns` gives to the ends of each interval, in the order of `shares`."""
        raise NotImplementedError

    def columns(self, name: str, predictions: Floats) -> dict[str, Floats]:
        """Predictions as columns of a table, which begin with a `name`."""
        raise NotImplementedError

    def agreed_bins(self, targets: Sequence[Tensor], bins: int) -> tuple[Tensor, Tensor]:
        """Quantiles of the targets of all clients, and ρ of each client."""
        edges = quantile_edges(torch.cat(list(targets)), bins)
        return edges, torch.stack([bin_ratios(target, edges) for target in targets])

    def histograms(self, targets: Sequence[Floats], bins: int) -> Floats:
        """Shares of each client's targets in the quantile bins of all targets together."""
        edges = np.quantile(np.concatenate(targets), np.linspace(0, 1, bins + 1)[1:-1])
        places = [np.searchsorted(edges, values, side="right").ravel() for values in targets]
        return np.stack(
            [np.bincount(bin_of_row, minlength=bins) / len(bin_of_row) for bin_of_row in places]
        )

    @property
    def fewest_windows(self) -> int:
        """Validation windows that a client needs for conformal widths."""
        widest = next(iter(self.shares.values()), 0.0)
        return 1 if self.widening == "none" else conformal.fewest_scores(widest)

    def find_uncalibrated(self, dataset: Dataset) -> Iterator[Problem]:
        if self.widening == "none":
            return
        percent, needed_windows = next(iter(self.shares)), self.fewest_windows
        for i, name in enumerate(dataset.clients.tolist()):
            if (windows := len(dataset.starts(i, "validation"))) < needed_windows:
                yield Problem(
                    f"client {name}",
                    f"has {windows} windows in its validation set, but task.conformal needs "
                    f"{needed_windows} for the width of the {percent} % interval",
                    "use more rows for validation in windows.split, or set task.conformal to none",
                    name,
                )

    def conformal_widths(self, dataset: Dataset, client: int, predictions: Floats) -> Floats:
        """Conformal widths (H, I) of the intervals of each target, the widest interval first; for
        adaptive widths (2, H, I): first these widths, then their steps η."""
        starts = dataset.starts(client, "validation")
        scores = self._outside_bands(dataset, starts, self.as_bands(dataset, predictions))
        widths = np.empty((dataset.horizons, len(self.intervals)))
        for i, share in enumerate(self.shares.values()):
            for h in range(dataset.horizons):
                widths[h, i] = conformal.width(scores[:, h, i], share)
        if self.widening == "adaptive":
            widths = np.stack([widths, conformal.WIDTH_STEP * np.nanstd(scores, axis=0)])
        return widths / float(dataset.view.scale[client])

    def _outside_bands(self, dataset: Dataset, starts: NDArray[np.int64], bands: Floats) -> Floats:
        """How far loads lie outside of each interval (W, H, I), negative inside: `conformal`."""
        truth = dataset.truth(starts).reshape(len(starts), dataset.horizons)
        distances = [
            np.maximum(bands[..., low] - truth, truth - bands[..., high])
            for low, high in self.intervals.values()
        ]
        return np.stack(distances, axis=-1)

    def first(self, widths: Tensor) -> Tensor:
        """Conformal widths (H, I) before they follow any load."""
        return widths[0] if self.widening == "adaptive" else widths

    def widen(
        self,
        dataset: Dataset,
        client: int,
        starts: NDArray[np.int64],
        predictions: Floats,
        widths: Floats,
    ) -> Floats:
        """Predictions (W, H, K) in kWh per interval, ascending. The point forecast stays as it is.
        If ends cross after that, the outer end is moved outwards, which widens its interval."""
        bands, kwh = self.as_bands(dataset, predictions).copy(), dataset.view.scale[client] * widths
        if self.widening == "adaptive":
            kwh = self._follow_widths(dataset, client, starts, bands, kwh)
        for i, (low, high) in enumerate(self.intervals.values()):
            bands[..., low] -= kwh[..., i]
            bands[..., high] += kwh[..., i]
        lower, above = bands[..., self.middle :: -1], bands[..., self.middle :]
        bands[..., self.middle :: -1] = np.minimum.accumulate(lower, axis=-1)
        bands[..., self.middle :] = np.maximum.accumulate(above, axis=-1)
        return bands

    def _follow_widths(
        self,
        dataset: Dataset,
        client: int,
        starts: NDArray[np.int64],
        bands: Floats,
        widths: Floats,
    ) -> Floats:
        """Adaptive widths (W, H, I) in kWh of windows in order of time; `widths` (2, H, I) has the
        first ones and the steps η. When a window is forecast, the loads up to its last input row
        are known."""
        first, steps = widths
        followed = np.repeat(first[None], len(starts), axis=0)
        new = starts >= dataset.view.bounds[client, SPLITS.index("test")]
        new_starts = starts[new]
        scores = self._outside_bands(dataset, new_starts, bands[new])
        row_numbers = dataset.target_rows(new_starts).reshape(len(new_starts), dataset.horizons)
        for h in range(dataset.horizons):
            observed_counts = np.searchsorted(
                row_numbers[:, h], dataset.persistence_rows(new_starts), side="right"
            )
            for i, share in enumerate(self.shares.values()):
                width_and_step = float(first[h, i]), float(steps[h, i])
                followed[new, h, i] = conformal.adaptive_widths(
                    *width_and_step, scores[:, h, i], observed_counts, share
                )
        return followed

    def point(self, dataset: Dataset, predictions: Floats) -> Floats:
        """The point forecasts (W,) or (W, H) among predictions (W, H, K), or all that there are."""
        if predictions.ndim < 3:
            return predictions
        point = predictions[..., self.middle]
        return point[:, 0] if dataset.horizons == 1 else point

    def errors(self, dataset: Dataset, client: int, predictions: Floats) -> dict[str, Any]:
        """Errors of the point forecasts."""
        return metrics.daily_errors(dataset, client, self.point(dataset, predictions))

    def interval_scores(self, truth: Floats, bands: Floats) -> dict[str, float]:
        """The coverage of each interval and its width in kWh, as `coverage_90` and `width_90`."""
        scores = {}
        for percent, (low, high) in self.intervals.items():
            ends = bands[..., low], bands[..., high]
            scores[f"coverage_{percent}"] = metrics.coverage(truth, *ends)
            scores[f"width_{percent}"] = metrics.width(*ends)
        return scores

    def widest_coverage(self, truth: Floats, bands: Floats, column: str) -> dict[str, float]:
        """The coverage of the widest interval, as `coverage_90` with the `column` appended."""
        percent, (low, high) = next(iter(self.intervals.items()))
        covered = metrics.coverage(truth, bands[..., low], bands[..., high])
        return {f"coverage_{percent}{column}": covered}

    def week_table(
        self,
        dataset: Dataset,
        client: int,
        starts: NDArray[np.int64],
        predictions: Mapping[str, Floats],
    ) -> DataFrame:
        """A row per target: `client`, `stamp`, `truth`, `persistence`, the forecasts by model."""
        columns = {"truth": dataset.truth(starts), "persistence": dataset.persistence(starts)}
        for model, forecasts in predictions.items():
            columns |= self.columns(model, forecasts)
        keys = {
            "client": str(dataset.clients[client]),
            "stamp": dataset.stamps[dataset.target_rows(starts)].ravel(),
        }
        return pd.DataFrame(keys | {n: c.ravel().astype(np.float32) for n, c in columns.items()})


def first_week(dataset: Dataset, client: int) -> NDArray[np.int64]:
    """Start rows of a client's windows in the week that begins with the first one of the test set.

    If windows have several targets, only windows whose targets follow each other are returned. They
    begin with the first window that forecasts at midnight, if there is one on the first day.
    """
    starts = dataset.starts(client, "test")
    if dataset.horizons > 1:
        starts = _one_after_the_other(dataset, starts)
    return starts[: np.searchsorted(starts, starts[0] + MINUTES_PER_WEEK // dataset.interval)]


def _one_after_the_other(dataset: Dataset, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    made_at = dataset.stamps[dataset.persistence_rows(starts)]
    midnight = np.flatnonzero(made_at == made_at.astype("datetime64[D]"))
    is_first_day = len(midnight) and midnight[0] * dataset.interval < MINUTES_PER_DAY
    kept_starts = [int(midnight[0]) if is_first_day else 0]
    for i, start in enumerate(starts):
        if start >= starts[kept_starts[-1]] + dataset.horizons:
            kept_starts.append(i)
    return starts[kept_starts]


def quantile_edges(targets: Tensor, bins: int) -> Tensor:
    """Inner edges (bins − 1,) that cut `targets` into bins of the same size."""
    inner = np.arange(1, bins) / bins
    edges = np.quantile(targets.double().cpu().numpy(), inner)
    return torch.from_numpy(edges).to(targets)


def bin_ratios(targets: Tensor, edges: Tensor) -> Tensor:
    """ρ (bins,): how many of `targets` fall into each bin, relative to the fullest."""
    counts = torch.bincount(torch.bucketize(targets, edges).flatten(), minlength=len(edges) + 1)
    return counts.to(targets.dtype) / counts.max()
