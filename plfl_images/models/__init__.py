"""Models of images.

A window is an image: its rows are the rows of the window, and a row has the pixels of all channels,
one channel after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from plfl.base import Module
from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.interfaces.model import Model
from plfl.layout import WindowShape

Width = Annotated[int, Field(ge=1)]
Block = Annotated[tuple[Width, ...], Field(min_length=1)]


class ImageModel(Model):
    """A model that reads square images and returns one number per class.

    The method `features` of its modules returns the inputs (B, W) of the last layer.
    """

    features = ("penultimate",)

    @property
    def multiple(self) -> int:
        """The side of an image must be a multiple of this number."""
        raise NotImplementedError

    def operations(self, shape: WindowShape) -> int:
        """Counted by PyTorch."""
        from plfl_images.models.layers import operations  # imports torch

        return operations(self, shape)

    def problems(self, shape: WindowShape) -> Sequence[Problem]:
        side = shape.look_back
        if shape.inputs % side or side % self.multiple or shape.covariates:
            return [
                Problem(
                    Key("model.name"),
                    f"{self.name!r} reads images whose sides are multiples of {self.multiple} "
                    f"pixels, not windows of {side} rows × {shape.inputs} inputs",
                    "set data.source to digits, cifar10 or cifar100, or choose another model",
                )
            ]
        return super().problems(shape)


class Cnn(ImageModel):
    """Blocks of 3 × 3 convolutions with ReLU, each followed by max pooling, then linear layers with
    ReLU between them."""

    name = "cnn"
    label = "CNN"

    blocks: tuple[Block, ...] = ((8,), (16,))
    """Channels of the convolutions, block by block; after each block, sides are halved."""
    hidden: tuple[Width, ...] = (32,)
    """Widths of the hidden linear layers."""
    projection: int = Field(0, ge=0)
    """Width of the features that MOON compares, the output of its projection head before the last
    layer; 0: no such head."""

    @property
    def multiple(self) -> int:
        return int(2 ** len(self.blocks))

    @property
    def summary(self) -> str:
        sizes = [width for block in self.blocks for width in block]
        return self.name + "-".join(map(str, (*sizes, *self.hidden)))

    def build(self, shape: WindowShape) -> Module:
        from plfl_images.models.cnn import CNNNet  # imports torch

        return CNNNet(shape, self.blocks, self.hidden, self.projection)


class Cnn44(Cnn):
    """Four 3 × 3 convolutions and four linear layers, with max pooling after every second
    convolution."""

    name = "cnn44"
    label = "CNN 4+4"

    blocks: tuple[Block, ...] = ((32, 32), (64, 64))
    """Channels of the convolutions, block by block; after each block, sides are halved."""
    hidden: tuple[Width, ...] = (256, 128, 64)
    """Widths of the hidden linear layers."""


class ResNet18Gn(ImageModel):
    """ResNet-18 with group normalisation."""

    name = "resnet18_gn"
    label = "ResNet-18"

    group: Literal[1, 2, 4, 8, 16, 32, 64] = 32
    """Number of groups of channels in every layer, or of channels in a group; see `groups`."""
    groups: Literal["number", "size"] = "number"
    """Whether there are `group` groups in every layer, or groups of `group` channels. FedADC's
    "group size of 32" may mean either."""
    projection: int = Field(0, ge=0)
    """Width of the features that MOON compares, the output of its projection head before the last
    layer; 0: no such head."""

    @property
    def multiple(self) -> int:
        return 8  # three stages have stride 2

    @property
    def summary(self) -> str:
        return f"{self.name}{self.group}"

    def build(self, shape: WindowShape) -> Module:
        from plfl_images.models.resnet18_gn import ResNet18Net  # imports torch

        return ResNet18Net(shape, self.groups_of, self.projection)

    def groups_of(self, channels: int) -> int:
        """The number of groups of a normalisation over this many channels."""
        return self.group if self.groups == "number" else channels // self.group
