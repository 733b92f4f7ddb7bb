"""The paper's forecaster for many models at once, each a row of a matrix.

An LSTM reads the look-back. Its hidden states of all steps, concatenated, go through an MLP with
per-channel PReLU. In the paper there is one output, the load at the look-ahead in scaled units.
Shapes and order of the parameters are those of `torch.nn.LSTM` (two biases) and `torch.nn.Linear`.
With the paper's sizes there are 60,276 parameters, 3,500 of them in the LSTM.

The passes are written by hand. Their results equal those of automatic differentiation, with a third
of the operations: the models are so small that launching an operation costs more than its
arithmetic. The windows of a minibatch are the last dimension, for contiguous memory access.
Dimensions are S models, T steps, H hidden units and B windows.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import ClassVar

from plfl.base import Module, Tensor
from plfl.base.lazy import torch
from plfl.layout import KernelForm, ParameterLayout

WINDOWS_PER_PASS = 4096
"""Most windows that are forecast together, because a forward pass keeps all of them."""


@dataclass(frozen=True)
class Activations:
    """The intermediate results of a forward pass, which the backward pass needs."""

    step_inputs: Tensor
    """The LSTM's inputs in each step (S, T, F + H, B): features and previous hidden state."""
    gates: Tensor
    """Activations i, f, g, o, concatenated (S, T, 4 · H, B)."""
    cells: Tensor
    """Cell states c (S, T, H, B)."""
    tanh_cells: Tensor
    """tanh c (S, T, H, B)."""
    sums: list[Tensor]
    """Output of each linear layer (S, W, B), before the PReLU."""
    inputs: list[Tensor]
    """Input of each linear layer."""

    @property
    def states(self) -> Tensor:
        """Hidden states of all steps, concatenated: (S, T · H, B)."""
        return self.inputs[0]

    @property
    def penultimate(self) -> Tensor:
        """Input of the last linear layer (S, W, B)."""
        return self.inputs[-1]


