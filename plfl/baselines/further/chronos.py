"""Chronos, Chronos-Bolt and Chronos-2, from a folder of weights.

Source: Ansari et al. (2024), "Chronos: Learning the Language of Time Series", arXiv 2403.07815;
Ansari et al. (2025), "Chronos-2: From Univariate to Universal Forecasting", arXiv 2510.15821.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from plfl.baselines.foundation import FromFolder
from plfl.baselines.model import Floats


class Chronos(FromFolder):
    """A model of the package `chronos-forecasting`."""

    name: ClassVar[str] = "chronos"
    label: ClassVar[str] = "Chronos"
    about: ClassVar[str] = "A foundation model of the Chronos family, as it is."
    package: ClassVar[str] = "chronos-forecasting"
    weights: ClassVar[str] = "config.json"

    @staticmethod
    def load(folder: Path) -> Any:
        from chronos import BaseChronosPipeline

        return BaseChronosPipeline.from_pretrained(folder, device_map="cpu", dtype=torch.float32)

    def ahead(
        self, model: Any, series: list[Floats], steps: int, levels: Sequence[float]
    ) -> tuple[Sequence[float], Floats]:
        given = [torch.tensor(load, dtype=torch.float32) for load in series]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)  # the first Chronos draws samples
            quantiles, _ = model.predict_quantiles(
                given, prediction_length=steps, quantile_levels=list(levels)
            )
        if isinstance(quantiles, list):  # of Chronos-2: (1, steps, Q) for each series
            quantiles = torch.cat(quantiles)
        return levels, np.asarray(quantiles, float)
