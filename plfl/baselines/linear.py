"""Ordinary least squares on the look-back's loads minus the last one, one model per client.

Source: Zeng et al. (2023), "Are Transformers Effective for Time Series Forecasting?", whose NLinear
this is in closed form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plfl.baselines import features
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Arrays, Baseline, FitSettings, FittedBaseline, Floats, Starts
from plfl.interfaces.program import ProgramPart, ProgramParts


class LinearBaseline(Baseline):
    """Least squares of the change from the last load."""

    name: ClassVar[str] = "linear"
    label: ClassVar[str] = "Linear"
    about: ClassVar[str] = (
        "Least squares of the change from the last load on the look-back's loads, one per client."
    )

    @property
    def reach(self) -> int:
        return 0

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> FittedBaseline:
        clients = range(len(dataset.clients))
        return LeastSquares(dataset, [coefficients_of(dataset, client) for client in clients])

    def restore(
        self,
        arrays: Arrays,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> FittedBaseline:
        return LeastSquares(dataset, [arrays["coefficients"]])

    def program(self, arrays: Arrays, parts: ProgramParts) -> ProgramPart:
        return parts.loads_times(arrays["coefficients"])


@dataclass(frozen=True)
class LeastSquares(FittedBaseline):
    """The last load plus a constant and weighted changes of the look-back."""

    dataset: Dataset
    coefficients: Sequence[Floats]
    """Of each client (T,), or (T, H) of several targets: the constant, and the loads' weights."""

    def predict(self, client: int, starts: Starts) -> Floats:
        moved = _changes(self.dataset, starts) @ self.coefficients[client]
        return np.asarray(self.dataset.persistence(starts) + moved, float)

    def save(self, client: int) -> Arrays:
        return {"coefficients": self.coefficients[client]}


def coefficients_of(dataset: Dataset, client: int) -> Floats:
    """The coefficients of `LeastSquares` of a client's training set."""
    starts = dataset.starts(client, "train")
    # All targets of a window have the same design.
    changes = dataset.truth(starts) - dataset.persistence(starts)
    return np.asarray(np.linalg.lstsq(_changes(dataset, starts), changes, rcond=None)[0])


def _changes(dataset: Dataset, starts: Starts) -> Floats:
    """A constant, and the loads of the look-back minus the last one (W, T)."""
    loads = features.look_back(dataset, starts)
    return np.insert(loads[:, :-1] - loads[:, -1:], 0, 1.0, axis=1)
