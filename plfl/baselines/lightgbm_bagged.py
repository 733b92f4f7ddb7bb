"""The mean of LightGBMs of one client that are trained on drawn windows and features (bagging).

Source: Breiman (1996), "Bagging Predictors", Machine Learning 24.
"""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from plfl.baselines.trees import OwnTrees


class LightgbmBagged(OwnTrees):
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

    @property
    def draws(self) -> Sequence[int]:
        return range(1, self.models + 1)
