"""What baselines have in common that were trained elsewhere and are used as they are."""

from collections.abc import Sequence

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

    trained_on_this_dataset: bool
    """Whether its training data contain these series. Then it is no best baseline."""
    context: int = Field(2048, ge=8)
    """Most rows of loads that it reads."""

    @property
    def has_seen_the_data(self) -> bool:
        return self.trained_on_this_dataset

    def ahead(self, series: Sequence[Floats], steps: int, levels: Sequence[float]) -> Floats:
        """Quantiles (W, steps, Q) of the rows after each of W series, in which NaN is a gap."""
        raise NotImplementedError

    def fit(self, dataset: Dataset) -> Predict:
        predict = self.quantiles(dataset, [0.5])
        return lambda client, starts: predict(client, starts).reshape(dataset.truth(starts).shape)

    def quantiles(self, dataset: Dataset, levels: Sequence[float]) -> Predict:
        steps = dataset.look_ahead + dataset.horizons - 1

        def predict(client: int, starts: Rows) -> Floats:
            found = np.empty((len(starts), dataset.horizons, len(levels)))
            ends = dataset.persistence_rows(starts) + 1
            for first in range(0, len(starts), BATCH):
                part = slice(first, first + BATCH)
                begins = np.maximum(dataset.bounds[client, 0], ends[part] - self.context)
                series = [dataset.load[i:j] for i, j in zip(begins, ends[part], strict=True)]
                found[part] = self.ahead(series, steps, levels)[:, -dataset.horizons :]
            return np.sort(found, axis=-1)

        return predict

    def missing(self, package: str) -> PlflError:
        """The error where its package is not installed."""
        return PlflError(
            f"the baseline {self.name} needs the package {package}; run pip install "
            "'plfl[foundation]', or take it out of baselines.further"
        )
