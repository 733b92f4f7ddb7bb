"""What the models of images share.

A window is an image: its rows are the rows of the window, and a row holds the pixels of all
channels, one channel after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from plfl.layout import WindowShape
from plfl.models import Model


class ImageModel(Model):
    """A model that reads square images and returns one number per class.

    The method `features` of its modules returns the inputs (B, W) of the last layer.
    """

    features = ("penultimate",)

    @property
    def multiple(self) -> int:
        """What the side of an image must be a multiple of."""
        raise NotImplementedError

    def problems(self, shape: WindowShape) -> list[str]:
        side = shape.look_back
        if shape.inputs % side or side % self.multiple or shape.context:
            return [
                f"model.name: {self.name!r} reads images whose sides are multiples of "
                f"{self.multiple} pixels, not windows of {side} rows × {shape.inputs} inputs; "
                "set data.source to digits, cifar10 or cifar100, or choose another model"
            ]
        return super().problems(shape)


def channels_of(shape: WindowShape) -> int:
    """Number of channels of the images."""
    return shape.inputs // shape.look_back


def as_images(sequence: Tensor) -> Tensor:
    """Images (B, channels, height, width) of sequences (B, height, channels · width)."""
    side = sequence.shape[1]
    images: Tensor = sequence.unflatten(2, (-1, side)).transpose(1, 2)
    return images


def classifier(widths: Sequence[int]) -> list[nn.Module]:
    """Linear layers through these widths with ReLU between them."""
    layers: list[nn.Module] = []
    for i in range(1, len(widths)):
        layers += [nn.Linear(widths[i - 1], widths[i]), nn.ReLU()]
    return layers[:-1]


def projection(width: int, to: int) -> list[nn.Module]:
    """MOON's projection head (Li, He and Song, CVPR 2021, section 4.1), without its last layer."""
    return [nn.Linear(width, width), nn.ReLU(), nn.Linear(width, to)]
