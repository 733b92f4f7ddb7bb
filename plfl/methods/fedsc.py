"""FedSC (Wang et al., Electronic Research Archive 2023, doi 10.3934/era.2023266).

Before round 1 every client sends an attribute I_i, and the server forms M clusters by agglomeration
with complete linkage on ‖I_a − I_b‖₂. In each round the model goes through the clusters in a fixed
order, and in each of them, from what the one before has left:
    down: x;  client: K steps of its ClientOpt from x;  up: D = y − x;  server: x ← ServerOpt(x, D̄)
The published server averages, weighted by training windows (`federation.weighting: samples`).

Adaptation to forecasting: the source's attribute is the share of each label. Here it is the share
of each quantile bin of the training targets, the bins being agreed over all clients.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from plfl.methods.clusters import check_count, numbered
from plfl.methods.fedopt import FedOpt

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from plfl.federation import Federation


class FedSC(FedOpt):
    """Clusters of like data that hand the model on to each other."""

    name = "fedsc"

    clusters: int = Field(3, ge=1)
    """Number M of clusters (no default in the source)."""
    bins: int = Field(10, ge=2)
    """Length C of the attribute, in quantile bins (ours)."""

    @property
    def simulation_only(self) -> str | None:
        return "all clients describe their data before round 1"

    def begin(self, f: "Federation") -> None:
        import torch

        check_count(f, self.clusters)
        targets = [f.fleet.training_targets(i).double().cpu().numpy() for i in range(len(f.local))]
        attributes = torch.from_numpy(histograms(targets, self.bins)).to(f.x0)
        (attributes,) = f.channel.send_extras("up", f.everyone, [attributes])
        labels = linked(attributes.cpu().numpy(), self.clusters)
        f.memory["cluster"] = torch.from_numpy(labels).to(f.local.device)

    def cycles(self, f: "Federation", t: int, present: "Tensor") -> "list[Tensor]":
        cluster = f.memory["cluster"][present]
        return [present[cluster == j] for j in range(self.clusters)]


def histograms(values: "list[NDArray[np.float64]]", bins: int) -> "NDArray[np.float64]":
    """Shares (n, bins) of each array's values in the quantile bins of all of them together."""
    edges = np.quantile(np.concatenate(values), np.linspace(0, 1, bins + 1)[1:-1])
    found = [np.searchsorted(edges, some, side="right") for some in values]
    return np.stack([np.bincount(which, minlength=bins) / len(which) for which in found])


def linked(attributes: "NDArray[Any]", clusters: int) -> "NDArray[np.int64]":
    """Clusters (n,) of `attributes` (n, C) by complete linkage, numbered by their first member.

    Of equally close pairs SciPy chooses which to merge first.
    """
    from scipy.cluster.hierarchy import cut_tree, linkage

    if len(attributes) == 1:
        return np.zeros(1, dtype=np.int64)
    return numbered(cut_tree(linkage(attributes, "complete"), clusters)[:, 0])
