"""What a tree that clients grow together minimises, and what its growth needs to know of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from plfl.federated.collectives.messages import Floats
from plfl.federated.collectives.slopes import Slopes


class TreeLoss(ABC):
    """A loss of forecasts and targets."""

    level: float | None = None
    """The level of the quantile of errors that each leaf has, for which the clients count them;
    None: leaves have the values that LightGBM finds from the gradients."""
    whole_slopes: Slopes | None = None
    """The gradients, if they are whole numbers; None: masks cannot hide them."""
    largest_slope: float
    """The largest gradient of a window, in magnitude; infinite if there is none."""

    @abstractmethod
    def compute_slopes(self, scores: Floats, targets: Floats) -> NDArray[np.float32]:
        """The gradients (W,) by the forecasts."""


class QuantileLoss(TreeLoss):
    """The pinball loss of a quantile; of the median, the absolute error."""

    whole_slopes: Slopes

    def __init__(self, level: float):
        ratio = Fraction(level).limit_denominator(1000)
        self.level = level
        self.whole_slopes = Slopes(ratio.denominator - ratio.numerator, ratio.numerator)
        self.largest_slope = max(self.whole_slopes.above_target, self.whole_slopes.below_target)

    def compute_slopes(self, scores: Floats, targets: Floats) -> NDArray[np.float32]:
        above = np.float32(self.whole_slopes.above_target)
        below = np.float32(self.whole_slopes.below_target)
        return np.asarray(above * (scores > targets) - below * (scores < targets))


class SquaredLoss(TreeLoss):
    """Half the squared error, which grows linearly where its slope has reached the largest one."""

    def __init__(self, largest_slope: float = np.inf):
        self.largest_slope = largest_slope

    def compute_slopes(self, scores: Floats, targets: Floats) -> NDArray[np.float32]:
        errors = (scores - targets).astype(np.float32)
        return errors.clip(-self.largest_slope, self.largest_slope)


MEDIAN = QuantileLoss(0.5)
TREE_LOSSES: dict[str, TreeLoss] = {
    "mae": MEDIAN,
    "mse": SquaredLoss(),
    "huber": SquaredLoss(largest_slope=1.0),
}
"""The losses of `federation.loss`."""
