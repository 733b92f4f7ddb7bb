"""Gradient boosting: in each round all clients grow the next tree of the model `trees` together.

Source: Guolin Ke, Qi Meng, Thomas Finley, Taifeng Wang, Wei Chen, Weidong Ma, Qiwei Ye and Tie-Yan
Liu, "LightGBM: A Highly Efficient Gradient Boosting Decision Tree", NIPS 2017; Qi Meng, Guolin Ke,
Taifeng Wang, Wei Chen, Qiwei Ye, Zhi-Ming Ma and Tie-Yan Liu, "A Communication-Efficient Parallel
Algorithm for Decision Tree", NIPS 2016, https://arxiv.org/abs/1611.01276.

up: for each new leaf, sums of gradients by bin of each input, and counts by value of a leaf
down: these sums over all clients, and the best split; x to a client that was absent

Trees of a group that is not shared are grown by each client alone, on the shared ones. A client
that joins after the rounds adds its own in the same way. Without a server (P3) all are its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.config.channel import FEWEST_MASKED
from plfl.config.federation import FederationSettings
from plfl.federated.instructions import Routine, RoutineResult, TrainInstructions, TrainResult
from plfl.interfaces.annotations import (
    ClientData,
    Federation,
    RootCounts,
    Session,
    TreeGrower,
)
from plfl.interfaces.method import Method, MethodState
from plfl.interfaces.model import Model
from plfl.interfaces.task import Task
from plfl.layout import GROUPS, ParameterLayout
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.training.batches import stream

UNUSED = (
    "local_steps",
    "local_epochs",
    "batch_size",
    "batches",
    "clip",
    "weighting",
    "schedule",
    "initial",
)
"""Keys of `federation` that have no effect."""


@dataclass
class KnownTrees(MethodState):
    """What the server knows of the clients."""

    last: Tensor
    """The round (N,) whose tree is the last shared one that a client has."""
    crowd: Tensor | None = None
    """The clients (n,) that have grown the last tree of masked sums."""
    counts: Tensor | None = None
    """How many windows the clients of `crowd` have together in each bin."""


@contextmanager
def _known_counts(state: KnownTrees | None) -> Iterator[RootCounts]:
    """What the server knows of the clients' windows, and learns from a tree."""
    counts_by_crowd: RootCounts = {}
    if state is not None and state.crowd is not None and state.counts is not None:
        counts_by_crowd[tuple(state.crowd.tolist())] = state.counts.cpu().numpy()
    try:
        yield counts_by_crowd
    finally:
        if state is not None:
            # The last one.
            crowd, counts = counts_by_crowd.popitem() if counts_by_crowd else (None, None)
            state.crowd = None if crowd is None else torch.tensor(crowd)
            state.counts = None if counts is None else torch.from_numpy(counts)


