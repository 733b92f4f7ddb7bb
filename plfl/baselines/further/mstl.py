"""Seasons of a day and a week, and exponential smoothing of the rest, by `statsforecast` (MSTL).

Source: Bandara, Hyndman and Bergmeir (2021), "MSTL: A Seasonal-Trend Decomposition Algorithm for
Time Series with Multiple Seasonal Patterns", arXiv 2107.13462.
"""

from typing import Any, ClassVar

import numpy as np

from plfl.baselines.further.auto_ets import AutoEts
from plfl.baselines.model import Floats


class Mstl(AutoEts):
    """MSTL: the seasons are those of the training set; their last cycle is repeated."""

    name: ClassVar[str] = "mstl"
    label: ClassVar[str] = "MSTL"
    about: ClassVar[str] = (
        "The daily and weekly seasons of the client's training set, and exponential smoothing of "
        "the rest."
    )

    def smoothing(self, day: int) -> dict[str, Any]:
        return {"model": "ZZN"}  # without a season

    def seasons(self, load: Floats, day: int, rows: int) -> Floats:
        from statsforecast.mstl import mstl

        lengths = [length for length in (day, 7 * day) if 2 * length <= len(load)]
        total = np.zeros(rows)
        if not lengths:
            return total
        decomposition = mstl(load, period=lengths)
        for length in lengths:
            name = f"seasonal{length}" if len(lengths) > 1 else "seasonal"
            season = decomposition[name].to_numpy(float)
            total += np.concatenate([season, np.resize(season[-length:], rows - len(season))])
        return total
