"""LightGBM as if the clients of a federation had grown it together, without pooling raw data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from plfl.baselines.trees import (
    LAGGED,
    Design,
    TreeBaseline,
    TreeModel,
    TreesFit,
    iterate_pools,
    model_arrays,
    restore,
    texts_of,
    train,
    unit_of,
)
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Arrays, Crosses, FitSettings, FittedBaseline
from plfl.interfaces.program import ProgramPart, ProgramParts


class LightgbmFederated(TreeBaseline):
    """`lightgbm_pooled` with public bins, of which the first tree is grown among clients for its
    bytes; the model `trees` grows all of them so."""

    name: ClassVar[str] = "lightgbm_federated"
    label: ClassVar[str] = "LightGBM, federated"
    about: ClassVar[str] = (
        "One model of gradient-boosted trees with day and week lags, which clients grow together: "
        "they send sums of gradients and counts, not readings."
    )
    crosses: ClassVar[Crosses] = "models"

    needs_training: ClassVar[bool] = False

    turns: int | None = Field(None, ge=2)
    """As of `lightgbm_others`; null: all take part."""
    secure: bool = False
    """Clients mask what they send, as with `channel.secure`."""

    @property
    def is_received(self) -> bool:
        return self.turns is not None

    @property
    def is_for_others(self) -> bool:
        return self.turns is not None

    @property
    def design(self) -> Design:
        """What the trees read and forecast."""
        return LAGGED

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> TreesFit:
        return self._grown(None, dataset, settings)

    def refit(
        self,
        fitted_baseline: GrownFit,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> TreesFit:
        return self._grown(fitted_baseline, dataset, settings)

    def _grown(self, earlier: GrownFit | None, dataset: Dataset, settings: FitSettings) -> TreesFit:
        from plfl.baselines.growth import PublicBinGrowth  # here, because it imports torch

        models: dict[int, list[TreeModel]] = {}
        messages: list[list[int]] = [[] for _ in dataset.clients]
        for pooled_dataset, numbers, clients in iterate_pools(dataset, self.turns):
            tree_choices = earlier.models[int(clients[0])][0].tree_choices if earlier else []
            growth = PublicBinGrowth(len(numbers), secure=self.secure)
            model = train(pooled_dataset, dataset, settings, self.design, tree_choices, growth)
            models |= {client: [model] for client in clients.tolist()}
            for client, size in zip(numbers, growth.bytes_up, strict=True):
                messages[client].append(int(size))
        if earlier:
            pairs = zip(earlier.messages, messages, strict=True)
            messages = [[a + b for a, b in zip(*pair, strict=True)] for pair in pairs]
        # A client is in one federation; the others are those without another group.
        means = [round(np.mean(sizes)) if sizes else 0 for sizes in messages]
        return GrownFit(dataset, len(settings.levels), models, {self.name: means}, messages)

    def restore(
        self,
        arrays: Arrays,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> TreesFit:
        return restore(arrays, dataset, settings, self.design)

    def adopt(self, arrays: Arrays, dataset: Dataset, settings: FitSettings) -> TreesFit:
        own_unit = unit_of(dataset.refit(), 0)
        return restore(model_arrays(texts_of(arrays), own_unit), dataset, settings, self.design)

    def program(self, arrays: Arrays, parts: ProgramParts) -> ProgramPart | None:
        return parts.trees(self.design, arrays)


@dataclass(frozen=True)
class GrownFit(TreesFit):
    """Models that clients have grown together."""

    messages: Sequence[Sequence[int]] = ()
    """Bytes that each client has sent for each model that it helped to grow."""
