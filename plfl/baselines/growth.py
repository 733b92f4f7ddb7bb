"""Grows the trees of `lightgbm_federated`."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import PlflError, Problem
from plfl.base.lazy import lightgbm
from plfl.baselines.trees import BinnedWindows, TreeChoice, TreeWindows, boost
from plfl.config.channel import FEWEST_MASKED
from plfl.federated.channel import Channel
from plfl.federated.collectives.message_layout import BIN_PARAMETERS, SETTINGS
from plfl.federated.secure import check_installed
from plfl.federated.secure.encryption import SimulatedSecrets
from plfl.federated.tree_growth import ClientWindows, RootCounts, bin_rows, grow
from plfl.federated.tree_losses import MEDIAN, QuantileLoss, TreeLoss
from plfl.interfaces.baseline import FitSettings


class PublicBinGrowth:
    """Grows the models of `plfl.baselines.trees.train` from all rows, with public bins, and
    estimates what clients would send, of all settings that are tried, from the first trees, which
    they grow together.

    Without masks all trees of a model take about equally many bytes. A masked tree takes fewer once
    the counts of a former one are known, so that the second counts for all later ones.
    """

    def __init__(self, client_count: int, *, secure: bool = False):
        """`secure`: whether the clients mask their messages.

        Raises:
            PlflError: there are too few clients for that, or a package is missing.
        """
        self.bytes_up = np.zeros(client_count, np.int64)
        if secure:
            check_installed()
        if secure and client_count < FEWEST_MASKED:
            raise PlflError(
                Problem(
                    "baselines",
                    f"lightgbm_federated: secure: {client_count} clients train together, and masks "
                    f"hide {FEWEST_MASKED} or more",
                    "set secure to false, or take more clients",
                )
            )
        secrets = SimulatedSecrets(SETTINGS["seed"]) if secure else None
        self.channel = Channel(0, client_count, secrets=secrets)

    def __call__(
        self,
        windows: TreeWindows,
        settings: FitSettings,
        tree_choices: Sequence[TreeChoice],
    ) -> list[Any]:
        grid = windows.public(settings.max_bin)
        binned_windows = BinnedWindows(
            windows, {"max_bin": settings.max_bin, **BIN_PARAMETERS}, grid
        )
        boosters = boost(binned_windows, settings, tree_choices)
        bins = bin_rows(grid, len(grid))
        clients = range(len(windows.dataset.clients))
        client_windows = [
            ClientWindows(*windows.stack_windows("train", [client]), learners={})
            for client in clients
        ]
        losses = [QuantileLoss(level) for level in settings.levels] or [MEDIAN]
        for k, loss in enumerate(losses):
            pairs = [*product(settings.leaves, settings.learning_rate)]
            first, times = (tree_choices[k][:2], 1) if tree_choices else (pairs[0], len(pairs))
            trees = boosters[k].num_trees()
            self.bytes_up += times * self._model_bytes(client_windows, bins, first, loss, trees)
        return boosters

    def _model_bytes(
        self,
        client_windows: Sequence[ClientWindows],
        bins: Any,
        leaves_and_rate: tuple[int, float],
        loss: TreeLoss,
        trees: int,
    ) -> NDArray[np.int64]:
        """The bytes (N,) that clients send for a model of so many trees."""
        settings = bins, *leaves_and_rate, loss, self.channel
        counts: RootCounts = {}
        grown = grow(client_windows, *settings, counts=counts)
        first_bytes = self.channel.close_round()["bytes_up"]
        if self.channel.secrets is None or trees < 2:
            return trees * first_bytes
        tree = lightgbm.Booster(model_str=grown.text)
        started = [
            own_windows._replace(start=np.asarray(tree.predict(own_windows.x)))
            for own_windows in client_windows
        ]
        grow(started, *settings, purpose="second tree", counts=counts)
        return first_bytes + (trees - 1) * self.channel.close_round()["bytes_up"]
