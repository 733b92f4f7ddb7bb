"""The paper's forecaster over a stack of models, each model a row of a matrix.

An LSTM reads the look-back; its hidden states of all steps, concatenated, go through an MLP with
per-channel PReLU to one number, the load at the look-ahead in scaled units. Parameters have the
names, shapes and order of `torch.nn.LSTM` (two biases) and `torch.nn.Linear`; for the paper's
sizes there are 60,276 of them, 3,500 in the LSTM.
"""

import itertools
import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.study import Model


def parameter_names(model: "Model") -> list[str]:
    """Names of the forecaster's parameters in the order of a row, whatever its input."""
    return Forecaster.of(model, inputs=1, look_back=1).layout.names


@dataclass(frozen=True)
class ParameterLayout:
    """Which slice of a row is which parameter."""

    shapes: dict[str, tuple[int, ...]]

    @property
    def names(self) -> list[str]:
        return list(self.shapes)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Columns of each parameter, by name."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes.values()]).tolist()
        starts = [0, *ends[:-1]]
        return {n: slice(a, b) for n, a, b in zip(self.shapes, starts, ends, strict=True)}

    @property
    def width(self) -> int:
        """P, the number of parameters of one model."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def views(self, theta: "Tensor") -> "dict[str, Tensor]":
        """The parameters of all rows of `theta` (S, P), each as (S, *shape)."""
        return {
            name: theta[:, columns].unflatten(1, self.shapes[name])
            for name, columns in self.slices.items()
        }

    def mask(self, patterns: list[str]) -> NDArray[np.bool_]:
        """Which columns belong to a parameter that one of the name `patterns` matches: (P,)."""
        mask = np.zeros(self.width, dtype=bool)
        for name, columns in self.slices.items():
            mask[columns] = any(fnmatchcase(name, pattern) for pattern in patterns)
        return mask


@dataclass(frozen=True)
class Forecaster:
    """Sizes of the model; the parameters live outside, as rows."""

    inputs: int
    """F, features per row of the look-back; the first is the scaled load."""
    look_back: int
    """T, input rows of a window."""
    hidden: int
    """H, hidden units of the LSTM."""
    mlp: tuple[int, ...]
    """Widths of the hidden layers of the MLP."""
    absolute: bool
    """Whether the output goes through abs()."""

    @classmethod
    def of(cls, model: "Model", inputs: int, look_back: int) -> "Forecaster":
        """The forecaster that a configuration describes, for windows of (look_back, inputs)."""
        return cls(inputs, look_back, model.hidden, tuple(model.mlp), model.output == "abs")

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
        widths = [self.look_back * H, *self.mlp, 1]
        for layer, (fan_in, width) in enumerate(itertools.pairwise(widths)):
            shapes[f"mlp.{layer}.weight"] = (width, fan_in)
            shapes[f"mlp.{layer}.bias"] = (width,)
            if layer < len(self.mlp):
                shapes[f"mlp.{layer}.slope"] = (width,)
        return ParameterLayout(shapes)

    def initial(self, seed: int) -> "Tensor":
        """Initial parameters (P,), float32, drawn as PyTorch initialises LSTM, Linear and PReLU."""
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

    def forward(self, parameters: "dict[str, Tensor]", x: "Tensor") -> "Tensor":
        """Forecasts (S, B) in scaled units of windows `x` (S, B, T, F) by models (S, *shape)."""
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
        return z[..., 0].abs() if self.absolute else z[..., 0]
