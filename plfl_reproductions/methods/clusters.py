"""Common parts of methods that sort the clients into clusters."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.base import Tensor
from plfl.base.errors import ConfigError
from plfl.base.lazy import torch
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import Method
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt, weighted_sum


class ClusterMethod(Method):
    """A server that keeps one model, and one state of its ServerOpt, for each of k clusters.

    `f.server.state` has the entries of the ServerOpt's state with an additional first dimension for
    the cluster: x is (k, d_s).
    """

    def reasons_against_optimizers(
        self, client_opt: ClientOpt, server_opt: ServerOpt
    ) -> Iterator[str]:
        if server_opt.name == "fedavgadaptive":
            yield "fedavgadaptive keeps one model per client, not one per cluster"
        yield from super().reasons_against_optimizers(client_opt, server_opt)

    def open(self, f: Federation, models: Tensor) -> None:
        """Let the server start from `models` (k, d_s), one per cluster."""
        states = [f.server.opt.init(x, len(f.local)) for x in models]
        f.server.state = {name: torch.stack([s[name] for s in states]) for name in states[0]}

    def receive(
        self,
        f: Federation,
        t: int,
        clients: Tensor,
        cluster: Tensor,
        D: Tensor,
        weights: Tensor | None = None,
    ) -> None:
        """Let each ServerOpt step along the updates `D` (n, d_s) of the clients in its cluster;
        `cluster` (n,) has their clusters.

        `weights` (n,) are those in the sum; None: those in a mean over the cluster.
        """
        for j in cluster.unique().tolist():
            is_in_cluster = cluster == j
            mine = clients[is_in_cluster]
            share = f.weights_of(mine) if weights is None else weights[is_in_cluster]
            state = {name: rows[j] for name, rows in f.server.state.items()}
            f.server.opt.receive(state, mine, D[is_in_cluster], share, t)


def reasons_against_turns(server_opt: ServerOpt) -> Iterator[str]:
    """Why clusters cannot train one after the other with this ServerOpt."""
    if server_opt.name == "fedavgadaptive":
        yield (
            "fedavgadaptive keeps one model per client, but a cluster continues from the result of "
            "the one before"
        )


def check_count(f: Federation, clusters: int) -> None:
    """Raise a ConfigError unless there is at least one client for each cluster."""
    if clusters > len(f.local):
        key = f"hyperparameters.method.{f.method.name}.clusters"
        text = f"{clusters} clusters for {len(f.local)} clients"
        raise ConfigError.at_key(key, text, "use fewer clusters")


def by_name(f: Federation, clients: Tensor) -> NDArray[np.int64]:
    """Positions (n,) of `clients` in the order of their names.

    Results that use it do not depend on the order of the clients.
    """
    return np.argsort([f.client_data.names[i] for i in clients.tolist()])


def k_means(f: Federation, clients: Tensor, rows: Tensor, clusters: int) -> Tensor:
    """Clusters (n,) of `rows` (n, d), one row for each of `clients`.

    Lloyd's algorithm until convergence, the best of ten k-means++ starts. Rows of diverged clients,
    which are not finite, go to cluster 0.
    """
    from sklearn.cluster import KMeans

    sound = rows.isfinite().all(1)
    if not sound.all():
        labels = torch.zeros_like(clients)
        if rows_left := int(sound.sum()):
            labels[sound] = k_means(f, clients[sound], rows[sound], min(clusters, rows_left))
        return labels
    order = by_name(f, clients)
    values = rows.double().cpu().numpy()[order]
    means = KMeans(clusters, n_init=10, tol=0, random_state=f.seed % 2**32)
    assigned = np.empty_like(order)
    assigned[order] = number_clusters(means.fit_predict(values))
    return torch.from_numpy(assigned).to(rows.device)


def number_clusters(labels: NDArray[Any]) -> NDArray[np.int64]:
    """The same clusters, numbered from 0 in order of first occurrence."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number: NDArray[np.int64] = np.argsort(np.argsort(first))[inverse]
    return number


def mean_of(f: Federation, clients: Tensor, rows: Tensor) -> Tensor:
    """Weighted mean (d,) of `rows` (n, d), one for each of `clients`."""
    return weighted_sum(f.weights_of(clients), rows)
