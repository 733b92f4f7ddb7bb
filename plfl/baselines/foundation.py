"""Foundation models as baselines: trained elsewhere, and used as they are."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from plfl.base.errors import PlflError
from plfl.baselines.further import Further
from plfl.baselines.model import Floats, Predict, Rows
from plfl.data.dataset import Dataset

BATCH = 64
"""Windows that are forecast at once."""


class Foundation(Further):
    """A model that reads the loads of a client up to the forecast's origin, and nothing else."""

    package: ClassVar[str]
    """The name of its package for pip."""
    trained_on_this_dataset: bool
    """Whether its training data contain these series. Then it never counts as the best baseline."""
    context: int = Field(2048, ge=8)
    """Rows of loads that it reads."""

    @property
    def has_seen_the_data(self) -> bool:
        return self.trained_on_this_dataset

    def model(self) -> Any:
        """The model as its package loads it; ImportError if the package is missing."""
        raise NotImplementedError

    def ahead(
        self, model: Any, series: list[Floats], steps: int, levels: Sequence[float]
    ) -> tuple[Sequence[float], Floats]:
        """Forecasts of the rows after each of W series, in which NaN is a gap: the levels, either
        the wanted ones or those of the model, and their quantiles (W, steps, levels)."""
        raise NotImplementedError

    def fit(self, dataset: Dataset) -> Predict:
        predict = self.quantiles(dataset, [0.5])
        return lambda client, starts: predict(client, starts).reshape(dataset.truth(starts).shape)

    def quantiles(self, dataset: Dataset, levels: Sequence[float]) -> Predict:
        steps = dataset.look_ahead + dataset.horizons - 1

        def predict(client: int, starts: Rows) -> Floats:
            try:
                model = self.model()
            except ImportError:
                raise PlflError(
                    f"the baseline {self.name} needs the package {self.package}; run pip install "
                    "'plfl[foundation]', or take it out of baselines.further"
                ) from None
            forecast = np.empty((len(starts), dataset.horizons, len(levels)))
            ends = dataset.persistence_rows(starts) + 1
            for first in range(0, len(starts), BATCH):
                part = slice(first, first + BATCH)
                begins = np.maximum(dataset.bounds[client, 0], ends[part] - self.context)
                series = [dataset.load[i:j] for i, j in zip(begins, ends[part], strict=True)]
                levels_of_model, blocks = self.ahead(model, series, steps, levels)
                forecast[part] = [
                    [np.interp(levels, levels_of_model, quantiles) for quantiles in block]
                    for block in blocks[:, -dataset.horizons :]
                ]
            return np.sort(forecast, axis=-1)

        return predict


class FromFolder(Foundation):
    """A foundation model whose weights are in a folder."""

    weights: ClassVar[str]
    """The file of weights in the folder."""
    folder: Path
    """Folder of its weights."""

    def model(self) -> Any:
        if not (self.folder / self.weights).is_file():
            raise PlflError(
                f"baselines.further: {self.folder} has no {self.weights}; give the baseline "
                f"{self.name} the folder of downloaded weights as `folder`"
            )
        return _loaded(self.load, self.folder.resolve())

    @staticmethod
    def load(folder: Path) -> Any:
        """Load the model from the absolute path of its folder, without network access."""
        raise NotImplementedError


@cache
def _loaded(load: Callable[[Path], Any], folder: Path) -> Any:
    return load(folder)
