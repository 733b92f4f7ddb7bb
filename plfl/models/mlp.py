"""A multilayer perceptron over the flattened sequence and the context.

With inputs and a target that have a scale of their own, this is the smallest network that forecasts
a building well. Its head starts small, so that the first forecasts are close to zero: for a target
that is relative to the last value, close to persistence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from plfl.layout import KernelForm, WindowShape
from plfl.models import Model


class Mlp(Model):
    """Linear layers with SiLU between them, over sequence and context."""

    name = "mlp"
    label = "MLP"

    hidden: tuple[Annotated[int, Field(ge=1)], ...] = (64, 64)
    """Widths of the hidden layers, which are the body; the last layer is the head."""

    def build(self, shape: WindowShape) -> nn.Module:
        return Net(shape, self.hidden)

    @property
    def kernel_form(self) -> KernelForm:
        return KernelForm(0, self.hidden, "silu")


class Net(nn.Module):
    """The module of `mlp`."""

    def __init__(self, shape: WindowShape, hidden: Sequence[int]):
        super().__init__()
        layers, width = silu_layers(shape.look_back * shape.inputs + shape.context, hidden)
        self.body = nn.Sequential(*layers)
        self.head = small(nn.Linear(width, shape.outputs))

    def forward(self, sequence: Tensor, context: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        out: Tensor = self.head(self.body(torch.cat([sequence.flatten(1), context], 1)))
        return out.squeeze(1)


def head_of(width: int, hidden: Sequence[int], outputs: int) -> nn.Sequential:
    """The same layers over `width` features of another body."""
    layers, width = silu_layers(width, hidden)
    return nn.Sequential(*layers, small(nn.Linear(width, outputs)))


def silu_layers(width: int, hidden: Sequence[int]) -> tuple[list[nn.Module], int]:
    """Linear layers, each followed by SiLU, from a width; and the width of the last."""
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
