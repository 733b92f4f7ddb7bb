"""Sums of gradients and counts of windows as two whole numbers that are short in masked messages.

A window above the target has the gradient a, one below it −b, and one at the target 0. For windows
with the sum of gradients g and the count c, q = g + b c is not negative, nor is p = a c − g, and
parts of the windows have no larger ones. Clients send f = q / s and c: s = a + b if no window is at
the target, where f is the number of those above it, and else s = 1. From the sum of f follows that
c is between q / (a + b) and (q + p') / (a + b), if p' is that of windows around them, so that c can
be sent modulo the number of values between.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Slopes(NamedTuple):
    """The gradients of a window, whole numbers."""

    above_target: int
    """a, of one above the target."""
    below_target: int
    """b, of one below it, negative."""
    has_flat: bool = True
    """Whether any window is at the target, so that s = 1."""

    @property
    def scale(self) -> int:
        """s."""
        return 1 if self.has_flat else self.above_target + self.below_target

    def pair(self, gradients: Any, counts: Any) -> NDArray[np.int64]:
        """f and c (2, n) of sums (n,)."""
        return np.stack([(gradients + self.below_target * counts) // self.scale, counts])

    def sums(self, first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sums of gradients and the counts (2, n) of sums of f and c over clients."""
        return np.stack([first * self.scale - self.below_target * counts, counts])

    def least_counts(self, first: NDArray[np.int64]) -> NDArray[np.int64]:
        """The least c (n,), given f."""
        return -(-first * self.scale // (self.above_target + self.below_target))

    def largest_pair(self, gradients: Any, counts: Any) -> NDArray[np.int64]:
        """The most that f, and c beyond the least one, can be (2, n) for windows among those with
        such sums (n,)."""
        sums_below = self.above_target * counts - gradients
        return np.stack(
            [self.pair(gradients, counts)[0], sums_below // (self.above_target + self.below_target)]
        )
