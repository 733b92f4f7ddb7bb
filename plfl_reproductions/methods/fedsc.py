"""FedSC groups clients whose data have a similar distribution. Within a round the model passes
through these clusters one after the other, so that it learns from each kind of data in turn instead
of averaging over all kinds at once.

Source: Zhuang Wang, Renting Liu, Jie Xu and Yusheng Fu, "FedSC: A federated learning algorithm
based on client-side clustering", Electronic Research Archive 31(9), 2023,
https://doi.org/10.3934/era.2023266.

Before round 1 every client sends an attribute I_i, and the server forms M clusters by agglomeration
with complete linkage on ‖I_a − I_b‖₂. In each round the model passes through the clusters in a
fixed order; each continues from the result of the previous one:
    down: x;  client: K steps of its ClientOpt from x;  up: D = y − x;  server: x ← ServerOpt(x, D̄)

`at_once` is the printed Algorithm 1: the participants of all clusters train at the same time from
the same x, and the server takes one step along their mean. The clusters then only decide who takes
part.

The published server averages with the weights `federation.weighting: samples`. Algorithm 1 has one
η for the clients' steps and for the server's, which is the learning rate of `fedavg`.
`federation.participation` is the paper's C: that fraction of each cluster, at least one client, is
drawn for a round, so that every cluster takes part.

Deviations: the equations follow a secondary summary of the paper, which contradicts itself. In its
text the model passes from cluster to cluster, in its Algorithm 1 it does not; the text is the
default here. The summary names the cosine similarity of updates once, but defines the distance of
attributes, which is used here. The attribute is the frequency of each label, which clients encrypt
for the server; here it is sent as it is, and for forecasts it is the frequency of each quantile bin
of the training targets, with bins that all clients agree on.
"""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import ClusterState, Sizes
from plfl.methods.fedopt import FedOpt
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl_reproductions.methods.clusters import check_count, number_clusters, reasons_against_turns


class FedSC(FedOpt):
    """Clusters of clients with similar data that train the model one after the other."""

    name = "fedsc"
    sends = Sizes(before_up="bins")
    simulation_only = "all clients describe their data before round 1"

    clusters: int = Field(3, ge=1)
    """Number M of clusters (ours)."""
    bins: int = Field(10, ge=2)
    """Quantile bins of the targets: a client's attribute (ours)."""
    order: Literal["in_turn", "at_once"] = "in_turn"
    """Whether the clusters of a round train one after the other (`in_turn`, the paper's text), or
    all from the same parameters (`at_once`, its Algorithm 1)."""

    def reasons_against_optimizers(
        self, client_opt: ClientOpt, server_opt: ServerOpt
    ) -> Iterator[str]:
        if self.order == "in_turn":
            yield from reasons_against_turns(server_opt)
        yield from super().reasons_against_optimizers(client_opt, server_opt)

    def init(self, f: Federation) -> ClusterState:
        check_count(f, self.clusters)
        attributes = torch.from_numpy(f.client_data.histograms(self.bins)).to(f.x0)
        (attributes,) = f.channel.send_extras("up", f.everyone, [attributes])
        labels = link_clusters(attributes.cpu().numpy(), self.clusters)
        return ClusterState(torch.from_numpy(labels).to(f.local.device))

    def strata(self, f: Federation, state: ClusterState) -> Tensor:
        return state.cluster

    def groups(self, f: Federation, state: ClusterState, t: int, present: Tensor) -> list[Tensor]:
        if self.order == "at_once":
            return [present]
        cluster = state.cluster[present]
        return [present[cluster == j] for j in range(self.clusters)]


def link_clusters(attributes: NDArray[Any], clusters: int) -> NDArray[np.int64]:
    """Clusters (n,) of `attributes` (n, C) by complete linkage, numbered by their first member.

    SciPy decides which of several equally close pairs is merged first.
    """
    from scipy.cluster.hierarchy import cut_tree, linkage

    if len(attributes) == 1:
        return np.zeros(1, dtype=np.int64)
    return number_clusters(cut_tree(linkage(attributes, "complete"), clusters)[:, 0])
