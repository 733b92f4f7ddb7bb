"""A convex combination of the forecasts of other baselines.

Source: Bates and Granger (1969), "The Combination of Forecasts", Operational Research Quarterly 20.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from pydantic import Field

from plfl.baselines.further import Further, Member
from plfl.baselines.model import Arrays, Floats, Predict, Rows, Trained
from plfl.baselines.trees import TreeSettings
from plfl.data.dataset import Dataset

MOST = 5_000
"""Most forecasts from which weights are chosen; of more, every second, third, ... is used."""


class Combined(Further):
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

    is_storable: ClassVar[bool] = True

    of: list[str] = Field(min_length=1)
    """Baselines that stand before it."""

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.of))

    def trained(
        self, dataset: Dataset, boosting: TreeSettings, known: Mapping[str, Trained]
    ) -> Trained:
        predicts = [member.predict for member in self.members(known)]
        clients = range(len(dataset.clients))
        weights = [self._weights(dataset, client, predicts, boosting.levels) for client in clients]

        def stored(client: int) -> Arrays:
            return {"weights": weights[client][0]} | self.stored_members(known, client)

        return self.with_costs(_weighted(dataset, predicts, weights), dataset, known, stored)

    def restored(self, stored: Arrays, dataset: Dataset, levels: int, member: Member) -> Predict:
        return partial(_mean, [member(name) for name in self.needs], stored["weights"])

    def _weights(
        self, dataset: Dataset, client: int, predicts: Sequence[Predict], levels: Sequence[float]
    ) -> Floats:
        """Weights (3, K) from all validation windows of a client, from the second half of them,
        and from the first."""
        starts = dataset.starts(client, "validation")
        truth = dataset.truth(starts).reshape(len(starts), -1, 1)
        shape = (*truth.shape[:2], max(1, len(levels)))
        forecasts = np.array([predict(client, starts).reshape(shape) for predict in predicts])
        half = len(starts) // 2
        parts = (slice(None), slice(half, None), slice(None, half))
        wanted = np.array(levels or (0.5,))
        return np.array([best_weights(truth[part], forecasts[:, part], wanted) for part in parts])


def _weighted(dataset: Dataset, predicts: Sequence[Predict], weights: Sequence[Floats]) -> Predict:
    """The forecasts of members, each multiplied with its weight, given those of each client."""

    def predict(client: int, starts: Rows) -> Floats:
        validation = dataset.starts(client, "validation")
        first = np.isin(starts, validation[: len(validation) // 2])
        row = np.where(first, 1, np.where(np.isin(starts, validation), 2, 0))
        return _mean(predicts, weights[client].T[:, row], client, starts)

    return predict


def _mean(predicts: Sequence[Predict], weights: Floats, client: int, starts: Rows) -> Floats:
    """The forecasts of a client by members with weights (K,), or (K, W) of each window."""
    mean: Floats | float = 0.0
    for predict, shares in zip(predicts, weights, strict=True):
        forecast = predict(client, starts)
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
        step = -(-forecasts[0].size // MOST)
        known = forecasts[usable, ::step].reshape(len(usable), -1)
        values = np.broadcast_to(truth, forecasts.shape[1:])[::step].ravel()
        of_level = np.tile(levels, len(values) // len(levels))
        unit = np.abs(values).mean() or 1.0
        # The dual of the linear program, which has a row for each forecaster instead of each
        # window: with d from `of_level` - 1 to `of_level`, maximise values @ d - most, where no
        # row of known @ d is above `most`. The weights are the shadow prices of these rows.
        solution = linprog(
            np.append(-values / unit, 1.0),
            A_ub=np.column_stack([known / unit, np.full(len(usable), -1.0)]),
            b_ub=np.zeros(len(usable)),
            bounds=[*zip(of_level - 1, of_level, strict=True), (None, None)],
        )
        if not solution.success:
            raise RuntimeError(f"no weights were found: {solution.message}")
        shares = np.maximum(-solution.ineqlin.marginals, 0)
    weights = np.zeros(count)
    weights[usable] = shares / shares.sum()
    return weights
