"""Baselines that a study lists under `baselines.further`, one file each, or in plug-ins."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from plfl.base.errors import PlflError
from plfl.baselines import find
from plfl.baselines.features import raw_bytes
from plfl.baselines.model import Arrays, Predict, Trained, again
from plfl.baselines.targets import with_residuals
from plfl.baselines.trees import TreeSettings
from plfl.config.named import STANDARD, BaselineRules
from plfl.data.dataset import Dataset

Member: TypeAlias = Callable[[str], Predict]
"""The restored forecasts of a baseline, by its name."""


class Further(BaselineRules):
    """A baseline with its own keys."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        if vars(cls).get("name") in STANDARD:
            raise PlflError(f"every study has a baseline {cls.name}; choose another name")

    def fit(self, dataset: Dataset) -> Predict:
        """Train on the training sets, and choose settings on the validation sets.

        If the end of the history is held out, this is called again, with the whole history as
        training set, for the forecasts of the test set.

        Returns:
            A function that forecasts windows, given the number of a client and start rows (W,):
            kWh in the shape of `Dataset.truth`, NaN where there is no forecast. It must not use
            anything after a window's last input row.
        """
        raise NotImplementedError

    def quantiles(self, dataset: Dataset, levels: Sequence[float]) -> Predict:
        """As `fit`, for quantiles (W, H, Q); by default those of its errors in training."""
        return with_residuals(self.fit, levels)(dataset)

    def trained(
        self, dataset: Dataset, boosting: TreeSettings, known: Mapping[str, Trained]
    ) -> Trained:
        """Forecasts, or quantiles if `boosting` has levels, of all sets; and the bytes sent.

        `known`: the baselines that stand before it, by name, unless they failed.
        """
        levels = boosting.levels
        fit = again(lambda d: self.quantiles(d, levels) if levels else self.fit(d))
        raw = self.crosses == "raw data"
        sent = raw_bytes(dataset.whole) if raw else [0] * len(dataset.clients)
        return Trained(fit(dataset), sent)

    def members(self, known: Mapping[str, Trained]) -> list[Trained]:
        """The baselines that it needs; RuntimeError if one of them failed."""
        if lacking := [name for name in self.needs if name not in known]:
            raise RuntimeError(f"there are no forecasts of {', '.join(lacking)}")
        return [known[name] for name in self.needs]

    def stored_members(self, known: Mapping[str, Trained], client: int) -> Arrays:
        """What a client needs of those, with their names before a slash."""
        arrays: Arrays = {}
        for name, member in zip(self.needs, self.members(known), strict=True):
            assert member.stored is not None
            arrays |= {f"{name}/{key}": array for key, array in member.stored(client).items()}
        return arrays

    def restored(self, stored: Arrays, dataset: Dataset, levels: int, member: Member) -> Predict:
        """Forecasts of the windows of a client, which has a dataset of its own, given what
        `Trained.stored` has made, the number of levels of quantiles, and the restored forecasts of
        a baseline that it needs, by name."""
        raise NotImplementedError

    def with_costs(
        self,
        predict: Predict,
        dataset: Dataset,
        known: Mapping[str, Trained],
        stored: Callable[[int], Arrays],
    ) -> Trained:
        """Its forecasts, and what each client sends for the baselines that it needs: messages or
        raw data that several of them need are sent once."""
        pairs = zip(self.needs, self.members(known), strict=True)
        origins = dict.fromkeys(source for name, member in pairs for source in member.of or (name,))
        sent = {"": np.zeros(len(dataset.clients), np.int64)}
        for source in origins:
            what = "" if find(source).crosses == "raw data" else source
            sent[what] = np.maximum(sent.get(what, 0), known[source].sent)
        total = np.sum([*sent.values()], axis=0)
        return Trained(predict, total.tolist(), tuple(origins), stored)
