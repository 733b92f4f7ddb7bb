"""A convolutional network for small images.

FedADC (arXiv 2012.09102) describes its network for CIFAR-10 as four convolutions and four linear
layers with max pooling and without batch normalisation; it gives no sizes. The model `cnn44` is
such a network with sizes chosen here, `cnn` a smaller one for images of 8 × 8 pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from plfl.layout import WindowShape
from plfl_images.models.layers import as_images, channels_of, classifier, projection


class HalvingLayer(nn.Module):
    """Max pooling over 2 × 2 pixels."""

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, C, H, W) as (B, C, H/2, W/2)."""
        if not torch.is_inference_mode_enabled():
            # Of equal pixels, the first gets the whole gradient.
            return functional.max_pool2d(images, 2)
        # The results are the same; on a CPU, PyTorch's own pooling takes nine times as long.
        rows = torch.maximum(*images.unflatten(-1, (-1, 2)).unbind(-1))
        return torch.maximum(*rows.unflatten(-2, (-1, 2)).unbind(-2))


class CNNNet(nn.Module):
    """The module of `cnn` and `cnn44`."""

    def __init__(
        self,
        shape: WindowShape,
        blocks: Sequence[Sequence[int]],
        hidden: Sequence[int],
        projected: int,
    ):
        super().__init__()
        layers: list[nn.Module] = []
        width, side = channels_of(shape), shape.look_back
        for block in blocks:
            for out_width in block:
                layers += [nn.Conv2d(width, out_width, 3, padding=1), nn.ReLU()]
                width = out_width
            layers.append(HalvingLayer())
            side //= 2
        self.convolutions = nn.Sequential(*layers)
        widths = (width * side * side, *hidden)
        dense_layers = [*classifier(widths), nn.ReLU()] if hidden else []
        if projected:
            dense_layers += projection(widths[-1], projected)
        self.linear = nn.Sequential(*dense_layers)
        self.head = nn.Linear(projected or widths[-1], shape.outputs)

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Logits (B, classes)."""
        outputs: Tensor = self.head(self.features(sequence))
        return outputs

    def features(self, sequence: Tensor, layer: str = "penultimate") -> Tensor:
        """The inputs (B, W) of the last layer."""
        hidden: Tensor = self.linear(self.convolutions(as_images(sequence)).flatten(1))
        return hidden
