"""LightGBM on the pooled raw data of a federation."""

from collections.abc import Mapping
from typing import ClassVar

from plfl.baselines.features import raw_bytes
from plfl.baselines.trees import TreeBaseline, TreesFit, fit_pooled
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Crosses, FitSettings, FittedBaseline


class LightgbmPooled(TreeBaseline):
    """`lightgbm_lags` as one model for all clients of a federation."""

    name: ClassVar[str] = "lightgbm_pooled"
    label: ClassVar[str] = "LightGBM, pooled"
    about: ClassVar[str] = (
        "One model of gradient-boosted trees with day and week lags, trained on the raw data of "
        "all clients in one place."
    )
    crosses: ClassVar[Crosses] = "raw data"

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> TreesFit:
        return fit_pooled(dataset, settings, None, raw_bytes(dataset))

    def refit(
        self,
        fitted_baseline: TreesFit,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> TreesFit:
        return fit_pooled(dataset, settings, None, raw_bytes(dataset), fitted_baseline)
