"""How large the next sums over clients can be, as the server knows it while a tree grows.

A leaf is a part of its parent. So no bin of its histogram has more windows than the same bin of its
parent, nor than the leaf has in all, which follows from the split. The server has the sums of all
leaves: it splits leaves in the order of LightGBM, and so knows which leaf comes next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.federated.collectives.layout import SETTINGS

FEWEST = 2 * SETTINGS["min_child_samples"]
"""Windows of a leaf that LightGBM may divide."""
NOWHERE = np.iinfo("i4").max
"""Place of no feature in the order of equal gains."""


def bits_of(largest: Any) -> NDArray[np.uint8]:
    """How many bits whole numbers from 0 to `largest` need, for each."""
    # float64 is exact here: no count of windows exceeds 2⁵³.
    return np.frexp(np.asarray(largest, np.float64))[1].astype(np.uint8)


@dataclass
class Leaf:
    """A leaf of the tree."""

    windows: int
    """Number of its windows."""
    counts: NDArray[np.int64] | None = None
    """Its windows in each bin of each input, if it could be divided."""
    split: Any = None
    """Its best split, if it has one."""

    @property
    def rank(self) -> tuple[float, int]:
        """By which LightGBM compares leaves: those with the largest gain come first, or else with
        the first feature."""
        if self.split is None:
            return np.inf, NOWHERE
        feature = int(self.split["feature"])
        return -float(self.split["gain"]), feature if feature >= 0 else NOWHERE


class Growth:
    """The leaves of a tree of at most `most_leaves`, in LightGBM's order."""

    def __init__(self, most_leaves: int):
        self.most_leaves = most_leaves
        self.leaves: list[Leaf] = []
        self.bits = np.zeros(0, np.uint8)
        """Bits of the counts in the next sums: one for all, or for each bin of each input, or, when
        the tree is grown, for each leaf."""
        self._latest: list[int] = []
        self._parent: NDArray[np.int64] | None = None

    def begin(self, windows: int) -> None:
        """Begin with a leaf of all windows."""
        self.leaves, self._latest, self._parent = [Leaf(windows)], [0], None
        self.bits = bits_of([windows])

    def add_counts(self, counts: NDArray[np.int64]) -> None:
        """Add the histogram of the leaf that came next."""
        first, *remaining_places = self._latest
        self.leaves[first].counts = counts
        for place in remaining_places:
            assert self._parent is not None
            self.leaves[place].counts = self._parent - counts

    def add_splits(self, splits: Any) -> None:
        """Add the best splits of the latest leaves, and go to the next leaf to be divided."""
        for place, split in zip(self._latest, splits, strict=False):
            self.leaves[place].split = split
        while True:
            place = min(range(len(self.leaves)), key=lambda i: self.leaves[i].rank)
            parent = self.leaves[place]
            if parent.split is None or not parent.split["gain"] > 0:
                break
            left_leaf, right_leaf = (Leaf(int(parent.split[side])) for side in ("left", "right"))
            self.leaves[place] = left_leaf
            self.leaves.append(right_leaf)
            if len(self.leaves) >= self.most_leaves:
                break
            if left_leaf.windows < FEWEST and right_leaf.windows < FEWEST:
                continue
            children = [place, len(self.leaves) - 1]
            self._latest = children if left_leaf.windows < right_leaf.windows else children[::-1]
            self._parent = parent.counts
            fewer = min(left_leaf.windows, right_leaf.windows)
            assert self._parent is not None
            self.bits = bits_of(np.minimum(self._parent, fewer))
            return
        windows = [leaf.windows for leaf in self.leaves]
        self.bits = bits_of(windows + [0] * (self.most_leaves - len(windows)))

    def add_parts(self, counts: NDArray[np.int64]) -> None:
        """Add the counts of windows in parts of each leaf: the next ones are of one part."""
        self.bits = bits_of(counts.reshape(self.most_leaves, -1).max(axis=1))
