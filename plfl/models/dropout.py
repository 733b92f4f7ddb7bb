"""Dropout with masks that depend neither on which models train together nor on the engine.

A minibatch has a key of 64 bits, drawn for the client, the round and the step. Whether unit u is
dropped for sample b of the minibatch follows from the key, u and b alone (a counter-based
generator): with s a permutation of the 32-bit integers and the key's halves k₀ (low) and k₁,

    s(s(u ⊕ k₀) ⊕ (b · 0x9e3779b9 + k₁ mod 2³²)) < rate · 2³²

The units of all hidden layers are numbered in order. The kernel computes the same.

Source of dropout: Nitish Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from
Overfitting", JMLR 2014. s is Chris Wellons' lowbias32 (https://nullprogram.com/blog/2018/07/31/).
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Dropout(NamedTuple):
    """The fraction of a model's hidden units that training drops, anew for each sample."""

    rate: float
    """Probability that a unit is dropped; the others are multiplied by 1 / (1 − rate)."""
    units: int
    """U, the hidden units of all layers."""

    def kept(self, keys: Tensor, samples: int) -> Tensor:
        """Factors (..., B, U) of the units for the B samples of minibatches with `keys` (...)."""
        units = torch.arange(self.units, dtype=torch.int32, device=keys.device)
        numbers = torch.arange(samples, dtype=torch.int32, device=keys.device)
        low, high = keys.to(torch.int32), (keys >> 32).to(torch.int32)
        own = _scrambled(units ^ low[..., None])
        counters = numbers * _signed(0x9E3779B9) + high[..., None]
        drawn = _scrambled(own[..., None, :] ^ counters[..., None])
        # Signed integers in the order of the unsigned ones.
        limit = round(self.rate * 2**32) - 2**31
        return ((drawn ^ _signed(2**31)) >= limit).to(torch.float32) / (1 - self.rate)


def _scrambled(x: Tensor) -> Tensor:
    """s of 32-bit integers."""
    x = (x ^ _right(x, 16)) * 0x7FEB352D
    x = (x ^ _right(x, 15)) * _signed(0x846CA68B)
    return x ^ _right(x, 16)


def _right(x: Tensor, bits: int) -> Tensor:
    """The integer shifted to the right as an unsigned one."""
    return (x >> bits) & ((1 << (32 - bits)) - 1)


def _signed(x: int) -> int:
    """The 32-bit integer with the bits of an unsigned one."""
    return x - 2**32 if x >= 2**31 else x
