"""A tree that clients grow together with LightGBM's own learner, without pooling rows.

The clients send sums of gradients by bin, which are whole numbers for the L1 error and
for quantiles, and counts, from which the leaves' medians or quantiles are found by bisection. What
crosses is in docs/baselines.md.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count as numbered
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plfl.base.lazy import lightgbm
from plfl.config.channel import FEWEST_MASKED
from plfl.federated.channel import Channel
from plfl.federated.collectives.bounds import Bounds
from plfl.federated.collectives.interface import connect, disconnect, silence
from plfl.federated.collectives.masked import MaskedSums, SumError
from plfl.federated.collectives.message_layout import SETTINGS
from plfl.federated.collectives.messages import Floats
from plfl.federated.collectives.self_test import check_layout
from plfl.federated.collectives.server import GoneError, Server, SumNoise
from plfl.federated.tree_losses import MEDIAN, TreeLoss
from plfl.training.tree_kernel import fields_of_text

log = logging.getLogger(__name__)

STEPS = (5, 5, 4)
"""Halvings, in each exchange, of the interval in which the value of a leaf is searched."""
MASKED_STEPS = (4, 4, 3, 3)
"""The same for masked counts, which take more bytes, since they cannot be compressed."""
CLEAR = 4
"""With noise, a leaf adds 0 unless it has more windows than this many deviations of the noise."""
RANGE = 16.0
"""The values of leaves are between this and its negative, in units of a client's mean change."""


class ClientWindows(NamedTuple):
    """The windows of one client."""

    x: NDArray[Any]
    """Features (W, K) for training."""
    y: NDArray[Any]
    """Targets (W,)."""
    start: NDArray[Any] | None = None
    """Forecasts (W,) to which trees are added; None: 0."""
    data: lightgbm.Dataset | None = None
    """`x` in bins, if that is known."""
    learners: dict[Any, lightgbm.Booster] | None = None
    """The client's LightGBMs, by their settings: to make one takes longer than to grow a tree."""


RootCounts: TypeAlias = dict[tuple[int, ...], NDArray[np.int64]]
"""How many windows some clients have together in each bin (n,), by their numbers."""


class Grown(NamedTuple):
    """A tree that clients have grown."""

    text: str
    """The tree in LightGBM's own format. The importances of features that stand there are not those
    of this tree alone."""
    leaves: dict[int, NDArray[np.int16]]
    """The leaf (W,) of each window, by the place of its client among the parts. A client that is
    gone has none, and without a split nobody has."""


LEARNERS = 2
"""LightGBMs that a client keeps."""
OLDEST = 100
"""A LightGBM with this many trees is not kept, so that it stays small. To take each tree back
instead would cost a fifth of the time."""


class Tree(NamedTuple):
    """A tree with its nodes (L − 1,), which lead to later ones only, and leaves (L,), as the model
    `trees` names them."""

    feature: NDArray[Any]
    threshold: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    value: NDArray[Any]

    @classmethod
    def parse(cls, text: str) -> Tree:
        """The last tree of a model in LightGBM's format; without nodes if it has no split."""
        return cls.read(fields_of_text(text)[-1])

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> Tree:
        """A tree of its fields in LightGBM's format."""
        names = ("split_feature", "threshold", "left_child", "right_child", "leaf_value")
        return cls(*(np.array(fields.get(name, "").split(), float) for name in names))

    def leaves(self, x: NDArray[Any]) -> NDArray[np.int16]:
        """The leaves (W,) of inputs (W, K); faster if each column is contiguous."""
        leaves = np.zeros(len(x), np.int16)
        rows = {0: np.ones(len(x), bool)}
        thresholds = self.round_thresholds(x.dtype)
        for node, feature in enumerate(self.feature.astype(int)):
            if node not in rows:
                continue  # it is not used
            is_here = rows.pop(node)
            is_left = is_here & (x[:, feature] <= thresholds[node])
            for child, is_child in (
                (self.left[node], is_left),
                (self.right[node], is_here ^ is_left),
            ):
                if child < 0:
                    leaves += is_child * np.int16(-1 - child)
                else:
                    rows[child] = is_child
        return leaves

    def round_thresholds(self, kind: np.dtype[Any]) -> NDArray[Any]:
        """The largest numbers of a type that are not above the thresholds (L − 1,): they divide
        inputs of this type alike."""
        near = self.threshold.astype(kind)
        return np.where(near > self.threshold, np.nextafter(near, kind.type(-np.inf)), near)


