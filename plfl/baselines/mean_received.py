"""The plain mean of forecasts, which needs no weights and so no readings to choose them on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plfl.baselines.combined import Combined, RestoredMean
from plfl.baselines.fitting import join_sent
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Arrays, Crosses, FitSettings, FittedBaseline


class MeanReceived(Combined):
    """The mean of forecasts by models that others have trained: neighbours, and public meters."""

    name: ClassVar[str] = "mean_received"
    label: ClassVar[str] = "Mean of received models"
    about: ClassVar[str] = (
        "The plain mean of the forecasts of models that others have trained, such as those of "
        "neighbours and the one of public meters."
    )
    crosses: ClassVar[Crosses] = "models"
    fits_each_client: ClassVar[bool | None] = True
    needs_received: ClassVar[bool] = True
    needs_training: ClassVar[bool] = False

    @property
    def is_received(self) -> bool:
        return True

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> FittedBaseline:
        weights = np.full(len(members), 1 / len(members))
        return PlainMean([*members.values()], weights, join_sent(members))

    def restore(
        self,
        arrays: Arrays,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> FittedBaseline:
        return self.fit(dataset, settings, members)


@dataclass(frozen=True)
class PlainMean(RestoredMean):
    """Forecasts with equal weights, for all clients."""

    sent_bytes: Mapping[str, Sequence[int]]

    def save(self, client: int) -> Arrays:
        return {"weights": self.weights}
