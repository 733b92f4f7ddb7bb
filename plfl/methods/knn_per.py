"""kNN-Per personalises forecasts instead of parameters. Each client stores the features that the
global model computes from its training windows, and mixes the model's forecast with the targets of
the most similar windows.

Source: Othmane Marfoq, Giovanni Neglia, Laetitia Kameni and Richard Vidal, "Personalized Federated
Learning through Local Memorization", ICML 2022, https://arxiv.org/abs/2111.09360; authors' code:
https://github.com/omarfoq/knn-per.

rounds: as FedOpt
forecast: φ are the penultimate features of [x; p_i]. Of the k training windows with the least
distances d between their φ and that of the window to forecast, with targets y_j:
    y_k = Σ_j κ(d_j) y_j / Σ_j κ(d_j);  forecast λ_i y_k + (1 − λ_i) ŷ
    `scaled`: κ = e^(−d² / (dim φ · scale));  `plain`: κ = e^(−d)

Each client chooses its λ_i from 0, 0.01, …, 1 by its mean absolute error on validation, whose
windows are never neighbours in this choice. Several horizons have the same neighbours, κ and λ_i.
`global` is ŷ, `local` is the mixed forecast. The store is rebuilt whenever the client forecasts,
and nothing of it is sent. Where nothing is shared, the model is the one that the client has trained
alone.

Deviations: the authors' code chooses λ on the test set. `windows` limits the store to evenly spaced
training windows (ours).
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import MethodState, Sizes
from plfl.methods.fedopt import FedOpt
from plfl.tasks.metrics import best_share

Numbers = NDArray[np.float64]
SHARE_STEPS = 100
"""λ is one of 0, 0.01, …, 1: that with the least mean absolute error of λ y_k + (1 − λ) ŷ."""


class KnnPer(FedOpt):
    """Forecasts mixed with the loads that followed similar windows of the client's own past."""

    name = "knn_per"
    label = "kNN-Per"
    sends = Sizes()
    uses_updates_only = True
    ignores_sharing = True
    reads_features = True

    k: int = Field(10, ge=1)
    """Neighbours of a window."""
    kernel: Literal["scaled", "plain"] = "scaled"
    """How their weights fall with the distance: as in the authors' code, or e^(−d)."""
    scale: float = Field(1.0, gt=0)
    """Scale of the squared distances, for the kernel `scaled`."""
    windows: int | None = Field(None, ge=1)
    """Largest number of training windows that a client stores; null: all."""

    def mix_outputs(
        self, f: Federation, state: MethodState, rows: Tensor, starts: list[Tensor]
    ) -> list[Tensor]:
        data, engine = f.client_data, f.client_data.engine
        stored_starts = [self._pick_starts(data.starts(i, "train")) for i in range(len(rows))]
        checked = [data.starts(i, "validation") for i in range(len(rows))]
        mixtures = []
        for i, queries in enumerate(starts):
            row = rows[i : i + 1]
            parts = [x.to(engine.device) for x in (stored_starts[i], checked[i], queries)]
            features = [engine.penultimate(row, [part])[0].double().cpu().numpy() for part in parts]
            outputs = [engine.predict(row, [part])[0].double().cpu().numpy() for part in parts[1:]]
            targets = [data.targets(part).double().cpu().numpy() for part in parts[:2]]
            if not all(np.isfinite(values).all() for values in (*features, *outputs)):
                mixtures.append(torch.from_numpy(outputs[1]).to(rows))
                continue
            # A model that is trained again has its validation windows in the store, too.
            apart = ~np.isin(stored_starts[i].numpy(), checked[i].numpy())
            near = [
                neighbours_mean(
                    features[0][values],
                    targets[0][values],
                    client_features,
                    self.k,
                    self.exponents,
                )
                for values, client_features in zip(
                    (apart, np.ones_like(apart)), features[1:], strict=True
                )
            ]
            share = best_share(near[0], outputs[0], targets[1], SHARE_STEPS)
            mixtures.append(torch.from_numpy(share * near[1] + (1 - share) * outputs[1]).to(rows))
        return mixtures

    def _pick_starts(self, starts: Tensor) -> Tensor:
        if self.windows is None or len(starts) <= self.windows:
            return starts
        return starts[np.linspace(0, len(starts) - 1, self.windows).round().astype(np.int64)]

    def exponents(self, distances: Numbers, width: int) -> Numbers:
        """−log κ of distances (n, k) between features of `width` numbers."""
        if self.kernel == "plain":
            return distances
        return np.square(distances) / (width * self.scale)


def neighbours_mean(
    store: Numbers,
    targets: Numbers,
    queries: Numbers,
    k: int,
    exponents: Callable[[Numbers, int], Numbers],
) -> Numbers:
    """Weighted means (m, ...) of the `targets` (n, ...) of the `k` points of `store` (n, d) nearest
    to each of `queries` (m, d); all numbers of a target, such as horizons, have the same weights.
    """
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=min(k, len(store)), algorithm="brute").fit(store)
    distances, neighbours = nearest.kneighbors(queries)
    powers = exponents(distances, store.shape[1])
    # Subtracting the least exponent changes no weighted mean, and keeps the weights from all
    # becoming 0.
    weights = np.exp(powers.min(1, keepdims=True) - powers)
    weights = weights.reshape(*weights.shape, *[1] * (targets.ndim - 1))
    means: Numbers = (weights * targets[neighbours]).sum(1) / weights.sum(1)
    return means
