"""CIFAR-10 and CIFAR-100: 60,000 colour images of 32 × 32 pixels, 10,000 of them held out.

Source: Alex Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009,
https://www.cs.toronto.edu/~kriz/cifar.html. Two forms are read: the binary version, which has per
image one byte with the label (CIFAR-100: two, of which the second is the class) and 3,072 bytes of
pixels; and folders of PNG files, `cifar10/{train,test}/CLASS/NAME.png`.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from plfl.base.errors import DataError
from plfl.base.files import atomic
from plfl_images.data.pool import ImagePool

CHANNELS, SIDE = 3, 32
PIXELS = CHANNELS * SIDE * SIDE
TIMEOUT = 30.0
"""Seconds without data after which a download fails."""
TOLERANCE = 1e-4
"""Largest difference between a mean or deviation and its published value."""

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
    folder: str
    """Name of the folder of PNG files."""
    classes: int
    """Number of classes."""
    means: tuple[float, ...]
    """The mean of each channel of the training images, from 0 to 1."""
    deviations: tuple[float, ...]
    """The standard deviation of each channel."""
    counts: tuple[int, int] = (50_000, 10_000)
    """Numbers of images to train on and held out."""

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
        folder="cifar10",
        classes=10,
        means=(0.4914, 0.4822, 0.4465),
        deviations=(0.2470, 0.2435, 0.2616),
    ),
    "cifar100": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
        ("train.bin",),
        ("test.bin",),
        labels=2,
        folder="cifar100",
        classes=100,
        means=(0.5071, 0.4865, 0.4409),
        deviations=(0.2673, 0.2564, 0.2762),
    ),
}


def fetch(archive: Archive, folder: Path) -> Path:
    """Path of a file in `folder` that `read` reads: the archive, which is verified; or the images
    of a folder of PNG files, gathered once; or else the archive, downloaded.

    Raises:
        DataError: the archive cannot be downloaded, or is not the published file; or the PNG files
            are not the published images.
        PlflError: the disk is full or the folder cannot be written.
    """
    path, gathered = folder / archive.file, folder / f"{archive.folder}.npz"
    if path.exists():
        _verify(archive, path, path)
    elif gathered.exists():
        return gathered
    elif (folder / archive.folder).is_dir():
        read_folder(archive, folder / archive.folder).save(gathered)
        return gathered
    else:
        with atomic(path) as temporary:
            _download(archive, temporary, path)
            _verify(archive, temporary, path)
    return path


def _download(archive: Archive, temporary: Path, path: Path) -> None:
    try:
        answer = urllib.request.urlopen(archive.url, timeout=TIMEOUT)
        with answer, temporary.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{archive.url}: cannot be downloaded ({error}); download it on a machine with access "
            f"to the network and put it at {path}, or PNG files at "
            f"{path.parent / archive.folder}/{{train,test}}/CLASS/NAME.png"
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
    """The images of a file that `fetch` has named; models get them scaled by each channel's
    training mean and standard deviation.

    Raises:
        DataError: the file is damaged.
    """
    if path.suffix == ".npz":
        return ImagePool.load_file(path)
    try:
        training, held_out = (
            _read(path, names, archive.labels) for names in (archive.training, archive.held_out)
        )
    except (OSError, EOFError, KeyError, ValueError, tarfile.TarError, zlib.error) as error:
        raise DataError(
            f"{path}: is damaged ({error}); delete it and run the study again"
        ) from None
    return _pool(training, held_out)


def _read(path: Path, names: tuple[str, ...], labels: int) -> Labelled:
    """The images of some files of an archive."""
    with tarfile.open(path, "r:gz") as tar:
        inside = {Path(member.name).name: member for member in tar.getmembers()}
        files = [tar.extractfile(inside[name]) for name in names]
        read = [np.frombuffer(file.read(), np.uint8) for file in files if file is not None]
    rows = np.concatenate(read).reshape(-1, labels + PIXELS)
    pixels = rows[:, labels:].reshape(-1, CHANNELS, SIDE, SIDE)
    return rows[:, labels - 1].astype(np.int64), pixels


def read_folder(archive: Archive, folder: Path) -> ImagePool:
    """The images of a folder of PNG files, `{train,test}/CLASS/NAME.png`, by class and name;
    classes are numbered in the order of their names, as in the archive.

    Raises:
        DataError: a file is not a colour image of 32 × 32 pixels, or numbers of classes or images,
            means or deviations are not the published ones.
    """
    classes = sorted(path.name for path in (folder / "train").glob("*/"))
    if len(classes) != archive.classes:
        raise DataError(
            f"{folder / 'train'}: has {len(classes)} folders, but there are {archive.classes} "
            "classes; each has a folder with its name and its PNG files"
        )
    parts = []
    for part, count in zip(("train", "test"), archive.counts, strict=True):
        files = [
            (label, path)
            for label, name in enumerate(classes)
            for path in sorted((folder / part / name).glob("*.png"))
        ]
        if len(files) != count:
            raise DataError(
                f"{folder / part}: has {len(files):,} images in the folders of the classes, but "
                f"{archive.folder} has {count:,}; complete the folder"
            )
        # None: the bar is shown only on a terminal.
        pixels = [_png(path) for _, path in tqdm(files, part, unit="image", disable=None)]
        parts.append((np.array([label for label, _ in files]), np.stack(pixels)))
    pool = _pool(*parts)
    for what, values, published in (
        ("means", pool.offset / 255, archive.means),
        ("standard deviations", pool.scale / 255, archive.deviations),
    ):
        if np.abs(values - published).max() > TOLERANCE:
            raise DataError(
                f"{folder}: the {what} of the training images are {values.round(4).tolist()}, not "
                f"the published {list(published)}; these are not the images of {archive.folder}"
            )
    return pool


def _png(path: Path) -> NDArray[np.uint8]:
    """The pixels (channels, height, width) of an image."""
    from PIL import Image

    try:
        with Image.open(path, formats=["PNG"]) as image:
            pixels = np.asarray(image)
    except (OSError, ValueError, SyntaxError) as error:  # SyntaxError: Pillow's, for broken PNGs
        raise DataError(f"{path}: cannot be read ({error}); replace it") from None
    if pixels.shape != (SIDE, SIDE, CHANNELS) or pixels.dtype != np.uint8:
        raise DataError(
            f"{path}: is not a colour image of {SIDE} × {SIDE} pixels with 8 bits per channel; "
            "replace it"
        )
    return pixels.transpose(2, 0, 1)


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
