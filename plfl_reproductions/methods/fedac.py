"""FedAC gives each client a model of its own. Clients with similar models form clusters, which are
redrawn in every round; a client's local steps are pulled towards the mean model of its cluster and,
in the embedding layers, towards the mean over all clients. The similarity of two models is the
cosine of the angle between them after a projection on a few principal components, which is cheap.
The number of clusters can adapt.

Source: Yuxin Zhang, Haoyu Chen, Zheng Lin, Zhe Chen and Jin Zhao, "FedAC: An Adaptive Clustered
Federated Learning Framework for Heterogeneous Data", 2024, https://arxiv.org/abs/2403.16460.

Client i continues from its own shared parameters ω_i = (φ_i, h_i), embedding and decision part:
    down: Ω_k of its cluster, Φ;  client: K steps along g + μ (y − Ω_k) + λ (y_φ − Φ);  up: ω_i = y
    server: Φ = mean of the participants' φ_i;  M = principal components of their ω_i
            each client, with the ω_i it last sent, goes to argmax_k cos(M ω_i, M Ω_k)
            Ω_k = mean of the ω_i in cluster k
Tuning of the number of clusters, where there are two or more:
    G_k = mean_{i in k} ‖ω_i − Ω_k‖² / mean_{j ≠ k} ‖Ω_k − Ω_j‖²
    G_k < a: k joins the closest cluster (ascending G);  then G_k > b: k is split by 2-means
A cluster is merged or split at most once in a round, and dropped when it has no members.

Deviations: the equations follow a secondary summary of the paper. Its equation (4) assigns a client
to the cluster with the least similarity (argmin), but equation (3) maximises the similarity; here
it is the greatest (argmax). Line 9 of its Algorithm 1 has Φ as the sum over the participants; here
it is their mean. The summary leaves some choices open. All clients, Ω_k and Φ start from the
study's initial model. The clusters after the first round are those of k-means on the participants'
ω_i. The components are fitted to centred ω_i, at most min(10, participants − 1) of them, and
applied to ω_i without centring.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from plfl.base import Tensor
from plfl.base.errors import ConfigError
from plfl.base.lazy import torch
from plfl.config.error_messages import list_allowed
from plfl.config.values import Patterns
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import ClusterState, Method, Sizes
from plfl_reproductions.methods.clusters import check_count, k_means, mean_of


@dataclass
class FedACState(ClusterState):
    omega: Tensor
    """Shared parameters ω_i (N, d_s) that each client last sent."""
    Phi: Tensor
    """Common embedding Φ (d_φ,)."""
    components: Tensor | None = None
    """Principal components M (D, d_s); None before they have been fitted for the first time."""


class FedAC(Method):
    """Personal models that are pulled towards their cluster's model and a common embedding."""

    name = "fedac"
    sends = Sizes("d_s + d_φ")
    no_proximal = "it has its own proximal terms"
    own_server = "FedAC's server takes means and has no step"
    no_codec = "clients send models, not updates"
    no_server_average = "forms other clusters in every round, whose models have no average"
    simulation_only = "it initialises all clients together"

    clusters: int = Field(2, ge=1)
    """Initial number of clusters (no default in the source)."""
    mu: float = Field(0.5, ge=0)
    """Strength μ of the pull towards the cluster's model (no default in the source)."""
    lam: float = Field(0.25, ge=0)
    """Strength λ of the embedding's pull towards the common one (no default in the source)."""
    embedding: Patterns = Field(["body"])
    """Name patterns of the parameters of the embedding φ; only shared ones count."""
    refresh: int = Field(1, ge=1)
    """Rounds from one fit of the components to the next (no default in the source)."""
    merge_below: float | None = Field(None, gt=0)
    """Threshold a: a cluster with a smaller G, its spread relative to its distance from others, is
    merged; null: never."""
    split_above: float | None = Field(None, gt=0)
    """Threshold b: a cluster with a larger G is split (no default in the source); null: never."""

    def init(self, f: Federation) -> FedACState:
        check_count(f, self.clusters)
        for pattern in self.embedding:
            if not f.layout.mask([pattern]).any():
                key = "hyperparameters.method.fedac.embedding"
                text = f"{pattern!r} matches no parameter"
                raise ConfigError.at_key(key, text, list_allowed(pattern, f.layout.slices))
        f.server.state = {"x": f.x0[None]}
        return FedACState(
            cluster=torch.zeros_like(f.everyone),
            omega=f.x0.expand(len(f.local), -1).clone(),
            Phi=f.x0[self._embedding_mask(f)],
        )

    def _embedding_mask(self, f: Federation) -> Tensor:
        """Mask (d_s,) of the embedding."""
        return torch.from_numpy(f.layout.mask(self.embedding)).to(f.x0.device)[f.shared_mask]

    def broadcast(
        self, f: Federation, state: FedACState, t: int, clients: Tensor
    ) -> TrainInstructions:
        common = state.Phi.expand(len(clients), -1)
        Omega, (Phi,) = f.channel.send("down", clients, self._models(f, state, clients), [common])
        start = f.local[clients][:, f.columns]
        phi = self._embedding_mask(f)
        constant = torch.sub(start, Omega).mul_(self.mu)
        constant[:, phi] += self.lam * (start[:, phi] - Phi)
        pull = torch.where(phi, self.mu + self.lam, self.mu).to(start)
        return TrainInstructions(start, pull=pull, constant=constant)

    def aggregate(
        self, f: Federation, state: FedACState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        sent_rows, _ = f.channel.send("up", clients, f.local[clients][:, f.columns])
        state.omega[clients] = sent_rows
        state.Phi = mean_of(f, clients, sent_rows[:, self._embedding_mask(f)])
        is_first = state.components is None
        sound = sent_rows.isfinite().all(1)
        if sound.sum() > 1 and (is_first or (t - 1) % self.refresh == 0):
            state.components = components(sent_rows[sound])
            if is_first:
                k = min(self.clusters, len(clients))
                self._centre(f, state, clients, k_means(f, clients, sent_rows, k))
        if state.components is None:  # no round has had two participants yet
            self._centre(f, state, f.everyone, state.cluster)
            return
        closest = nearest(state.omega, f.server.x, state.components)
        self._centre(f, state, f.everyone, closest)
        if len(f.server.x) > 1 and (self.merge_below or self.split_above):
            self.tune(f, state)

    def _centre(self, f: Federation, state: FedACState, clients: Tensor, cluster: Tensor) -> None:
        """Assign `clients` to `cluster` (n,), renumbered without gaps; Ω become their means."""
        numbers, cluster = cluster.unique(return_inverse=True)
        state.cluster[clients] = cluster
        members = [clients[cluster == k] for k in range(len(numbers))]
        means = [
            mean_of(f, cluster_members, state.omega[cluster_members]) for cluster_members in members
        ]
        f.server.x = torch.stack(means)

    def tune(self, f: Federation, state: FedACState) -> None:
        """Merge and split clusters by their G."""
        omega, cluster = state.omega, state.cluster.clone()
        G, apart = spread(omega, f.server.x, cluster)
        result: set[int] = set()
        for k in np.argsort(G).tolist() if self.merge_below else ():
            closest = int(apart[k].argmin())
            if G[k] < self.merge_below and not result & {k, closest}:
                cluster[cluster == k] = closest
                result |= {k, closest}
        for k in range(len(G)) if self.split_above else ():
            members = f.everyone[cluster == k]
            if G[k] > self.split_above and k not in result and len(members) > 1:
                half = k_means(f, members, omega[members], 2)
                cluster[members[half == 1]] = cluster.max() + 1
        self._centre(f, state, f.everyone, cluster)

    def global_parameters(self, f: Federation, state: FedACState) -> Tensor:
        return self._models(f, state, f.everyone)

    def _models(self, f: Federation, state: FedACState, clients: Tensor) -> Tensor:
        return f.server.x[state.cluster[clients]]


def components(rows: Tensor) -> Tensor:
    """The first principal components (D, d) of `rows` (n, d), D = min(10, n − 1, d)."""
    from sklearn.decomposition import PCA

    count = min(10, len(rows) - 1, rows.shape[1])
    decomposition = PCA(count, svd_solver="full").fit(rows.double().cpu().numpy())
    # The rows may span a smaller space.
    is_large = decomposition.singular_values_ > 1e-6 * decomposition.singular_values_[0]
    return torch.from_numpy(decomposition.components_[is_large]).to(rows)


def nearest(omega: Tensor, Omega: Tensor, M: Tensor) -> Tensor:
    """Cluster (n,) of `Omega` (k, d) most similar to each of `omega` (n, d), projected by `M`.

    Of equally similar ones, it is the first. A model that is not finite is not similar to any.
    """
    normalize = torch.nn.functional.normalize
    client_rows, models = (normalize((rows @ M.T).double()) for rows in (omega, Omega))
    likeness = (client_rows @ models.T).nan_to_num(nan=-torch.inf)
    best = likeness.cpu().numpy().argmax(1)
    return torch.from_numpy(best).to(omega.device)


def spread(
    omega: Tensor, Omega: Tensor, cluster: Tensor
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """G (k,) of two or more clusters, and the squared distances (k, k) between their models."""
    members, models = omega.double().cpu().numpy(), Omega.double().cpu().numpy()
    labels, k = cluster.cpu().numpy(), len(models)
    intra = np.bincount(labels, ((members - models[labels]) ** 2).sum(1)) / np.bincount(labels)
    apart = ((models[:, None] - models) ** 2).sum(-1)
    inter = apart.sum(1) / (k - 1)
    np.fill_diagonal(apart, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        return intra / inter, apart
