"""A tree that clients grow together with LightGBM's own learner, without pooling rows.

The clients send sums of gradients by bin, which are whole numbers for the L1 error and
for quantiles, and counts, from which the leaves' medians or quantiles are found by bisection. What
crosses is in docs/baselines.md.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plfl.federated.channel import Channel
from plfl.federated.collectives import Floats, Server, connect, disconnect

if TYPE_CHECKING:
    import lightgbm

log = logging.getLogger(__name__)

PUBLIC: dict[str, Any] = {
    "enable_bundle": False,  # bundles of features depend on one client's rows
    "feature_pre_filter": False,
    "min_data_in_bin": 1,
    "boost_from_average": False,
}
"""Parameters of a model whose bins come from public values."""
SETTINGS: dict[str, Any] = {
    "objective": "none",  # the gradients are computed here
    "min_child_samples": 20,
    "seed": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    **PUBLIC,
    "max_cat_threshold": 1,  # there are no categories; this shortens messages
    "pre_partition": True,
    "verbosity": -1,
}
STEPS = (5, 5, 4)
"""Halvings, in each exchange, of the interval in which the value of a leaf is searched."""
RANGE = 16.0
"""The values of leaves are between this and its negative, in units of a client's mean change."""
Loss: TypeAlias = float | Literal["mse", "huber"]
"""The level of a quantile, of which 0.5 is the median for the L1 error; or another loss, whose
gradients are not whole numbers."""


class Part(NamedTuple):
    """The windows of one client."""

    x: NDArray[Any]
    """Features (W, K) for training."""
    y: NDArray[Any]
    """Targets (W,)."""
    start: NDArray[Any] | None = None
    """Forecasts (W,) to which trees are added; None: 0."""
    data: lightgbm.Dataset | None = None
    """`x` in bins, if that is known."""


def binned(x: NDArray[Any], max_bin: int, bins: lightgbm.Dataset | None = None) -> lightgbm.Dataset:
    """Rows (W, K) in the bins of other rows, or in their own; public ones if clients need equal
    bins."""
    import lightgbm

    given = SETTINGS | {"max_bin": max_bin}
    data = lightgbm.Dataset(x, np.zeros(len(x)), params=given, reference=bins)
    return data.construct()


