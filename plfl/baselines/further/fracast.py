"""Fracast-0, a small foundation model whose weights come with its package.

Source: https://github.com/ztxtech/fracast-0 (Apache 2.0; 85,001 parameters, trained on LOTSA).
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from plfl.baselines.foundation import Foundation
from plfl.baselines.model import Floats

LEAST = 8
"""The least number of readings that it needs."""


class Fracast(Foundation):
    """Fracast-0. It has the levels 0.1 to 0.9; other levels get the quantile of the nearest of
    these."""

    name: ClassVar[str] = "fracast"
    label: ClassVar[str] = "Fracast-0"
    about: ClassVar[str] = "The foundation model Fracast-0, as it is."
    package: ClassVar[str] = "fracast"

    def model(self) -> Any:
        return _model()

    def ahead(
        self, model: Any, series: list[Floats], steps: int, levels: Sequence[float]
    ) -> tuple[Sequence[float], Floats]:
        rows = np.full((len(series), max(LEAST, *map(len, series))), np.nan)
        for row, load in zip(rows, series, strict=True):
            row[-len(load) :] = load
        enough = np.isfinite(rows[:, -model.context_length :]).sum(axis=1) >= LEAST
        forecasts = np.full((len(series), steps, len(model.quantiles)), np.nan)
        if enough.any():
            forecasts[enough] = model.forecast_batch(rows[enough], horizon=steps)
        return model.quantiles, forecasts


@cache
def _model() -> Any:
    from fracast import FracastModel

    return FracastModel.from_pretrained(weights="fp32")
