"""One-shot clustering groups clients once: each client first trains alone, and the server clusters
the resulting models by k-means. Afterwards every cluster is a separate federation, so that only
clients with similar data share a model.

Source: Avishek Ghosh, Justin Hong, Dong Yin and Kannan Ramchandran, "Robust Federated Learning in a
Heterogeneous Environment", 2019, https://arxiv.org/abs/1906.06629.

Before round 1, with all clients, whatever the participation:
    down: x₀;  client: θ_i after E·K steps of its ClientOpt from x₀;  up: θ_i
    server: clusters S_1 … S_k of the θ_i by k-means, x_j = mean of the θ_i in S_j
After that each cluster has its own ServerOpt:
    down: x_j;  client: K steps of its ClientOpt from x_j;  up: D = y − x_j
    server: x_j ← ServerOpt_j(x_j, D̄_j), the mean over the participants in S_j

A client's personal part continues from its training alone.

Deviations: the equations follow a secondary summary of the paper. The paper's defences against
Byzantine clients are left out.
"""

from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import ClusterState, Sizes
from plfl_reproductions.methods.clusters import ClusterMethod, check_count, k_means, mean_of


class OneShot(ClusterMethod):
    """Clusters that are formed once, from the models that clients train alone."""

    name = "one_shot"
    label = "One-shot"
    sends = Sizes(before_down="d_s", before_up="d_s")
    simulation_only = "all clients train before round 1"

    clusters: int = Field(2, ge=1)
    """Number of clusters k (no default in the source)."""
    alone: int = Field(10, ge=1)
    """How long each client trains alone before round 1: E times the steps of a round."""

    def init(self, f: Federation) -> ClusterState:
        check_count(f, self.clusters)
        start, _ = f.channel.send("down", f.everyone, f.x0.expand(len(f.local), -1))
        equal, steps = f.client_data.has_equal_steps, self.alone * f.client_data.steps(f.everyone)
        most_steps = int(steps[0]) if equal else steps
        models = f.models(f.everyone, start)
        f.local = f.client_data.train(
            models, f.everyone, f.client_opt, 0, most_steps, f.shared_mask
        )
        theta, _ = f.channel.send("up", f.everyone, f.local[:, f.columns])
        f.charge(f.everyone, steps)
        cluster = k_means(f, f.everyone, theta, self.clusters)
        members = [f.everyone[cluster == j] for j in range(self.clusters)]
        self.open(
            f,
            torch.stack(
                [
                    mean_of(f, members_of_cluster, theta[members_of_cluster])
                    for members_of_cluster in members
                ]
            ),
        )
        return ClusterState(cluster)

    def broadcast(
        self, f: Federation, state: ClusterState, t: int, clients: Tensor
    ) -> TrainInstructions:
        x, _ = f.channel.send("down", clients, self.global_parameters(f, state)[clients])
        return TrainInstructions(x)

    def aggregate(
        self, f: Federation, state: ClusterState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        D, _ = f.channel.send("up", clients, result.update)
        self.receive(f, t, clients, state.cluster[clients], D)

    def global_parameters(self, f: Federation, state: ClusterState) -> Tensor:
        return f.server.x[state.cluster]
