"""The mean of the LightGBMs of other clients, which are sent once (one-shot)."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from plfl.baselines import trees
from plfl.baselines.further import Further
from plfl.baselines.model import Predict, Trained, mean_of
from plfl.config.named import Crosses
from plfl.data.dataset import WEEK, Dataset
from plfl.tasks.metrics import pinball


class LightgbmMean(Further):
    """The mean of models of other clients of the federation, without rounds. Of these models, it
    uses the half with the least error in the last week of the client's training set."""

    name: ClassVar[str] = "lightgbm_mean"
    label: ClassVar[str] = "LightGBM, mean of others"
    about: ClassVar[str] = (
        "The mean forecast of the gradient-boosted trees that other clients of the federation have "
        "trained on their own data and sent once."
    )
    crosses: ClassVar[Crosses] = "models"

    def trained(
        self, dataset: Dataset, boosting: trees.TreeSettings, known: Mapping[str, Trained]
    ) -> Trained:
        whole, count = dataset.whole, len(dataset.clients)
        of_clients = [
            trees.trained(whole.of(np.array([i])), dataset, boosting) for i in range(count)
        ]
        fitted = [dataset, dataset.refit()]
        means = {}
        for some in dataset.federations():
            for client in some.tolist():
                if others := [of_clients[j] for j in some if j != client]:
                    by_stage = zip(*(other.stages for other in others), strict=True)
                    stages = [
                        _mean_of_best(predicts, data, client, boosting.levels)
                        for data, predicts in zip(fitted, by_stage, strict=False)
                    ]
                    means[client] = trees.TreeModel(tuple(stages), ())
        return Trained(
            trees.forecasts(dataset, means, boosting), [model.size for model in of_clients]
        )


def _mean_of_best(
    predicts: Sequence[Predict], dataset: Dataset, client: int, levels: Sequence[float]
) -> Predict:
    """The mean of the better half of the forecasts, by the error in the last week of training."""
    starts = dataset.starts(client, "train")[-WEEK // dataset.interval :]
    truth = dataset.truth(starts)
    forecasts = [predict(client, starts) for predict in predicts]
    if levels:
        truth = truth.reshape(len(truth), -1)
        errors = [float(pinball(truth, quantiles, levels).mean()) for quantiles in forecasts]
    else:
        errors = [float(np.abs(truth - forecast).mean()) for forecast in forecasts]
    half = np.argsort(errors, kind="stable")[: -(-len(predicts) // 2)]
    return mean_of([predicts[j] for j in half])
