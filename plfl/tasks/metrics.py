"""Error measures of forecasts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.base.array_types import Floats as Floats
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.data.dataset import Dataset, Split, naive_error, seasonal_error
from plfl.data.features import days_of

ERROR_SCORES = ("mae", "rmse", "mase")
"""Scores of each target."""


def mae(truth: Floats, forecast: Floats) -> float:
    """Mean absolute error, in the unit of the load."""
    return float(np.abs(truth - forecast).mean())


def rmse(truth: Floats, forecast: Floats) -> float:
    """Root mean squared error, in the unit of the load."""
    return float(np.sqrt(np.square(truth - forecast).mean()))


def best_share(one: Floats, other: Floats, truth: Floats, steps: int) -> float:
    """The share of the forecasts `one` in a mean with the `other` that has the least mean absolute
    error, out of 0, 1/steps, …, 1; the least of equally good ones."""
    shares = np.arange(steps + 1) / steps
    errors = [np.abs(share * one + (1 - share) * other - truth).mean() for share in shares]
    return float(shares[int(np.argmin(errors))])


def ratio(error: float, scale: float) -> float:
    """An error in units of `scale`; NaN if that is zero."""
    return error / scale if scale > 0 else float("nan")


def mase(truth: Floats, forecast: Floats, persistence: Floats) -> float:
    r"""Mean absolute scaled error (PL-FL, arXiv 2404.01517, eq. 6; Hyndman & Koehler 2006).

    $\sum |y - \hat y| / \sum |y - \tilde y|$, where $\tilde y$ is the persistence forecast: the
    load of the last input row, `look_ahead` rows before the first target. A forecast with a MASE
    below 1 beats persistence. NaN if persistence has no error to speak of; see `naive_error`.
    """
    return ratio(mae(truth, forecast), naive_error(truth, persistence))


def nrmse(truth: Floats, forecast: Floats) -> float:
    """Root mean squared error as a fraction of the mean load; NaN if that is zero."""
    return ratio(rmse(truth, forecast), abs(float(truth.mean())))


def wape(truth: Floats, forecast: Floats) -> float:
    """Weighted absolute percentage error: the sum of absolute errors over the sum of absolute
    loads; NaN if that is zero."""
    return ratio(mae(truth, forecast), float(np.abs(truth).mean()))


def seasonal_mase(truth: Floats, forecast: Floats, training: Floats, season: int) -> float:
    """Mean absolute error, divided by that of the seasonal naive forecast on the training set (R,),
    in order of time, with `season` rows per season; NaN if the load repeats itself exactly.

    This is MASE as Hyndman and Koehler (2006, "Another look at measures of forecast accuracy")
    define it. Unlike `mase`, its denominator does not depend on the look-ahead or on the part that
    is scored.
    """
    return ratio(mae(truth, forecast), seasonal_error(training, season))


def worst_tenth(scores: Floats) -> float:
    """Mean of the largest tenth of the clients' scores (N,), at least of one; NaN are left out."""
    sorted_scores = np.sort(scores[~np.isnan(scores)])
    return (
        float(sorted_scores[-max(1, round(len(sorted_scores) / 10)) :].mean())
        if len(sorted_scores)
        else float("nan")
    )


def pinball(truth: Floats, quantiles: Floats, levels: Sequence[float]) -> Floats:
    r"""$\max(\tau (y - q_\tau), (\tau - 1)(y - q_\tau))$ of each forecast and level τ, (..., Q).

    `truth` is (...), `quantiles` (..., Q) and `levels` (Q,). Source: Roger Koenker and Gilbert
    Bassett, "Regression Quantiles", Econometrica 1978.
    """
    errors, shares = truth[..., None] - quantiles, np.asarray(levels)
    return np.maximum(shares * errors, (shares - 1) * errors)


def crps(truth: Floats, quantiles: Floats, levels: Sequence[float]) -> float:
    """Continuous ranked probability score from quantiles: twice the mean pinball loss.

    The score is the integral of twice the pinball loss over all levels. Here it is approximated by
    the mean over the forecast levels, so only scores of the same levels can be compared. For the
    median alone it is the mean absolute error.
    """
    return 2 * float(pinball(truth, quantiles, levels).mean())


def coverage(truth: Floats, low: Floats, high: Floats) -> float:
    """Fraction of the loads in their interval, including its ends; NaN if an end is missing."""
    if np.isnan(low).any() or np.isnan(high).any():
        return float("nan")
    return float(((low <= truth) & (truth <= high)).mean())


def width(low: Floats, high: Floats) -> float:
    """Mean width of intervals, in the unit of the load."""
    return float((high - low).mean())


