"""The paper's forecaster for many models at once, each a row of a matrix.

An LSTM reads the look-back. Its hidden states of all steps, concatenated, go through an MLP with
per-channel PReLU. In the paper there is one output, the load at the look-ahead in scaled units.
Shapes and order of the parameters are those of `torch.nn.LSTM` (two biases) and `torch.nn.Linear`.
With the paper's sizes there are 60,276 parameters, 3,500 of them in the LSTM.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from plfl.layout import KernelForm, ParameterLayout

if TYPE_CHECKING:  # the command line starts without torch
    from torch import Tensor, nn

    from plfl.models.passes import Activations


@dataclass(frozen=True)
class Forecaster:
    """The sizes of the model. Its parameters are stored elsewhere, as rows."""

    inputs: int
    """F, the number of features; the first is the scaled load."""
    look_back: int
    """T, input rows of a window."""
    hidden: int
    """H, hidden units of the LSTM."""
    mlp: tuple[int, ...]
    """Widths of the hidden layers of the MLP."""
    absolute: bool
    """Whether the forecast is the absolute value of the output."""
    outputs: int = 1
    """O, numbers that the model returns for a window."""

    @cached_property
    def layout(self) -> ParameterLayout:
        """The parameters of a row, in order."""
        H = self.hidden
        shapes: dict[str, tuple[int, ...]] = {
            "lstm.weight_ih": (4 * H, self.inputs),
            "lstm.weight_hh": (4 * H, H),
            "lstm.bias_ih": (4 * H,),
            "lstm.bias_hh": (4 * H,),
        }
        widths = [self.look_back * H, *self.mlp, self.outputs]
        for layer, (fan_in, width) in enumerate(itertools.pairwise(widths)):
            shapes[f"mlp.{layer}.weight"] = (width, fan_in)
            shapes[f"mlp.{layer}.bias"] = (width,)
            if layer < len(self.mlp):
                shapes[f"mlp.{layer}.slope"] = (width,)
        return ParameterLayout(shapes, head=("mlp.*",))

    @property
    def kernel_form(self) -> KernelForm:
        """The model in the terms of the native kernel."""
        return KernelForm(self.hidden, self.mlp, "prelu", self.absolute)

    @property
    def dropout(self) -> None:
        """What training drops: nothing."""

    def initial(self, seed: int) -> Tensor:
        """Initial parameters (P,), float32, with PyTorch's distributions for LSTM, Linear and
        PReLU."""
        import torch

        generator = torch.Generator().manual_seed(seed)
        row = torch.empty(self.layout.width)
        fan_in = self.hidden
        for name, columns in self.layout.slices.items():
            if name.endswith("slope"):
                row[columns] = 0.25
                continue
            if name.startswith("mlp") and name.endswith("weight"):
                fan_in = self.layout.shapes[name][1]
            bound = 1 / math.sqrt(fan_in)
            row[columns].uniform_(-bound, bound, generator=generator)
        return row

    def forward(self, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        """Forecasts (S, B), in scaled units, for windows `x` (S, B, T, F); (S, B, O) with several
        outputs.

        `parameters` are those of S models, as `ParameterLayout.views` gives them.
        """
        import torch

        S, B, T, F = x.shape
        H = self.hidden
        bias = parameters["lstm.bias_ih"] + parameters["lstm.bias_hh"]
        weight_ih = parameters["lstm.weight_ih"].mT
        projected = torch.baddbmm(bias[:, None], x.reshape(S, B * T, F), weight_ih)
        steps = projected.unflatten(1, (B, T)).unbind(2)
        weight_hh = parameters["lstm.weight_hh"].mT
        h = c = x.new_zeros(S, B, H)
        states = []
        for step in steps:
            gates = torch.baddbmm(step, h, weight_hh)
            i, f, g, o = gates.chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            states.append(h)
        z = torch.cat(states, -1)
        for layer in range(len(self.mlp) + 1):
            weight = parameters[f"mlp.{layer}.weight"].mT
            z = torch.baddbmm(parameters[f"mlp.{layer}.bias"][:, None], z, weight)
            if layer < len(self.mlp):
                z = torch.where(z > 0, z, parameters[f"mlp.{layer}.slope"][:, None] * z)
        z = z.squeeze(-1)
        return z.abs() if self.absolute else z

    # What the engines need of any model, see `plfl.models.network.Network`.
    def module(self) -> nn.Module:
        """One forecaster from PyTorch's own layers, with parameters in the order of a row."""
        from plfl.models.layers import Module

        return Module(self)

    def forecasts(self, rows: Tensor, sequence: Tensor, context: Tensor) -> Tensor:
        """Forecasts (S, B) of the models `rows`."""
        return self.forward(self.layout.views(rows), sequence)

    def forward_pass(
        self, rows: Tensor, *inputs: Tensor, features: bool = False
    ) -> tuple[Tensor, Activations]:
        """Forecasts (S, B), and what the backward pass needs, which has all `features`."""
        from plfl.models import passes

        return passes.forward(self, rows, inputs[0])

    def backward_pass(
        self,
        rows: Tensor,
        kept: Activations,
        forecast: Tensor,
        features: dict[str, Tensor],
        out: Tensor,
    ) -> None:
        """Write the gradient by `rows` into `out`, see `passes.backward`."""
        from plfl.models import passes

        passes.backward(self, rows, kept, forecast, features, out)
