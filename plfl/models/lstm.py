"""A long short-term memory over the sequence, and an MLP over its last state and the covariates.

Source: Sepp Hochreiter and Jürgen Schmidhuber, "Long Short-Term Memory", Neural Computation 1997,
https://doi.org/10.1162/neco.1997.9.8.1735; with forget gates, Gers et al. 2000.

i, f, o = σ(W x + b + U h + c), each with its own weights;  g = tanh(W_g x + b_g + U_g h + c_g)
c ← f ⊙ c + i ⊙ g;  h ← o ⊙ tanh(c)

Each step is written out as one matrix product of x and h together, because a stack of models
computes it faster that way. The paper's model, `lstm_mlp`, reads all states and no covariates.
"""

import torch
from torch import Tensor, nn

from plfl.layout import WindowShape
from plfl.models.layers import Recurrent, RecurrentNet


class Lstm(Recurrent):
    """An LSTM, the body, with an MLP, the head."""

    name = "lstm"
    label = "LSTM"

    def build(self, shape: WindowShape) -> nn.Module:
        return LstmNet(nn.LSTMCell(shape.inputs, self.hidden), shape, self.mlp)


class LstmNet(RecurrentNet):
    """The module of `lstm`; the parameters of the body are those of `nn.LSTMCell`."""

    def last_state(self, sequence: Tensor) -> Tensor:
        body = self.body
        weight = torch.cat([body.weight_ih, body.weight_hh], 1)
        bias = body.bias_ih + body.bias_hh
        h = c = sequence.new_zeros(sequence.shape[0], body.hidden_size)
        for x in sequence.unbind(1):
            gates = nn.functional.linear(torch.cat([x, h], 1), weight, bias)
            i, f, g, o = gates.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h
