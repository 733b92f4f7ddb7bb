"""A pool of images, divided among the clients of one federation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem
from plfl.base.keys import Key
from plfl.data.dataset import Split
from plfl.layout import WindowShape
from plfl_images.data import Images, Skew, image_shape, splits
from plfl_images.data.pool import ImagePool

NOISE = 20
"""Number of random held-out images for measuring a study, in addition to those of each class."""


@dataclass(frozen=True)
class ImageDataset:
    """Images divided among clients.

    Each client has its own training images. Clients share the held-out images: those to choose
    hyperparameters on (`validation`) and those of the test set (`test`). A window is an image, see
    `plfl_images.data.image_shape`.
    """

    pool: ImagePool
    skew: Skew
    clients: NDArray[np.str_]
    """Names of the N clients."""
    parts: list[NDArray[np.int64]]
    """The training images of each client, as indices into the pool."""
    validation: NDArray[np.int64]
    """The images for choosing hyperparameters, as indices into the pool."""
    test: NDArray[np.int64]
    """The images of the test set, as indices into the pool."""

    relative: ClassVar[bool] = False
    """No pixel is relative to another row of the image."""

    @classmethod
    def from_pool(cls, pool: ImagePool, skew: Skew, clients: int, seed: int) -> ImageDataset:
        """Divide a pool among this many clients. The `seed` determines the division, but not which
        images are held out.

        Raises:
            DataError: the pool cannot be divided like this.
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
            raise DataError(
                Problem(Key("data.skew"), f"{error}", "change data.clients or data.skew")
            ) from None
        held_out = [pool.training + images for images in _held_out(pool, skew.validation)]
        names = np.array([f"{i:0{len(str(clients - 1))}}" for i in range(clients)])
        return cls(pool, skew, names, parts, *held_out)

    def divide_by_seed(self, seed: int) -> ImageDataset:
        """The same images divided with another seed."""
        return self.from_pool(self.pool, self.skew, len(self.clients), seed)

    @property
    def features(self) -> NDArray[np.float32]:
        """Rows (R · height, channels · width) of all images of the pool, as models read them."""
        return self.pool.rows

    @property
    def covariates(self) -> NDArray[np.float32]:
        """Further inputs (R · height, 0): there are none."""
        return np.empty((len(self.features), 0), np.float32)

    @property
    def targets(self) -> NDArray[np.float32]:
        """Class (R · height,) of the image that a row belongs to."""
        return np.repeat(self.pool.labels, self.look_back).astype(np.float32)

    @property
    def look_back(self) -> int:
        """Rows of an image."""
        return self.pool.shape[1]

    @property
    def shape(self) -> WindowShape:
        """The shape of what a model reads of an image and returns."""
        channels, side, _ = self.pool.shape
        return image_shape(self.pool.classes, channels, side)

    def starts(self, client: int, split: Split) -> NDArray[np.int64]:
        """First rows of the images of one split of a client."""
        if split == "train":
            return self.parts[client] * self.look_back
        return self.look_back * (self.validation if split == "validation" else self.test)

    def labels_of(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Classes of the images that begin at rows `starts`."""
        return self.pool.labels[starts // self.look_back]

    @cached_property
    def label_counts(self) -> NDArray[np.int64]:
        """Training images (N, classes) of each client and class."""
        labels, classes = self.pool.labels, self.pool.classes
        return np.stack([np.bincount(labels[part], minlength=classes) for part in self.parts])

    @property
    def label_shares(self) -> NDArray[np.float64]:
        """Share (N, classes) of each class among a client's training images; 0 without any."""
        counts = self.label_counts
        shares: NDArray[np.float64] = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        return shares


def noise(source: Images, client_count: int) -> ImageDataset:
    """Some random images of the classes of a source, divided among clients."""
    random = np.random.default_rng(0)
    classes, channels, side = source.classes, source.channels, source.side
    count = NOISE + 2 * classes * client_count
    pixels = random.integers(0, 16, (count, channels, side, side), np.uint8)
    labels, scale = np.arange(count) % classes, np.ones(channels)
    pool = ImagePool(pixels, labels, classes * client_count, 0 * scale, scale)
    return ImageDataset.from_pool(pool, Skew(split="dirichlet"), client_count, seed=0)


def _held_out(pool: ImagePool, share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of held-out images: a fraction of each class for validation, and the others."""
    labels, random = pool.labels[pool.training :], np.random.default_rng(0)
    validation, test = [], []
    for c in range(pool.classes):
        images = random.permutation(np.flatnonzero(labels == c))
        cut = round(share * len(images))
        validation.append(images[:cut])
        test.append(images[cut:])
    return np.sort(np.concatenate(validation)), np.sort(np.concatenate(test))
