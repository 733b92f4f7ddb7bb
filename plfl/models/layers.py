"""The modules of models, and layers that several of them have.

`Module` is the paper's forecaster as one `nn.Module` of PyTorch's own layers, the engines' oracle.
`map_first_dimension`, `product` and `normalise_first_dimension` have the windows (B) as the last
dimension of their inputs: a stack of small models then computes on long, contiguous vectors, and a
matrix product needs no transposed copy of its operands. The steps of recurrent cells are written
out, because a stack of models computes them faster that way.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from plfl.interfaces.model import Model
from plfl.layout import WindowShape


class Module(nn.Module):
    """The paper's forecaster, built from PyTorch's own layers."""

    def __init__(
        self,
        inputs: int,
        look_back: int,
        hidden: int,
        mlp: Sequence[int],
        absolute: bool,
        outputs: int = 1,
    ):
        """Build the layers; the sizes are those of a `LstmMlpNetwork`."""
        super().__init__()
        self.absolute = absolute
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)
        layers: list[nn.Module] = []
        fan_in = look_back * hidden
        for width in mlp:
            layers += [nn.Linear(fan_in, width), nn.PReLU(width)]
            fan_in = width
        self.mlp = nn.Sequential(*layers, nn.Linear(fan_in, outputs))

    def forward(self, sequence: Tensor, covariates: Tensor | None = None) -> Tensor:
        """Forecasts (B,), or (B, O), of windows (B, T, F); the paper's have no covariates."""
        outputs: Tensor = self.mlp(self.features(sequence, "states")).squeeze(1)
        return outputs.abs() if self.absolute else outputs

    def features(self, x: Tensor, layer: str) -> Tensor:
        """Hidden states (`states`) or the input of the last linear layer (`penultimate`)."""
        states: Tensor = self.lstm(x)[0].flatten(1)
        return states if layer == "states" else self.mlp[:-1](states)


class Perceptron(nn.Module):
    """The module of `mlp`: its body consists of the hidden layers, its head is the last layer."""

    def __init__(self, shape: WindowShape, hidden: Sequence[int]):
        super().__init__()
        inputs = shape.look_back * shape.inputs + shape.covariates
        layers, width = hidden_layers(inputs, hidden)
        self.body = nn.Sequential(*layers)
        self.head = small(nn.Linear(width, shape.outputs))

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        outputs: Tensor = self.head(self.body(torch.cat([sequence.flatten(1), covariates], 1)))
        return outputs.squeeze(1)


def head_of(width: int, hidden: Sequence[int], outputs: int) -> nn.Sequential:
    """A perceptron for the `width` outputs of another body; its last layer starts `small`."""
    layers, width = hidden_layers(width, hidden)
    return nn.Sequential(*layers, small(nn.Linear(width, outputs)))


def hidden_layers(width: int, hidden: Sequence[int]) -> tuple[list[nn.Module], int]:
    """Linear layers from `width` inputs to the widths `hidden`, each followed by a SiLU; and the
    width of the last layer."""
    layers: list[nn.Module] = []
    for units in hidden:
        layers += [nn.Linear(width, units), nn.SiLU()]
        width = units
    return layers, width


def small(layer: nn.Linear) -> nn.Linear:
    """The layer with a tenth of its initial parameters."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(0.1)
    return layer


def map_first_dimension(layer: nn.Linear, x: Tensor) -> Tensor:
    """A linear layer along the first dimension: (C, ..., B) becomes (C', ..., B)."""
    return product(layer.weight, layer.bias, x)


def product(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """W x + b along the first dimension, with weights (C', C): (C, ..., B) becomes (C', ..., B)."""
    columns: Tensor = torch.addmm(bias[:, None], weight, x.flatten(1)).unflatten(1, x.shape[1:])
    return columns


def normalise_first_dimension(layer: nn.LayerNorm, x: Tensor) -> Tensor:
    """The normalisation of (C, N, B) along the first dimension."""
    centred = x - x.mean(0)
    scaled = centred * torch.rsqrt(centred.square().mean(0) + layer.eps)
    return torch.addcmul(layer.bias[:, None, None], scaled, layer.weight[:, None, None])


class Recurrent(Model):
    """A recurrent cell, the body, with an MLP, the head."""

    head_patterns = ("head.*",)

    hidden: int = Field(32, ge=1)
    """Units of the recurrent cell."""
    mlp: tuple[Annotated[int, Field(ge=1)], ...] = (64,)
    """Widths of the hidden layers of the head."""


class RecurrentNet(nn.Module):
    """A module with a cell of torch as `body`; subclasses compute its steps."""

    def __init__(self, cell: nn.RNNCellBase, shape: WindowShape, mlp: Sequence[int]):
        super().__init__()
        self.body = cell
        self.head = head_of(cell.hidden_size + shape.covariates, mlp, shape.outputs)

    def last_state(self, sequence: Tensor) -> Tensor:
        """The hidden state (B, H) after all steps of a sequence (B, T, F)."""
        raise NotImplementedError

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        outputs: Tensor = self.head(torch.cat([self.last_state(sequence), covariates], 1))
        return outputs.squeeze(1)
