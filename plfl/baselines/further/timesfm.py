"""TimesFM 2.5 and 3, from a folder of weights.

Source: Das et al. (2024), "A decoder-only foundation model for time-series forecasting", arXiv
2310.10688; https://github.com/google-research/timesfm.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from safetensors import safe_open

from plfl.baselines.foundation import FromFolder
from plfl.baselines.model import Floats

LEVELS = [k / 10 for k in range(1, 10)]
"""The levels of TimesFM 2.5."""


class TimesFM(FromFolder):
    """A model of the package `timesfm`. It has the levels 0.1 to 0.9; other levels get the quantile
    of the nearest of these."""

    name: ClassVar[str] = "timesfm"
    label: ClassVar[str] = "TimesFM"
    about: ClassVar[str] = "The foundation model TimesFM, as it is."
    package: ClassVar[str] = "timesfm"
    weights: ClassVar[str] = "model.safetensors"

    @staticmethod
    def load(folder: Path) -> Any:
        from timesfm.timesfm_2p5.timesfm_2p5_torch import TimesFM_2p5_200M_torch
        from timesfm3 import TimesFM3Forecaster

        with safe_open(folder / TimesFM.weights, "pt") as weights:
            third = not any(name.startswith("tokenizer.") for name in weights.keys())  # noqa: SIM118
        if third:
            return TimesFM3Forecaster.from_pretrained(str(folder), device="cpu")
        return TimesFM_2p5_200M_torch.from_pretrained(str(folder), torch_compile=False)

    def ahead(
        self, model: Any, series: list[Floats], steps: int, levels: Sequence[float]
    ) -> tuple[Sequence[float], Floats]:
        if hasattr(model, "predict_batch"):  # TimesFM 3
            forecasts = model.predict_batch(series, steps, return_quantiles=True)
            return model.config.quantiles, np.array(
                [forecast.quantiles for forecast in forecasts], float
            )
        from timesfm import ForecastConfig

        model.compile(
            ForecastConfig(
                max_context=max(map(len, series)),
                max_horizon=steps,
                normalize_inputs=True,
                per_core_batch_size=len(series),
                use_continuous_quantile_head=True,
            )
        )
        return LEVELS, model.forecast(steps, series)[1][..., 1:]  # the first is the mean
