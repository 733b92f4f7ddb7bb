"""One-shot clustering (Ghosh et al., arXiv 1906.06629), and federated learning in each cluster.

Before round 1, with all clients, whatever the participation:
    down: x₀;  client: θ_i after E·K steps of its ClientOpt from x₀;  up: θ_i
    server: clusters S_1 … S_k of the θ_i by k-means, x_j = mean of the θ_i in S_j
Then the clusters are as many federations, each with a ServerOpt of its own:
    down: x_j;  client: K steps of its ClientOpt from x_j;  up: D = y − x_j
    server: x_j ← ServerOpt_j(x_j, D̄_j), the mean over the participants in S_j

A client's personal part stays as its training alone has left it.
"""

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from plfl.methods import Done, Local
from plfl.methods.clusters import Clustered, check_count, k_means, mean_of

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.federation import Federation


class OneShot(Clustered):
    """Clusters found once, from what each client learns alone."""

    name = "one_shot"
    label = "One-shot"

    clusters: int = Field(2, ge=1)
    """Number of clusters k (no default in the source)."""
    alone: int = Field(10, ge=1)
    """Length E of the training alone, in rounds' worth of local steps."""

    @property
    def simulation_only(self) -> str | None:
        return "all clients train before round 1"

    def begin(self, f: "Federation") -> None:
        import torch

        check_count(f, self.clusters)
        start, _ = f.channel.send("down", f.everyone, f.x0.expand(len(f.local), -1))
        steps = self.alone * f.fleet.settings.local_steps
        models = f.models(f.everyone, start)
        f.local = f.fleet.train(models, f.everyone, f.client_opt, 0, steps, f.shared)
        theta, _ = f.channel.send("up", f.everyone, f.local[:, f.columns])
        f.clock.work(f.everyone.cpu().numpy(), np.full(len(theta), float(steps)))
        cluster = f.memory["cluster"] = k_means(f, f.everyone, theta, self.clusters)
        members = [f.everyone[cluster == j] for j in range(self.clusters)]
        self.open(f, torch.stack([mean_of(f, some, theta[some]) for some in members]))

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        x, _ = f.channel.send("down", clients, self.held(f)[clients])
        return Local(x)

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        D, _ = f.channel.send("up", clients, done.displacement)
        cluster = f.memory["cluster"][clients]
        for j in cluster.unique().tolist():
            mine = clients[cluster == j]
            self.receive(f, j, mine, D[cluster == j], f.weights_of(mine), t)

    def held(self, f: "Federation") -> "Tensor":
        return f.server_state["x"][f.memory["cluster"]]
