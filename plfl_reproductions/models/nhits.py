"""N-HiTS: blocks at different resolutions, each of which reads the part of the load that earlier
blocks left unexplained.

Source: Cristian Challu et al., "N-HiTS: Neural Hierarchical Interpolation for Time Series
Forecasting", AAAI 2023, https://arxiv.org/abs/2201.12886; authors' code:
https://github.com/Nixtla/neuralforecast.

x ← load − last;  ŷ ← last;  for each block with pooling k:
    z = MLP(maxpool_k(x), further features, covariates);  x ← x − W_b z;  ŷ ← ŷ + W_f z

Deviations: the blocks return every output themselves; nothing is interpolated between outputs.
"""

import itertools
from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from plfl.interfaces.model import Model
from plfl.layout import WindowShape


class Nhits(Model):
    """Residual blocks at several resolutions; their output layers are the head."""

    name = "nhits"
    label = "N-HiTS"
    head_patterns = ("blocks.*.back.*", "blocks.*.ahead.*")

    pooling: tuple[Annotated[int, Field(ge=1)], ...] = Field((4, 2, 1), min_length=1)
    """Steps over which each block pools the load, one block per number."""
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = (64, 64)
    """Widths of the hidden layers of a block."""

    @property
    def summary(self) -> str:
        return f"{self.name}{len(self.pooling)}x{'-'.join(map(str, self.hidden))}"

    def build(self, shape: WindowShape) -> nn.Module:
        return NHitsNet(shape, self)


class NHitsNet(nn.Module):
    """The module of `nhits`."""

    def __init__(self, shape: WindowShape, sizes: Nhits):
        super().__init__()
        last = len(sizes.pooling) - 1
        self.blocks = nn.ModuleList(
            # No block reads what the last block leaves unexplained.
            NHitsBlock(shape, pooling, sizes.hidden, leaves=i < last)
            for i, pooling in enumerate(sizes.pooling)
        )

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        last = sequence[:, -1:, 0]
        forecast, residual = last, sequence[:, :, 0] - last
        other_inputs = torch.cat([sequence[:, :, 1:].flatten(1), covariates], 1)
        for block in self.blocks:
            residual, block_forecast = block(residual, other_inputs)
            forecast = forecast + block_forecast
        return forecast.squeeze(1)


class NHitsBlock(nn.Module):
    """A block: the part (B, T) of the load that it leaves unexplained; its forecast (B, O)."""

    def __init__(self, shape: WindowShape, pooling: int, hidden: Sequence[int], leaves: bool):
        super().__init__()
        self.pooling = pooling
        other_inputs = shape.look_back * (shape.inputs - 1) + shape.covariates
        widths = [-(-shape.look_back // pooling) + other_inputs, *hidden]
        pairs = itertools.pairwise(widths)
        layers = [layer for a, b in pairs for layer in (nn.Linear(a, b), nn.ReLU())]
        self.body = nn.Sequential(*layers)
        self.back = nn.Linear(widths[-1], shape.look_back) if leaves else None
        self.ahead = nn.Linear(widths[-1], shape.outputs)

    def forward(self, load: Tensor, other_inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The part of the load that stays unexplained, and this block's part of the forecast."""
        pooled = nn.functional.max_pool1d(load[:, None], self.pooling, ceil_mode=True)[:, 0]
        z = self.body(torch.cat([pooled, other_inputs], 1))
        return load if self.back is None else load - self.back(z), self.ahead(z)
