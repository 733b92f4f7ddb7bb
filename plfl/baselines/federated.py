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
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from plfl.baselines.collectives import Server, call, connect, disconnect
from plfl.baselines.model import Floats, Predict
from plfl.baselines.trees import PATIENCE, PUBLIC, Boosting, Chosen, Windows, boosted

if TYPE_CHECKING:
    import lightgbm

log = logging.getLogger(__name__)

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


class Part(NamedTuple):
    """The windows of one client."""

    x: Floats
    """Features (W, K) for training."""
    y: Floats
    """Targets (W,)."""
    seen: tuple[Floats, Floats]
    """Features and targets on which the number of trees is chosen; empty if it is not."""


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


class Growing:
    """Grows the models of `trees.trained` among clients, and counts their bytes: of all settings
    that are tried, and of the model of the whole history.

    Without `exchange` only the first tree is grown among clients, for its bytes times the number of
    trees. LightGBM grows the model from all rows and the same public bins, which is faster. Its
    leaves are exact medians instead of those of the halvings in `STEPS`.
    """

    def __init__(self, clients: int, exchange: bool = True):
        self.up, self.down = (np.zeros(clients, np.int64) for _ in range(2))
        self.exchange = exchange

    def __call__(
        self, windows: Windows, boosting: Boosting, chosen: Sequence[Chosen], base: Predict | None
    ) -> list[Any]:
        import lightgbm

        grid = windows.public(boosting.max_bin)
        whole = [] if self.exchange else boosted(windows, boosting, chosen, base, grid)
        parts = []
        for client in range(len(windows.dataset.clients)):
            x, y, _ = windows.part("train", base, [client])
            nothing = (x[:0], y[:0])
            seen = nothing if chosen else windows.part("validation", base, [client])[:2]
            parts.append(Part(x, y, seen))
        found = []
        for k, level in enumerate(boosting.levels or (0.5,)):
            pairs = product(boosting.leaves, boosting.learning_rate)
            tried = chosen[k : k + 1] or [Chosen(*pair, boosting.trees) for pair in pairs]
            if whole:
                one = tried[0]._replace(trees=1)
                _, up, down = grow(parts, grid, one, boosting.max_bin, level)
                times = len(tried) * whole[k].num_trees()
                self.up += times * up
                self.down += times * down
                continue
            models = []
            for one in tried:
                model, up, down = grow(parts, grid, one, boosting.max_bin, level)
                self.up += up
                self.down += down
                models.append((min(model.errors, default=np.inf), model, one))
            _, model, one = min(models, key=lambda entry: entry[0])
            booster = lightgbm.Booster(model_str=model.text)
            booster.best_iteration = model.best
            booster.params = {"num_leaves": one.leaves, "learning_rate": one.rate}
            found.append(booster)
        return whole or found


def grow(
    parts: Sequence[Part], grid: Floats, settings: Chosen, max_bin: int, level: float = 0.5
) -> tuple[Grown, Any, Any]:
    """Grow trees for a quantile of the targets, among clients with windows for training.

    If a client fails, the tree that is being grown is lost, and the others go on without it.
    `grid`: public values of each feature, from which all clients make the same bins.

    Returns:
        The model, and the bytes that each client sent and received.

    Raises:
        Exception: what the last client failed with, if all have.
    """
    import lightgbm

    given = SETTINGS | {"max_bin": max_bin, "num_leaves": settings.leaves}
    given["learning_rate"] = settings.rate
    bins = lightgbm.Dataset(grid, np.zeros(len(grid)), params=given, free_raw_data=False)
    bins.construct()
    up, down = (np.zeros(len(parts), np.int64) for _ in range(2))
    model = Grown("")
    there = [k for k, part in enumerate(parts) if len(part.y)]
    while there:
        server = Server(len(there))
        clients = [
            Client(server, rank, parts[k], bins, given, level, settings.trees, model)
            for rank, k in enumerate(there)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        up[there] += server.up
        down[there] += server.down
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
    return model, up, down


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
        level: float,
        trees: int,
        model: Grown,
    ):
        super().__init__()
        self.server, self.rank, self.part, self.bins = server, rank, part, bins
        self.given, self.level, self.trees = given, level, trees
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
        import lightgbm

        x, y, _ = self.part
        # Constructed here, because it also makes the LightGBM of this thread silent.
        self.data = lightgbm.Dataset(x, y, params=self.given, reference=self.bins).construct()
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

        x, y, (seen_x, seen_y) = self.part
        self.booster = lightgbm.Booster(given, self.data)
        scores, seen_scores = np.zeros(len(y)), np.zeros(len(seen_y))
        if self.before.text:
            before = lightgbm.Booster(model_str=self.before.text)
            call("LGBM_BoosterMerge", self.booster._handle, before._handle)
            self.done = before.num_trees()
            scores = self._predicted(x, len(scores))
            seen_scores = self._predicted(seen_x, len(seen_scores))
        ratio = Fraction(self.level).limit_denominator(1000)
        over, under = ratio.denominator - ratio.numerator, ratio.numerator
        weights = np.ones(len(y), np.float32)
        while self.done < self.trees:
            slopes = np.float32(over) * (scores > y) - np.float32(under) * (scores < y)
            is_last = self.booster.update(fobj=lambda *_, known=(slopes, weights): known)
            self.server.check(self.rank)
            if is_last:
                # Without any split there is one tree, which forecasts 0.
                self.done = max(1, self.done)
                break
            leaves, seen_leaves = (self._leaves(rows) for rows in (x, seen_x))
            values = given["learning_rate"] * self._quantiles(leaves, y - scores)
            for leaf, value in enumerate(values):
                if not np.isnan(value):
                    self.booster.set_leaf_output(self.done, leaf, float(value))
            scores = scores + values[leaves]
            seen_scores = seen_scores + values[seen_leaves]
            miss = seen_y - seen_scores
            loss = np.maximum(self.level * miss, (self.level - 1) * miss).sum()
            total, count = self.server.add(self.rank, np.array([loss, len(miss)]))
            self.done += 1
            if count:
                self.errors.append(total / count)
                if self.done - 1 - int(np.argmin(self.errors)) >= PATIENCE:
                    break

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
            step = (upto[:, 1:parts] < self.level * total[:, None]).sum(axis=1)
            below = upto[np.arange(count), step]
            low = low + step * width
        return np.where(total > 0, low + width / 2, np.nan)
