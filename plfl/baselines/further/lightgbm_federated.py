"""LightGBM that the clients of a federation train together, without pooling raw data."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from plfl.baselines import trees
from plfl.baselines.federated import Growing
from plfl.baselines.further import Further
from plfl.baselines.model import Predict, Trained
from plfl.config.named import Crosses
from plfl.data.dataset import Dataset


class LightgbmFederated(Further):
    """`lightgbm_pooled` with LightGBM's data-parallel learner, whose machines are the clients."""

    name: ClassVar[str] = "lightgbm_federated"
    label: ClassVar[str] = "LightGBM, federated"
    about: ClassVar[str] = (
        "One model of gradient-boosted trees with day and week lags, which clients grow together: "
        "they send sums of gradients and counts, not readings."
    )
    crosses: ClassVar[Crosses] = "models"

    turns: int | None = Field(None, ge=2)
    """As of `lightgbm_others`; null: all take part."""
    exchange: bool = True
    """`false`, which is faster: all rows in one place, and `bytes` estimated from one tree."""

    def trained(self, dataset: Dataset, boosting: trees.Boosting) -> Trained:
        models: dict[int, trees.Model] = {}
        sent: list[list[int]] = [[] for _ in dataset.clients]
        for members, numbers, some in trees.shared_by(dataset, self.turns):
            growing = Growing(len(numbers), self.exchange)
            model = trees.trained(members, dataset, boosting, grow=growing)
            models |= dict.fromkeys(some.tolist(), model)
            for client, size in zip(numbers, growing.up, strict=True):
                sent[client].append(int(size))
        # A client is in one federation; the others are those without another group.
        means = [round(np.mean(sizes)) if sizes else 0 for sizes in sent]
        return Trained(self.forecasts(dataset, boosting, models), means)

    def forecasts(
        self, dataset: Dataset, boosting: trees.Boosting, models: dict[int, trees.Model]
    ) -> Predict:
        """Forecasts by the shared models of clients."""
        return trees.forecasts(dataset, models, boosting)
