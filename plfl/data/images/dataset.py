"""A pool of images as the clients of one federation hold it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plfl.config.sections import Skew
from plfl.data.images import splits
from plfl.data.images.pool import ImagePool
from plfl.data.windows import Split
from plfl.errors import DataError


@dataclass(frozen=True)
class ImageDataset:
    """Images dealt to clients. An image is known by its number, the row of the pool.

    Clients have training images of their own. They share the held-out images: those to choose
    hyperparameters on (`validation`) and those of the `test` part.
    """

    pool: ImagePool
    clients: NDArray[np.str_]
    """Names of the N clients."""
    parts: list[NDArray[np.int64]]
    """Numbers of each client's training images."""
    validation: NDArray[np.int64]
    """Numbers of the images that choose hyperparameters."""
    test: NDArray[np.int64]
    """Numbers of all other held-out images."""

    @classmethod
    def of(cls, pool: ImagePool, skew: Skew, clients: int, seed: int) -> ImageDataset:
        """Deal a pool to so many clients; the `seed` says how, but not what is held out.

        Raises:
            DataError: the pool cannot be dealt like this.
        """
        labels, random = pool.labels[: pool.training], np.random.default_rng([seed, clients])
        try:
            if skew.split == "sort_and_partition":
                parts = splits.sort_and_partition(labels, clients, skew.s, random)
            elif skew.sizes == "equal":
                parts = splits.dirichlet_equal(labels, clients, skew.alpha, random)
            else:
                parts = splits.dirichlet_by_class(labels, clients, skew.alpha, random)
        except ValueError as error:
            raise DataError(f"data.skew: {error}; change data.clients or data.skew") from None
        held_out = [pool.training + some for some in _held_out(pool, skew.validation)]
        names = np.array([f"{i:0{len(str(clients - 1))}}" for i in range(clients)])
        return cls(pool, names, parts, *held_out)

    def starts(self, client: int, split: Split) -> NDArray[np.int64]:
        """Numbers of the images of one split of a client."""
        if split == "train":
            return self.parts[client]
        return self.validation if split == "validation" else self.test

    @cached_property
    def label_counts(self) -> NDArray[np.int64]:
        """Training images (N, classes) of each client and class."""
        labels, classes = self.pool.labels, self.pool.classes
        return np.stack([np.bincount(labels[own], minlength=classes) for own in self.parts])

    @property
    def label_shares(self) -> NDArray[np.float64]:
        """Share (N, classes) of each class among a client's training images; 0 without any."""
        counts = self.label_counts
        shares: NDArray[np.float64] = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        return shares


def _held_out(pool: ImagePool, share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions among the held-out images: a share of each class for validation, and the others."""
    labels, random = pool.labels[pool.training :], np.random.default_rng(0)
    first, rest = [], []
    for c in range(pool.classes):
        images = random.permutation(np.flatnonzero(labels == c))
        cut = round(share * len(images))
        first.append(images[:cut])
        rest.append(images[cut:])
    return np.sort(np.concatenate(first)), np.sort(np.concatenate(rest))
