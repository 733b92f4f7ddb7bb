"""Exponential smoothing of each client's loads, chosen and fitted by `statsforecast` (AutoETS).

Source: Hyndman and Khandakar (2008), "Automatic Time Series Forecasting: The forecast Package for
R"; https://github.com/Nixtla/statsforecast (Apache 2.0).
"""

from typing import Any, ClassVar

import numpy as np

from plfl.base.errors import PlflError
from plfl.baselines.further import Further
from plfl.baselines.model import Floats, Predict, Rows, per_client
from plfl.data.dataset import WEEK, Dataset

LONGEST = 24
"""Readings of the longest season that AutoETS can have."""


class AutoEts(Further):
    """AutoETS. Its form and parameters are fitted to the training set; its state is updated with
    all loads up to each forecast."""

    name: ClassVar[str] = "auto_ets"
    label: ClassVar[str] = "AutoETS"
    about: ClassVar[str] = "Exponential smoothing of the client's loads, chosen by AICc."

    def fit(self, dataset: Dataset) -> Predict:
        return per_client(self._fitted)(dataset)

    def smoothing(self, day: int) -> dict[str, Any]:
        """The settings of the AutoETS that forecasts loads without their `seasons`; a day has `day`
        rows."""
        return {"season_length": day if day <= LONGEST else 1}

    def seasons(self, load: Floats, day: int, rows: int) -> Floats:
        """What is subtracted from this many rows of loads, from the first row of the training set
        on."""
        return np.zeros(rows)

    def _fitted(self, dataset: Dataset, client: int) -> Any:
        try:
            from statsforecast.models import AutoETS
        except ImportError:
            raise PlflError(
                f"the baseline {self.name} needs the package statsforecast; run pip install "
                "'plfl[statsforecast]', or take it out of baselines.further"
            ) from None
        first, end, _, last = dataset.bounds[client].tolist()
        load, day = _without_gaps(dataset.load[first:last]), WEEK // 7 // dataset.interval
        steps = dataset.look_ahead + dataset.horizons - 1
        trained = load[: end - first]
        seasons = self.seasons(trained, day, len(load) + steps)
        model = AutoETS(**self.smoothing(day)).fit(trained - seasons[: len(trained)])
        rest = load - seasons[: len(load)]

        def predict(starts: Rows) -> Floats:
            forecasts = []
            for now in (dataset.persistence_rows(starts) + 1 - first).tolist():
                ahead = model.forward(y=rest[:now], h=steps)["mean"]
                forecasts.append((ahead + seasons[now : now + steps])[-dataset.horizons :])
            return np.reshape(forecasts, dataset.truth(starts).shape)

        return predict


def _without_gaps(load: Floats) -> Floats:
    """Loads with linear interpolation in gaps; no forecast is made before the end of a gap."""
    rows, there = np.arange(len(load)), np.isfinite(load)
    return np.interp(rows, rows[there], load[there])
