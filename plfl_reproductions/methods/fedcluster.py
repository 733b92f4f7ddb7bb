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
which steps once per cycle. With `sample: clients` participants are drawn from all clients together,
as for other methods; if a cluster then has no participants, its cycle is skipped.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from plfl.base import Tensor
from plfl.base.errors import ConfigError
from plfl.config.rules import Sizes
from plfl.methods import ClusterState
from plfl.methods.annotations import Federation
from plfl.methods.fedopt import FedOpt
from plfl_reproductions.methods.clusters import by_name, check_count, numbered


class FedCluster(FedOpt):
    """One step of the server for each cluster in turn."""

    name = "fedcluster"
    sends = Sizes()
    simulation_only = "it initialises all clients together"

    clusters: int = Field(3, ge=1)
    """Number M of random clusters of nearly equal size (no default in the source)."""
    given: list[list[str]] = Field([])
    """Names of the clients in each cluster, instead of random clusters. They may include clients of
    other states."""
    order: Literal["reshuffle", "fixed"] = "reshuffle"
    """The order σ: drawn anew in every round, or the order of the clusters."""
    sample: Literal["clusters", "clients"] = "clusters"
    """Whether the participants are drawn from each cluster (Chen et al.) or from all clients."""

    def init(self, f: Federation) -> ClusterState:
        import torch

        labels = self._given(f) if self.given else self._random(f)
        return ClusterState(torch.from_numpy(labels).to(f.local.device))

    def _random(self, f: Federation) -> NDArray[np.int64]:
        from plfl.training.batches import stream

        check_count(f, self.clusters)
        labels = np.empty(len(f.local), dtype=np.int64)
        shuffled = stream(f.seed, "/fedcluster", 0).permutation(by_name(f, f.everyone))
        for j, members in enumerate(np.array_split(shuffled, self.clusters)):
            labels[members] = j
        return numbered(labels)

    def _given(self, f: Federation) -> NDArray[np.int64]:
        listed = [name for members in self.given for name in members]
        faults = [
            f"client {name} is in {listed.count(name)} clusters; list it in exactly one"
            for name in f.client_data.names
            if listed.count(name) != 1
        ]
        if faults:
            raise ConfigError("hyperparameters.method.fedcluster.given", faults)
        of = {name: j for j, members in enumerate(self.given) for name in members}
        return np.unique([of[name] for name in f.client_data.names], return_inverse=True)[1]

    def strata(self, f: Federation, state: ClusterState) -> Tensor | None:
        return state.cluster if self.sample == "clusters" else None

    def groups(self, f: Federation, state: ClusterState, t: int, present: Tensor) -> list[Tensor]:
        from plfl.training.batches import stream

        cluster = state.cluster
        order = np.arange(int(cluster.max()) + 1)
        if self.order == "reshuffle":
            order = stream(f.seed, "/fedcluster", t).permutation(order)
        return [present[cluster[present] == j] for j in order.tolist()]
