"""LightGBM on the covariates of a study, one model per client."""

from typing import ClassVar

from plfl.baselines.trees import COVARIATES, Design, OwnTrees


class LightgbmCovariates(OwnTrees):
    """Forecasts the change from the last load from the study's look-back and its covariates."""

    name: ClassVar[str] = "lightgbm_covariates"
    label: ClassVar[str] = "LightGBM, the study's covariates"
    about: ClassVar[str] = (
        "Gradient-boosted trees on the study's look-back and its covariates, one model per client."
    )
    needs_covariates: ClassVar[bool] = True
    design: ClassVar[Design] = COVARIATES

    @property
    def reach(self) -> int:
        return 0
