"""How large the next sums over clients can be, as the server knows it while a tree grows.

A leaf is a part of its parent. So no number of a bin of its histogram exceeds that of the same bin
of its parent, nor that of the leaf, which follows from the split (`slopes`). The
server has the sums of all leaves: it splits leaves in the order of LightGBM, and so knows which
leaf comes next. How many windows are in each bin of the root is the same for all trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.federated.collectives.message_layout import SETTINGS
from plfl.federated.collectives.slopes import Slopes
from plfl.federated.collectives.widths import (
    NOWHERE,
    Bits,
    LeafLimits,
    LeafWidths,
    bits_of,
    decode_widths,
    encode_widths,
)

FEWEST_ROWS = 2 * SETTINGS["min_child_samples"]
"""Windows of a leaf that LightGBM may divide."""
NO_FEATURE = np.iinfo("i4").max
"""Place of no feature in the order of equal gains."""


@dataclass
class Leaf:
    """A leaf of the tree."""

    gradient: int
    """The sum of the gradients of its windows."""
    windows: int
    """Their number."""
    sums: NDArray[np.int64] | None = None
    """Sums of gradients and counts (2, n) in each bin of each input, if it could be divided."""
    place: int = NOWHERE
    """The place of the last widths that clients have been told for it, or for a leaf around it."""
    split: Any = None
    """Its best split, if it has one."""

    @property
    def rank(self) -> tuple[float, int]:
        """By which LightGBM compares leaves: those with the largest gain come first, or else with
        the first feature."""
        if self.split is None:
            return np.inf, NO_FEATURE
        feature = int(self.split["feature"])
        return -float(self.split["gain"]), feature if feature >= 0 else NO_FEATURE

    def children(self) -> list[Leaf]:
        """Its left and right part."""
        assert self.split is not None
        left_sum, right_sum = self.split["values"][2], self.split["sums"][0]
        pairs = (left_sum, self.split["left"]), (right_sum, self.split["right"])
        return [Leaf(round(gradient), int(windows)) for gradient, windows in pairs]


class Growth:
    """The leaves of a tree of at most `most_leaves`, in LightGBM's order. `slopes`: of its loss.
    `counts`: of the windows (n,) in each bin of all, if they are known."""

    def __init__(self, most_leaves: int, slopes: Slopes, counts: NDArray[np.int64] | None = None):
        self.most_leaves, self.slopes = most_leaves, slopes
        self.leaves: list[Leaf] = []
        self.root_counts = counts
        """The windows (n,) in each bin of all."""
        self.knows_counts = counts is not None
        """Whether they, too, are known before the next histogram, the first one."""
        self.message = b""
        """What tells the clients the bits of the next sums: widths of bins, or, when the tree is
        grown, the bits of each leaf."""
        self.leaf_widths: list[LeafWidths] = []
        """What the clients know of the numbers of leaves."""
        self._latest: list[int] = []
        self._parent: Leaf | None = None

    @property
    def next_leaf(self) -> Leaf:
        """The leaf whose histogram comes next."""
        return self.leaves[self._latest[0]]

    def begin(self, root: Leaf, has_flat: bool) -> None:
        """Begin with a leaf of all windows; whether any of them is at the target."""
        self.slopes = self.slopes._replace(has_flat=has_flat)
        self.leaves, self._latest, self._parent = [root], [0], None
        largest = self.slopes.largest_pair(root.gradient, root.windows)
        first, second = bits_of(largest).tolist()
        limits = LeafLimits(first, second, 0, 0, has_flat)
        if self.root_counts is None:  # any windows can be in a bin
            widths = bits_of([largest.max()])
        else:  # any of the windows of a bin can be above the target
            most_above = self.slopes.above_target * self.root_counts
            widths = bits_of(self.slopes.pair(most_above, self.root_counts)[0])
            limits = limits._replace(second=0)
        self._tell(widths, root, limits)

    def add_sums(self, sums: NDArray[np.int64]) -> None:
        """Add the histogram of the leaf that came next: sums of gradients and counts (2, n)."""
        first, *remaining_places = self._latest
        self.leaves[first].sums = sums
        if self._parent is None:
            self.root_counts, self.knows_counts = sums[1], False
        for place in remaining_places:
            assert self._parent is not None and self._parent.sums is not None
            self.leaves[place].sums = self._parent.sums - sums

    def add_splits(self, splits: Any) -> None:
        """Add the best splits of the latest leaves, and go to the next leaf to be divided."""
        for place, split in zip(self._latest, splits, strict=False):
            self.leaves[place].split = split
        while True:
            place = min(range(len(self.leaves)), key=lambda i: self.leaves[i].rank)
            parent = self.leaves[place]
            if parent.split is None or not parent.split["gain"] > 0:
                break
            left_leaf, right_leaf = parent.children()
            self.leaves[place] = left_leaf
            self.leaves.append(right_leaf)
            if len(self.leaves) >= self.most_leaves:
                break
            if left_leaf.windows < FEWEST_ROWS and right_leaf.windows < FEWEST_ROWS:
                continue
            children = [place, len(self.leaves) - 1]
            self._latest = children if left_leaf.windows < right_leaf.windows else children[::-1]
            self._parent = parent
            self._tell_next(parent)
            return
        windows = [leaf.windows for leaf in self.leaves]
        self.message = bits_of(windows + [0] * (self.most_leaves - len(windows))).tobytes()

    def add_parts(self, counts: NDArray[np.int64]) -> None:
        """Add the counts of windows in parts of each leaf: the next ones are of one part."""
        self.message = bits_of(counts.reshape(self.most_leaves, -1).max(axis=1)).tobytes()

    def _tell_next(self, parent: Leaf) -> None:
        leaf, slopes = self.next_leaf, self.slopes
        assert parent.sums is not None
        largest, longest = (
            slopes.largest_pair(node.gradient, node.windows) for node in (leaf, parent)
        )
        limits = LeafLimits.of_leaf(largest, longest, slopes.has_flat)
        self._tell(limits.widths(slopes.largest_pair(*parent.sums)), parent, limits)
        for place in self._latest:
            self.leaves[place].place = len(self.leaf_widths) - 1

    def _tell(self, widths: Bits, leaf: Leaf, limits: LeafLimits) -> None:
        """Tell widths, given the last ones that were told for this leaf."""
        former = None if leaf.place == NOWHERE else self.leaf_widths[leaf.place].widths
        next_leaf = LeafWidths(widths, limits)
        self.message = encode_widths(next_leaf, leaf.place, former)
        self.leaf_widths.append(
            decode_widths(self.message, None if former is None else former.tobytes())
        )
        leaf.place = len(self.leaf_widths) - 1
