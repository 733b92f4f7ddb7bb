"""LightGBM that clients train together, and further trees on each client's own data."""

from typing import ClassVar

from plfl.baselines import trees
from plfl.baselines.further.lightgbm_federated import LightgbmFederated
from plfl.baselines.model import Predict
from plfl.data.dataset import Dataset


class LightgbmFederatedOwn(LightgbmFederated):
    """`lightgbm_federated`, to which each client adds trees that it trains on its own data."""

    name: ClassVar[str] = "lightgbm_federated_own"
    label: ClassVar[str] = "LightGBM, federated, and own trees"
    about: ClassVar[str] = (
        "Gradient-boosted trees that clients grow together, to which each client adds trees for "
        "what these leave of its own data."
    )
    sends: ClassVar[str] = LightgbmFederated.name

    def forecasts(
        self, dataset: Dataset, boosting: trees.Boosting, models: dict[int, trees.Model]
    ) -> Predict:
        return trees.with_own(dataset, boosting, models)
