"""Layers whose inputs have the windows (B) as the last dimension.

A stack of small models then computes on long, contiguous vectors, and a matrix product needs no
transposed copy of its operands.
"""

import torch
from torch import Tensor, nn


def mapped(layer: nn.Linear, x: Tensor) -> Tensor:
    """A linear layer along the first dimension: (C, ..., B) becomes (C', ..., B)."""
    return product(layer.weight, layer.bias, x)


def product(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """W x + b along the first dimension, with weights (C', C): (C, ..., B) becomes (C', ..., B)."""
    found: Tensor = torch.addmm(bias[:, None], weight, x.flatten(1)).unflatten(1, x.shape[1:])
    return found


def normed(layer: nn.LayerNorm, x: Tensor) -> Tensor:
    """The normalisation of (C, N, B) along the first dimension."""
    centred = x - x.mean(0)
    scaled = centred * torch.rsqrt(centred.square().mean(0) + layer.eps)
    return torch.addcmul(layer.bias[:, None, None], scaled, layer.weight[:, None, None])
