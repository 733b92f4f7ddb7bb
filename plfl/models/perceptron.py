"""A multilayer perceptron: the module of `mlp`, and the head of other models."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from plfl.layout import WindowShape


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
        out: Tensor = self.head(self.body(torch.cat([sequence.flatten(1), covariates], 1)))
        return out.squeeze(1)


def head_of(width: int, hidden: Sequence[int], outputs: int) -> nn.Sequential:
    """A perceptron for the `width` outputs of another body; its last layer starts `small`."""
    layers, width = hidden_layers(width, hidden)
    return nn.Sequential(*layers, small(nn.Linear(width, outputs)))


def hidden_layers(width: int, hidden: Sequence[int]) -> tuple[list[nn.Module], int]:
    """Linear layers from `width` inputs to the widths `hidden`, each followed by a SiLU; and the
    width of the last layer."""
    layers: list[nn.Module] = []
    for own in hidden:
        layers += [nn.Linear(width, own), nn.SiLU()]
        width = own
    return layers, width


def small(layer: nn.Linear) -> nn.Linear:
    """The layer with a tenth of its initial parameters."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(0.1)
    return layer
