"""LightGBM on the pooled raw data of other clients, and further trees on the client's own data."""

from typing import ClassVar

from plfl.baselines import trees
from plfl.baselines.features import raw_bytes
from plfl.baselines.further.lightgbm_others import LightgbmOthers
from plfl.baselines.model import Trained
from plfl.data.dataset import Dataset


class LightgbmOthersOwn(LightgbmOthers):
    """`lightgbm_others`, to which each client adds trees that it trains on its own data."""

    name: ClassVar[str] = "lightgbm_others_own"
    label: ClassVar[str] = "LightGBM, pooled from others, and own trees"
    about: ClassVar[str] = (
        "LightGBM trained on the raw data of other clients, to which each client adds trees for "
        "what that leaves of its own data."
    )

    def trained(self, dataset: Dataset, boosting: trees.TreeSettings) -> Trained:
        models = trees.of_pooled(dataset, boosting, self.turns)
        predict = trees.with_own(dataset, boosting, models)
        return Trained(predict, raw_bytes(dataset.whole))
