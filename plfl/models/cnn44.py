"""The network for CIFAR-10 in FedADC (arXiv 2012.09102): four convolutions and four linear layers
with max pooling and without batch normalisation. The sizes are chosen here; the paper gives none.
"""

from __future__ import annotations

from plfl.models.cnn import Block, Cnn, Width


class Cnn44(Cnn):
    """Four 3 × 3 convolutions and four linear layers, with max pooling after every second
    convolution."""

    name = "cnn44"
    label = "CNN 4+4"

    blocks: tuple[Block, ...] = ((32, 32), (64, 64))
    """Channels of the convolutions, block by block; after each block, sides are halved."""
    hidden: tuple[Width, ...] = (256, 128, 64)
    """Widths of the hidden linear layers."""
