"""FedCluster (Chen et al., IEEE Big Data 2020): the clusters take their turn within a round.

Clients are in M disjoint clusters, fixed in advance. A round has M cycles, in an order σ:
    down: x;  client in σ(c): K steps of its ClientOpt from x;  up: D = y − x
    server: x ← ServerOpt(x, D̄), the mean over those of σ(c) who take part
One ServerOpt is shared by all clusters and steps once a cycle. The published weights are the
clients' training windows, `federation.weighting: samples`.

Who takes part is drawn once a round for all clusters together, as for every other method; a cluster
without participants is skipped.
"""

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from plfl.errors import ConfigError
from plfl.methods.clusters import by_name, check_count, numbered
from plfl.methods.fedopt import FedOpt

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from plfl.federation import Federation


class FedCluster(FedOpt):
    """One step of the server for each cluster in turn."""

    name = "fedcluster"

    clusters: int = Field(3, ge=1)
    """Number M of random clusters, as equal in size as can be (no default in the source)."""
    given: list[list[str]] = Field([])
    """Names of the clients in each cluster, instead of random ones. Those of other states may be
    among them."""
    order: Literal["reshuffle", "fixed"] = "reshuffle"
    """The order σ: drawn anew in every round, or that of the clusters."""

    @property
    def simulation_only(self) -> str | None:
        return "it begins with all clients in one place"

    def begin(self, f: "Federation") -> None:
        import torch

        labels = self._given(f) if self.given else self._random(f)
        f.memory["cluster"] = torch.from_numpy(labels).to(f.local.device)

    def _random(self, f: "Federation") -> "NDArray[np.int64]":
        from plfl.training.batches import stream

        check_count(f, self.clusters)
        labels = np.empty(len(f.local), dtype=np.int64)
        shuffled = stream(f.seed, "/fedcluster", 0).permutation(by_name(f, f.everyone))
        for j, members in enumerate(np.array_split(shuffled, self.clusters)):
            labels[members] = j
        return numbered(labels)

    def _given(self, f: "Federation") -> "NDArray[np.int64]":
        listed = [name for members in self.given for name in members]
        faults = [
            f"client {name} is in {listed.count(name)} clusters; give it exactly one"
            for name in f.fleet.names
            if listed.count(name) != 1
        ]
        if faults:
            raise ConfigError("method.fedcluster.given", faults)
        of = {name: j for j, members in enumerate(self.given) for name in members}
        return np.unique([of[name] for name in f.fleet.names], return_inverse=True)[1]

    def cycles(self, f: "Federation", t: int, present: "Tensor") -> "list[Tensor]":
        from plfl.training.batches import stream

        cluster = f.memory["cluster"]
        order = np.arange(int(cluster.max()) + 1)
        if self.order == "reshuffle":
            order = stream(f.seed, "/fedcluster", t).permutation(order)
        return [present[cluster[present] == j] for j in order.tolist()]
