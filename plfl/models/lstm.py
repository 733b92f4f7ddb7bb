"""A long short-term memory over the sequence, and an MLP over its last state and the context.

Source: Sepp Hochreiter and Jürgen Schmidhuber, "Long Short-Term Memory", Neural Computation 1997,
https://doi.org/10.1162/neco.1997.9.8.1735; with forget gates, Gers et al. 2000.

i, f, o = σ(W x + b + U h + c), each with its own weights;  g = tanh(W_g x + b_g + U_g h + c_g)
c ← f ⊙ c + i ⊙ g;  h ← o ⊙ tanh(c)

The steps are written out, which a stack of models computes fast. The paper's model,
`lstm_mlp`, reads all states and no context.
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


class Lstm(Model):
    """An LSTM, the body, with an MLP, the head."""

    name = "lstm"
    label = "LSTM"

    hidden: int = Field(32, ge=1)
    """Units of the LSTM."""
    mlp: tuple[Annotated[int, Field(ge=1)], ...] = (64,)
    """Widths of the hidden layers of the head."""

    @property
    def head_patterns(self) -> list[str]:
        return ["head.*"]

    def build(self, shape: WindowShape) -> nn.Module:
        return Net(shape, self.hidden, self.mlp)


class Net(nn.Module):
    """The module of `lstm`; the parameters of the body are those of `nn.LSTMCell`."""

    def __init__(self, shape: WindowShape, hidden: int, mlp: Sequence[int]):
        super().__init__()
        self.body = nn.LSTMCell(shape.inputs, hidden)
        self.head = head_of(hidden + shape.context, mlp, shape.outputs)

    def forward(self, sequence: Tensor, context: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        body, linear = self.body, nn.functional.linear
        read = linear(sequence, body.weight_ih, body.bias_ih)
        h = c = sequence.new_zeros(sequence.shape[0], body.hidden_size)
        for x in read.unbind(1):
            i, f, g, o = (x + linear(h, body.weight_hh, body.bias_hh)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        out: Tensor = self.head(torch.cat([h, context], 1))
        return out.squeeze(1)
