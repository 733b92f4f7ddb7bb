"""All images of a source before they are divided among clients."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from plfl.data import arrays


@dataclass(frozen=True)
class ImagePool:
    """The images of a source: those to train on first, then those held out."""

    pixels: NDArray[np.uint8]
    """(R, channels, height, width), as the source stores them."""
    labels: NDArray[np.int64]
    """Class (R,) of each image, from 0."""
    training: int
    """Number of images to train on; the others are held out."""
    offset: NDArray[np.float64]
    """(channels,), subtracted from the pixels."""
    scale: NDArray[np.float64]
    """(channels,), by which the difference is divided; the result is the input of a model."""

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        channels, height, width = self.pixels.shape[1:]
        return channels, height, width

    @cached_property
    def rows(self) -> NDArray[np.float32]:
        """Rows (R · height, channels · width) of the images, scaled for models."""
        offset, scale = (v.astype(np.float32)[:, None, None] for v in (self.offset, self.scale))
        scaled = (self.pixels.astype(np.float32) - offset) / scale
        channels, _, width = self.shape
        return scaled.transpose(0, 2, 1, 3).reshape(-1, channels * width)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the pool as an .npz file of plain arrays."""
        arrays.save(path, asdict(self))

    @classmethod
    def load_file(cls, path: str | PathLike[str]) -> ImagePool:
        """Read a file of `save`.

        Raises:
            DataError: the file is missing or damaged.
        """
        return arrays.load(path, lambda f: cls(**f | {"training": int(f["training"])}))