def bin_rows(
    x: NDArray[Any], max_bin: int, bins: lightgbm.Dataset | None = None
) -> lightgbm.Dataset:
    """Rows (W, K) in the bins of other rows, or in their own; public ones if clients need equal
    bins."""
    parameters = SETTINGS | {"max_bin": max_bin}
    data = lightgbm.Dataset(x, np.zeros(len(x)), params=parameters, reference=bins)
    return data.construct()


def _counts(bins: lightgbm.Dataset) -> list[int]:
    """How many bins each input has."""
    return [bins.feature_num_bin(feature) for feature in range(bins.num_feature())]


def releases(leaves: int) -> int:
    """The most sums over clients, of a tree with this many leaves, that any window is in: all
    windows, a histogram for each leaf but the last, and the counts of each exchange."""
    return 1 + (leaves - 1) + len(STEPS)


def grow(
    client_windows: Sequence[ClientWindows],
    bins: lightgbm.Dataset,
    leaves: int,
    rate: float,
    loss: TreeLoss = MEDIAN,
    channel: Channel | None = None,
    numbers: Sequence[int] | None = None,
    noise: SumNoise | None = None,
    windows: NDArray[np.float64] | None = None,
    purpose: str = "tree",
    counts: RootCounts | None = None,
) -> Grown:
    """Grow a tree among clients.

    If a client fails, the others grow the tree again without it.

    Args:
        client_windows: the windows of the clients.
        bins: those of all clients.
        leaves: most leaves of the tree.
        rate: factor of their values.
        loss: what the tree minimises.
        channel: carries and counts the messages; None: a new one.
        numbers: those of the clients on the channel; None: 0, 1, ...
        noise: on each sum over the clients, of which there are at most `releases`.
        windows: numbers (N,) of the training windows of all clients of the channel, which bound
            the messages of those on other machines.
        purpose: of the keys, if the channel has secrets: the messages are masked.
        counts: what the server knows from former masked trees of the same windows; those of the
            clients that have grown this one are added.

    Raises:
        ValueError: there is noise, and the loss is not that of the median; or messages are masked,
            and there is noise, the gradients are not whole numbers, or too few clients are left.
        SumError: messages are masked, and a client has sent other numbers than it should.
        PlflError: the installed LightGBM has other messages than those that are known here.
        Exception: what the last client failed with, if all have.
    """
    if noise is not None and loss.level != MEDIAN.level:
        raise ValueError("noise is for the L1 error only, whose gradients are 1, 0 and -1")
    channel = channel or Channel(0, len(client_windows))
    if channel.secrets is not None and (noise is not None or loss.whole_slopes is None):
        raise ValueError("only gradients that are whole numbers, without noise, can be masked")
    check_layout()
    parameters = SETTINGS | {"num_leaves": leaves, "learning_rate": rate}
    parameters["max_bin"] = bins.get_params()["max_bin"]
    bounds = None if windows is None else Bounds(windows, loss.largest_slope)
    members = [*range(len(client_windows))]
    for attempt in numbered():
        client_numbers = members if numbers is None else [numbers[k] for k in members]
        if channel.secrets is not None and channel.count_exchanging(members) < FEWEST_MASKED:
            raise ValueError(f"{len(members)} clients are left; masks hide {FEWEST_MASKED} or more")
        crowd = channel.crowd_numbers(client_numbers)
        known_counts = (counts or {}).get(crowd)
        masked = _tree_masks(channel, f"{purpose}/{attempt}", loss, leaves, known_counts)
        server = Server(channel, client_numbers, _counts(bins), noise, bounds, masked)
        clients = [
            GrowingClient(server, rank, client_windows[k], bins, parameters, loss)
            for rank, k in enumerate(members)
        ]
        with _turns():
            for client in clients:
                client.start()
            for client in clients:
                client.join()
        failed = {
            k: participant.failed
            for k, participant in zip(members, clients, strict=True)
            if participant.failed
        }
        if counts is not None and masked is not None:
            _keep_counts(counts, crowd, masked, is_grown=not failed)
        if not failed:
            read = zip(members, clients, strict=True)
            return Grown(
                clients[0].text,
                {k: client.leaves for k, client in read if client.leaves is not None},
            )
        errors = [*failed.values()]
        # A wrong sum is not the fault of the client that found it.
        if wrong_sums := [error for error in errors if isinstance(error, SumError)]:
            raise wrong_sums[0]
        if len(failed) == len(clients):
            raise errors[0]
        for k, error in failed.items():
            log.warning("client %d is gone; the others grow the tree again: %r", k, error)
        members = [k for k in members if k not in failed]
    raise AssertionError("attempts do not end")


