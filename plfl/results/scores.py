"""How good a forecast is."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def mae(truth: Floats, forecast: Floats) -> float:
    """Mean absolute error, in the unit of the load."""
    return float(np.abs(truth - forecast).mean())


def rmse(truth: Floats, forecast: Floats) -> float:
    """Root mean squared error, in the unit of the load."""
    return float(np.sqrt(np.square(truth - forecast).mean()))


def mase(truth: Floats, forecast: Floats, persistence: Floats) -> float:
    r"""Mean absolute scaled error as the paper has it (PL-FL, eq. 6; Hyndman & Koehler 2006).

    $\sum |y - \hat y| / \sum |y - \tilde y|$, where $\tilde y$ is the persistence forecast: the
    load at the last input row, `look_ahead` steps before the target. Below 1 the model beats it.
    NaN where persistence makes no error at all.
    """
    scale = mae(truth, persistence)
    return mae(truth, forecast) / scale if scale > 0 else float("nan")