class Boosting(Method):
    """A tree in each round, grown by LightGBM's data-parallel learner, whose machines are the
    clients."""

    name = "boosting"
    label = "Boosting"
    only_model = "trees"
    takes_own_steps = True
    needs_equal_steps = False
    ignores_sharing = True
    own_server = "its server adds sums, and no updates"
    no_codec = "its messages are packed already"
    adds_numbers = True
    no_server_average = "has trees, of which there is no average"

    rate: float = Field(0.3, gt=0, le=1)
    """Shrinkage."""
    leaves: int | None = Field(None, ge=2)
    """Leaves of a tree; null: those of the model."""
    bins: int = Field(31, ge=4, le=255)
    """Bins of an input."""
    own: int | None = Field(None, ge=0)
    """Own trees of a client that joins late; null: those of the model's head."""
    noise: float = Field(0.0, ge=0)
    """Noise on each sum of all clients, in units of what a window adds; with L1 errors."""

    def reasons_against_deployment(self) -> Iterator[str]:
        if self.noise:
            yield "a tree that is begun again shows more sums than its ε counts; set noise to 0"

    def noise_on_sums(
        self, layout: ParameterLayout, shared_mask: NDArray[np.bool_]
    ) -> tuple[float, int] | None:
        """The noise on each sum, and the most sums that any window is in; None without noise."""
        return (
            (self.noise, self.sums(layout, shared_mask))
            if self.noise and shared_mask.any()
            else None
        )

    def in_rounds(self) -> "Boosting":
        return self.model_copy(update={"own": None})

    def reasons_against_optimizers(
        self, client_opt: ClientOpt, server_opt: ServerOpt
    ) -> Iterator[str]:
        if client_opt.name != "sgd":
            yield "trees have no local steps; use sgd, which has no effect"
        yield from super().reasons_against_optimizers(client_opt, server_opt)

    def reasons_against_settings(
        self, model: Model, task: Task, federation: FederationSettings
    ) -> Iterator[str]:
        if model.name != self.only_model:
            return
        trees: Any = model  # a `plfl.models.trees.Trees`, whose file imports torch
        plain, tree_count = FederationSettings(), sum(trees.sizes.values())
        for key in UNUSED:
            if getattr(federation, key) != getattr(plain, key):
                yield f"has no local steps, so federation.{key} has no effect; remove it"
        if self.noise and (federation.loss != "mae" or task.quantile_levels):
            yield "has noise for L1 errors only; set federation.loss to mae, or noise to 0"
        if federation.rounds != tree_count:
            yield (
                f"grows a tree in each round; set federation.rounds to {tree_count}, the sum of "
                "model.trees and model.own_trees"
            )
        if self.leaves is not None and self.leaves > trees.leaves:
            yield f"has more leaves, {self.leaves}, than model.leaves {trees.leaves}; raise that"

    def reasons_against_sums(self, task: Task, federation: FederationSettings) -> Iterator[str]:
        if federation.loss != "mae" and not task.quantile_levels:
            yield (
                f"adds gradients of {federation.loss}, which are no whole numbers; set "
                "federation.loss to mae"
            )
        if self.noise:
            yield "would show the server the sums before it adds the noise; set noise to 0"
        if federation.participation < 1:
            yield (
                "tells single clients by the difference of two rounds, since their windows stay "
                "the same; set federation.participation to 1"
            )

    def reasons_against_sharing(
        self, shared_mask: NDArray[np.bool_], layout: ParameterLayout
    ) -> Iterator[str]:
        parts = [shared_mask[layout.mask([group])] for group in GROUPS]
        if not parts[0].all() or parts[1].any() != parts[1].all():
            yield "it shares whole trees, the first ones; list body, or body and head"

    def init(self, f: Federation) -> KnownTrees:
        return KnownTrees(torch.zeros_like(f.everyone))

    def broadcast(
        self, f: Federation, state: KnownTrees, t: int, clients: Tensor
    ) -> TrainInstructions:
        """Send the shared trees to clients that were absent."""
        x, lacks = f.server.send(clients), state.last[clients] < self._count_shared(f, t - 1)
        if lacks.any():
            received_rows, _ = f.channel.send("down", clients[lacks], x[lacks])
            x = x.clone()
            x[lacks] = received_rows
        return self._instructions(f, state, clients, x, t)

    def _count_shared(self, f: Federation, t: int) -> int:
        """The number of shared trees after round t."""
        if f.shared_mask.all():
            return t
        return min(t, f.layout.shapes["body.value"][1]) if f.shared_mask.any() else 0

    def without_server(self, f: Federation, clients: Tensor) -> TrainInstructions:
        return self._instructions(f, None, clients, f.x0[None])

    def _instructions(
        self, f: Federation, state: KnownTrees | None, clients: Tensor, start: Tensor, t: int = 0
    ) -> TrainInstructions:
        watch = partial(self._watch, f, state, t - 1) if 0 < t == self._count_shared(f, t) else None
        # A tree reads all windows of a client.
        steps = f.client_data.window_counts[clients] / f.settings.batch_size
        routine = Routine(partial(self._grow, state), 0, trains_together=True, watch=watch)
        return TrainInstructions(start, steps=steps, routine=routine)

    def _watch(self, f: Federation, state: KnownTrees | None, tree: int, clients: Tensor) -> None:
        """Grow a tree as a server that has only the messages of `clients`."""
        row = f.full(f.server.x)[None]
        with _known_counts(state) as counts:
            self.tree_grower(f.client_data, f.layout).watch(row, tree, f.channel, counts)
        f.local[clients] = f.models(clients, row[:, f.columns])

    def _grow(self, state: KnownTrees | None, session: Session) -> RoutineResult:
        """Grow the tree of a round."""
        from plfl.federated.collectives.server import SumNoise

        f, tree, rows = session.f, session.t - 1, session.start.cpu().clone()
        grower = self.tree_grower(f.client_data, f.layout)
        channel = f.channel if self._count_shared(f, session.t) == session.t else None
        clients = session.clients.tolist()
        noise = None
        if self.noise and channel:
            noise = SumNoise(self.noise, stream(f.seed, "/noise", session.t))
        # The sums of fewer would tell each what another one sends; the tree then adds nothing.
        grows = session.are_staying and (
            channel is None
            or channel.secrets is None
            or channel.count_exchanging(clients) >= FEWEST_MASKED
        )
        purpose = f"tree/{session.t}"
        with _known_counts(state) as counts:
            losses = grower.add(rows, clients, tree, channel, grows, noise, purpose, counts)
        session.steps = f.client_data.window_counts[session.clients] / f.settings.batch_size
        session.losses = losses.to(session.steps) * session.steps
        return RoutineResult(rows.to(session.start))

    def aggregate(
        self, f: Federation, state: KnownTrees, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        # The server has seen every split and every count: it knows the tree, as all clients do.
        if self._count_shared(f, t) == t:
            f.server.x = f.local[clients[0], f.columns].clone()
        state.last[clients] = t

    def adapt(self, f: Federation, state: Any, rows: Tensor) -> Tensor | None:
        """Trees of clients that join after the rounds, if the others have own ones, too."""
        if f.method is self or f.shared_mask.all():
            return None
        leaf_limit = f.layout.shapes["head.value"][1]
        number = leaf_limit if self.own is None else min(self.own, leaf_limit)
        return self.own_trees(f.client_data, f.layout, rows, number)

    def own_trees(
        self, data: ClientData, layout: ParameterLayout, rows: Tensor, number: int
    ) -> Tensor:
        """Models (N, P) with trees in the head that each client grows alone."""
        grower, grown = self.tree_grower(data, layout), rows.cpu().clone()
        first = layout.shapes["body.value"][1]
        for tree in range(first, first + number):
            grower.add(grown, range(len(rows)), tree, None)
        return grown.to(rows)

    def sums(self, layout: ParameterLayout, shared_mask: NDArray[np.bool_]) -> int:
        """The most sums over clients that any window is in, given the mask (P,) of the shared
        parameters."""
        from plfl.federated.tree_growth import releases

        sizes = [layout.shapes[f"{g}.value"] for g in GROUPS if shared_mask[layout.mask([g])].any()]
        trees = sum(outputs * trees for outputs, trees, _ in sizes)
        return trees * releases(self.leaves or sizes[0][2])

    def tree_grower(self, data: ClientData, layout: ParameterLayout) -> TreeGrower:
        from plfl.federated.tree_grower import TreeGrower

        leaves = self.leaves or layout.shapes["body.value"][2]
        return TreeGrower(data, layout, leaves, self.rate, self.bins)
