"""Chronos, Chronos-Bolt and Chronos-2, from a folder of weights.

Source: Ansari et al. (2024), "Chronos: Learning the Language of Time Series", arXiv 2403.07815;
Ansari et al. (2025), "Chronos-2: From Univariate to Universal Forecasting", arXiv 2510.15821.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from plfl.base.errors import PlflError
from plfl.baselines.foundation import Foundation
from plfl.baselines.model import Floats


class Chronos(Foundation):
    """A model of the package `chronos-forecasting`."""

    name: ClassVar[str] = "chronos"
    label: ClassVar[str] = "Chronos"
    about: ClassVar[str] = "A foundation model of the Chronos family, as it is."

    folder: Path
    """Folder with its weights, as downloaded."""

    def ahead(self, series: Sequence[Floats], steps: int, levels: Sequence[float]) -> Floats:
        if not (self.folder / "config.json").is_file():
            raise PlflError(
                f"baselines.further: {self.folder} has no config.json; give the baseline chronos "
                "the folder of downloaded weights as `folder`"
            )
        try:
            pipeline = _pipeline(self.folder.resolve())
        except ImportError:
            raise self.missing("chronos-forecasting") from None
        given = [torch.tensor(own, dtype=torch.float32) for own in series]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)  # the first Chronos draws samples
            quantiles, _ = pipeline.predict_quantiles(
                given, prediction_length=steps, quantile_levels=list(levels)
            )
        if isinstance(quantiles, list):  # of Chronos-2: (1, steps, Q) for each series
            quantiles = torch.cat(quantiles)
        return np.asarray(quantiles, float)


@cache
def _pipeline(folder: Path) -> Any:
    from chronos import BaseChronosPipeline

    return BaseChronosPipeline.from_pretrained(folder, device_map="cpu", dtype=torch.float32)
