"""CIFAR-10 and CIFAR-100: 60,000 colour images of 32 × 32 pixels, 10,000 of them held out.

Source: Alex Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009,
https://www.cs.toronto.edu/~kriz/cifar.html. The binary version is read: per image one byte with
the label (CIFAR-100: two, of which the second is the class), then 3,072 bytes of pixels.
"""

from __future__ import annotations

import hashlib
import tarfile
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import DataError
from plfl.base.files import atomic
from plfl_images.data.pool import ImagePool

CHANNELS, SIDE = 3, 32
PIXELS = CHANNELS * SIDE * SIDE
TIMEOUT = 30.0
"""Seconds without data after which a download fails."""


@dataclass(frozen=True)
class Archive:
    """One of the two data sets, as published."""

    url: str
    md5: str
    """The MD5 on the page that publishes the file."""
    training: tuple[str, ...]
    """Names of the files of images to train on."""
    held_out: tuple[str, ...]
    """Names of the files of the other images."""
    labels: int
    """Bytes before the pixels of an image; the last one is its class."""

    @property
    def file(self) -> str:
        """Name of the archive."""
        return self.url.rpartition("/")[2]


ARCHIVES = {
    "cifar10": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
        ("test_batch.bin",),
        1,
    ),
    "cifar100": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
        ("train.bin",),
        ("test.bin",),
        2,
    ),
}


def fetch(archive: Archive, folder: Path) -> Path:
    """Path of the archive in `folder`; it is downloaded if missing, and verified.

    Raises:
        DataError: it cannot be downloaded, or is not the published file.
        PlflError: the disk is full or the folder cannot be written.
    """
    path = folder / archive.file
    if not path.exists():
        with atomic(path) as temporary:
            _download(archive.url, temporary, path)
            _verify(archive, temporary, path)
        return path
    _verify(archive, path, path)
    return path


def _download(url: str, temporary: Path, path: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, temporary.open("wb") as file:
            while part := answer.read(1 << 20):
                file.write(part)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{url}: cannot be downloaded ({error}); download it on a machine with access to the "
            f"network and put it at {path}"
        ) from None


def _verify(archive: Archive, found: Path, path: Path) -> None:
    with found.open("rb") as file:
        digest = hashlib.file_digest(file, "md5").hexdigest()
    if digest != archive.md5:
        raise DataError(
            f"{path}: is not the published file (MD5 {digest}, expected {archive.md5}); delete it, "
            f"or put the file of {archive.url} there"
        )


def read(archive: Archive, path: Path) -> ImagePool:
    """The images of an archive; models get them scaled by each channel's training mean and standard
    deviation.

    Raises:
        DataError: the archive is damaged.
    """
    try:
        parts = [
            _read(path, names, archive.labels) for names in (archive.training, archive.held_out)
        ]
    except (OSError, EOFError, KeyError, ValueError, tarfile.TarError, zlib.error) as error:
        raise DataError(
            f"{path}: is damaged ({error}); delete it and run the study again"
        ) from None
    (labels, training), _ = parts
    scaled = training / np.float32(255)
    return ImagePool(
        pixels=np.concatenate([pixels for _, pixels in parts]),
        labels=np.concatenate([labels for labels, _ in parts]),
        training=len(labels),
        offset=255 * scaled.mean((0, 2, 3), dtype=np.float64),
        scale=255 * scaled.std((0, 2, 3), dtype=np.float64),
    )


def _read(
    path: Path, names: tuple[str, ...], labels: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Labels (n,) and pixels (n, channels, height, width) of some files of an archive."""
    with tarfile.open(path, "r:gz") as tar:
        inside = {Path(member.name).name: member for member in tar.getmembers()}
        files = [tar.extractfile(inside[name]) for name in names]
        read = [np.frombuffer(file.read(), np.uint8) for file in files if file is not None]
    rows = np.concatenate(read).reshape(-1, labels + PIXELS)
    pixels = rows[:, labels:].reshape(-1, CHANNELS, SIDE, SIDE)
    return rows[:, labels - 1].astype(np.int64), pixels
