"""Privacy of federated trees: ε, error, bytes, and the readings that a server reconstructs.

    python -m benchmarks.tree_attack FOLDER    # of the wide tables of docs/measured-meters.md

For each node of each tree a client sends, for every bin of every feature, how many of its windows
are there. Where that is a single window, the bins are those of its features: its weekday, its hour
and the logarithm of its last reading relative to the client's mean. A reading counts as
reconstructed if its time is unique and its value is within 5 %. A server that only gets sums over
clients can do the same with nodes of one window of all clients. With masks (`channel.secure`) it
sees these sums, which are checked to be the same, and messages that are equally likely to be
anything. If a client leaves while a tree grows, the others grow it again, and the difference of the
sums is what that client has sent; the share is that of its readings if it left after the first
tree. With noise on sums the server cannot see how many windows are in a node; the share is what it
would get if it knew.

ε compares two sets of windows, of which one has one window more, and, as the second number, one
with all windows more that contain a reading (28: the load is an input of 27 windows and the target
of one). The mean test MASE is that of the meters that train.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import yaml
from scipy.optimize import brentq

from plfl.baselines.trees import LAGGED, TreeWindows
from plfl.data import sources
from plfl.federated.channel import Channel
from plfl.federated.collectives.server import SumNoise
from plfl.federated.privacy.accounting import Rounds, epsilon_of, unamplified_bound
from plfl.federated.secure.encryption import Secrets, SimulatedSecrets
from plfl.federated.tree_growth import ClientWindows, RootCounts, bin_rows, grow, releases
from plfl.study import Study
from plfl.training.batches import stream

TREES, LEAVES, RATE = 60, 15, 0.3
BINS = 31
CLOSE = 0.05
DELTA = 1e-5
SUMS = TREES * releases(LEAVES)
READS = 28
"""Windows that contain a reading."""


def study(folder: Path, site: str, meters: int, weeks: int) -> Study:
    """A variant of `config/map.yaml` with one cell."""
    path = Path(__file__).parents[1] / "config" / "map.yaml"
    raw: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    layout = raw["data"]["meters"]
    table = folder.resolve() / Path(layout["exports"][0].format(state=site)).name
    zones = {k: v for k, v in layout["timezones"].items() if site in k.lower()}
    raw["data"] |= {"states": [site], "clients": meters, "origins": ["2017-09-24"]}
    layout |= {"exports": [str(table)], "timezones": zones}
    raw["windows"]["history"] = weeks
    raw["grid"] = {"sharing": ["P3"], "client_opt": ["adamw"], "seeds": [1]}
    del raw["claims"], raw["hyperparameters"]["method"]
    return Study.parse(raw, path.name)


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


class Result(NamedTuple):
    """Of trees that some clients have grown."""

    mase: list[float]
    """Test error of each."""
    kilobytes: float
    """What one sends."""
    each: float
    """Share of all readings that each client's sums tell."""
    all: float
    """Share that the sums over all clients tell."""
    first: float
    """Share that each client's sums for the first tree tell."""
    text: str
    """The trees."""


def result(
    tables: Sequence[Any],
    tests: Sequence[Any],
    bins: Any,
    is_close: Any,
    noise: SumNoise | None = None,
    secrets: Secrets | None = None,
) -> Result:
    """Grow the trees of clients with these windows, and attack them."""
    parts = [ClientWindows(x, y, np.zeros(len(y)), bin_rows(x, BINS, bins), {}) for x, y in tables]
    x = np.concatenate([part.x for part in parts])
    owners = np.repeat(np.arange(len(parts)), [len(part.y) for part in parts])
    each, everyone = np.zeros(len(x), bool), np.zeros(len(x), bool)
    channel = Channel(0, len(parts), secrets=secrets)
    counts: RootCounts = {}
    forecasts, texts, first = [np.zeros(len(y)) for _, y in tests], [], 0.0
    for number in range(TREES):
        purpose = f"tree/{number}"
        settings = {"channel": channel, "noise": noise, "purpose": purpose, "counts": counts}
        grown = grow(parts, bins, LEAVES, RATE, **settings)
        texts.append(grown.text)
        tree = lightgbm.Booster(model_str=grown.text)
        added = [np.asarray(tree.predict(part.x), float) for part in parts]
        pairs = zip(parts, added, strict=True)
        parts = [part._replace(start=part.start + new) for part, new in pairs]
        for forecast, (features, _) in zip(forecasts, tests, strict=True):
            forecast += np.asarray(tree.predict(features), float)
        each |= alone_in_a_node(tree, x, owners)
        everyone |= alone_in_a_node(tree, x, np.zeros_like(owners))
        first = first or float((each & is_close).mean())
    # Targets are changes from the last load, which is the forecast by persistence.
    truths = [y for _, y in tests]
    mase = [np.abs(y - f).mean() / np.abs(y).mean() for y, f in zip(truths, forecasts, strict=True)]
    sent = channel.close_round()["bytes_up"].mean() / 1000
    shares = float((each & is_close).mean()), float((everyone & is_close).mean())
    return Result(mase, sent, *shares, first, "".join(texts))


