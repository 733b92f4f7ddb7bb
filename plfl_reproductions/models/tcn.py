"""A temporal convolutional network over the sequence, and an MLP over its last step and the
covariates.

Source: Shaojie Bai, J. Zico Kolter and Vladlen Koltun, "An Empirical Evaluation of Generic
Convolutional and Recurrent Networks for Sequence Modeling", 2018, https://arxiv.org/abs/1803.01271;
authors' code: https://github.com/locuslab/TCN.

Level i is a residual block of two causal convolutions with dilation 2^i, each followed by a ReLU:
z ← ReLU(z + F(z)); where the number of channels changes, z goes through a convolution of width 1.

Deviations: no weight normalisation and no dropout.

The head reads only the last step. This step depends on every 2^(i + 1)-th output of level i,
counted from the end. A block therefore returns every other step of its input, and a dilated
convolution of all steps becomes a convolution of neighbouring ones. It is one matrix product of all
its taps, which a stack of models computes faster than grouped convolutions.
"""

import itertools
import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from plfl.interfaces.model import Model
from plfl.layout import WindowShape
from plfl.models.layers import head_of, map_first_dimension, product


class Tcn(Model):
    """Dilated causal convolutions, the body, with an MLP, the head."""

    name = "tcn"
    label = "TCN"
    head_patterns = ("head.*",)

    channels: int = Field(32, ge=1)
    """Channels of every level."""
    levels: int = Field(3, ge=1, le=12)
    """Residual blocks."""
    kernel: int = Field(3, ge=2)
    """Taps of a convolution."""
    mlp: tuple[Annotated[int, Field(ge=1)], ...] = (64,)
    """Widths of the hidden layers of the head."""

    def build(self, shape: WindowShape) -> nn.Module:
        return TCNNet(shape, self)


class TCNNet(nn.Module):
    """The module of `tcn`."""

    def __init__(self, shape: WindowShape, sizes: Tcn):
        super().__init__()
        widths = [shape.inputs, *[sizes.channels] * sizes.levels]
        self.body = nn.Sequential(
            *(TCNBlock(*pair, sizes.kernel) for pair in itertools.pairwise(widths))
        )
        self.head = head_of(sizes.channels + shape.covariates, sizes.mlp, shape.outputs)
        # Number of steps that the last one depends on, including itself.
        self.reach = 1 + 2 * (sizes.kernel - 1) * (2**sizes.levels - 1)

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        last = self.body(sequence[:, -self.reach :].permute(2, 1, 0))[:, -1]
        outputs: Tensor = self.head(torch.cat([last.mT, covariates], 1))
        return outputs.squeeze(1)


class TCNBlock(nn.Module):
    """A residual block: (C, T, B) becomes (C', T', B), every other step counted from the last."""

    def __init__(self, channels: int, out_channels: int, kernel: int):
        super().__init__()
        self.first = Causal(channels, out_channels, kernel)
        self.second = Causal(out_channels, out_channels, kernel)
        self.skip = nn.Linear(channels, out_channels) if channels != out_channels else None

    def forward(self, z: Tensor) -> Tensor:
        """The residual connection around two convolutions."""
        inner = torch.relu(self.second(torch.relu(self.first(z)), stride=2))
        shortcut = z[:, (z.shape[1] - 1) % 2 :: 2]
        if self.skip is not None:
            shortcut = map_first_dimension(self.skip, shortcut)
        return torch.relu(inner + shortcut)


class Causal(nn.Module):
    """A convolution that sees no later step; `weight` (C', C, taps) is that of `nn.Conv1d`."""

    def __init__(self, channels: int, out_channels: int, kernel: int):
        super().__init__()
        bound = 1 / math.sqrt(channels * kernel)
        self.weight = nn.Parameter(
            torch.empty(out_channels, channels, kernel).uniform_(-bound, bound)
        )
        self.bias = nn.Parameter(torch.empty(out_channels).uniform_(-bound, bound))

    def forward(self, z: Tensor, stride: int = 1) -> Tensor:
        """The convolution of (C, T, B) along T, with zeros before the first step. It is computed
        for the last step and for each `stride`-th step before it."""
        steps, kernel = z.shape[1], self.weight.shape[2]
        first = (steps - 1) % stride
        padded = torch.cat([z.new_zeros(z.shape[0], kernel - 1, z.shape[2]), z], 1)
        taps = [padded[:, first + i : steps + i : stride] for i in range(kernel)]
        return product(self.weight.transpose(1, 2).flatten(1), self.bias, torch.cat(taps))
