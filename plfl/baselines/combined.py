"""A convex combination of the forecasts of other baselines.

Source: Bates and Granger (1969), "The Combination of Forecasts", Operational Research Quarterly 20.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from plfl.baselines.fitting import join_sent
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Arrays, Baseline, FitSettings, FittedBaseline, Floats, Starts
from plfl.interfaces.program import ProgramPart, ProgramParts

MOST_WEIGHT_WINDOWS = 5_000
"""Most forecasts from which weights are chosen; of more, every second, third, ... is used."""


class Combined(Baseline):
    """The weighted mean of baselines, with weights of at least 0 and a sum of 1 for each client.

    The weights have the least error on the client's validation windows. Forecasts of one half of
    these windows have the weights of the other half, so that their error is not that of a choice
    on themselves.
    """

    name: ClassVar[str] = "combined"
    label: ClassVar[str] = "Combination of own forecasts"
    about: ClassVar[str] = (
        "The weighted mean of forecasters that need no other client. Each client chooses the "
        "weights on the last weeks of its history."
    )

    has_quantiles: ClassVar[bool] = True
    needs_training_forecasts: ClassVar[bool] = False

    of: list[str] = Field(min_length=1)
    """Baselines before it."""

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.of))

    @property
    def reach(self) -> int:
        return 0

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> FittedBaseline:
        forecasters = [*members.values()]
        weights = [
            _weights(dataset, client, forecasters, settings.levels)
            for client in range(len(dataset.clients))
        ]
        return WeightedMean(dataset, forecasters, weights, join_sent(members))

    def refit(
        self,
        fitted_baseline: FittedBaseline,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> FittedBaseline:
        return fitted_baseline

    def restore(
        self,
        arrays: Arrays,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> FittedBaseline:
        return RestoredMean([*members.values()], arrays["weights"])

    def program(self, arrays: Arrays, parts: ProgramParts) -> ProgramPart:
        return parts.weigh(self.needs, arrays["weights"])


def _weights(
    dataset: Dataset, client: int, members: Sequence[FittedBaseline], levels: Sequence[float]
) -> Floats:
    """Weights (3, K) from all validation windows of a client, from the second half of them, and
    from the first."""
    starts = dataset.starts(client, "validation")
    truth = dataset.truth(starts).reshape(len(starts), -1, 1)
    shape = (*truth.shape[:2], max(1, len(levels)))
    forecasts = np.array([member.predict(client, starts).reshape(shape) for member in members])
    half = len(starts) // 2
    halves = (slice(None), slice(half, None), slice(None, half))
    level_array = np.array(levels or (0.5,))
    return np.array([best_weights(truth[part], forecasts[:, part], level_array) for part in halves])


@dataclass(frozen=True)
class WeightedMean(FittedBaseline):
    """The forecasts of members, each multiplied with its weight."""

    dataset: Dataset
    members: Sequence[FittedBaseline]
    weights: Sequence[Floats]
    """Of each client (3, K): for windows that are not of its validation set, for those of the first
    half of that set, and for those of the second."""
    sent_bytes: Mapping[str, Sequence[int]]

    def predict(self, client: int, starts: Starts) -> Floats:
        validation = self.dataset.starts(client, "validation")
        first = np.isin(starts, validation[: len(validation) // 2])
        row = np.where(first, 1, np.where(np.isin(starts, validation), 2, 0))
        return _mean(self.members, self.weights[client].T[:, row], client, starts)

    def save(self, client: int) -> Arrays:
        return {"weights": self.weights[client][0]}


@dataclass(frozen=True)
class RestoredMean(FittedBaseline):
    """A weighted mean that was read from a file, for later windows of one client."""

    members: Sequence[FittedBaseline]
    weights: Floats
    """The weight (K,) of each member."""

    def predict(self, client: int, starts: Starts) -> Floats:
        return _mean(self.members, self.weights, client, starts)


def _mean(
    members: Sequence[FittedBaseline], weights: Floats, client: int, starts: Starts
) -> Floats:
    """The forecasts of a client by members with weights (K,), or (K, W) of each window."""
    mean: Floats | float = 0.0
    for member, shares in zip(members, weights, strict=True):
        forecast = member.predict(client, starts)
        share = shares.reshape(-1, *[1] * (forecast.ndim - 1))
        mean = mean + np.where(share == 0, 0.0, share * forecast)
    return np.asarray(mean, float)


def best_weights(truth: Floats, forecasts: Floats, levels: Floats) -> Floats:
    """Weights (K,) >= 0 with sum 1 that minimise the pinball loss of the weighted forecasts
    (K, W, H, Q) at `levels` (Q,), given the `truth` (W, H, 1). At 0.5 that is half the absolute
    error. A forecaster that lacks forecasts has weight 0; if all do, the weights are NaN. Without
    windows the weights are equal."""
    from scipy.optimize import linprog  # here, because it takes a while to load

    count = len(forecasts)
    usable = np.flatnonzero(np.isfinite(forecasts).all(axis=(1, 2, 3)))
    if not len(usable):
        return np.full(count, np.nan)
    shares = np.full(len(usable), 1 / len(usable))
    if len(usable) > 1 and truth.size:
        step = -(-forecasts[0].size // MOST_WEIGHT_WINDOWS)
        usable_forecasts = forecasts[usable, ::step].reshape(len(usable), -1)
        values = np.broadcast_to(truth, forecasts.shape[1:])[::step].ravel()
        value_levels = np.tile(levels, len(values) // len(levels))
        unit = np.abs(values).mean() or 1.0
        # The dual of the linear program, which has a row for each forecaster instead of each
        # window: with d from `value_levels` - 1 to `value_levels`, maximise values @ d - most,
        # where no row of known @ d is above `most`. The weights are the shadow prices of these
        # rows.
        solution = linprog(
            np.append(-values / unit, 1.0),
            A_ub=np.column_stack([usable_forecasts / unit, np.full(len(usable), -1.0)]),
            b_ub=np.zeros(len(usable)),
            bounds=[*zip(value_levels - 1, value_levels, strict=True), (None, None)],
        )
        if not solution.success:
            raise RuntimeError(f"no weights were found: {solution.message}")
        shares = np.maximum(-solution.ineqlin.marginals, 0)
    weights = np.zeros(count)
    weights[usable] = shares / shares.sum()
    return weights
