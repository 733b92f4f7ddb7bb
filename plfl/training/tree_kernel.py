"""Forecasts many windows by LightGBM's trees, in a native kernel: the bits of LightGBM, which takes
several times as long. Without a compiler, or for trees of another kind, LightGBM forecasts itself.

`native/forest.cpp` takes eight rows down a tree together, and all trees for a few rows that stay in
the processor's cache.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.base.array_types import Floats as Floats
from plfl.training.native.compile import CompileError, build_kernel
from plfl.training.native.flags import FOREST

FEWEST_ROWS = 2_000
"""Rows of a model from which on it pays to read the trees out of LightGBM."""
KERNEL_SPLIT = np.dtype(
    [
        ("threshold", np.float64),
        ("feature", np.int32),
        ("missing_first", np.int32),
        ("children", np.int32, 2),
    ]
)
"""`Split` of the kernel."""
KERNEL_ROWS = 64
"""Rows that the kernel has room for."""
PLAIN_OBJECTIVES = re.compile(r"regression|regression_l1|huber|quantile( alpha:\S+)?")
"""Objectives whose forecasts are the sums of the trees."""
CATEGORICAL, DEFAULT_LEFT = 1, 2
MISSING_ZERO, MISSING_NAN = 4, 8
"""Bits of LightGBM's `decision_type`."""


def fields_of_text(text: str) -> list[dict[str, str]]:
    """The fields in a text of LightGBM: of its header, and of each tree. A line without a value,
    such as `average_output`, is a field that is empty."""
    blocks = text.partition("\nend of trees")[0].split("\nTree=")
    pairs = ([line.partition("=") for line in block.splitlines()] for block in blocks)
    return [{name: value for name, _, value in lines} for lines in pairs]


@cache
def load_forest() -> ctypes.CDLL | None:
    """The kernel; None if it cannot be compiled here."""
    try:
        return ctypes.CDLL(str(build_kernel("plain", FOREST)))
    except (CompileError, OSError):
        return None


@dataclass(frozen=True)
class TreeArrays:
    """The trees of a model, one after the other."""

    splits: NDArray[np.void]
    """Of `KERNEL_SPLIT`; a child is the number of a split in its tree, or the complement of a
    leaf's."""
    first_splits: NDArray[np.int64]
    """The number of the first split of each tree, and of all splits (T + 1,)."""
    leaves: Floats
    """Their values."""
    first_leaves: NDArray[np.int64]
    """The number of the first leaf of each tree, and of all leaves (T + 1,)."""
    features: int
    """K, the number of features."""

    @classmethod
    def parse(cls, text: str) -> TreeArrays | None:
        """The trees of a model as LightGBM writes it; None if the kernel does not know their
        kind: categories, linear leaves, zeros that mean a missing value, several outputs or outputs
        that are not the sum of the trees."""
        facts, *trees = fields_of_text(text)
        if (
            facts["num_tree_per_iteration"] != "1"
            or "average_output" in facts
            or not PLAIN_OBJECTIVES.fullmatch(facts.get("objective", "regression"))
        ):
            return None
        splits, leaves = [], []
        for fields in trees:
            if fields["num_cat"] != "0" or fields.get("is_linear", "0") != "0":
                return None
            leaves.append(_numbers(fields["leaf_value"], np.float64))
            tree_splits = np.zeros(len(leaves[-1]) - 1, KERNEL_SPLIT)
            if len(tree_splits):
                decisions = _numbers(fields["decision_type"], np.int32)
                if (decisions & (CATEGORICAL | MISSING_ZERO)).any():
                    return None
                thresholds = tree_splits["threshold"]
                thresholds[:] = _numbers(fields["threshold"], np.float64)
                tree_splits["feature"] = _numbers(fields["split_feature"], np.int32)
                # Where no value was missing in training, a missing one counts as 0.
                tree_splits["missing_first"] = np.where(
                    decisions & MISSING_NAN, decisions & DEFAULT_LEFT > 0, thresholds >= 0
                )
                for k, name in enumerate(("left_child", "right_child")):
                    tree_splits["children"][:, k] = _numbers(fields[name], np.int32)
            splits.append(tree_splits)
        return cls(
            np.concatenate([np.empty(0, KERNEL_SPLIT), *splits]),
            np.cumsum([0, *map(len, splits)]),
            np.concatenate([np.empty(0), *leaves]),
            np.cumsum([0, *map(len, leaves)]),
            int(facts["max_feature_idx"]) + 1,
        )

    def sum(self, kernel: ctypes.CDLL, x: NDArray[np.floating[Any]]) -> Floats:
        """The sums (W,) of the trees for rows (W, K)."""
        rows = np.ascontiguousarray(x, np.float64)
        sums, block = np.empty(len(rows)), np.empty((KERNEL_ROWS, self.features))
        kernel.plfl_sum_trees(
            _pointer(rows),
            *map(ctypes.c_int64, rows.shape),
            *map(_pointer, (self.splits, self.first_splits, self.leaves, self.first_leaves)),
            ctypes.c_int64(len(self.first_leaves) - 1),
            *map(_pointer, (block, sums)),
        )
        return sums


def _numbers(words: str, dtype: Any) -> NDArray[Any]:
    return np.array(words.split(), dtype)


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Forest:
    """A model of LightGBM that forecasts many rows."""

    def __init__(self, booster: Any):
        self.booster = booster
        self._rows = 0

    @cached_property
    def trees(self) -> TreeArrays | None:
        """Its trees; None if the kernel does not know their kind."""
        return TreeArrays.parse(self.booster.model_to_string())

    def predict(self, x: NDArray[np.floating[Any]]) -> Floats:
        """What `booster.predict` returns for rows (W, K), bit for bit."""
        self._rows += len(x)
        kernel = load_forest() if self._rows >= FEWEST_ROWS else None
        if kernel is None or self.trees is None or x.shape[1] != self.trees.features:
            return np.asarray(self.booster.predict(x, num_threads=1))
        return self.trees.sum(kernel, x)
