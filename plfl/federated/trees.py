"""Trees that clients grow together with LightGBM's own learner, without pooling rows.

In each tree the clients send sums of gradients by bin, which are whole numbers for the L1 error and
for quantiles, and counts, from which the leaves' medians or quantiles are found by bisection. What
crosses is in docs/baselines.md.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plfl.federated.channel import Channel
from plfl.federated.collectives import Floats, Server, call, connect, disconnect

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
PATIENCE = 30
"""Training stops after this many trees without a smaller error on validation: the L1 error, or the
pinball loss of a quantile."""
Loss: TypeAlias = float | Literal["mse", "huber"]
"""The level of a quantile, of which 0.5 is the median for the L1 error; or another loss, whose
gradients are not whole numbers."""


class Chosen(NamedTuple):
    """The settings that were chosen for a model."""

    leaves: int
    rate: float
    trees: int

    @classmethod
    def of(cls, booster: Any) -> Chosen:
        """The choice of `plfl.baselines.trees.boosted`."""
        used, trees = booster.params, booster.best_iteration
        trees = trees if trees > 0 else booster.num_trees()  # without validation there is no choice
        return cls(used["num_leaves"], used["learning_rate"], trees)


class Part(NamedTuple):
    """The windows of one client."""

    x: NDArray[Any]
    """Features (W, K) for training."""
    y: NDArray[Any]
    """Targets (W,)."""
    seen: tuple[NDArray[Any], NDArray[Any]] | None = None
    """Features and targets whose errors clients sum after each tree, to choose their number; None
    for all clients: no tree is followed by this message."""
    start: NDArray[Any] | None = None
    """Forecasts (W,) to which trees are added; None: 0."""


@dataclass
class Grown:
    """A model that clients have grown."""

    text: str
    """It in LightGBM's own format; all clients have the same. Empty before the first tree."""
    errors: list[float] = field(default_factory=list)
    """Mean loss on the clients' validation windows after each tree, if there are any."""

    @property
    def best(self) -> int:
        """The number of trees with the least error; 0 if nothing was chosen."""
        return 1 + int(np.argmin(self.errors)) if self.errors else 0


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
    settings: Chosen,
    loss: Loss = 0.5,
    channel: Channel | None = None,
) -> Grown:
    """Grow trees among clients with windows for training.

    If a client fails, the tree that is being grown is lost, and the others go on without it.

    Args:
        parts: the windows of the clients, in the order of their numbers on the channel.
        bins: those of all clients.
        settings: the trees.
        loss: what they minimise.
        channel: carries and counts the messages; None: a new one.

    Raises:
        Exception: what the last client failed with, if all have.
    """
    given = SETTINGS | {"num_leaves": settings.leaves, "learning_rate": settings.rate}
    given["max_bin"] = bins.get_params()["max_bin"]
    model = Grown("")
    there = [k for k, part in enumerate(parts) if len(part.y)]
    while there:
        server = Server(channel or Channel(0, len(parts)), there)
        clients = [
            Client(server, rank, parts[k], bins, given, loss, settings.trees, model)
            for rank, k in enumerate(there)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        failed = {k: one.failed for k, one in zip(there, clients, strict=True) if one.failed}
        stayed = [client for client in clients if not client.failed]
        if not stayed:
            raise next(iter(failed.values()))
        done = min(client.done for client in stayed)
        text = stayed[0].booster.model_to_string(num_iteration=done) if done else ""
        model = Grown(text, stayed[0].errors[:done])
        if not failed:
            break
        for k, error in failed.items():
            log.warning("client %d is gone in tree %d: %r", k, done + 1, error)
        there = [k for k in there if k not in failed]
    return model


class Client(threading.Thread):
    """A client, its windows and its LightGBM, which has the same trees as those of the others."""

    data: lightgbm.Dataset
    booster: lightgbm.Booster

    def __init__(
        self,
        server: Server,
        rank: int,
        part: Part,
        bins: lightgbm.Dataset,
        given: dict[str, Any],
        loss: Loss,
        trees: int,
        model: Grown,
    ):
        super().__init__()
        self.server, self.rank, self.part, self.bins = server, rank, part, bins
        self.given, self.loss, self.trees = given, loss, trees
        self.before = model
        self.errors = list(model.errors)
        self.failed: Exception | None = None
        self.done = 0
        """Trees that are complete."""

    def run(self) -> None:
        try:
            self._connected()
        except threading.BrokenBarrierError:
            pass  # another client is gone
        except Exception as error:
            self.failed = error
            self.server.leave()

    def _connected(self) -> None:
        # Constructed here, because it also makes the LightGBM of this thread silent.
        self.data = binned(self.part.x, self.given["max_bin"], self.bins)
        count = self.server.clients
        if count == 1:
            return self._grow(self.given)
        functions = self.server.functions(self.rank)  # they have to exist while they are used
        connect(count, self.rank, functions)
        try:
            self._grow(self.given | {"tree_learner": "data", "num_machines": count})
        finally:
            disconnect()

    def _grow(self, given: dict[str, Any]) -> None:
        import lightgbm

        x, y, seen, start = self.part
        seen_x, seen_y = (x[:0], y[:0]) if seen is None else seen
        self.booster = lightgbm.Booster(given, self.data)
        scores = np.zeros(len(y)) if start is None else start
        seen_scores = np.zeros(len(seen_y))
        if self.before.text:
            before = lightgbm.Booster(model_str=self.before.text)
            call("LGBM_BoosterMerge", self.booster._handle, before._handle)
            self.done = before.num_trees()
            scores = scores + self._predicted(x, len(scores))
            seen_scores = self._predicted(seen_x, len(seen_scores))
        weights = np.ones(len(y), np.float32)
        while self.done < self.trees:
            slopes = self._slopes(scores, y)
            is_last = self.booster.update(fobj=lambda *_, known=(slopes, weights): known)
            self.server.check(self.rank)
            if is_last:
                # Without any split there is one tree, which forecasts 0.
                self.done = max(1, self.done)
                break
            leaves, seen_leaves = (self._leaves(rows) for rows in (x, seen_x))
            if isinstance(self.loss, float):
                values = given["learning_rate"] * self._quantiles(leaves, y - scores)
                for leaf, value in enumerate(values):
                    if not np.isnan(value):
                        self.booster.set_leaf_output(self.done, leaf, float(value))
            else:
                known = range(1 + int(leaves.max(initial=0)))
                values = np.array([self.booster.get_leaf_output(self.done, k) for k in known])
            self.done += 1
            scores = scores + values[leaves]
            seen_scores = seen_scores + values[seen_leaves]
            if seen is not None and self._is_enough(seen_y - seen_scores):
                break

    def _is_enough(self, miss: Floats) -> bool:
        """Sum the errors (W,) on validation, and see whether they have long not fallen."""
        assert isinstance(self.loss, float)
        loss = np.maximum(self.loss * miss, (self.loss - 1) * miss).sum()
        total, count = self.server.add(self.rank, np.array([loss, len(miss)]))
        if not count:
            return False
        self.errors.append(total / count)
        return self.done - 1 - int(np.argmin(self.errors)) >= PATIENCE

    def _slopes(self, scores: Floats, y: Floats) -> NDArray[np.float32]:
        """The gradients (W,) of the loss."""
        if isinstance(self.loss, float):
            ratio = Fraction(self.loss).limit_denominator(1000)
            over, under = ratio.denominator - ratio.numerator, ratio.numerator
            return (over * (scores > y) - under * (scores < y)).astype(np.float32)
        errors = (scores - y).astype(np.float32)
        return errors if self.loss == "mse" else errors.clip(-1, 1)

    def _predicted(self, x: Floats, rows: int) -> Floats:
        return np.asarray(self.booster.predict(x, num_threads=1) if rows else np.empty(0), float)

    def _leaves(self, x: Floats) -> Any:
        """The leaf (W,) of each row in the last tree."""
        if not len(x):
            return np.empty(0, int)
        found = self.booster.predict(
            x, start_iteration=self.done, num_iteration=1, pred_leaf=True, num_threads=1
        )
        return np.asarray(found, int).reshape(-1)

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
