"""Few combinations of many values in which every two values meet."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def pairwise(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Combinations of one value of each axis, so that every two values of two axes are in one."""

    def pairs(chosen: tuple[int, ...]) -> set[Any]:
        return set(combinations(enumerate(chosen), 2))

    every = list(product(*(range(len(axis)) for axis in axes)))
    missing, found = set[Any]().union(*map(pairs, every)), []
    while missing:
        best = max(every, key=lambda chosen: len(pairs(chosen) & missing))
        missing -= pairs(best)
        found.append(tuple(axis[k] for axis, k in zip(axes, best, strict=True)))
    return found
