"""TSMixer: layers that mix the steps of each feature, then the features of each step.

Source: Si-An Chen, Chun-Liang Li, Nate Yoder, Sercan Arik and Tomas Pfister, "TSMixer: An All-MLP
Architecture for Time Series Forecasting", TMLR 2023, https://arxiv.org/abs/2303.06053.

z ← z + ReLU(W_t norm(z));  z ← z + W_2 ReLU(W_1 norm(z));  the forecast is a linear map of the
steps of the load

Deviations: layer normalisation over steps and features replaces batch normalisation, which depends
on the other windows of a minibatch; there is no dropout; the last linear map also reads the
covariates.
"""

import torch
from pydantic import Field
from torch import Tensor, nn

from plfl.interfaces.model import Model
from plfl.layout import WindowShape


class Tsmixer(Model):
    """Mixing layers, the body, and a linear map of the steps, the head."""

    name = "tsmixer"
    label = "TSMixer"

    layers: int = Field(2, ge=1)
    """Mixing layers."""
    hidden: int = Field(32, ge=1)
    """Width of the hidden layer that mixes features."""

    def build(self, shape: WindowShape) -> nn.Module:
        return TSMixerNet(shape, self)


class TSMixerNet(nn.Module):
    """The module of `tsmixer`."""

    def __init__(self, shape: WindowShape, sizes: Tsmixer):
        super().__init__()
        self.body = nn.Sequential(*(Mixer(shape, sizes.hidden) for _ in range(sizes.layers)))
        self.head = nn.Linear(shape.look_back + shape.covariates, shape.outputs)

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        load = self.body(sequence)[:, :, 0]
        outputs: Tensor = self.head(torch.cat([load, covariates], 1))
        return outputs.squeeze(1)


class Mixer(nn.Module):
    """A mixing layer (B, T, F) → (B, T, F)."""

    def __init__(self, shape: WindowShape, hidden: int):
        super().__init__()
        size = [shape.look_back, shape.inputs]
        self.time_norm, self.feature_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.time = nn.Linear(shape.look_back, shape.look_back)
        self.first = nn.Linear(shape.inputs, hidden)
        self.second = nn.Linear(hidden, shape.inputs)

    def forward(self, z: Tensor) -> Tensor:
        """Mix the steps, then the features."""
        z = z + torch.relu(self.time(self.time_norm(z).mT)).mT
        outputs: Tensor = z + self.second(torch.relu(self.first(self.feature_norm(z))))
        return outputs
