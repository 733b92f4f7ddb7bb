"""Units that make the loads of different clients comparable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SMALLEST = 1e-6
"""Lower limit of loads before the logarithm, as a fraction of the mean load."""


def known(values: Floats) -> Floats:
    """The values that are not missing (NaN)."""
    missing = np.isnan(values)
    return values[~missing] if missing.any() else values


@dataclass(frozen=True)
class Unit:
    """The units of a client's loads, from its training set; a unit of 0 is replaced by 1."""

    change: float
    """Mean absolute change from the last input to the target, kWh: the error of persistence."""
    mean: float
    """Mean load, kWh; the absolute value if it is negative."""
    deviation: float
    """Standard deviation of the load, kWh."""

    @classmethod
    def of(cls, load: Floats, look_ahead: int, horizons: int = 1) -> Unit:
        """The units of a client, given the loads (R,) of its training set in kWh.

        NaN in gaps is left out.
        """
        steps = range(look_ahead, look_ahead + horizons)
        errors = [np.abs(known(load[step:] - load[:-step])) for step in steps]
        means = [own.mean() for own in errors if len(own)]
        change, load = np.mean(means) if means else 0.0, known(load)
        if not len(load):
            return cls(1.0, 1.0, 1.0)
        found = (change, abs(load.mean()), load.std() if np.ptp(load) > 0 else 0.0)
        return cls(*(float(value) or 1.0 for value in found))

    def level(self, load: Floats) -> Floats:
        """Standard score, and logarithm of the ratio to the mean (W, 2), of loads (W,) in kWh."""
        share = np.maximum(load / self.mean, SMALLEST)
        return np.stack([(load - self.mean) / self.deviation, np.log(share)], axis=1)
