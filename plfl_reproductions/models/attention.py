"""Common parts of `itransformer` and `patchtst`: an encoder of tokens, and the scaling of a window.

Source: Ashish Vaswani et al., "Attention Is All You Need", NeurIPS 2017,
https://arxiv.org/abs/1706.03762; Taesung Kim et al., "Reversible Instance Normalization for
Accurate Time-Series Forecasting against Distribution Shift", ICLR 2022.

The layer is `nn.TransformerEncoderLayer` without dropout. The windows are the last dimension of its
tensors, so that a softmax over a few tokens is computed on long vectors.
"""

from __future__ import annotations

import math

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from plfl.interfaces.model import Model
from plfl.models.layers import map_first_dimension, normalise_first_dimension

EPSILON = 1e-5
"""A number that is added to the variance of a window."""
FEW_TOKENS = 6
"""Most tokens for which elementwise products of all pairs are faster than small matrix products."""


class Transformer(Model):
    """Encoder layers over tokens, and a linear map, the head."""

    head_patterns = ("head.*",)

    width: int = Field(32, ge=1)
    """Width of a token, a multiple of `heads`."""
    heads: int = Field(4, ge=1)
    """Heads of the attention."""
    layers: int = Field(2, ge=1)
    """Encoder layers."""
    hidden: int = Field(64, ge=1)
    """Width of the hidden layer for each token."""

    @model_validator(mode="after")
    def _check_width(self) -> Transformer:
        if self.width % self.heads:
            raise ValueError(
                f"width {self.width} is not a multiple of heads {self.heads}; change one of them"
            )
        return self

    def encoder(self) -> nn.Sequential:
        """The encoder layers: tokens (W, N, B) → (W, N, B)."""
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
        """Tokens (W, N, B) → (W, N, B)."""
        projected = map_first_dimension(self.project, tokens).unflatten(0, (3, self.heads, -1))
        attended = attend(*projected.unbind(0)).flatten(0, 1)
        tokens = normalise_first_dimension(
            self.norm1, tokens + map_first_dimension(self.out, attended)
        )
        hidden = map_first_dimension(
            self.second, nn.functional.gelu(map_first_dimension(self.first, tokens))
        )
        return normalise_first_dimension(self.norm2, tokens + hidden)


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The values (H, D, N, B) of the N tokens, averaged by the attention of each head H."""
    query = query / math.sqrt(query.shape[1])
    if query.shape[2] > FEW_TOKENS:
        weights = torch.softmax(torch.einsum("hdnb,hdmb->hnmb", query, key), 2)
        return torch.einsum("hnmb,hdmb->hdnb", weights, value)
    weights = torch.softmax((query[:, :, :, None] * key[:, :, None]).sum(1), 2)
    return (weights[:, None] * value[:, :, None]).sum(3)


def normalise(sequence: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Windows (T, F, B), scaled to mean 0 and variance 1 in each feature; and the mean and standard
    deviation of the load, both (1, B)."""
    mean = sequence.mean(0)
    centred = sequence - mean
    deviation = (centred.square().mean(0) + EPSILON).sqrt()
    return centred / deviation, mean[:1], deviation[:1]
