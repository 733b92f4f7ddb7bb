"""TiRex, from a folder of weights.

Source: Auer et al. (2025), "TiRex: Zero-Shot Forecasting Across Long and Short Horizons with
Enhanced In-Context Learning", arXiv 2505.23719; https://github.com/NX-AI/tirex.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from plfl.baselines.foundation import FromFolder
from plfl.baselines.model import Floats


class TiRex(FromFolder):
    """The model of the package `tirex-ts`. It has the levels 0.1 to 0.9; other levels get the
    quantile of the nearest of these."""

    name: ClassVar[str] = "tirex"
    label: ClassVar[str] = "TiRex"
    about: ClassVar[str] = "The foundation model TiRex, as it is."
    package: ClassVar[str] = "tirex-ts"
    weights: ClassVar[str] = "model.ckpt"

    @staticmethod
    def load(folder: Path) -> Any:
        from tirex import TiRexZero

        return TiRexZero.from_pretrained(str(folder / TiRex.weights), "torch", device="cpu")

    def ahead(
        self, model: Any, series: list[Floats], steps: int, levels: Sequence[float]
    ) -> tuple[Sequence[float], Floats]:
        quantiles, _ = model.forecast(series, output_type="numpy", prediction_length=steps)
        return model.config.quantiles, np.asarray(quantiles, float)
