"""LightGBM on the pooled raw data of other clients, used without further training (zero-shot)."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from plfl.baselines.features import raw_bytes
from plfl.baselines.trees import TreeBaseline, TreesFit, fit_pooled
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Crosses, FitSettings, FittedBaseline


class LightgbmOthers(TreeBaseline):
    """`lightgbm_pooled` without the client's own data: it is trained on the same data as a model
    that an unseen client receives."""

    name: ClassVar[str] = "lightgbm_others"
    label: ClassVar[str] = "LightGBM, pooled from others"
    about: ClassVar[str] = (
        "One model of gradient-boosted trees with day and week lags, trained on the raw data of "
        "other clients of the federation in one place, as it is."
    )
    crosses: ClassVar[Crosses] = "raw data"

    turns: int = Field(4, ge=2)
    """Groups of clients, left out in turn."""

    @property
    def is_for_others(self) -> bool:
        return True

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> TreesFit:
        return fit_pooled(dataset, settings, self.turns, raw_bytes(dataset.with_view("whole")))

    def refit(
        self,
        fitted_baseline: TreesFit,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> TreesFit:
        return fit_pooled(
            dataset, settings, self.turns, raw_bytes(dataset.with_view("whole")), fitted_baseline
        )
