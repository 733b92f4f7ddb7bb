"""Common parts of the modules of images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from plfl.interfaces.model import Model
from plfl.layout import WindowShape


@cache
def operations(model: Model, shape: WindowShape) -> int:
    """Floating-point operations of a forward pass over one image."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        sequence = torch.empty(1, shape.look_back, shape.inputs)
        model.build(shape)(sequence, torch.empty(1, shape.covariates))
    return int(counter.get_total_flops())


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
