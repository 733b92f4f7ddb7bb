"""What the numbers of clients that grow a tree can be: bounds that follow from their windows.

Each window is 1 in counts, and adds one gradient to a sum. So no count is negative or exceeds the
windows with which a client has joined, and no sum of gradients exceeds a count times the largest
gradient. Where a loss has no largest gradient, sums are bounded by `LARGEST_SENT` alone.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plfl.interfaces.codec import LARGEST_SENT

ROUNDING = 1e-6
"""Difference, also relative, of two numbers of which the terms were added in another order."""


class Bounds(NamedTuple):
    """The bounds of the clients of a federation."""

    windows: NDArray[np.float64]
    """Numbers (N,) of their training windows."""
    slope: float
    """The largest gradient of a window, in magnitude; infinite if the loss has none."""

    def hold_for_counts(self, client: int, counts: NDArray[np.float64]) -> bool:
        """Whether windows of a client can be counted so, each at most once."""
        return _are_counts(counts) and counts.sum() <= self.windows[client]

    def hold_for_sums(self, client: int, sums: NDArray[np.float64], inputs: int) -> bool:
        """Whether windows of a client have such pairs (n, 2) of a sum of gradients and a count,
        one for each bin of each of the inputs."""
        gradients, counts = sums.T
        return (
            _are_counts(counts)
            and bool((counts <= self.windows[client]).all())
            and counts.sum() <= inputs * self.windows[client]
            and bool(self._hold(gradients, counts).all())
        )

    def hold_for_root(self, client: int, root: Any) -> bool:
        """Whether all windows of a client have this `gradient`, `hessian` and `count`."""
        windows = self.windows[client]
        is_counted = root["count"] == windows and root["hessian"] == windows
        return bool(is_counted and self._hold(root["gradient"], windows))

    def hold_for_splits(self, clients: NDArray[np.int64], splits: Any) -> NDArray[np.bool_]:
        """Which of the splits (n,) divide windows of these clients, with the gain and the values
        that follow from the sums on both sides."""
        left_windows, right_windows = splits["left"].astype(float), splits["right"].astype(float)
        (left_value, right_value, left_sum, left_count) = splits["values"].T
        right_sum, right_count = splits["sums"].T
        with np.errstate(all="ignore"):  # counts may be 0, and sums anything
            parent_gain = (left_sum + right_sum) ** 2 / (left_windows + right_windows)
            children_gain = left_sum**2 / left_windows + right_sum**2 / right_windows
            return np.asarray(
                (left_windows > 0)
                & (right_windows > 0)
                & (left_windows + right_windows <= self.windows[clients].sum())
                & _are_near(left_count, left_windows)
                & _are_near(right_count, right_windows)
                & self._hold(left_sum, left_windows)
                & self._hold(right_sum, right_windows)
                & _are_near(left_value * left_windows, -left_sum)
                & _are_near(right_value * right_windows, -right_sum)
                & _are_near(splits["gain"] + parent_gain, children_gain)
            )

    def _hold(self, gradients: Any, counts: Any) -> Any:
        limits = np.minimum(self.slope * counts, LARGEST_SENT)
        return abs(gradients) <= limits * (1 + ROUNDING) + ROUNDING


def _are_near(numbers: Any, expected: Any) -> Any:
    return np.isclose(numbers, expected, rtol=ROUNDING, atol=ROUNDING)


def _are_counts(numbers: NDArray[np.float64]) -> bool:
    return bool(((numbers >= 0) & (numbers == np.rint(numbers))).all())
