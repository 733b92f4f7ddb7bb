"""A gated recurrent unit over the sequence, and an MLP over its last state and the covariates.

Source: Kyunghyun Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder for
Statistical Machine Translation", EMNLP 2014, https://arxiv.org/abs/1406.1078.

r = σ(W_r x + b_r + U_r h + c_r);  z = σ(W_z x + b_z + U_z h + c_z)
n = tanh(W_n x + b_n + r ⊙ (U_n h + c_n));  h ← n + z ⊙ (h − n)

The steps are written out, because a stack of models computes them faster that way.
"""

import torch
from torch import Tensor, nn

from plfl.layout import WindowShape
from plfl.models.layers import Recurrent, RecurrentNet


class Gru(Recurrent):
    """A GRU, the body, with an MLP, the head."""

    name = "gru"
    label = "GRU"

    def build(self, shape: WindowShape) -> nn.Module:
        return GruNet(nn.GRUCell(shape.inputs, self.hidden), shape, self.mlp)


class GruNet(RecurrentNet):
    """The module of `gru`; the parameters of the body are those of `nn.GRUCell`."""

    def last_state(self, sequence: Tensor) -> Tensor:
        body = self.body
        gate_inputs = nn.functional.linear(sequence, body.weight_ih, body.bias_ih)
        h = gate_inputs.new_zeros(gate_inputs.shape[0], body.hidden_size)
        for x in gate_inputs.unbind(1):
            (x_gates, x_n), (h_gates, h_n) = (
                part.split([2 * body.hidden_size, body.hidden_size], 1)
                for part in (x, nn.functional.linear(h, body.weight_hh, body.bias_hh))
            )
            r, z = torch.sigmoid(x_gates + h_gates).chunk(2, 1)
            n = torch.tanh(x_n + r * h_n)
            h = n + z * (h - n)
        return h
