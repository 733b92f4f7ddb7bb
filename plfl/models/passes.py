"""Hand-written forward and backward passes of many forecasters at once.

The results equal those of automatic differentiation of `Forecaster.forward`, with a third of the
operations: the models are so small that launching an operation costs more than its arithmetic. The
windows of a minibatch are the last dimension, for contiguous memory access. Dimensions are S
models, T steps, H hidden units and B windows.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from plfl.layout import ParameterLayout


class Sizes(Protocol):
    """The sizes of a forecaster, see `Forecaster`."""

    @property
    def layout(self) -> ParameterLayout: ...
    @property
    def inputs(self) -> int: ...
    @property
    def look_back(self) -> int: ...
    @property
    def hidden(self) -> int: ...
    @property
    def mlp(self) -> tuple[int, ...]: ...
    @property
    def absolute(self) -> bool: ...
    @property
    def outputs(self) -> int: ...


@dataclass(frozen=True)
class Activations:
    """The intermediate results of a forward pass, which the backward pass needs."""

    read: Tensor
    """What the LSTM reads in each step (S, T, F + H, B): inputs and previous hidden state."""
    gates: Tensor
    """Activations i, f, g, o, concatenated (S, T, 4 · H, B)."""
    cells: Tensor
    """Cell states c (S, T, H, B)."""
    squashed: Tensor
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


def forward(forecaster: Sizes, rows: Tensor, x: Tensor) -> tuple[Tensor, Activations]:
    """Forecasts (S, B), or (S, B, O), for windows `x` (S, B, T, F) by models `rows` (S, P)."""
    p = forecaster.layout.views(rows)
    S, B, T, F = x.shape
    H = forecaster.hidden
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
    sums, inputs = [], []
    last = len(forecaster.mlp)
    for layer in range(last + 1):
        inputs.append(z)
        z = torch.baddbmm(p[f"mlp.{layer}.bias"][..., None], p[f"mlp.{layer}.weight"], z)
        sums.append(z)
        if layer < last:
            z = torch.where(z > 0, z, p[f"mlp.{layer}.slope"][..., None] * z)
    forecast = z[:, 0] if forecaster.outputs == 1 else z.mT
    forecast = forecast.abs() if forecaster.absolute else forecast
    return forecast, Activations(read, gates, cells, squashed, sums, inputs)


def backward(
    forecaster: Sizes,
    rows: Tensor,
    activations: Activations,
    forecast: Tensor,
    features: dict[str, Tensor],
    out: Tensor,
) -> None:
    """Write the gradient of a loss with respect to the models `rows` (S, P) of a forward pass into
    `out` (S, P).

    `forecast` and `features` are the gradients with respect to the forecasts, in their shape, and
    to `states` and `penultimate` of the activations, if the loss uses them.
    """
    p, by = forecaster.layout.views(rows), forecaster.layout.views(out)
    d = forecast[:, None] if forecaster.outputs == 1 else forecast.mT
    if forecaster.absolute:
        d = d * activations.sums[-1].sign()
    last = len(forecaster.mlp)
    for layer in range(last, -1, -1):
        if layer < last:
            z, slope = activations.sums[layer], p[f"mlp.{layer}.slope"][..., None]
            torch.sum(d * z.clamp(max=0), -1, out=by[f"mlp.{layer}.slope"])
            d = torch.where(z > 0, d, d * slope)
        torch.bmm(d, activations.inputs[layer].mT, out=by[f"mlp.{layer}.weight"])
        torch.sum(d, -1, out=by[f"mlp.{layer}.bias"])
        d = torch.bmm(p[f"mlp.{layer}.weight"].mT, d)
        if layer == last and "penultimate" in features:
            d = d + features["penultimate"]
    if "states" in features:
        d = d + features["states"]
    _lstm(p["lstm.weight_hh"], activations, d.view_as(activations.cells), by)


def _lstm(
    weight_hh: Tensor, activations: Activations, states: Tensor, by: dict[str, Tensor]
) -> None:
    """Write the LSTM's gradients into `by`, given those of its hidden `states` (S, T, H, B)."""
    S, T, H, B = states.shape
    i, f, g, o = activations.gates.split(H, 2)
    # The derivative of c (for o: of h) with respect to the input of each gate.
    slopes = activations.gates * (1 - activations.gates)
    torch.mul(1 - g * g, i, out=slopes[:, :, 2 * H : 3 * H])
    slopes[:, :, :H] *= g
    slopes[:, 0, H : 2 * H] = 0
    slopes[:, 1:, H : 2 * H] *= activations.cells[:, :-1]
    slopes[:, :, 3 * H :] *= activations.squashed
    through = o * (1 - activations.squashed * activations.squashed)
    by_gates = torch.empty_like(activations.gates)
    c = through.new_zeros(S, H, B)
    for t in range(T - 1, -1, -1):
        h = states[:, t]
        if t + 1 < T:
            h = torch.baddbmm(h, weight_hh.mT, by_gates[:, t + 1])
        c.addcmul_(h, through[:, t])
        to_c = slopes[:, t, : 3 * H].unflatten(1, (3, H))
        torch.mul(to_c, c[:, None], out=by_gates[:, t, : 3 * H].unflatten(1, (3, H)))
        torch.mul(slopes[:, t, 3 * H :], h, out=by_gates[:, t, 3 * H :])
        c *= f[:, t]
    flat, read = (rows.transpose(1, 2).flatten(2) for rows in (by_gates, activations.read))
    by_weight = torch.bmm(flat, read.mT)
    inputs = by_weight.shape[-1] - H
    by["lstm.weight_ih"].copy_(by_weight[..., :inputs])
    by["lstm.weight_hh"].copy_(by_weight[..., inputs:])
    torch.sum(flat, -1, out=by["lstm.bias_ih"])
    by["lstm.bias_hh"].copy_(by["lstm.bias_ih"])
