"""Ridge regression of the change from the last load, in closed form, one model per client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plfl.baselines import features
from plfl.data.dataset import Dataset, split_targets
from plfl.interfaces.baseline import Arrays, Baseline, FitSettings, FittedBaseline, Floats, Starts
from plfl.interfaces.program import ProgramPart, ProgramParts

PENALTY = 1.0
"""Value that ridge regression adds to the diagonal of A'A."""


class Ridge(Baseline):
    """Ridge regression on the look-back's loads, the target's calendar and the further inputs."""

    name: ClassVar[str] = "ridge"
    label: ClassVar[str] = "Ridge"
    about: ClassVar[str] = (
        "Ridge regression on the look-back's loads, the target's calendar and the study's further "
        "inputs, one per client."
    )
    fits_regression: ClassVar[bool] = True
    has_lags: ClassVar[bool] = False
    """Whether it reads day and week lags, too."""

    @property
    def reach(self) -> int:
        return 0

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> FittedBaseline:
        datasets = split_targets(dataset)
        clients = range(len(dataset.clients))
        coefficients = [np.stack([self._solve(part, i) for part in datasets]) for i in clients]
        return Regression(dataset, coefficients, self.has_lags)

    def restore(
        self,
        arrays: Arrays,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> FittedBaseline:
        return Regression(dataset, [arrays["coefficients"]], self.has_lags)

    def program(self, arrays: Arrays, parts: ProgramParts) -> ProgramPart:
        return parts.inputs_times(arrays["coefficients"], self.has_lags)

    def _solve(self, dataset: Dataset, client: int) -> Floats:
        """The coefficients of a client for the only target of windows."""
        starts = dataset.starts(client, "train")
        return solve(dataset, starts, inputs_of(dataset, client, starts, has_lags=False))


@dataclass(frozen=True)
class Regression(FittedBaseline):
    """The last load plus a constant and weighted inputs."""

    dataset: Dataset
    coefficients: Sequence[Floats]
    """Of each client (H, 2 K + 1): the constant, and the means and weights of the K inputs."""
    has_lags: bool

    def predict(self, client: int, starts: Starts) -> Floats:
        pairs = zip(split_targets(self.dataset), self.coefficients[client], strict=True)
        loads = [self._target(part, row, client, starts) for part, row in pairs]
        return loads[0] if len(loads) == 1 else np.stack(loads, axis=1)

    def _target(self, dataset: Dataset, row: Floats, client: int, starts: Starts) -> Floats:
        means, weights = row[1:].reshape(2, -1)
        inputs = inputs_of(dataset, client, starts, self.has_lags)
        # The week lags come last, and may have been left out.
        moved = row[0] + (inputs[:, : len(weights)] - means) @ weights
        return np.asarray(features.last_loads(dataset, starts) + moved, float)

    def save(self, client: int) -> Arrays:
        return {"coefficients": self.coefficients[client]}


def inputs_of(dataset: Dataset, client: int, starts: Starts, has_lags: bool) -> Floats:
    """The inputs (W, K) of windows with one target."""
    parts = [
        features.look_back(dataset, starts),
        features.target_time_of_day(dataset, starts, harmonics=1),
        features.target_weekday(dataset, starts),
        features.inputs(dataset, starts, features.extra_columns(dataset)),
    ]
    inputs = np.concatenate(parts, axis=1)
    if not has_lags:
        return inputs
    return np.concatenate([inputs, features.season_lags(dataset, client, starts)], axis=1)


def solve(dataset: Dataset, starts: Starts, inputs: Floats) -> Floats:
    """The coefficients of a ridge regression of windows' changes on their inputs (W, K), see
    `Regression`. The inputs are standardised, so that the penalty affects them equally. Constant
    ones have zero weight."""
    change = dataset.truth(starts) - features.last_loads(dataset, starts)
    varies = np.ptp(inputs, axis=0) > 0
    means, deviation = inputs.mean(axis=0), np.where(varies, inputs.std(axis=0), 1.0)
    a = np.where(varies, (inputs - means) / deviation, 0.0)
    gram = a.T @ a + PENALTY * np.eye(a.shape[1])
    weights = np.linalg.solve(gram, a.T @ (change - change.mean())) / deviation
    return np.concatenate([[change.mean()], means, weights])
