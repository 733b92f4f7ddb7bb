"""A pretrained model as a baseline: Fracast-0, whose weights come with `pip install fracast`.

In a study: `plugins: [fracast_baseline.py]` and `baselines: {further: [{name: fracast,
trained_on_this_dataset: false}]}`. Its training data (LOTSA) contain the EULP buildings and several
sites of the Building Data Genome Project 2. Licence: Apache 2.0.
Source: https://github.com/ztxtech/fracast-0
"""

from collections.abc import Sequence

import numpy as np

from plfl.baselines.further import Further
from plfl.baselines.model import Floats, Predict, Rows
from plfl.data.dataset import Dataset

LEAST = 8
"""The least number of readings that it needs."""


class Fracast(Further):
    """Fracast-0, not trained further. It reads a client's loads and has the levels 0.1 to 0.9;
    other levels get the quantile of the nearest of these."""

    name = "fracast"
    about = "The pretrained model Fracast-0, as it is."

    trained_on_this_dataset: bool
    """Whether its training data contain these series. Then it never counts as the best baseline."""
    context: int = 2048
    """Rows of loads that it reads."""

    @property
    def has_seen_the_data(self) -> bool:
        return self.trained_on_this_dataset

    def fit(self, dataset: Dataset) -> Predict:
        median = self.quantiles(dataset, [0.5])
        return lambda client, starts: median(client, starts).reshape(dataset.truth(starts).shape)

    def quantiles(self, dataset: Dataset, levels: Sequence[float]) -> Predict:
        from fracast import FracastModel

        model = FracastModel.from_pretrained(weights="fp32")
        steps = dataset.look_ahead + dataset.horizons - 1

        def predict(client: int, starts: Rows) -> Floats:
            known = np.full((len(starts), self.context), np.nan)
            for row, end in zip(known, dataset.persistence_rows(starts) + 1, strict=True):
                load = dataset.load[max(dataset.bounds[client, 0], end - self.context) : end]
                row[-len(load) :] = load
            enough = np.isfinite(known[:, -model.context_length :]).sum(axis=1) >= LEAST
            forecast = np.full((len(starts), dataset.horizons, len(levels)), np.nan)
            for some in filter(len, np.array_split(np.flatnonzero(enough), 1 + len(starts) // 64)):
                blocks = model.forecast_batch(known[some], horizon=steps)[:, -dataset.horizons :]
                forecast[some] = [
                    [np.interp(levels, model.quantiles, row) for row in block] for block in blocks
                ]
            return forecast

        return predict
