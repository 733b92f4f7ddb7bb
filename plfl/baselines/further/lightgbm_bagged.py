"""The mean of LightGBMs of one client that are trained on drawn windows and features (bagging).

Source: Breiman (1996), "Bagging Predictors", Machine Learning 24.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
from pydantic import Field

from plfl.baselines import trees
from plfl.baselines.further import Further
from plfl.baselines.model import Floats, Rows, Trained
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

    models: int = Field(5, ge=2)
    """Models of each client."""

    def trained(
        self, dataset: Dataset, boosting: trees.TreeSettings, known: Mapping[str, Trained]
    ) -> Trained:
        drawn = [replace(boosting, draw=k) for k in range(1, self.models + 1)]
        inputs = [member.predict for member in self.members(known)]
        bags = [trees.lightgbm_lags(dataset, sample, inputs) for sample in drawn]

        def mean(client: int, starts: Rows) -> Floats:
            return np.asarray(np.mean([bag(client, starts) for bag in bags], axis=0), float)

        return self.with_costs(mean, dataset, known)
