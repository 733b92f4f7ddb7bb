"""The mean of LightGBMs of one client that are trained on drawn windows and features (bagging).

Source: Breiman (1996), "Bagging Predictors", Machine Learning 24.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from plfl.baselines import trees
from plfl.baselines.further import Further, Member
from plfl.baselines.model import Arrays, Predict, Trained, mean_of
from plfl.data.dataset import Dataset


class LightgbmBagged(Further):
    """The mean of several `lightgbm_lags`. Each of their trees is trained on four fifths of the
    windows and of the features, drawn at random. Each model tries all settings of the search."""

    name: ClassVar[str] = "lightgbm_bagged"
    label: ClassVar[str] = "LightGBM, bagged"
    about: ClassVar[str] = (
        "The mean of several models of gradient-boosted trees with day and week lags, each on "
        "drawn windows and features, for each client alone."
    )

    is_storable: ClassVar[bool] = True

    models: int = Field(5, ge=2)
    """Models of each client."""

    def trained(
        self, dataset: Dataset, boosting: trees.TreeSettings, known: Mapping[str, Trained]
    ) -> Trained:
        received = [member.predict for member in self.members(known)]
        bags = [
            trees.of_each_client("lightgbm_lags", dataset, replace(boosting, draw=k), received)
            for k in range(1, self.models + 1)
        ]

        def stored(client: int) -> Arrays:
            texts = [text for models in bags for text in models[client].texts]
            unit = trees.unit_of(dataset.refit(), client)
            return trees.stored(texts, unit) | self.stored_members(known, client)

        mean = mean_of([trees.forecasts(dataset, models, boosting) for models in bags])
        return self.with_costs(mean, dataset, known, stored)

    def restored(self, stored: Arrays, dataset: Dataset, levels: int, member: Member) -> Predict:
        received = [member(name) for name in self.needs]
        return trees.restored("lightgbm_lags", stored, dataset, levels, received)
