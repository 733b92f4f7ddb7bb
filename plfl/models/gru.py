"""A gated recurrent unit over the sequence, and an MLP over its last state and the context.

Source: Kyunghyun Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder for
Statistical Machine Translation", EMNLP 2014, https://arxiv.org/abs/1406.1078.

r = σ(W_r x + b_r + U_r h + c_r);  z = σ(W_z x + b_z + U_z h + c_z)
n = tanh(W_n x + b_n + r ⊙ (U_n h + c_n));  h ← n + z ⊙ (h − n)

The steps are written out, which a stack of models computes fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from plfl.layout import WindowShape
from plfl.models import Model
from plfl.models.mlp import head_of


class Gru(Model):
    """A GRU, the body, with an MLP, the head."""

    name = "gru"
    label = "GRU"

    hidden: int = Field(32, ge=1)
    """Units of the GRU."""
    mlp: tuple[Annotated[int, Field(ge=1)], ...] = (64,)
    """Widths of the hidden layers of the head."""

    @property
    def head_patterns(self) -> list[str]:
        return ["head.*"]

    def build(self, shape: WindowShape) -> nn.Module:
        return Net(shape, self.hidden, self.mlp)


class Net(nn.Module):
    """The module of `gru`; the parameters of the body are those of `nn.GRUCell`."""

    def __init__(self, shape: WindowShape, hidden: int, mlp: Sequence[int]):
        super().__init__()
        self.body = nn.GRUCell(shape.inputs, hidden)
        self.head = head_of(hidden + shape.context, mlp, shape.outputs)

    def forward(self, sequence: Tensor, context: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        body, linear = self.body, nn.functional.linear
        read = linear(sequence, body.weight_ih, body.bias_ih)
        h = sequence.new_zeros(sequence.shape[0], body.hidden_size)
        for x in read.unbind(1):
            (x_gates, x_n), (h_gates, h_n) = (
                part.split([2 * body.hidden_size, body.hidden_size], 1)
                for part in (x, linear(h, body.weight_hh, body.bias_hh))
            )
            r, z = torch.sigmoid(x_gates + h_gates).chunk(2, 1)
            n = torch.tanh(x_n + r * h_n)
            h = n + z * (h - n)
        out: Tensor = self.head(torch.cat([h, context], 1))
        return out.squeeze(1)
