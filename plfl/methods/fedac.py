"""FedAC (Zhang et al., arXiv 2403.16460): adaptive clustering by a low-rank cosine similarity.

Every client goes on from its own shared parameters ω_i = (φ_i, h_i), embedding and decision part:
    down: Ω_k of its cluster, Φ;  client: K steps along g + μ (y − Ω_k) + λ (y_φ − Φ);  up: ω_i = y
    server: Φ = mean of the participants' φ_i;  M = principal components of their ω_i
            each client, with the ω_i it last sent, goes to argmax_k cos(M ω_i, M Ω_k)
            Ω_k = mean of the ω_i in cluster k
Tuning of the number of clusters, where there are two or more:
    G_k = mean_{i in k} ‖ω_i − Ω_k‖² / mean_{j ≠ k} ‖Ω_k − Ω_j‖²
    G_k < a: k joins the closest cluster (ascending G);  then G_k > b: k is split by 2-means
each cluster at most once in a round. One that nobody is in is dropped.

What the source leaves open: all start from the study's initial model, Ω_k and Φ too; after the
first round the clusters are those of k-means on the participants' ω_i. The components are fitted to
centred ω_i, at most min(10, participants − 1) of them, and applied to ω_i as they are.
"""

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from plfl.errors import ConfigError
from plfl.methods import Done, Local, Method
from plfl.methods.clusters import check_count, k_means, mean_of
from plfl.problems import allowed

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from plfl.clients import ClientOpt
    from plfl.federation import Federation
    from plfl.servers import ServerOpt


class FedAC(Method):
    """Personal models, drawn towards their cluster's and to a common embedding."""

    name = "fedac"

    clusters: int = Field(2, ge=1)
    """Number of clusters to begin with (no default in the source)."""
    mu: float = Field(0.5, ge=0)
    """Strength μ of the pull towards the cluster's model (no default in the source)."""
    lam: float = Field(0.25, ge=0)
    """Strength λ of the embedding's pull towards the common one (no default in the source)."""
    embedding: list[str] = Field(["lstm.*"])
    """Name patterns of the parameters of the embedding φ, as far as they are shared."""
    refresh: int = Field(1, ge=1)
    """Rounds from one fit of the components to the next (no default in the source)."""
    merge_below: float | None = Field(None, gt=0)
    """a: a cluster with less G is merged (no default in the source: none is)."""
    split_above: float | None = Field(None, gt=0)
    """b: a cluster with more G is split (no default in the source: none is)."""

    def refuses(self, client_opt: "ClientOpt", server_opt: "ServerOpt") -> str | None:
        if server_opt.name != "fedavg" or server_opt.lr != 1:
            return "FedAC's server takes means and no steps; use fedavg with lr 1"
        if client_opt.proximal:
            return "it has proximal terms of its own; take sgd for prox, adam for proxadam"
        return None

    @property
    def simulation_only(self) -> str | None:
        return "it begins with all clients in one place"

    def begin(self, f: "Federation") -> None:
        import torch

        check_count(f, self.clusters)
        for pattern in self.embedding:
            if not f.layout.mask([pattern]).any():
                problem = f"{pattern!r} matches no parameter; {allowed(pattern, f.layout.slices)}"
                raise ConfigError("method.fedac.embedding", [problem])
        f.server_state = {"x": f.x0[None]}
        f.memory = {
            "omega": f.x0.expand(len(f.local), -1).clone(),
            "Phi": f.x0[self._embedding(f)],
            "cluster": torch.zeros_like(f.everyone),
        }

    def _embedding(self, f: "Federation") -> "Tensor":
        """Mask (d_s,) of the embedding."""
        import torch

        return torch.from_numpy(f.layout.mask(self.embedding)).to(f.x0.device)[f.shared]

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        import torch

        common = f.memory["Phi"].expand(len(clients), -1)
        Omega, (Phi,) = f.channel.send("down", clients, self._held(f, clients), [common])
        start = f.local[clients][:, f.columns]
        phi = self._embedding(f)
        constant = torch.sub(start, Omega).mul_(self.mu)
        constant[:, phi] += self.lam * (start[:, phi] - Phi)
        pull = torch.where(phi, self.mu + self.lam, self.mu).to(start)
        return Local(start, pull=pull, constant=constant)

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        omega = f.memory["omega"]
        sent, _ = f.channel.send("up", clients, f.local[clients][:, f.columns])
        omega[clients] = sent
        f.memory["Phi"] = mean_of(f, clients, sent[:, self._embedding(f)])
        begins = "components" not in f.memory
        sound = sent.isfinite().all(1)
        if sound.sum() > 1 and (begins or (t - 1) % self.refresh == 0):
            f.memory["components"] = components(sent[sound])
            if begins:
                k = min(self.clusters, len(clients))
                self._centre(f, clients, k_means(f, clients, sent, k))
        if "components" in f.memory:
            self._centre(f, f.everyone, nearest(omega, f.server_state["x"], f.memory["components"]))
            if len(f.server_state["x"]) > 1 and (self.merge_below or self.split_above):
                self._tune(f)
        else:  # too few have been there at once for clusters
            self._centre(f, f.everyone, f.memory["cluster"])

    def _centre(self, f: "Federation", clients: "Tensor", cluster: "Tensor") -> None:
        """Let `cluster` (n,) be those of `clients`, without gaps, and Ω their means."""
        import torch

        numbers, cluster = cluster.unique(return_inverse=True)
        f.memory["cluster"][clients] = cluster
        members = [clients[cluster == k] for k in range(len(numbers))]
        omega = f.memory["omega"]
        f.server_state["x"] = torch.stack([mean_of(f, some, omega[some]) for some in members])

    def _tune(self, f: "Federation") -> None:
        """Merge and split clusters by their G."""
        omega, Omega, cluster = f.memory["omega"], f.server_state["x"], f.memory["cluster"].clone()
        G, apart = spread(omega, Omega, cluster)
        done: set[int] = set()
        for k in np.argsort(G).tolist() if self.merge_below else ():
            closest = int(apart[k].argmin())
            if G[k] < self.merge_below and not done & {k, closest}:
                cluster[cluster == k] = closest
                done |= {k, closest}
        for k in range(len(G)) if self.split_above else ():
            members = f.everyone[cluster == k]
            if G[k] > self.split_above and k not in done and len(members) > 1:
                half = k_means(f, members, omega[members], 2)
                cluster[members[half == 1]] = cluster.max() + 1
        self._centre(f, f.everyone, cluster)

    def held(self, f: "Federation") -> "Tensor":
        return self._held(f, f.everyone)

    def _held(self, f: "Federation", clients: "Tensor") -> "Tensor":
        return f.server_state["x"][f.memory["cluster"][clients]]


