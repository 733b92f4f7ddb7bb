"""CIFAR-10 and CIFAR-100: 60,000 colour images of 32 × 32 pixels, 10,000 of them held out.

Source: Alex Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009,
https://www.cs.toronto.edu/~kriz/cifar.html. The binary version has per image one byte with the
label (CIFAR-100: two, of which the second is the class) and 3,072 bytes of pixels.
"""

from __future__ import annotations

import shutil
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem
from plfl.base.files import atomic, md5
from plfl.base.lazy import request
from plfl_images.data.pool import ImagePool

CHANNELS, SIDE = 3, 32
PIXELS = CHANNELS * SIDE * SIDE
DOWNLOAD_TIMEOUT = 30.0
"""Seconds without data after which a download fails."""

Labelled = tuple[NDArray[np.int64], NDArray[np.uint8]]
"""Labels (n,) and pixels (n, channels, height, width)."""


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
        labels=1,
    ),
    "cifar100": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
        ("train.bin",),
        ("test.bin",),
        labels=2,
    ),
}


def fetch(archive: Archive, folder: Path) -> Path:
    """Path of the archive in `folder`, downloaded if it is not there, and verified.

    Raises:
        DataError: the archive cannot be downloaded, or is not the published file.
        PlflError: the disk is full or the folder cannot be written.
    """
    path = folder / archive.file
    if path.exists():
        _verify(archive, path, path)
    else:
        with atomic(path) as temporary:
            _download(archive, temporary, path)
            _verify(archive, temporary, path)
    return path


def _download(archive: Archive, temporary: Path, path: Path) -> None:
    try:
        answer = request.urlopen(archive.url, timeout=DOWNLOAD_TIMEOUT)
        with answer, temporary.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (OSError, ValueError) as error:
        raise DataError(
            Problem(
                archive.url,
                f"cannot be downloaded ({error})",
                f"download it on a machine with access to the network and put it at {path}",
            )
        ) from None


def _verify(archive: Archive, download: Path, path: Path) -> None:
    if (digest := md5(download)) != archive.md5:
        raise DataError(
            Problem(
                path,
                f"is not the published file (MD5 {digest}, expected {archive.md5})",
                f"delete it, or put the file of {archive.url} there",
            )
        )


def read(archive: Archive, path: Path) -> ImagePool:
    """The images of an archive; models get them scaled by each channel's training mean and standard
    deviation.

    Raises:
        DataError: the file is damaged.
    """
    try:
        training, held_out = (
            _read(path, names, archive.labels) for names in (archive.training, archive.held_out)
        )
    except (OSError, EOFError, KeyError, ValueError, tarfile.TarError, zlib.error) as error:
        raise DataError(
            Problem(path, f"is damaged ({error})", "delete it and run the study again")
        ) from None
    return _pool(training, held_out)


def _read(path: Path, names: tuple[str, ...], labels: int) -> Labelled:
    """The images of some files of an archive."""
    with tarfile.open(path, "r:gz") as tar:
        members = {Path(member.name).name: member for member in tar.getmembers()}
        files = [tar.extractfile(members[name]) for name in names]
        file_bytes = [np.frombuffer(file.read(), np.uint8) for file in files if file is not None]
    rows = np.concatenate(file_bytes).reshape(-1, labels + PIXELS)
    pixels = rows[:, labels:].reshape(-1, CHANNELS, SIDE, SIDE)
    return rows[:, labels - 1].astype(np.int64), pixels


def _pool(training: Labelled, held_out: Labelled) -> ImagePool:
    """All images, with the means and standard deviations of those to train on."""
    labels, pixels = training
    mean = pixels.mean((0, 2, 3), dtype=np.float64)
    squares = np.square(pixels, dtype=np.uint16).mean((0, 2, 3), dtype=np.float64)
    return ImagePool(
        pixels=np.concatenate([pixels, held_out[1]]),
        labels=np.concatenate([labels, held_out[0]]),
        training=len(labels),
        offset=mean,
        scale=np.sqrt(squares - mean**2),
    )