def _tree_masks(
    channel: Channel,
    purpose: str,
    loss: TreeLoss,
    leaves: int,
    counts: NDArray[np.int64] | None,
) -> MaskedSums | None:
    """Masks for a tree, if the channel has secrets."""
    if channel.secrets is None or loss.whole_slopes is None:
        return None
    return MaskedSums(channel.secrets, purpose, loss.whole_slopes, leaves, counts)


def _keep_counts(
    counts: RootCounts, crowd: tuple[int, ...], masked: MaskedSums, *, is_grown: bool
) -> None:
    """Keep what the server has learned, unless something was wrong."""
    counts.pop(crowd, None)
    if is_grown and masked.growth.root_counts is not None:
        counts[crowd] = masked.growth.root_counts


@contextmanager
def _turns() -> Iterator[None]:
    """Threads that start here take turns on the core that this one is on, since they wait for each
    other. Meanwhile nobody looks for cycles of objects, in which no message is."""
    collects, cores = gc.isenabled(), _cores()
    gc.disable()
    try:
        if cores:
            fields = Path("/proc/thread-self/stat").read_text().rpartition(")")[2].split()
            os.sched_setaffinity(0, {int(fields[36])} & cores or cores)
        yield
    finally:
        if cores:
            os.sched_setaffinity(0, cores)
        if collects:
            gc.enable()


def _cores() -> set[int]:
    """The cores of this thread; none where that is not known."""
    return os.sched_getaffinity(0) if sys.platform == "linux" else set()


