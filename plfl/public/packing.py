"""Boosters in few bytes: a tree of 63 leaves takes about 200 bytes, LightGBM's own text 6,000.

The trees of all boosters follow each other in arrays, each tree from its root downwards, left
before right. A threshold is the number of one of its feature's, of which there are few, because
features have few bins; the value of a leaf is a multiple of `LEAF_STEP`. Counts of training rows,
gains and weights are left out. The arrays are in the format of safetensors, compressed with LZMA.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from safetensors.numpy import load, save

from plfl.training.tree_kernel import fields_of_text

MadeValue = TypeVar("MadeValue")

LEAF_STEP = 1e-4
"""What the values of leaves are multiples of; they are shares of a meter's mean load."""
LEAF = 255
"""The number in place of a feature, where a tree ends in a leaf."""
_HEADER = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx={last}
objective=regression
feature_names={names}
feature_infos={infos}
"""
_TREE = """
Tree={number}
num_leaves={leaves}
num_cat=0
split_feature={features}
threshold={thresholds}
decision_type={decisions}
left_child={left}
right_child={right}
leaf_value={values}
is_linear=0
shrinkage=1

"""


def pack(boosters: Mapping[str, str], marks: np.ndarray) -> bytes:
    """The boosters by name, each as the text that LightGBM writes; without categories. `marks`: of
    the days that they have read (`plfl.public.seen`)."""
    texts = {name: fields_of_text(text) for name, text in boosters.items()}
    count = {name: 1 + int(header["max_feature_idx"]) for name, (header, *_) in texts.items()}
    edges = {k: [set[float]() for _ in range(k)] for k in count.values()}
    nodes: dict[str, list[tuple[int, float, int]]] = {}
    leaves: dict[str, list[float]] = {}
    for name, (_, *trees) in texts.items():
        nodes[name], leaves[name] = [], []
        for tree in trees:
            fields = {key: value.split() for key, value in tree.items() if value}
            _walk(fields, nodes[name], leaves[name])
        for feature, threshold, _ in nodes[name]:
            if feature != LEAF:
                edges[count[name]][feature].add(np.float32(threshold).item())
    arrays: dict[str, np.ndarray] = {"marks": marks.astype(np.uint64)}
    edge_ranks: dict[int, list[dict[float, int]]] = {}
    for k, feature_edges in edges.items():
        ascending = [sorted(edge_list) for edge_list in feature_edges]
        edge_ranks[k] = [{edge: n for n, edge in enumerate(edge_list)} for edge_list in ascending]
        arrays[f"edges {k}"] = np.array(
            [e for own_edges in ascending for e in own_edges], np.float32
        )
        arrays[f"edge counts {k}"] = np.array(
            [len(own_edges) for own_edges in ascending], np.uint16
        )
    for name, node_list in nodes.items():
        splits = [node for node in node_list if node[0] != LEAF]
        numbers = [edge_ranks[count[name]][f][np.float32(t).item()] for f, t, _ in splits]
        arrays |= {
            f"{name}/features": np.array(count[name], np.uint8),
            f"{name}/feature": np.array([node[0] for node in node_list], np.uint8),
            f"{name}/threshold": np.array(numbers, np.uint16),
            f"{name}/decision": np.array([decision for *_, decision in splits], np.uint8),
            f"{name}/leaf": np.rint(np.array(leaves[name]) / LEAF_STEP).astype(np.int32),
        }
    return lzma.compress(save(arrays), preset=9 | lzma.PRESET_EXTREME)


class MadeWhenRead(Mapping[str, MadeValue]):
    """Values by name, each of which is made when it is read first: a forecast needs few of the
    boosters, and reading one takes longer than forecasting a meter."""

    def __init__(self, names: Iterable[str], make: Callable[[str], MadeValue]):
        self._names, self._make = tuple(names), make
        self._values: dict[str, MadeValue] = {}

    def __getitem__(self, name: str) -> MadeValue:
        if name not in self._values:
            if name not in self._names:
                raise KeyError(name)
            self._values[name] = self._make(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def unpack(content: bytes) -> tuple[Mapping[str, str], np.ndarray]:
    """The boosters that `pack` packed, by name, as texts that LightGBM reads, and the marks."""
    arrays = load(lzma.decompress(content))
    names = sorted({key.partition("/")[0] for key in arrays if "/" in key})

    def text(name: str) -> str:
        count = int(arrays[f"{name}/features"])
        ends = np.cumsum(arrays[f"edge counts {count}"].astype(int))
        table = np.split(arrays[f"edges {count}"].astype(float), ends[:-1])
        feature, threshold = arrays[f"{name}/feature"], arrays[f"{name}/threshold"]
        return tree_text(
            feature, threshold, arrays[f"{name}/decision"], arrays[f"{name}/leaf"], table
        )

    return MadeWhenRead(names, text), arrays["marks"]


def _walk(
    tree: Mapping[str, Sequence[str]], nodes: list[tuple[int, float, int]], leaves: list[float]
) -> None:
    """Add the nodes and leaves of a tree, from its root downwards."""
    waiting = [0 if "split_feature" in tree else -1]
    while waiting:
        node = waiting.pop()
        if node < 0:
            nodes.append((LEAF, 0.0, 0))
            leaves.append(float(tree["leaf_value"][~node]))
            continue
        feature, threshold = int(tree["split_feature"][node]), float(tree["threshold"][node])
        nodes.append((feature, threshold, int(tree["decision_type"][node])))
        waiting += [int(tree["right_child"][node]), int(tree["left_child"][node])]


def tree_text(
    features: np.ndarray, thresholds: np.ndarray, decisions: np.ndarray, leaves: np.ndarray,
    table: Sequence[np.ndarray],
) -> str:  # fmt: skip
    """A booster as LightGBM writes it."""
    count = len(table)
    names = " ".join(f"Column_{k}" for k in range(count))
    parts = [_HEADER.format(last=count - 1, names=names, infos=" ".join(["[-inf:inf]"] * count))]
    split = leaf = node = number = 0
    while node < len(features):
        tree: dict[str, list[Any]] = {"f": [], "t": [], "d": [], "left": [], "right": [], "v": []}
        open_ends: list[tuple[int, str]] = []  # nodes whose left or right child comes next
        while True:
            is_leaf = features[node] == LEAF
            child = ~len(tree["v"]) if is_leaf else len(tree["f"])
            if open_ends:
                parent, side = open_ends.pop()
                tree[side][parent] = child
            if is_leaf:
                tree["v"].append(repr(round(float(leaves[leaf]) * LEAF_STEP, 6)))
                leaf += 1
            else:
                feature = int(features[node])
                tree["f"].append(feature)
                tree["t"].append(repr(float(table[feature][thresholds[split]])))
                tree["d"].append(int(decisions[split]))
                tree["left"].append(0)
                tree["right"].append(0)
                open_ends += [(child, "right"), (child, "left")]
                split += 1
            node += 1
            if not open_ends:
                break
        lines = {key: " ".join(map(str, values)) for key, values in tree.items()}
        parts.append(
            _TREE.format(
                number=number,
                leaves=len(tree["v"]),
                features=lines["f"],
                thresholds=lines["t"],
                decisions=lines["d"],
                left=lines["left"],
                right=lines["right"],
                values=lines["v"],
            )
        )
        number += 1
    return "".join([*parts, "end of trees\n"])