def grow(
    parts: Sequence[Part],
    bins: lightgbm.Dataset,
    leaves: int,
    rate: float,
    loss: Loss = 0.5,
    channel: Channel | None = None,
    numbers: Sequence[int] | None = None,
) -> str:
    """Grow a tree among clients; return it in LightGBM's own format.

    If a client fails, the others grow the tree again without it.

    Args:
        parts: the windows of the clients.
        bins: those of all clients.
        leaves: most leaves of the tree.
        rate: factor of their values.
        loss: what the tree minimises.
        channel: carries and counts the messages; None: a new one.
        numbers: those of the clients on the channel; None: 0, 1, ...

    Raises:
        Exception: what the last client failed with, if all have.
    """
    given = SETTINGS | {"num_leaves": leaves, "learning_rate": rate}
    given["max_bin"] = bins.get_params()["max_bin"]
    channel, there = channel or Channel(0, len(parts)), [*range(len(parts))]
    while True:
        server = Server(channel, there if numbers is None else [numbers[k] for k in there])
        clients = [
            Client(server, rank, parts[k], bins, given, loss) for rank, k in enumerate(there)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        failed = {
            k: participant.failed
            for k, participant in zip(there, clients, strict=True)
            if participant.failed
        }
        if not failed:
            return clients[0].text
        if len(failed) == len(clients):
            raise next(iter(failed.values()))
        for k, error in failed.items():
            log.warning("client %d is gone; the others grow the tree again: %r", k, error)
        there = [k for k in there if k not in failed]


class Client(threading.Thread):
    """A client, its windows and its LightGBM, which grows the same tree as those of the others."""

    booster: lightgbm.Booster

    def __init__(
        self,
        server: Server,
        rank: int,
        part: Part,
        bins: lightgbm.Dataset,
        given: dict[str, Any],
        loss: Loss,
    ):
        super().__init__()
        self.server, self.rank, self.part, self.bins = server, rank, part, bins
        self.given, self.loss = given, loss
        self.failed: Exception | None = None
        self.text = ""
        """The tree."""

    def run(self) -> None:
        try:
            self._connected()
        except threading.BrokenBarrierError:
            pass  # another client is gone
        except Exception as error:
            self.failed = error
            self.server.leave()

    def _connected(self) -> None:
        # Anything constructed here makes the LightGBM of this thread silent.
        x = self.part.x if self.part.data is None else self.part.x[:1]
        made = binned(x, self.given["max_bin"], self.bins)
        data, count = self.part.data or made, self.server.clients
        if count == 1:
            return self._grow(self.given, data)
        functions = self.server.functions(self.rank)  # they have to exist while they are used
        connect(count, self.rank, functions)
        try:
            self._grow(self.given | {"tree_learner": "data", "num_machines": count}, data)
        finally:
            disconnect()

    def _grow(self, given: dict[str, Any], data: lightgbm.Dataset) -> None:
        import lightgbm

        x, y, start, _ = self.part
        self.booster = lightgbm.Booster(given, data)
        scores = np.zeros(len(y)) if start is None else start
        known = self._slopes(scores, y), np.ones(len(y), np.float32)
        is_last = self.booster.update(fobj=lambda *_: known)
        self.server.check(self.rank)
        if not is_last and isinstance(self.loss, float):  # without any split the tree adds 0
            leaves = np.asarray(self.booster.predict(x, pred_leaf=True, num_threads=1), int)[:, 0]
            for leaf, value in enumerate(self._quantiles(leaves, y - scores)):
                if not np.isnan(value):
                    self.booster.set_leaf_output(0, leaf, given["learning_rate"] * float(value))
        self.text = self.booster.model_to_string()

    def _slopes(self, scores: Floats, y: Floats) -> NDArray[np.float32]:
        """The gradients (W,) of the loss."""
        if isinstance(self.loss, float):
            ratio = Fraction(self.loss).limit_denominator(1000)
            over, under = ratio.denominator - ratio.numerator, ratio.numerator
            return (over * (scores > y) - under * (scores < y)).astype(np.float32)
        errors = (scores - y).astype(np.float32)
        return errors if self.loss == "mse" else errors.clip(-1, 1)

    def _quantiles(self, leaves: Any, residuals: Floats) -> Floats:
        """The quantile of all clients' residuals in each leaf; NaN for no leaf.

        In each exchange the clients count their residuals in equal parts of each leaf's interval,
        of which the one with the quantile is the next interval.
        """
        count = self.given["num_leaves"]
        residuals = residuals.clip(np.nextafter(-RANGE, 0), RANGE)
        low, width = np.full(count, -RANGE), 2 * RANGE
        below = total = np.zeros(count)  # residuals up to `low`, and all
        for steps in STEPS:
            parts = 2**steps
            width /= parts
            part = np.ceil((residuals - low[leaves]) / width).astype(int) - 1
            inside = (part >= 0) & (part < parts)
            counted = np.bincount((leaves * parts + part)[inside], minlength=count * parts)
            counts = self.server.add(self.rank, counted.astype(float)).reshape(count, parts)
            total = np.maximum(total, counts.sum(axis=1))  # the first counts are of all
            upto = np.cumsum(np.insert(counts, 0, below, axis=1), axis=1)
            # The last of the bounds, but for the end, with fewer residuals than are wanted.
            step = (upto[:, 1:parts] < self.loss * total[:, None]).sum(axis=1)
            below = upto[np.arange(count), step]
            low = low + step * width
        return np.where(total > 0, low + width / 2, np.nan)