def multiplier(epsilon: float) -> float:
    """The noise with which all sums together have this ε for a window."""
    bound = partial(unamplified_bound, delta=DELTA)
    return float(brentq(lambda z: bound(Rounds(z, SUMS)).epsilon - epsilon, 0.05, 1e5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--site", default="fox")
    parser.add_argument("--meters", type=int, default=24)
    parser.add_argument("--weeks", type=int, nargs="+", default=[1, 4, 40])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[1000, 50, 8])
    given = parser.parse_args()
    print("weeks, protection, epsilon of a window, of a reading, MASE, kB sent, reconstructed")
    for weeks in given.weeks:
        of = study(given.folder, given.site, given.meters, weeks)
        data = sources.source_of(of.data).examples_of(of, given.site).refit()
        windows, clients = TreeWindows(data, LAGGED), range(len(data.clients))
        tables, tests = (
            [windows.stack_windows(split, [i]) for i in clients] for split in ("train", "test")
        )
        grid = windows.public(BINS)
        bins, x = bin_rows(grid, BINS), np.concatenate([x for x, _ in tables])
        # The nearest public value of each feature is what its bin says of it.
        level = data.look_back + 16
        log_share = grid[np.abs(x[:, level, None] - grid[:, level]).argmin(1), level]
        is_close = np.abs(np.expm1(log_share - x[:, level])) <= CLOSE
        times = np.unique(x[:, level + 1 : level + 16], axis=0)
        hours = np.abs(times[:, :, None] - grid[:, level + 1 : level + 16].T).argmin(2)
        assert len(np.unique(hours, axis=0)) == len(times), "hours of a week are told apart"
        attacked = partial(result, tables, tests, bins, is_close)

        def show(*columns: Any, weeks: int = weeks) -> None:
            print(weeks, *columns, sep="\t", flush=True)

        plain, masked = attacked(), attacked(secrets=SimulatedSecrets(1))
        assert masked.text == plain.text, "masks change no tree"
        shared = f"{np.mean(plain.mase):.3f}", f"{plain.kilobytes:.0f}"
        show("none", "inf", "inf", *shared, f"{plain.each:.1%}")
        hidden = shared[0], f"{masked.kilobytes:.0f}"
        show("masks", "inf", "inf", *hidden, f"{masked.all:.1%}")
        show("masks, a client that leaves", "inf", "inf", *hidden, f"{masked.first:.1%}")
        for epsilon in given.epsilons:
            z = multiplier(epsilon)
            noisy = attacked(noise=SumNoise(z, stream(1, "/noise", 0)))
            reading_epsilon = epsilon_of(READS * np.sqrt(SUMS) / z, DELTA)
            columns = f"{epsilon:g}", f"{reading_epsilon:.3g}", f"{np.mean(noisy.mase):.3f}"
            show(f"noise, z = {z:.3g}", *columns, f"{noisy.kilobytes:.0f}", f"{noisy.all:.1%}")
        alone = [
            result([table], [test], bins, np.zeros(len(table[1]), bool)).mase[0]
            for table, test in zip(tables, tests, strict=True)
        ]
        show("each meter alone", 0, 0, f"{np.mean(alone):.3f}", 0, "0 %")


if __name__ == "__main__":
    main()