def score_split(dataset: Dataset, client: int, split: Split, forecast: Floats) -> dict[str, float]:
    """Scores of forecasts (kWh) of all windows in one split of a client, over all targets: `mae`,
    `rmse`, `mase`, `nrmse`, `wape` and `seasonal_mase`, whose season is a day. If windows have
    several targets, `mae_h3` is that of the target three rows after the last input row, and so on;
    the same for `rmse` and `mase`."""
    truth = dataset.truth(dataset.starts(client, split))
    naive, difference = dataset.naive_errors(client, split), truth - forecast
    absolute = np.abs(difference)
    error, root = float(absolute.mean()), float(np.sqrt(np.square(difference).mean()))
    averages = {
        "mae": error,
        "rmse": root,
        "mase": ratio(error, naive.persistence),
        "nrmse": ratio(root, abs(naive.mean_load)),
        "wape": ratio(error, naive.mean_absolute_load),
        "seasonal_mase": ratio(error, naive.seasonal),
    }
    if columns := columns_of(dataset):
        # A row for each target.
        by_target = absolute.T.copy()
        errors = by_target.mean(axis=1)
        roots = np.sqrt(np.square(by_target).mean(axis=1))
        ratios = np.full(len(errors), np.nan)
        np.divide(errors, naive.by_target, ratios, where=naive.by_target > 0)
        for column, *scores in zip(columns, *(errors, roots, ratios), strict=True):
            averages |= {
                f"{name}{column}": float(x) for name, x in zip(ERROR_SCORES, scores, strict=True)
            }
    return averages


def columns_of(dataset: Dataset) -> list[str]:
    """The suffixes of the names of scores for each target; empty if windows have one target."""
    first, horizons = dataset.look_ahead, dataset.horizons
    return [f"_h{row}" for row in range(first, first + horizons)] if horizons > 1 else []


DAILY_COLUMNS = {"mase": "error", "scaled_crps": "crps"}
"""Scores, and the column of `daily_errors` of which each is the sum over that of its scale."""


def daily_errors(
    dataset: Dataset, client: int, forecast: Floats, crps: Floats | None = None
) -> dict[str, Any]:
    """Absolute errors of forecasts (kWh), (W,) or (W, H), of all test windows of a client. `crps`:
    of each forecast, in the same unit and shape, if there are quantiles.

    Columns of a table with a row per day: `day`, on which the targets lie; `error`, the sum of the
    absolute errors in kWh per interval (float32); `forecasts`, their number (int32); `scale`, the
    mean absolute error of persistence over the whole test set (float32), the same in all rows. The
    sum of `error` over that of `forecasts`, divided by `scale`, is the client's `mase`; that of
    `crps`, if given, its `scaled_crps`. `peak_error` and `peak_hours` (float32) are those of
    `daily_peaks`.
    """
    starts = dataset.starts(client, "test")
    truth = dataset.truth(starts)
    target_days = days_of(dataset.stamps[dataset.target_rows(starts)]).ravel()
    days, day_of_row = np.unique(target_days, return_inverse=True)
    # Several targets: the forecast made longest before, of which each row has one.
    last = slice(dataset.horizons - 1, None, dataset.horizons)
    peaks = day_of_row[last], truth.ravel()[last], forecast.ravel()[last]
    sums = (
        {} if crps is None else {"crps": np.bincount(day_of_row, crps.ravel()).astype(np.float32)}
    )
    return {
        "day": days.astype("datetime64[ms]"),
        "error": np.bincount(day_of_row, np.abs(truth - forecast).ravel()).astype(np.float32),
        "forecasts": np.bincount(day_of_row).astype(np.int32),
        "scale": np.float32(dataset.naive_errors(client, "test").persistence),
        **daily_peaks(*peaks, len(days), MINUTES_PER_DAY // dataset.interval),
        **sums,
    }


def daily_peaks(
    day: NDArray[np.int64], truth: Floats, forecast: Floats, days: int, row_count: int
) -> dict[str, NDArray[np.float32]]:
    """How far the largest forecast of each day is from its largest load: `peak_error` (days,), the
    absolute difference as a share of the largest load, and `peak_hours` (days,), the hours between
    the two. NaN for a day without all of its `row_count` readings, and for one whose largest load
    is not positive. The loads and forecasts (R,) are in order of time, on the days (R,) of these
    numbers.
    """
    peaks = np.full((2, days), np.nan, np.float32)
    is_whole = np.bincount(day, minlength=days) == row_count
    loads, forecasts = (array[is_whole[day]].reshape(-1, row_count) for array in (truth, forecast))
    peak = loads.max(axis=1)
    apart = np.abs(forecasts.max(axis=1) - peak)
    peaks[0, is_whole] = np.divide(apart, peak, np.full(len(peak), np.nan), where=peak > 0)
    hours = np.abs(forecasts.argmax(axis=1) - loads.argmax(axis=1)) * 24 / row_count
    peaks[1, is_whole] = np.where(np.isnan(peaks[0, is_whole]), np.nan, hours)
    return {"peak_error": peaks[0], "peak_hours": peaks[1]}
