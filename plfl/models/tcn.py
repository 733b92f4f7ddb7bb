"""A temporal convolutional network over the sequence, and an MLP over its last step and the
context.

Source: Shaojie Bai, J. Zico Kolter and Vladlen Koltun, "An Empirical Evaluation of Generic
Convolutional and Recurrent Networks for Sequence Modeling", 2018, https://arxiv.org/abs/1803.01271;
authors' code: https://github.com/locuslab/TCN.

Level i is a residual block of two causal convolutions with dilation 2^i, each followed by a ReLU:
z ← ReLU(z + F(z)); where the number of channels changes, z goes through a convolution of width 1.

Deviations: no weight normalisation and no dropout. A convolution is one matrix product of all its
taps, which a stack of models computes faster than grouped convolutions.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from plfl.layout import WindowShape
from plfl.models import Model
from plfl.models.mlp import head_of


class Tcn(Model):
    """Dilated causal convolutions, the body, with an MLP, the head."""

    name = "tcn"
    label = "TCN"

    channels: int = Field(32, ge=1)
    """Channels of every level."""
    levels: int = Field(3, ge=1, le=12)
    """Residual blocks."""
    kernel: int = Field(3, ge=2)
    """Taps of a convolution."""
    mlp: tuple[Annotated[int, Field(ge=1)], ...] = (64,)
    """Widths of the hidden layers of the head."""

    @property
    def head_patterns(self) -> list[str]:
        return ["head.*"]

    def build(self, shape: WindowShape) -> nn.Module:
        return Net(shape, self)


class Net(nn.Module):
    """The module of `tcn`."""

    def __init__(self, shape: WindowShape, sizes: Tcn):
        super().__init__()
        widths = [shape.inputs, *[sizes.channels] * sizes.levels]
        self.body = nn.Sequential(
            *(
                Block(widths[level], widths[level + 1], sizes.kernel, 2**level)
                for level in range(sizes.levels)
            )
        )
        self.head = head_of(sizes.channels + shape.context, sizes.mlp, shape.outputs)

    def forward(self, sequence: Tensor, context: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        out: Tensor = self.head(torch.cat([self.body(sequence)[:, -1], context], 1))
        return out.squeeze(1)


class Block(nn.Module):
    """A residual block: (B, T, C) becomes (B, T, C')."""

    def __init__(self, channels: int, out: int, kernel: int, dilation: int):
        super().__init__()
        self.first = Causal(channels, out, kernel, dilation)
        self.second = Causal(out, out, kernel, dilation)
        self.skip = nn.Linear(channels, out) if channels != out else nn.Identity()

    def forward(self, z: Tensor) -> Tensor:
        """The residual connection around two convolutions."""
        inner = torch.relu(self.second(torch.relu(self.first(z))))
        return torch.relu(inner + self.skip(z))


class Causal(nn.Module):
    """A convolution that sees no later step; `weight` (C', C, taps) is that of `nn.Conv1d`."""

    def __init__(self, channels: int, out: int, kernel: int, dilation: int):
        super().__init__()
        bound = 1 / math.sqrt(channels * kernel)
        self.weight = nn.Parameter(torch.empty(out, channels, kernel).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out).uniform_(-bound, bound))
        self.kernel, self.dilation = kernel, dilation

    def forward(self, z: Tensor) -> Tensor:
        """The convolution of (B, T, C) along T, with zeros before the first step."""
        steps = z.shape[1]
        before = z.new_zeros(z.shape[0], self.dilation * (self.kernel - 1), z.shape[2])
        padded = torch.cat([before, z], 1)
        taps = [padded[:, i * self.dilation :][:, :steps] for i in range(self.kernel)]
        read = torch.stack(taps, -1).flatten(2)
        return nn.functional.linear(read, self.weight.flatten(1), self.bias)