def components(rows: "Tensor") -> "Tensor":
    """The first principal components (D, d) of `rows` (n, d), D = min(10, n − 1, d).

    They are fewer where the rows lie in a smaller space. Found by way of the products of the rows
    with each other, (n, n), since there are far fewer rows than parameters.
    """
    import torch

    count = min(10, len(rows) - 1, rows.shape[1])
    centred = rows.double()
    centred -= centred.mean(0)
    values, vectors = torch.linalg.eigh(centred @ centred.T)
    values, vectors = values[-count:].flip(0), vectors[:, -count:].flip(1)
    kept = values > values[0] * 1e-12
    by = (vectors[:, kept] / values[kept].sqrt()).T
    found: Tensor = by.to(rows.dtype) @ centred.to(rows.dtype)
    return found


def nearest(omega: "Tensor", Omega: "Tensor", M: "Tensor") -> "Tensor":
    """The cluster (n,) whose model (k, d) is most like each of `omega` (n, d), seen through `M`.

    It is the first of equals; nothing is like a model that is not finite.
    """
    import torch
    from torch.nn.functional import normalize

    seen, models = (normalize((rows @ M.T).double()) for rows in (omega, Omega))
    likeness = (seen @ models.T).nan_to_num(nan=-torch.inf)
    best = likeness.cpu().numpy().argmax(1)
    return torch.from_numpy(best).to(omega.device)


def spread(
    omega: "Tensor", Omega: "Tensor", cluster: "Tensor"
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """G (k,) of two or more clusters, and the squared distances (k, k) of their models."""
    members, models = omega.double().cpu().numpy(), Omega.double().cpu().numpy()
    labels, k = cluster.cpu().numpy(), len(models)
    intra = np.bincount(labels, ((members - models[labels]) ** 2).sum(1)) / np.bincount(labels)
    apart = ((models[:, None] - models) ** 2).sum(-1)
    inter = apart.sum(1) / (k - 1)
    np.fill_diagonal(apart, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        return intra / inter, apart