class GrowingClient(threading.Thread):
    """A client, its windows and its LightGBM, which grows the same tree as those of the others."""

    def __init__(
        self,
        server: Server,
        rank: int,
        windows: ClientWindows,
        bins: lightgbm.Dataset,
        parameters: dict[str, Any],
        loss: TreeLoss,
    ):
        super().__init__(daemon=True)
        self.server, self.rank, self.windows, self.bins = server, rank, windows, bins
        self.parameters, self.loss = parameters, loss
        self.failed: Exception | None = None
        self.text = ""
        """The tree, of the first client."""
        self.leaves: NDArray[np.int16] | None = None
        """The leaf (W,) of each window, if the tree has a split."""

    def run(self) -> None:
        try:
            self._open_connection()
        except GoneError:
            pass  # another client is gone
        except Exception as error:
            self.failed = error
            self.server.leave()

    def _open_connection(self) -> None:
        silence()
        count = self.server.clients
        if count == 1:
            return self._grow({})
        functions = self.server.functions(self.rank)  # they have to exist while they are used
        connect(count, self.server.first + self.rank, functions)
        try:
            self.server.agree(self.rank)
            self._grow({"tree_learner": "data", "num_machines": count})
        finally:
            disconnect()

    def _grow(self, machines: dict[str, Any]) -> None:
        x, y, start = self.windows[:3]
        learner = self._learner(machines)
        trees_before = learner.num_trees()
        scores = np.zeros(len(y)) if start is None else start
        gradients = self.loss.compute_slopes(scores, y)
        if self.server.masked is not None:
            self.server.masked.flat[self.rank] = int((gradients == 0).sum())
        slopes = gradients, np.ones(len(y), np.float32)
        is_last = learner.update(fobj=lambda *_: slopes)
        self.server.check(self.rank)
        if not is_last:  # without any split the tree adds 0
            if self.server.tree is None:
                self.server.tree = Tree.parse(learner.model_to_string(start_iteration=trees_before))
            self.leaves = self.server.tree.leaves(x)
            if self.loss.level is not None:
                values = self.leaf_quantiles(self.leaves, y - scores, self.loss.level)
                if self.rank == 0:  # the others would write the same
                    for leaf, value in enumerate(values[: len(self.server.tree.value)]):
                        learner.set_leaf_output(
                            trees_before, leaf, self.parameters["learning_rate"] * float(value)
                        )
        if self.rank == 0:
            self.text = learner.model_to_string(start_iteration=trees_before)
        if self.windows.learners is not None and not is_last and trees_before < OLDEST:
            self.windows.learners[self._key] = learner

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.server.clients, self.server.first + self.rank, *self.parameters.values()

    def _learner(self, machines: dict[str, Any]) -> lightgbm.Booster:
        """A LightGBM, with the trees that it has grown: one that is kept, if there is, which must
        be put back; or else a new one."""
        learners = self.windows.learners
        if learners is not None and (learner := learners.pop(self._key, None)):
            return learner
        if learners is not None and len(learners) >= LEARNERS:
            del learners[next(iter(learners))]
        data = self.windows.data or bin_rows(self.windows.x, self.parameters["max_bin"], self.bins)
        return lightgbm.Booster(self.parameters | machines, data)

    def leaf_quantiles(self, leaves: Any, residuals: Floats, level: float) -> Floats:
        """The quantile of all clients' residuals in each leaf; 0 for no leaf, or if noise could
        have moved it far.

        In each exchange the clients count their residuals in equal parts of each leaf's interval,
        of which the one with the quantile is the next interval.
        """
        all_steps = STEPS if self.server.masked is None else MASKED_STEPS
        count, halvings = self.parameters["num_leaves"], sum(all_steps)
        width = RANGE / 2 ** (halvings - 1)  # of the last intervals
        number = np.ceil(residuals.clip(np.nextafter(-RANGE, 0), RANGE) / width).astype(np.int16)
        number += 2 ** (halvings - 1) - 1  # that of a residual's interval, from 0
        low = counts_below = total = np.zeros(
            count, int
        )  # its first number, residuals below it, and all
        for steps in all_steps:
            parts, halvings = 2**steps, halvings - steps
            part = (number >> halvings) & (parts - 1)
            counted = np.bincount(leaves * np.int32(parts) + part, minlength=count * parts)
            counts = self.server.add(self.rank, counted.astype(float)).reshape(count, parts)
            total = np.maximum(total, counts.sum(axis=1))  # the first counts are of all
            upto = np.cumsum(np.insert(counts, 0, counts_below, axis=1), axis=1)
            # The last of the bounds, but for the end, with fewer residuals than are wanted.
            step = (upto[:, 1:parts] < level * total[:, None]).sum(axis=1)
            counts_below = upto[np.arange(count), step]
            low = low + step * 2**halvings
            indices = np.flatnonzero(part == step.take(leaves))
            number, leaves = number.take(indices), leaves.take(indices)
        noise = self.server.noise
        smallest_count = CLEAR * noise.multiplier * 2 ** (STEPS[0] / 2) if noise else 0
        return np.where(total > smallest_count, (low + 0.5) * width - RANGE, 0)
