"""Labelled images: where they come from, and how they are divided among clients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from plfl.config.data import Data
from plfl.config.windows import Windows
from plfl.data.sources import digests
from plfl.interfaces.annotations import Study
from plfl.interfaces.source import CC_BY, Counts, Provenance, Receipt, Source
from plfl.layout import WindowShape
from plfl.plugins.registry import Section
from plfl_images.data import cifar, digits

if TYPE_CHECKING:  # the workflow lists files without reading any
    from plfl_images.data.dataset import ImageDataset as ImageDataset
    from plfl_images.data.pool import ImagePool as ImagePool
else:
    ImageDataset = ImagePool = Any

EXAMPLE_KIND = "images"
"""The kind of examples that the sources provide and the task needs."""


class Skew(Section):
    """How images are divided among clients; every seed of the grid has another division."""

    split: Literal["sort_and_partition", "dirichlet"] = "sort_and_partition"
    """`sort_and_partition`: each class is divided into shards, and a client gets `s` shards
    (FedADC). `dirichlet`: label proportions are drawn from a Dirichlet distribution."""
    s: int = Field(2, ge=1)
    """Shards of a client, and so the most labels that it can have (FedADC: 2, 3 or 4)."""
    alpha: float = Field(0.5, gt=0)
    """Concentration α of the Dirichlet distribution (FedADC: 0.5 or 0.1); a smaller one is more
    skewed."""
    sizes: Literal["equal", "by_class"] = "equal"
    """With `dirichlet`: proportions are drawn for each client, all of one size (`equal`), or for
    each class (`by_class`)."""
    validation: float = Field(1 / 3, gt=0, lt=1)
    """Fraction of each class's held-out images used for validation; the others are the test set."""


class Images(Source):
    """A source of labelled images, which are divided among clients in the simulator."""

    examples = EXAMPLE_KIND
    blocks: ClassVar = {"skew": Skew}
    simulation_only = "its images are divided among clients in the simulator only"

    classes: ClassVar[int]
    """Number of classes."""
    channels: ClassVar[int]
    """Channels of an image."""
    side: ClassVar[int]
    """Pixels of each side of an image."""
    sizes: ClassVar[Counts]
    """Numbers of images to train on, and of held-out images."""

    @property
    def shape(self) -> WindowShape:
        """The shape of what a model reads of an image and returns."""
        return image_shape(self.classes, self.channels, self.side)

    def pool(self, data: Data) -> ImagePool:
        """The images before they are divided.

        Raises:
            DataError: the file is missing or damaged.
        """
        raise NotImplementedError

    def archives(self, data: Data) -> list[Path]:
        """The files of the images, which are downloaded if they are not there.

        Raises:
            DataError: one is missing and cannot be downloaded, or is not the published file.
        """
        return []

    def settings(self, data: Data, state: str) -> dict[str, Any]:
        return data.model_dump(mode="json", include={"source", "folder"})

    def fetch(self, data: Data, state: str) -> Receipt:
        return {"source": data.source, "files": digests(self.archives(data))}

    def save(self, study: Study, state: str, path: Path) -> None:
        self.pool(study.data).save(path)

    def read(self, study: Study, path: Path) -> ImageDataset:
        from plfl_images.data.pool import ImagePool

        return _dealt(study, ImagePool.load_file(path))

    def examples_of(self, study: Study, state: str) -> ImageDataset:
        return _dealt(study, self.pool(study.data))

    def counts(self, data: Data, windows: Windows) -> Counts:
        return self.sizes._replace(train=self.sizes.train // data.most_clients)

    def noise(self, study: Study, client_count: int = 1) -> ImageDataset:
        from plfl_images.data.dataset import noise

        return noise(self, client_count)


class Digits(Images):
    """Handwritten digits, which scikit-learn contains; see `plfl_images.data.digits`."""

    name = "digits"
    provenance = Provenance(
        "handwritten digits (scikit-learn)",
        "measured: handwritten digits (scikit-learn)",
        CC_BY,
    )
    classes, channels, side = 10, 1, 8
    sizes = Counts(1200, 597)

    def pool(self, data: Data) -> ImagePool:
        return digits.read()


CIFAR = Provenance(
    "CIFAR",
    "measured: photographs of the Tiny Images collection with labels (CIFAR)",
)


class Cifar10(Images):
    """Colour images of ten classes; see `plfl_images.data.cifar`."""

    name = "cifar10"
    provenance = replace(CIFAR, label="CIFAR-10")
    classes, channels, side = 10, 3, 32
    sizes = Counts(50_000, 10_000)

    def archives(self, data: Data) -> list[Path]:
        return [cifar.fetch(cifar.ARCHIVES[self.name], data.folder / "cifar")]

    def pool(self, data: Data) -> ImagePool:
        (archive,) = self.archives(data)
        return cifar.read(cifar.ARCHIVES[self.name], archive)


class Cifar100(Cifar10):
    """The same images in a hundred classes."""

    name = "cifar100"
    provenance = replace(CIFAR, label="CIFAR-100")
    classes = 100


def image_shape(classes: int, channels: int, side: int) -> WindowShape:
    """The shape of what a model reads of a square image and returns.

    The rows of the window are the rows of the image; a row has the pixels of all channels, one
    channel after the other.
    """
    return WindowShape(channels * side, side, 0, classes)


def skew_of(data: Data) -> Skew:
    """How a study divides its images."""
    skew = dict(data)["skew"]
    assert isinstance(skew, Skew)
    return skew


def _dealt(study: Study, pool: ImagePool) -> ImageDataset:
    from plfl_images.data.dataset import ImageDataset

    return ImageDataset.from_pool(
        pool, skew_of(study.data), study.data.most_clients, study.grid.seeds[0]
    )
