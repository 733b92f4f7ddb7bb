"""A multilayer perceptron over the flattened sequence and the context.

With inputs and a target that have a scale of their own, this is the smallest network that forecasts
a building well. Its head starts small, so that the first forecasts are close to zero: for a target
that is relative to the last value, close to persistence.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from plfl.layout import Activation, KernelForm, WindowShape
from plfl.models import Model
from plfl.models.dropout import Dropout


class Mlp(Model):
    """Linear layers with an activation between them, over sequence and context."""

    name = "mlp"
    label = "MLP"

    hidden: tuple[Annotated[int, Field(ge=1)], ...] = (64, 64)
    """Widths of the hidden layers, which are the body; the last layer is the head."""
    activation: Activation = "silu"
    """What follows each hidden layer; `prelu` has a slope per unit, which is a parameter."""
    dropout: float = Field(0.0, ge=0, le=0.9)
    """Probability that a local step drops a hidden unit, for each window by itself. Forecasts drop
    none."""

    def build(self, shape: WindowShape) -> nn.Module:
        return Net(shape, self.hidden, self.activation)

    @property
    def kernel_form(self) -> KernelForm:
        return KernelForm(0, self.hidden, self.activation)

    @property
    def dropped(self) -> Dropout | None:
        return Dropout(self.dropout, sum(self.hidden)) if self.dropout else None


class Net(nn.Module):
    """The module of `mlp`."""

    def __init__(self, shape: WindowShape, hidden: Sequence[int], activation: Activation = "silu"):
        super().__init__()
        inputs = shape.look_back * shape.inputs + shape.context
        layers, width = hidden_layers(inputs, hidden, activation)
        self.hidden = list(hidden)
        self.body = nn.Sequential(*layers)
        self.head = small(nn.Linear(width, shape.outputs))

    def forward(self, sequence: Tensor, context: Tensor, kept: Tensor | None = None) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs; `kept`: factors (B, U) of hidden units."""
        x = torch.cat([sequence.flatten(1), context], 1)
        if kept is None:
            x = self.body(x)
        else:
            for layer, factors in enumerate(kept.split(self.hidden, 1)):
                x = self.body[2 * layer : 2 * layer + 2](x) * factors
        out: Tensor = self.head(x)
        return out.squeeze(1)


def head_of(width: int, hidden: Sequence[int], outputs: int) -> nn.Sequential:
    """The layers of `Net` for the `width` outputs of another body; the last one starts `small`."""
    layers, width = hidden_layers(width, hidden)
    return nn.Sequential(*layers, small(nn.Linear(width, outputs)))


def hidden_layers(
    width: int, hidden: Sequence[int], activation: Activation = "silu"
) -> tuple[list[nn.Module], int]:
    """Linear layers from `width` inputs to the widths `hidden`, each followed by an activation; and
    the width of the last layer."""
    layers: list[nn.Module] = []
    for own in hidden:
        layers += [nn.Linear(width, own), _activation(activation, own)]
        width = own
    return layers, width


def _activation(name: Activation, units: int) -> nn.Module:
    if name == "prelu":
        return nn.PReLU(units)
    return nn.SiLU() if name == "silu" else nn.ReLU()


def small(layer: nn.Linear) -> nn.Linear:
    """The layer with a tenth of its initial parameters."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(0.1)
    return layer
