"""LightGBM on the pooled raw data of other clients, and further trees on the client's own data."""

from typing import ClassVar

import numpy as np

from plfl.baselines import trees
from plfl.baselines.features import raw_bytes
from plfl.baselines.further.lightgbm_others import LightgbmOthers
from plfl.baselines.model import Floats, Predict, Rows, Trained
from plfl.data.dataset import Dataset


class LightgbmOthersOwn(LightgbmOthers):
    """`lightgbm_others`, to which each client adds trees that it trains on its own data."""

    name: ClassVar[str] = "lightgbm_others_own"
    label: ClassVar[str] = "LightGBM, pooled from others, and own trees"
    about: ClassVar[str] = (
        "LightGBM trained on the raw data of other clients, to which each client adds trees for "
        "what that leaves of its own data."
    )

    def trained(self, dataset: Dataset, boosting: trees.Boosting) -> Trained:
        models = {}
        for client, model in trees.of_others(dataset, boosting, self.turns).items():
            own = dataset.of(np.array([client]))
            base = [_of(client, predict) for predict in model.stages]
            models[client] = trees.trained(own, dataset, boosting, base=base)
        return Trained(trees.forecasts(dataset, models, boosting), raw_bytes(dataset.whole))


def _of(client: int, predict: Predict) -> Predict:
    """The forecasts of one client, as a function that ignores the client's number."""

    def of_client(_: int, starts: Rows) -> Floats:
        return predict(client, starts)

    return of_client
