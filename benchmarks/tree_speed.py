"""Processor time, memory and bytes of trees that clients grow by messages, plain ones and masked
ones (`channel.secure`), beside pooled LightGBM.

    python -m benchmarks.tree_speed FOLDER    # of the wide tables: three sites with 132 buildings
    python -m benchmarks.tree_speed FOLDER --study map-homes --sites london --origin 2013-12-04

Windows and features are those of `config/trees.yaml`. Both sides grow the same number of trees from
the same rows, one site after the other, each in a process of its own. The time is that of all
cores; on both sides it includes making the rows and their bins, and not reading the files. The
memory is the peak of the whole process. The pooled side has the settings of the baseline
`lightgbm_pooled`.

Of the histograms with masks it also prints how many bytes they have, and how many at least, if each
number is masked by itself: log₂ of how many values its sum may have, given the histogram around it.
"""

import argparse
import multiprocessing
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lightgbm
import numpy as np
import torch
import yaml

from plfl.baselines.trees import PARAMETERS
from plfl.data import sources
from plfl.experiments.training_setup import TrainingSetup
from plfl.federated.channel import Channel
from plfl.federated.client_data import ClientData
from plfl.federated.collectives.growth import Growth
from plfl.federated.secure.encryption import Secrets, SimulatedSecrets
from plfl.federated.tree_growth import RootCounts
from plfl.layout import ParameterLayout
from plfl.methods.boosting import Boosting
from plfl.study import Study

LEAVES, BINS, RATE = 15, 31, 0.3
SIZES = {"fox": 38, "panther": 80, "bear": 14, "london": 200}
"""Meters of each site."""


def federations(given: argparse.Namespace) -> Iterator[tuple[ClientData, ParameterLayout]]:
    """The clients' data of each site."""
    folder = Path(__file__).parents[1] / "config"
    raw, base = (
        yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
        for name in ("trees", given.study)
    )
    raw["data"], raw["windows"]["history"] = base["data"], given.weeks
    meters = raw["data"]["meters"]
    meters["exports"] = [str(given.folder.resolve() / Path(meters["exports"][0]).name)]
    zones = meters.get("timezones", {}).items()
    meters["timezones"] = {k: v for k, v in zones if any(s in k.lower() for s in given.sites)}
    raw["data"] |= {"states": given.sites, "origins": [given.origin]}
    raw["data"]["clients"] = {site: SIZES[site] for site in given.sites}
    raw["grid"]["sharing"] = ["P1"]
    for name in ("sharing", "tuning", "baselines"):
        del raw[name]
    study = Study.parse(raw, "trees.yaml")
    for site in given.sites:
        data = sources.source_of(study.data).examples_of(study, site).refit()
        yield TrainingSetup.for_study(study, data).client_data(1), study.plan.layout


def pooled(data: ClientData, layout: ParameterLayout, trees: int) -> None:
    """Grows trees from the rows of all clients."""
    forester = Boosting(bins=BINS).tree_grower(data, layout)
    rows = [forester.rows(client) for client in range(len(data.window_counts))]
    x, y = (np.concatenate(columns) for columns in zip(*rows, strict=True))
    settings = {"num_leaves": LEAVES, "learning_rate": RATE, "max_bin": BINS}
    lightgbm.train(PARAMETERS | settings, lightgbm.Dataset(x, y), trees)


def by_messages(
    data: ClientData, layout: ParameterLayout, trees: int, secrets: Secrets | None = None
) -> None:
    """Lets the clients grow trees together."""
    forester, count = (
        Boosting(bins=BINS, rate=RATE).tree_grower(data, layout),
        len(data.window_counts),
    )
    rows, channel = torch.zeros(count, layout.width), Channel(0, count, secrets=secrets)
    counts: RootCounts = {}
    for tree in range(trees):
        forester.add(rows, range(count), tree, channel, purpose=f"tree/{tree}", counts=counts)
    traffic = channel.close_round()
    up, down = (traffic[f"bytes_{way}"].mean() / 1e6 for way in ("up", "down"))
    print(
        f"  {count} clients: {up:.3f} MB sent and {down:.3f} MB received per client; sum of the "
        f"model {float(rows[0].double().sum())}"
    )


def by_masked_messages(data: ClientData, layout: ParameterLayout, trees: int) -> None:
    """The same with masks."""
    bits, add_sums = np.zeros(2), Growth.add_sums

    def noted(self: Growth, sums: Any) -> None:
        sent = self.leaf_widths[-1].bits(sums.shape[1])
        bits[:] += sent.sum(dtype=int), least_bits(self, sent)
        add_sums(self, sums)

    with patch.object(Growth, "add_sums", noted):
        by_messages(data, layout, trees, SimulatedSecrets(1))
    sent, least = bits / 8e6
    print(f"  histograms: {sent:.3f} MB sent per client, at least {least:.3f} MB")


def least_bits(growth: Growth, sent: Any) -> float:
    """The least bits of the next histogram, of which so many (2, n) are `sent`."""
    parent, leaf = growth._parent, growth.next_leaf
    if parent is None:  # the root, of which the bits are told
        return float(sent.sum(dtype=int))
    assert parent.sums is not None
    largest_of_leaf = growth.slopes.largest_pair(leaf.gradient, leaf.windows)
    largest = np.minimum(growth.slopes.largest_pair(*parent.sums), largest_of_leaf[:, None])
    return float(np.log2(largest + 1).sum())


def measured(given: argparse.Namespace, side: Any, answers: Any) -> None:
    torch.set_num_threads(1)
    windows, clients, seconds = 0, 0, 0.0
    for data, layout in federations(given):
        started = time.process_time()
        side(data, layout, given.trees)
        seconds += time.process_time() - started
        windows, clients = (
            windows + int(data.window_counts.sum()),
            clients + len(data.window_counts),
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    answers.put((clients, windows, seconds, peak))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--study", default="map")
    parser.add_argument("--sites", nargs="+", default=["fox", "panther", "bear"])
    parser.add_argument("--origin", default="2017-12-03")
    parser.add_argument("--weeks", type=int, help="of history; all by default")
    parser.add_argument("--trees", type=int, default=60)
    given, spawned = parser.parse_args(), multiprocessing.get_context("spawn")
    answers, results = spawned.Queue(), []
    for side in (pooled, by_messages, by_masked_messages):
        process = spawned.Process(target=measured, args=(given, side, answers))
        process.start()
        results.append(answers.get())
        process.join()
        clients, windows, seconds, peak = results[-1]
        text = f"{clients} meters, {windows} windows: {seconds:.1f} s, peak {peak:.2f} GB"
        print(side.__name__, text, flush=True)
    times = [seconds for _, _, seconds, _ in results]
    print(f"messages/pooled {times[1] / times[0]:.1f}, masked/plain {times[2] / times[1]:.2f}")


if __name__ == "__main__":
    main()
