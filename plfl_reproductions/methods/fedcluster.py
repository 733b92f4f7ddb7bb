"""FedCluster splits the clients into fixed clusters that take turns within a round: the server
steps once for each cluster, and the next cluster continues from the result. A round thus makes
several steps of the server instead of one, which speeds up convergence.

Source: Cheng Chen, Ziyi Chen, Yi Zhou and Bhavya Kailkhura, "FedCluster: Boosting the Convergence
of Federated Learning via Cluster-Cycling", IEEE Big Data 2020, https://arxiv.org/abs/2009.10748.

The clients are in M disjoint clusters, fixed in advance. A round has M cycles, in an order σ:
    down: x;  client in σ(c): K steps of its ClientOpt from x;  up: D = y − x
    server: x ← ServerOpt(x, D̄), the mean over the participants in σ(c)

The paper weighs clients by their training windows (`federation.weighting: samples`). As in the
paper, the share `federation.participation` is drawn from each cluster, at least one client.

Deviations: the equations follow a secondary summary of the paper. All clusters share one ServerOpt,
which steps once per cycle. The paper's rate of the clients may differ between the cycles and steps
of a round; here it differs between rounds only (`federation.schedule`).
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import ClusterState, Sizes
from plfl.methods.fedopt import FedOpt
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.training.batches import stream
from plfl_reproductions.methods.clusters import (
    by_name,
    check_count,
    number_clusters,
    reasons_against_turns,
)


class FedCluster(FedOpt):
    """One step of the server for each cluster in turn."""

    name = "fedcluster"
    sends = Sizes()
    simulation_only = "it initialises all clients together"

    clusters: int = Field(3, ge=1)
    """Number M of random clusters of nearly equal size (no default in the source)."""
    order: Literal["reshuffle", "fixed"] = "reshuffle"
    """The order σ: drawn anew in every round, or the order of the clusters."""

    def reasons_against_optimizers(
        self, client_opt: ClientOpt, server_opt: ServerOpt
    ) -> Iterator[str]:
        yield from reasons_against_turns(server_opt)
        yield from super().reasons_against_optimizers(client_opt, server_opt)

    def init(self, f: Federation) -> ClusterState:
        check_count(f, self.clusters)
        labels = np.empty(len(f.local), dtype=np.int64)
        shuffled = stream(f.seed, "/fedcluster", 0).permutation(by_name(f, f.everyone))
        for j, members in enumerate(np.array_split(shuffled, self.clusters)):
            labels[members] = j
        return ClusterState(torch.from_numpy(number_clusters(labels)).to(f.local.device))

    def strata(self, f: Federation, state: ClusterState) -> Tensor:
        return state.cluster

    def groups(self, f: Federation, state: ClusterState, t: int, present: Tensor) -> list[Tensor]:
        cluster = state.cluster
        order = np.arange(int(cluster.max()) + 1)
        if self.order == "reshuffle":
            order = stream(f.seed, "/fedcluster", t).permutation(order)
        return [present[cluster[present] == j] for j in order.tolist()]
