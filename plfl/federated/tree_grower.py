"""Adds trees to the rows of clients: together with others, or each on its own windows."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.base.lazy import lightgbm
from plfl.federated.channel import Channel
from plfl.federated.client_data import ClientData
from plfl.federated.collectives.server import SumNoise
from plfl.federated.tree_growth import ClientWindows, RootCounts, Tree, bin_rows, grow
from plfl.federated.tree_losses import TREE_LOSSES, QuantileLoss, TreeLoss
from plfl.layout import GROUPS, ParameterLayout
from plfl.training.stacked import Stacked


class ClientTable(NamedTuple):
    """The training windows of a client."""

    x: Tensor
    """What a model reads of them (W, K)."""
    y: Tensor
    """Targets (W,) or (W, H), in scaled units."""
    data: lightgbm.Dataset
    """The windows in bins."""
    learners: dict[Any, lightgbm.Booster]
    """See `plfl.federated.tree_growth.ClientWindows`."""
    scores: dict[bytes, Tensor]
    """Forecasts (W, O) by the last rows, by their digests."""


MOST_TABLES = 32
"""Forecasts that a table keeps, for as many trainings side by side."""


def row_digest(row: Tensor) -> bytes:
    """What tells a row (P,) from others."""
    return blake2b(row.numpy().tobytes(), digest_size=16).digest()


_tables: WeakKeyDictionary[ClientData, dict[Any, Any]] = WeakKeyDictionary()


class TreeGrower:
    """Grows the trees of some clients' rows."""

    def __init__(
        self, data: ClientData, layout: ParameterLayout, leaves: int, rate: float, bins: int
    ):
        self.data, self.layout, self.bins = data, layout, bins
        self.leaves, self.rate = leaves, rate
        levels = data.task.quantile_levels
        losses: list[TreeLoss] = [QuantileLoss(level) for level in levels]
        losses = losses or [TREE_LOSSES[data.loss.name]]
        self.losses = [
            (losses[o % len(losses)], o // len(losses))
            for o in range(layout.shapes["body.value"][0])
        ]
        """The loss of each output, and the number of its target."""

    def slot(self, tree: int) -> tuple[str, int]:
        """The group of a tree, counted from 0, and its place there."""
        body = self.layout.shapes["body.value"][1]
        return ("body", tree) if tree < body else ("head", tree - body)

    def add(
        self,
        rows: Tensor,
        clients: Sequence[int],
        tree: int,
        channel: Channel | None,
        grows: bool = True,
        noise: SumNoise | None = None,
        purpose: str = "tree",
        counts: RootCounts | None = None,
    ) -> Tensor:
        """Add a tree to each of the `rows` (n, P) of `clients`: the same to all, grown together if
        there is a channel; else each grows its own. Returns the mean losses (n,) before.

        `grows`: whether they do more than find these. `noise`: on the sums of a tree that is grown
        together. `purpose`: of the keys, if the channel has secrets. `counts`: of `grow`.
        """
        tables = [self._table(client) for client in clients]
        scores = [self._scores(row, table) for row, table in zip(rows, tables, strict=True)]
        pairs = zip(scores, tables, strict=True)
        losses_before = torch.stack([self.data.loss.mean(s, table.y) for s, table in pairs])
        if not grows:
            return losses_before
        client_groups = (
            [range(len(clients))] if channel else [range(k, k + 1) for k in range(len(rows))]
        )
        leaves: list[dict[int, NDArray[np.int16]]] = [{} for _ in tables]
        for client_group in client_groups:
            for o, (loss, target) in enumerate(self.losses):
                client_windows = [
                    ClientWindows(
                        tables[k].x.numpy(),
                        tables[k].y.reshape(len(tables[k].y), -1)[:, target].numpy(),
                        start=scores[k].reshape(len(scores[k]), -1)[:, o].numpy(),
                        data=tables[k].data,
                        learners=tables[k].learners,
                    )
                    for k in client_group
                ]
                numbers = [clients[k] for k in client_group] if channel else None
                grown = grow(
                    client_windows,
                    self._bins,
                    self.leaves,
                    self.rate,
                    loss,
                    channel,
                    numbers=numbers,
                    noise=noise,
                    purpose=f"{purpose}/{o}",
                    counts=counts,
                )
                self._write(rows[client_group.start : client_group.stop], tree, o, grown.text)
                for k, window_leaves in grown.leaves.items():
                    leaves[client_group[k]][o] = window_leaves
        for row, table, score, row_leaves in zip(rows, tables, scores, leaves, strict=True):
            if len(table.scores) >= MOST_TABLES:
                del table.scores[next(iter(table.scores))]
            new_scores = self._added_scores(row, table.x, tree, row_leaves)
            table.scores[row_digest(row)] = score + new_scores.reshape(score.shape)
        return losses_before

    def watch(self, row: Tensor, tree: int, channel: Channel, counts: RootCounts) -> None:
        """Add to the `row` (1, P) a tree that clients on other machines grow together.

        The answers to the first of them determine the tree. So this machine takes its place, with
        public values; what these contribute is not used. The messages have to be possible for the
        windows with which the clients have joined. `counts`: of `grow`.
        """
        x, windows = (
            self.data.public_values(self.bins).astype(np.float32),
            self.data.window_counts.numpy(),
        )
        for o, (loss, _) in enumerate(self.losses):
            part = ClientWindows(x, np.zeros(len(x)))
            grown = grow(
                [part],
                self._bins,
                self.leaves,
                self.rate,
                loss,
                channel,
                windows=windows,
                counts=counts,
            )
            self._write(row, tree, o, grown.text)

    def _write(self, rows: Tensor, tree: int, output: int, text: str) -> None:
        """Write the tree of LightGBM's `text` into rows (n, P)."""
        grown = Tree.parse(text)
        if not len(grown.feature):
            return  # there was no split
        group, place = self.slot(tree)
        views = self.layout.views(rows)
        grown = grown._replace(threshold=grown.round_thresholds(np.dtype(np.float32)))
        for name, values in grown._asdict().items():
            numbers = torch.from_numpy(values.astype(np.float32))
            views[f"{group}.{name}"][:, output, place, : len(numbers)] = numbers

    def _scores(self, row: Tensor, table: ClientTable) -> Tensor:
        """Forecasts (W, O) of a row for training windows: the sum of its trees, one by one, so that
        it does not matter when they were added."""
        if (stored_scores := table.scores.get(row_digest(row))) is not None:
            return stored_scores
        total = torch.zeros(len(table.x), len(self.losses))
        for tree in range(sum(self.layout.shapes[f"{group}.value"][1] for group in GROUPS)):
            group, place = self.slot(tree)
            if self.layout.views(row[None])[f"{group}.value"][0, :, place].any():
                total = total + self._added_scores(row, table.x, tree)
        return total.reshape(len(total), *table.y.shape[1:]) if len(self.losses) == 1 else total

    @property
    def _stored_tables(self) -> dict[Any, Any]:
        return _tables.setdefault(self.data, {})

    @property
    def _bins(self) -> lightgbm.Dataset:
        """The bins of all clients, from public values."""
        if self.bins not in self._stored_tables:
            public = self.data.public_values(self.bins).astype(np.float32)
            self._stored_tables[self.bins] = bin_rows(public, self.bins)
        bins: lightgbm.Dataset = self._stored_tables[self.bins]
        return bins

    def _table(self, client: int) -> ClientTable:
        key = self.bins, client
        if key not in self._stored_tables:
            x, y = self.rows(client)
            self._stored_tables[key] = ClientTable(
                x, y, bin_rows(x.numpy(), self.bins, self._bins), {}, {}
            )
        table: ClientTable = self._stored_tables[key]
        return table

    def rows(self, client: int) -> tuple[Tensor, Tensor]:
        """`x` and `y` of a client's table."""
        starts = self.data.starts(client, "train")
        engine = cast(Stacked, self.data.engine)
        sequence, covariates = engine.inputs(starts[None].to(engine.device))[:2]
        x = torch.cat([sequence[0].flatten(1), covariates[0]], 1).cpu()
        return x.T.contiguous().T, self.data.targets(starts).cpu()  # a tree reads columns

    def _added_scores(
        self, row: Tensor, x: Tensor, tree: int, leaves: dict[int, NDArray[np.int16]] | None = None
    ) -> Tensor:
        """What a tree adds to the forecasts (W, O), given the leaves of outputs that are known."""
        group, place = self.slot(tree)
        views, known_leaves = self.layout.views(row[None]), leaves or {}
        contributions = []
        for output in range(len(self.losses)):
            arrays = (views[f"{group}.{name}"][0, output, place].numpy() for name in Tree._fields)
            grown = Tree(*arrays)
            window_leaves = (
                known_leaves[output] if output in known_leaves else grown.leaves(x.numpy())
            )
            contributions.append(grown.value[window_leaves])
        return torch.from_numpy(np.stack(contributions, 1))
