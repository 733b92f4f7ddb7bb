"""LightGBMs that clients grow together, as baselines of a study."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from plfl.baselines.model import Predict
from plfl.baselines.trees import Boosting, Windows, boosted
from plfl.federated.channel import Channel
from plfl.federated.trees import Chosen, Part, binned, grow


class Growing:
    """Grows the models of `trees.trained` among clients, and counts their bytes: of all settings
    that are tried, and of the model of the whole history.

    Without `exchange` only the first tree is grown among clients, for its bytes times the number of
    trees. LightGBM grows the model from all rows and the same public bins, which is faster. Its
    leaves are exact medians instead of those of the halvings in `STEPS`.
    """

    def __init__(self, clients: int, exchange: bool = True):
        self.up = np.zeros(clients, np.int64)
        """Bytes that each client sends."""
        self.exchange = exchange
        self._channel = Channel(0, clients)

    def __call__(
        self, windows: Windows, boosting: Boosting, chosen: Sequence[Chosen], base: Predict | None
    ) -> list[Any]:
        import lightgbm

        grid = windows.public(boosting.max_bin)
        whole = [] if self.exchange else boosted(windows, boosting, chosen, base, grid)
        bins, parts = binned(grid, boosting.max_bin), []
        for client in range(len(windows.dataset.clients)):
            x, y, _ = windows.part("train", base, [client])
            nothing = (x[:0], y[:0])
            seen = nothing if chosen else windows.part("validation", base, [client])[:2]
            parts.append(Part(x, y, seen))
        found = []
        for k, level in enumerate(boosting.levels or (0.5,)):
            pairs = product(boosting.leaves, boosting.learning_rate)
            tried = chosen[k : k + 1] or [Chosen(*pair, boosting.trees) for pair in pairs]
            if whole:
                one = tried[0]._replace(trees=1)
                grow(parts, bins, one, level, self._channel)
                times = len(tried) * whole[k].num_trees()
                self.up += times * self._channel.close_round()["bytes_up"]
                continue
            models = []
            for one in tried:
                model = grow(parts, bins, one, level, self._channel)
                self.up += self._channel.close_round()["bytes_up"]
                models.append((min(model.errors, default=np.inf), model, one))
            _, model, one = min(models, key=lambda entry: entry[0])
            booster = lightgbm.Booster(model_str=model.text)
            booster.best_iteration = model.best
            booster.params = {"num_leaves": one.leaves, "learning_rate": one.rate}
            found.append(booster)
        return whole or found
