"""One linear map from the window to the forecast: NLinear or DLinear.

Source: Ailing Zeng, Muxi Chen, Lei Zhang and Qiang Xu, "Are Transformers Effective for Time Series
Forecasting?", AAAI 2023, https://arxiv.org/abs/2205.13504; authors' code:
https://github.com/cure-lab/LTSF-Linear.

NLinear: ŷ = x_l + w · (x − x_l), with the last value x_l of the load
DLinear: ŷ = w_s · (x − x̄) + w_t · x̄, with the moving average x̄ of the load over `average` steps,
         whose first and last values are repeated at the ends

Deviations: further features and the covariates enter the linear map besides the load.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from plfl.interfaces.model import Model
from plfl.layout import WindowShape


class Linear(Model):
    """NLinear or DLinear."""

    name = "linear"
    head_patterns = ("level",)

    kind: Literal["nlinear", "dlinear"] = "nlinear"
    """`nlinear`: the last load is subtracted from the others and added to the forecast. `dlinear`:
    trend and remainder have separate weights."""
    average: int = Field(25, ge=1)
    """Steps of the moving average of `dlinear` (authors' code: 25), rounded up to an odd number."""

    @property
    def summary(self) -> str:
        return self.kind

    def build(self, shape: WindowShape) -> nn.Module:
        return NLinear(shape) if self.kind == "nlinear" else DLinear(shape, self.average)


class NLinear(nn.Module):
    """The module of `nlinear`: weights are the body, the constant is the head."""

    def __init__(self, shape: WindowShape):
        super().__init__()
        width = shape.look_back * shape.inputs + shape.covariates
        self.weights = nn.Linear(width, shape.outputs, bias=False)
        self.level = nn.Parameter(torch.zeros(shape.outputs))

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        last = sequence[:, -1:, 0]
        load = sequence[:, :, 0] - last
        inputs = torch.cat([load, sequence[:, :, 1:].flatten(1), covariates], 1)
        outputs: Tensor = self.weights(inputs)
        return (outputs + last + self.level).squeeze(1)


class DLinear(nn.Module):
    """The module of `dlinear`: weights are the body, the constant is the head."""

    def __init__(self, shape: WindowShape, average: int):
        super().__init__()
        self.reach = average // 2
        self.trend = nn.Linear(shape.look_back, shape.outputs, bias=False)
        width = shape.look_back * shape.inputs + shape.covariates
        self.remainder = nn.Linear(width, shape.outputs, bias=False)
        self.level = nn.Parameter(torch.zeros(shape.outputs))

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        load = sequence[:, :, 0]
        ends = [load[:, :1].expand(-1, self.reach), load, load[:, -1:].expand(-1, self.reach)]
        trend = torch.cat(ends, 1).unfold(1, 2 * self.reach + 1, 1).mean(-1)
        remainder = torch.cat([load - trend, sequence[:, :, 1:].flatten(1), covariates], 1)
        outputs: Tensor = self.trend(trend) + self.remainder(remainder)
        return (outputs + self.level).squeeze(1)
