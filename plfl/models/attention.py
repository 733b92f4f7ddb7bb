"""What `itransformer` and `patchtst` share: an encoder of tokens, and the scaling of a window.

Source: Ashish Vaswani et al., "Attention Is All You Need", NeurIPS 2017,
https://arxiv.org/abs/1706.03762; Taesung Kim et al., "Reversible Instance Normalization for
Accurate Time-Series Forecasting against Distribution Shift", ICLR 2022.

The layer is `nn.TransformerEncoderLayer` without dropout, in operations that stacks of models
compute fast.
"""

from __future__ import annotations

import math

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from plfl.models import Model

EPSILON = 1e-5
"""Added to the variance of a window."""


class Transformer(Model):
    """Encoder layers over tokens, and a linear map, the head."""

    width: int = Field(32, ge=1)
    """Width of a token, a multiple of `heads`."""
    heads: int = Field(4, ge=1)
    """Heads of the attention."""
    layers: int = Field(2, ge=1)
    """Encoder layers."""
    hidden: int = Field(64, ge=1)
    """Width of the hidden layer for each token."""

    @model_validator(mode="after")
    def _divisible(self) -> Transformer:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self

    @property
    def head_patterns(self) -> list[str]:
        return ["head.*"]

    def encoder(self) -> nn.Sequential:
        """The encoder layers: tokens (B, N, W) → (B, N, W)."""
        layers = (Encoder(self.width, self.heads, self.hidden) for _ in range(self.layers))
        return nn.Sequential(*layers)


class Encoder(nn.Module):
    """Self-attention between tokens and an MLP for each, both with normalisation after the sum."""

    def __init__(self, width: int, heads: int, hidden: int):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, N, W) → (B, N, W)."""
        split = self.project(tokens).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)
        weights = torch.softmax(query @ key.mT / math.sqrt(key.shape[-1]), -1)
        read = (weights @ value).transpose(1, 2).flatten(2)
        tokens = self.norm1(tokens + self.out(read))
        mixed = self.second(nn.functional.gelu(self.first(tokens)))
        out: Tensor = self.norm2(tokens + mixed)
        return out


def normalised(sequence: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A window with mean 0 and variance 1 in each feature; and the load's mean and deviation, both
    (B, 1)."""
    mean = sequence.mean(1, keepdim=True)
    deviation = (sequence.var(1, keepdim=True, correction=0) + EPSILON).sqrt()
    return (sequence - mean) / deviation, mean[:, 0, :1], deviation[:, 0, :1]
