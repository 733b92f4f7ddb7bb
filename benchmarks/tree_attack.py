"""What a server learns from the histograms of federated trees: readings that it reconstructs.

    python -m benchmarks.tree_attack FOLDER    # of the wide tables of docs/measured-meters.md

For each node of each tree a client sends, for every bin of every feature, how many of its windows
are there. Where that is a single window, the bins are those of its features: its weekday, its hour
and the logarithm of its last reading relative to the client's mean. A reading counts as
reconstructed if its time is unique and its value is within 5 %. A server that only gets sums over
clients can do the same with nodes of one window of all clients.
"""

import argparse
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

from benchmarks.trees import study
from plfl.baselines.trees import TreeWindows, _lagged
from plfl.data import sources
from plfl.federated.trees import Part, binned, grow

TREES, LEAVES, RATE = 60, 15, 0.3
BINS = 31
CLOSE = 0.05


def members(node: dict[str, Any], leaves: Any, nodes: list[Any]) -> Any:
    """Which rows (W,) are below a node; those of all nodes below the root are added to `nodes`."""
    if "split_index" not in node:
        return leaves == node.get("leaf_index", 0)
    both = [members(node[side], leaves, nodes) for side in ("left_child", "right_child")]
    nodes += both
    return both[0] | both[1]


def alone_in_a_node(booster: lightgbm.Booster, x: Any, owners: Any) -> Any:
    """Whether each row (W,) is, in any node of the tree, the only one of its owner."""
    leaves = np.asarray(booster.predict(x, pred_leaf=True))[:, 0]
    nodes: list[Any] = []
    members(booster.dump_model()["tree_info"][0]["tree_structure"], leaves, nodes)
    seen = np.zeros(len(x), bool)
    for inside in nodes:
        seen |= inside & (np.bincount(owners[inside], minlength=owners.max() + 1)[owners] == 1)
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--site", default="fox")
    parser.add_argument("--meters", type=int, default=24)
    parser.add_argument("--weeks", type=int, nargs="+", default=[1, 4, 40])
    given = parser.parse_args()
    given.study, given.origin = "map", "2017-09-24"
    given.trees, given.leaves, given.bins = TREES, LEAVES, BINS
    print("weeks  windows  reconstructed: from each client's sums  from sums of all clients")
    for weeks in given.weeks:
        of = study(given, weeks)
        data = sources.of(of.data).examples_of(of, given.site).refit()
        windows = TreeWindows(data, _lagged, True)
        tables = [windows.part("train", None, [i])[:2] for i in range(len(data.clients))]
        parts = [Part(x, y, np.zeros(len(y))) for x, y in tables]
        grid = windows.public(BINS)
        bins = binned(grid, BINS)
        x = np.concatenate([part.x for part in parts])
        owners = np.repeat(np.arange(len(parts)), [len(part.y) for part in parts])
        # The nearest public value of each feature is what its bin says of it.
        level = data.look_back + 16
        log_share = grid[np.abs(x[:, level, None] - grid[:, level]).argmin(1), level]
        is_close = np.abs(np.expm1(log_share - x[:, level])) <= CLOSE
        times = np.unique(x[:, level + 1 : level + 16], axis=0)
        hours = np.abs(times[:, :, None] - grid[:, level + 1 : level + 16].T).argmin(2)
        assert len(np.unique(hours, axis=0)) == len(times), "hours of a week are told apart"
        seen = {name: np.zeros(len(x), bool) for name in ("each", "all")}
        for _ in range(TREES):
            tree = lightgbm.Booster(model_str=grow(parts, bins, LEAVES, RATE))
            added = (np.asarray(tree.predict(part.x), float) for part in parts)
            parts = [
                part._replace(start=part.start + new)
                for part, new in zip(parts, added, strict=True)
            ]
            seen["each"] |= alone_in_a_node(tree, x, owners)
            seen["all"] |= alone_in_a_node(tree, x, np.zeros_like(owners))
        shares = [(known & is_close).mean() for known in seen.values()]
        print(f"{weeks:5}  {len(x):7}  {shares[0]:37.1%}  {shares[1]:24.1%}", flush=True)


if __name__ == "__main__":
    main()
