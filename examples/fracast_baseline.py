"""A pretrained model as a baseline: Fracast-0, whose weights come with `pip install fracast`.

In a study: `plugins: [fracast_baseline.py]` and `baselines: {further: [{name: fracast,
trained_on_this_dataset: false}]}`. Its training data (LOTSA) contain the EULP buildings and several
sites of the Building Data Genome Project 2. Licence: Apache 2.0.
Source: https://github.com/ztxtech/fracast-0
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Arrays, Baseline, FitSettings, FittedBaseline, Floats, Rows

LEAST = 8
"""The least number of readings that it needs."""


class Fracast(Baseline):
    """Fracast-0, not trained further. It reads a client's loads and has the levels 0.1 to 0.9;
    other levels get the quantile of the nearest of these."""

    name = "fracast"
    about = "The pretrained model Fracast-0, as it is."

    has_quantiles = True
    needs_training = False

    trained_on_this_dataset: bool
    """Whether its training data contain these series. Then it never counts as the best baseline."""
    context: int = 2048
    """Rows of loads that it reads."""

    @property
    def has_seen_the_data(self) -> bool:
        return self.trained_on_this_dataset

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> FittedBaseline:
        from fracast import FracastModel

        model = FracastModel.from_pretrained(weights="fp32")
        return Pretrained(dataset, model, settings.levels, self.context)

    def restore(
        self,
        arrays: Arrays,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> FittedBaseline:
        return self.fit(dataset, settings, members)


@dataclass(frozen=True)
class Pretrained(FittedBaseline):
    """The pretrained model with what it reads."""

    dataset: Dataset
    model: Any
    levels: tuple[float, ...]
    """Levels of the quantiles; empty: the median alone."""
    context: int

    def predict(self, client: int, starts: Rows) -> Floats:
        dataset, model = self.dataset, self.model
        steps = dataset.look_ahead + dataset.horizons - 1
        known = np.full((len(starts), self.context), np.nan)
        for row, end in zip(known, dataset.persistence_rows(starts) + 1, strict=True):
            load = dataset.load[max(dataset.view.bounds[client, 0], end - self.context) : end]
            row[-len(load) :] = load
        enough = np.isfinite(known[:, -model.context_length :]).sum(axis=1) >= LEAST
        levels = self.levels or (0.5,)
        forecast = np.full((len(starts), dataset.horizons, len(levels)), np.nan)
        for some in filter(len, np.array_split(np.flatnonzero(enough), 1 + len(starts) // 64)):
            blocks = model.forecast_batch(known[some], horizon=steps)[:, -dataset.horizons :]
            forecast[some] = [
                [np.interp(levels, model.quantiles, row) for row in block] for block in blocks
            ]
        return forecast if self.levels else forecast.reshape(dataset.truth(starts).shape)
