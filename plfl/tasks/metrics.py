"""Error measures of forecasts."""

import numpy as np
from numpy.typing import NDArray

from plfl.data.windows import Dataset, Split

Floats = NDArray[np.float64]


def mae(truth: Floats, forecast: Floats) -> float:
    """Mean absolute error, in the unit of the load."""
    return float(np.abs(truth - forecast).mean())


def rmse(truth: Floats, forecast: Floats) -> float:
    """Root mean squared error, in the unit of the load."""
    return float(np.sqrt(np.square(truth - forecast).mean()))


def mase(truth: Floats, forecast: Floats, persistence: Floats) -> float:
    r"""Mean absolute scaled error (PL-FL, arXiv 2404.01517, eq. 6; Hyndman & Koehler 2006).

    $\sum |y - \hat y| / \sum |y - \tilde y|$, where $\tilde y$ is the persistence forecast: the
    load of the last input row, `look_ahead` steps before the target. A forecast with a MASE below 1
    beats persistence. NaN if the error of persistence is zero.
    """
    scale = mae(truth, persistence)
    return mae(truth, forecast) / scale if scale > 0 else float("nan")


def nrmse(truth: Floats, forecast: Floats) -> float:
    """Root mean squared error as a share of the mean load; NaN if that is zero."""
    mean = abs(float(truth.mean()))
    return rmse(truth, forecast) / mean if mean > 0 else float("nan")


def seasonal_mase(truth: Floats, forecast: Floats, training: Floats, season: int) -> float:
    """Mean absolute error over that of the seasonal naive forecast in the training part.

    This is MASE as Hyndman and Koehler (2006, "Another look at measures of forecast accuracy")
    define it. Unlike `mase`, its denominator does not depend on the look-ahead or on the part that
    is scored.

    Args:
        truth: loads (W,).
        forecast: forecasts (W,) of these.
        training: loads of the training part (R,), in the order of time.
        season: rows of a season, for example of a day.

    Returns:
        The ratio; NaN if the load of the training part repeats itself exactly.
    """
    scale = mae(training[season:], training[:-season])
    return mae(truth, forecast) / scale if scale > 0 else float("nan")


def worst_tenth(scores: Floats) -> float:
    """Mean of the largest tenth of the clients' scores (N,), at least of one; NaN are left out."""
    known = np.sort(scores[~np.isnan(scores)])
    return float(known[-max(1, round(len(known) / 10)) :].mean()) if len(known) else float("nan")


def of_split(dataset: Dataset, client: int, split: Split, forecast: Floats) -> dict[str, float]:
    """`mae`, `rmse` and `mase` of forecasts (kWh) of all windows in one split of a client."""
    starts = dataset.starts(client, split)
    truth = dataset.load[dataset.target_rows(starts)]
    return {
        "mae": mae(truth, forecast),
        "rmse": rmse(truth, forecast),
        "mase": mase(truth, forecast, dataset.load[dataset.persistence_rows(starts)]),
    }
