"""What methods share that sort the clients into clusters.

`f.memory["cluster"]` (N,) holds the cluster of every client, −1 for one that has none yet.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from plfl.errors import ConfigError
from plfl.methods import Method
from plfl.servers import weighted_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from plfl.clients import ClientOpt
    from plfl.federation import Federation
    from plfl.servers import ServerOpt


class Clustered(Method):
    """A server that keeps one model, and one state of its ServerOpt, for each of k clusters.

    `f.server_state` has the entries of the ServerOpt's own state, with one row more in front for
    each cluster: x is (k, d_s).
    """

    def refuses(self, client_opt: "ClientOpt", server_opt: "ServerOpt") -> str | None:
        if server_opt.name == "fedavgadaptive":
            return "fedavgadaptive keeps a model for each client, not one for each cluster"
        return None

    def open(self, f: "Federation", models: "Tensor") -> None:
        """Let the server start from `models` (k, d_s), one a cluster."""
        import torch

        states = [f.server_opt.init(x, len(f.local)) for x in models]
        f.server_state = {name: torch.stack([s[name] for s in states]) for name in states[0]}

    def receive(
        self, f: "Federation", j: int, clients: "Tensor", D: "Tensor", weights: "Tensor", t: int
    ) -> None:
        """Let the ServerOpt of cluster `j` step along what its `clients` sent."""
        state = {name: rows[j] for name, rows in f.server_state.items()}
        f.server_opt.receive(state, clients, D, weights, t)


def check_count(f: "Federation", clusters: int) -> None:
    """Raise a ConfigError unless there is at least one client for each cluster."""
    if clusters > len(f.local):
        problem = f"{clusters} clusters of {len(f.local)} clients; ask for fewer clusters"
        raise ConfigError(f"method.{f.method.name}.clusters", [problem])


def by_name(f: "Federation", clients: "Tensor") -> "NDArray[np.int64]":
    """Positions (n,) of `clients` in the order of their names.

    What starts from it does not depend on the order of the clients.
    """
    return np.argsort([f.fleet.names[i] for i in clients.tolist()])


def k_means(f: "Federation", clients: "Tensor", rows: "Tensor", clusters: int) -> "Tensor":
    """Clusters (n,) of `rows`, one for each of `clients`.

    Lloyd's algorithm to its end, the best of ten k-means++ starts. Rows that are not finite, those
    of diverged clients, have no place among the others and go to cluster 0.
    """
    import torch
    from sklearn.cluster import KMeans

    sound = rows.isfinite().all(1)
    if not sound.all():
        labels = torch.zeros_like(clients)
        if left := int(sound.sum()):
            labels[sound] = k_means(f, clients[sound], rows[sound], min(clusters, left))
        return labels
    order = by_name(f, clients)
    values = coordinates(rows).cpu().numpy()[order]
    means = KMeans(clusters, n_init=10, tol=0, random_state=f.seed % 2**32)
    found = np.empty_like(order)
    found[order] = numbered(means.fit_predict(values))
    return torch.from_numpy(found).to(rows.device)


def coordinates(rows: "Tensor") -> "Tensor":
    """Points (n, at most n) with the distances of `rows` (n, d), which have far more numbers."""
    import torch

    centred = rows.double() - rows.double().mean(0)
    if rows.shape[1] <= len(rows):
        return centred
    values, vectors = torch.linalg.eigh(centred @ centred.T)
    points: Tensor = vectors * values.clamp(min=0).sqrt()
    return points


def numbered(labels: "NDArray[Any]") -> "NDArray[np.int64]":
    """The same clusters, numbered from 0 in the order in which they first occur."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number: NDArray[np.int64] = np.argsort(np.argsort(first))[inverse]
    return number


def mean_of(f: "Federation", clients: "Tensor", rows: "Tensor") -> "Tensor":
    """Weighted mean (d,) of `rows` (n, d), one for each of `clients`."""
    return weighted_sum(f.weights_of(clients), rows)
