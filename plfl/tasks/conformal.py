"""Conformal prediction: intervals widened at both ends cover as much as they should.

A width, by which both ends move outwards, comes from forecasts of windows that the model was not
trained on. There, the score of an interval [q_low, q_high] with the load y is
max(q_low − y, y − q_high): the distance of the load from the interval, negative if the load is
inside. The ⌈(n+1)s⌉-th smallest of n scores is the width with which the interval covers a further
load with probability s or more, if this load and the n others are exchangeable (Yaniv Romano, Evan
Patterson and Emmanuel Candès, "Conformalized Quantile Regression", NeurIPS 2019, theorem 1).

Loads of another season are not exchangeable with those of the validation set. An adaptive width
follows them. After each load that becomes known, it grows by η·s if the load was outside of the
interval, and shrinks by η·(1 − s) if it was inside (quantile tracking, in Anastasios Angelopoulos,
Emmanuel Candès and Ryan Tibshirani, "Conformal PID Control for Time Series Prediction", NeurIPS
2023). After T loads the fraction outside is 1 − s + (q_T − q_0) / (ηT), where q is the width.
Since q leaves the range of the scores by at most a few steps, the fraction outside approaches 1 − s
for any loads.
"""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from plfl.base.array_types import Floats as Floats

WIDTH_STEP = 0.1
"""Step η of adaptive widths, in standard deviations of the scores of the validation set, without
those of windows that have no forecast."""


def rank(windows: int, share: float) -> int:
    """⌈(n+1)s⌉, which of n ascending scores is the width; above n if there are too few."""
    return ceil((windows + 1) * share - 1e-9)  # 0.9 · 10 is 9 despite round-off


def fewest_scores(share: float) -> int:
    """The number of windows that are needed for the width of an interval with this share."""
    return ceil(share / (1 - share) - 1e-9)


def width(scores: Floats, share: float) -> float:
    """The width with which intervals cover a `share` of the loads, which have these scores (W,).
    Windows without a forecast (NaN) are left out; NaN if fewer than `fewest_scores(share)` have
    one."""
    scores = np.sort(scores[~np.isnan(scores)])
    rank_of_width = rank(len(scores), share)
    return float(scores[rank_of_width - 1]) if rank_of_width <= len(scores) else float("nan")


def adaptive_widths(
    width: float, step: float, scores: Floats, observed_counts: NDArray[np.int64], share: float
) -> Floats:
    """Adaptive widths (W,) of windows in order of time.

    `width`: q_0; `step`: η; `share`: s; `scores` (W,), NaN where the load or the forecast is
    missing, which leaves the width as it is; `observed_counts` (W,): how many of the first windows
    have a load that is known when the window is forecast, at most the number of windows before
    it.
    """
    grow, shrink = step * share, step * (share - 1)
    followed_widths: list[float] = []
    used_count, score_list = 0, scores.tolist()
    for count in observed_counts.tolist():
        new_windows = slice(used_count, count)
        for score, width_used in zip(
            score_list[new_windows], followed_widths[new_windows], strict=True
        ):
            if score == score:  # not NaN
                width += grow if score > width_used else shrink
        used_count = count
        followed_widths.append(width)
    return np.array(followed_widths)
