"""LightGBM on the pooled raw data of other clients, used without further training (zero-shot)."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from plfl.baselines import trees
from plfl.baselines.features import raw_bytes
from plfl.baselines.further import Further
from plfl.baselines.model import Trained
from plfl.config.named import Crosses
from plfl.data.dataset import Dataset


class LightgbmOthers(Further):
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

    def trained(
        self, dataset: Dataset, boosting: trees.TreeSettings, known: Mapping[str, Trained]
    ) -> Trained:
        models = trees.of_pooled(dataset, boosting, self.turns)
        return Trained(trees.forecasts(dataset, models, boosting), raw_bytes(dataset.whole))
