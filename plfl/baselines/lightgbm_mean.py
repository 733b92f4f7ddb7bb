"""The mean of the LightGBMs of other clients, which are sent once (one-shot)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.baselines.trees import TreeBaseline, TreeModel, TreesFit, train
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Crosses, FitSettings, FittedBaseline
from plfl.tasks.metrics import pinball


class LightgbmMean(TreeBaseline):
    """The mean of models of other clients of the federation, without rounds. Of these models, it
    uses the half with the least error in the last week of the client's training set."""

    name: ClassVar[str] = "lightgbm_mean"
    label: ClassVar[str] = "LightGBM, mean of others"
    about: ClassVar[str] = (
        "The mean forecast of the gradient-boosted trees that other clients of the federation have "
        "trained on their own data and sent once."
    )
    crosses: ClassVar[Crosses] = "models"

    @property
    def is_for_others(self) -> bool:
        return True

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> TreesFit:
        return self._fit_trees(None, dataset, settings)

    def refit(
        self,
        fitted_baseline: MeanOfOthers,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> TreesFit:
        return self._fit_trees(fitted_baseline, dataset, settings)

    def _fit_trees(
        self, earlier: MeanOfOthers | None, dataset: Dataset, settings: FitSettings
    ) -> TreesFit:
        sent_models = []
        for client in range(len(dataset.clients)):
            tree_choices = earlier.sent_models[client].tree_choices if earlier else []
            own_dataset = dataset.with_view("whole").select(np.array([client]))
            sent_models.append(train(own_dataset, dataset, settings, tree_choices=tree_choices))
        best: dict[int, Sequence[TreeModel]] = {}
        for clients in dataset.clients_of_federations():
            for client in clients.tolist():
                if received_models := [sent_models[k] for k in clients if k != client]:
                    best[client] = _choose_best(received_models, dataset, client, settings.levels)
        sizes = [sum(map(len, model.texts)) for model in sent_models]
        return MeanOfOthers(dataset, len(settings.levels), best, {self.name: sizes}, sent_models)


@dataclass(frozen=True)
class MeanOfOthers(TreesFit):
    """Models that clients have received from others."""

    sent_models: Sequence[TreeModel] = ()
    """The model of each client."""


def _choose_best(
    received_models: Sequence[TreeModel], dataset: Dataset, client: int, levels: Sequence[float]
) -> list[TreeModel]:
    """The better half of models, by the error in the last week of a client's training set."""
    starts = dataset.starts(client, "train")[-MINUTES_PER_WEEK // dataset.interval :]
    truth = dataset.truth(starts)
    forecasts = [model.predict(client, starts) for model in received_models]
    if levels:
        truth = truth.reshape(len(truth), -1)
        errors = [float(pinball(truth, quantiles, levels).mean()) for quantiles in forecasts]
    else:
        errors = [float(np.abs(truth - forecast).mean()) for forecast in forecasts]
    half = np.argsort(errors, kind="stable")[: -(-len(received_models) // 2)]
    return [received_models[k] for k in half]