@dataclass(frozen=True)
class LstmMlpNetwork:
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

    is_random: ClassVar[bool] = False
    has_buffers: ClassVar[bool] = False

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
        """The model as the native kernel describes it."""
        return KernelForm(self.hidden, self.mlp, "prelu", self.absolute)

    def initial(self, seed: int) -> Tensor:
        """Initial parameters (P,), float32, as PyTorch draws them for LSTM, Linear and PReLU."""
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

    # The interface that the engines need, see `plfl.networks.network.Network`.
    def can_stack(self, row_count: int, *inputs: Tensor) -> bool:
        """Any number of models trains together."""
        return True

    def module(self, row: Tensor | None = None) -> Module:
        """One forecaster from PyTorch's own layers, with parameters in the order of a row, or with
        those of `row` (P,)."""
        from torch import nn

        from plfl.models.layers import Module

        module = Module(*astuple(self))
        if row is not None:
            nn.utils.vector_to_parameters(row, module.parameters())
        return module

    def forecasts(self, rows: Tensor, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (S, B) of the models `rows`."""
        parts = sequence.split(WINDOWS_PER_PASS, 1)
        return torch.cat([self.forward_pass(rows, windows)[0] for windows in parts], 1)

    def forward_pass(
        self, rows: Tensor, *inputs: Tensor, features: bool = False, keys: Tensor | None = None
    ) -> tuple[Tensor, Activations]:
        """Forecasts (S, B), or (S, B, O), of models `rows` (S, P), and the activations for the
        backward pass, which include all `features`. Of the inputs, only the sequences (S, B, T, F)
        are read; no layer is random, so no `keys` are."""
        p, x = self.layout.views(rows), inputs[0]
        S, B, T, F = x.shape
        H = self.hidden
        bias = (p["lstm.bias_ih"] + p["lstm.bias_hh"])[..., None]
        weight = torch.cat([p["lstm.weight_ih"], p["lstm.weight_hh"]], -1)
        read = x.new_zeros(S, T, F + H, B)
        read[:, :, :F] = x.permute(0, 2, 3, 1)
        gates, states = x.new_empty(S, T, 4 * H, B), x.new_empty(S, T, H, B)
        cells, squashed = torch.empty_like(states), torch.empty_like(states)
        for t in range(T):
            now = torch.baddbmm(bias, weight, read[:, t], out=gates[:, t])
            now[:, : 2 * H].sigmoid_()
            now[:, 2 * H : 3 * H].tanh_()
            now[:, 3 * H :].sigmoid_()
            i, f, g, o = now.split(H, 1)
            c = torch.mul(i, g, out=cells[:, t])
            if t:
                c.addcmul_(f, cells[:, t - 1])
            h = torch.mul(o, torch.tanh(c, out=squashed[:, t]), out=states[:, t])
            if t + 1 < T:
                read[:, t + 1, F:] = h
        z = states.view(S, T * H, B)
        sums, read_by = [], []
        last = len(self.mlp)
        for layer in range(last + 1):
            read_by.append(z)
            z = torch.baddbmm(p[f"mlp.{layer}.bias"][..., None], p[f"mlp.{layer}.weight"], z)
            sums.append(z)
            if layer < last:
                z = torch.where(z > 0, z, p[f"mlp.{layer}.slope"][..., None] * z)
        forecast = z[:, 0] if self.outputs == 1 else z.mT
        forecast = forecast.abs() if self.absolute else forecast
        return forecast, Activations(read, gates, cells, squashed, sums, read_by)

    def backward_pass(
        self,
        rows: Tensor,
        kept: Activations,
        by_output: Tensor,
        by_feature: dict[str, Tensor],
        out: Tensor,
    ) -> None:
        """Write the gradient of a loss with respect to the models `rows` (S, P) of a forward pass
        into `out` (S, P). `by_output` and `by_feature` are the gradients of the loss with respect
        to the forecasts, in their shape, and, if the loss uses them, to `states` and `penultimate`
        of `kept`."""
        p, gradient_views = self.layout.views(rows), self.layout.views(out)
        d = by_output[:, None] if self.outputs == 1 else by_output.mT
        if self.absolute:
            d = d * kept.sums[-1].sign()
        last = len(self.mlp)
        for layer in range(last, -1, -1):
            if layer < last:
                z, slope = kept.sums[layer], p[f"mlp.{layer}.slope"][..., None]
                torch.sum(d * z.clamp(max=0), -1, out=gradient_views[f"mlp.{layer}.slope"])
                d = torch.where(z > 0, d, d * slope)
            torch.bmm(d, kept.inputs[layer].mT, out=gradient_views[f"mlp.{layer}.weight"])
            torch.sum(d, -1, out=gradient_views[f"mlp.{layer}.bias"])
            d = torch.bmm(p[f"mlp.{layer}.weight"].mT, d)
            if layer == last and "penultimate" in by_feature:
                d = d + by_feature["penultimate"]
        if "states" in by_feature:
            d = d + by_feature["states"]
        _lstm(p["lstm.weight_hh"], kept, d.view_as(kept.cells), gradient_views)


def _lstm(
    weight_hh: Tensor, activations: Activations, states: Tensor, gradient_views: dict[str, Tensor]
) -> None:
    """Write the LSTM's gradients into `gradient_views`, given those of its hidden `states` (S, T,
    H, B)."""
    S, T, H, B = states.shape
    i, f, g, o = activations.gates.split(H, 2)
    # The derivative of c (for o: of h) with respect to the input of each gate.
    slopes = activations.gates * (1 - activations.gates)
    torch.mul(1 - g * g, i, out=slopes[:, :, 2 * H : 3 * H])
    slopes[:, :, :H] *= g
    slopes[:, 0, H : 2 * H] = 0
    slopes[:, 1:, H : 2 * H] *= activations.cells[:, :-1]
    slopes[:, :, 3 * H :] *= activations.tanh_cells
    cell_slope = o * (1 - activations.tanh_cells * activations.tanh_cells)
    by_gates = torch.empty_like(activations.gates)
    c = cell_slope.new_zeros(S, H, B)
    for t in range(T - 1, -1, -1):
        h = states[:, t]
        if t + 1 < T:
            h = torch.baddbmm(h, weight_hh.mT, by_gates[:, t + 1])
        c.addcmul_(h, cell_slope[:, t])
        to_c = slopes[:, t, : 3 * H].unflatten(1, (3, H))
        torch.mul(to_c, c[:, None], out=by_gates[:, t, : 3 * H].unflatten(1, (3, H)))
        torch.mul(slopes[:, t, 3 * H :], h, out=by_gates[:, t, 3 * H :])
        c *= f[:, t]
    flat, read = (rows.transpose(1, 2).flatten(2) for rows in (by_gates, activations.step_inputs))
    by_weight = torch.bmm(flat, read.mT)
    inputs = by_weight.shape[-1] - H
    gradient_views["lstm.weight_ih"].copy_(by_weight[..., :inputs])
    gradient_views["lstm.weight_hh"].copy_(by_weight[..., inputs:])
    torch.sum(flat, -1, out=gradient_views["lstm.bias_ih"])
    gradient_views["lstm.bias_hh"].copy_(gradient_views["lstm.bias_ih"])
