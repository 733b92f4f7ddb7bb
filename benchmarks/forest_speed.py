"""Rows per second that LightGBM and the kernel of forests forecast by the public models of homes.

    python -m benchmarks.forest_speed

The rows are random numbers; both forecast the same bits, which is checked, and take turns.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import machine
from plfl.public.models import load
from plfl.training.tree_kernel import Forest

ROWS, TURNS = 20_000, 3


def rate(predict: Callable[..., Any], x: NDArray[np.float64]) -> float:
    """Rows per second of processor time."""
    start = time.process_time()
    predict(x)
    return ROWS / (time.process_time() - start)


def main() -> None:
    """Print a line for each model."""
    print(f"{machine.processor()}, load {machine.load()}; rows per second on one thread")
    for name, booster in load("homes").boosters.items():
        x = np.random.default_rng(1).normal(size=(ROWS, booster.num_feature()))
        forest = Forest(booster)
        np.testing.assert_array_equal(forest.predict(x), booster.predict(x))
        by_lightgbm = partial(booster.predict, num_threads=1)
        rates = [(rate(by_lightgbm, x), rate(forest.predict, x)) for _ in range(TURNS)]
        lightgbm, kernel = np.median(rates, axis=0)
        print(
            f"{name}, {booster.num_trees()} trees: LightGBM {lightgbm:,.0f}, "
            f"kernel {kernel:,.0f} ({kernel / lightgbm:.1f} times)"
        )


if __name__ == "__main__":
    main()
