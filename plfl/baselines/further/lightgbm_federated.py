"""LightGBM as if the clients of a federation had grown it together, without pooling raw data."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from plfl.baselines import trees
from plfl.baselines.further import Further, Member
from plfl.baselines.model import Arrays, Predict, Trained
from plfl.config.named import Crosses
from plfl.data.dataset import Dataset
from plfl.federated.channel import Channel
from plfl.federated.trees import Part, binned, grow


class LightgbmFederated(Further):
    """`lightgbm_pooled` with public bins, of which the first tree is grown among clients for its
    bytes; the model `trees` grows all of them so."""

    name: ClassVar[str] = "lightgbm_federated"
    label: ClassVar[str] = "LightGBM, federated"
    about: ClassVar[str] = (
        "One model of gradient-boosted trees with day and week lags, which clients grow together: "
        "they send sums of gradients and counts, not readings."
    )
    crosses: ClassVar[Crosses] = "models"

    is_storable: ClassVar[bool] = True
    trains: ClassVar[bool] = False

    turns: int | None = Field(None, ge=2)
    """As of `lightgbm_others`; null: all take part."""

    @property
    def is_received(self) -> bool:
        return self.turns is not None

    def trained(
        self, dataset: Dataset, boosting: trees.TreeSettings, known: Mapping[str, Trained]
    ) -> Trained:
        models: dict[int, trees.TreeModel] = {}
        sent: list[list[int]] = [[] for _ in dataset.clients]
        for members, numbers, some in trees.shared_by(dataset, self.turns):
            growing = Growing(len(numbers))
            model = trees.trained(members, dataset, boosting, grow=growing)
            models |= dict.fromkeys(some.tolist(), model)
            for client, size in zip(numbers, growing.up, strict=True):
                sent[client].append(int(size))
        # A client is in one federation; the others are those without another group.
        means = [round(np.mean(sizes)) if sizes else 0 for sizes in sent]

        def stored(client: int) -> Arrays:
            texts = models[client].texts if client in models else ()
            return trees.stored(texts, trees.unit_of(dataset.refit(), client))

        return Trained(trees.forecasts(dataset, models, boosting), means, (), stored)

    def restored(self, stored: Arrays, dataset: Dataset, levels: int, member: Member) -> Predict:
        return trees.restored("lightgbm_lags", stored, dataset, levels)


class Growing:
    """Grows the models of `trees.trained` from all rows, with public bins, and estimates what
    clients would send: the bytes of the first tree times the number of trees, of all settings that
    are tried, and of the model of the whole history."""

    def __init__(self, clients: int):
        self.up = np.zeros(clients, np.int64)
        self.channel = Channel(0, clients)

    def __call__(
        self,
        windows: trees.TreeWindows,
        boosting: trees.TreeSettings,
        chosen: Sequence[trees.Chosen],
    ) -> list[Any]:
        grid = windows.public(boosting.max_bin)
        fitted, bins = trees.boosted(windows, boosting, chosen, grid), binned(grid, len(grid))
        clients = range(len(windows.dataset.clients))
        parts = [Part(*windows.part("train", [client])) for client in clients]
        for k, level in enumerate(boosting.levels or (0.5,)):
            pairs = [*product(boosting.leaves, boosting.learning_rate)]
            first, times = (chosen[k][:2], 1) if chosen else (pairs[0], len(pairs))
            grow(parts, bins, *first, level, self.channel)
            self.up += times * fitted[k].num_trees() * self.channel.close_round()["bytes_up"]
        return fitted
