"""PatchTST: attention between patches of the load.

Source: Yuqi Nie, Nam H. Nguyen, Phanwadee Sinthong and Jayant Kalagnanam, "A Time Series is Worth
64 Words: Long-term Forecasting with Transformers", ICLR 2023, https://arxiv.org/abs/2211.14730;
authors' code: https://github.com/yuqinie98/PatchTST.

A window is normalised, its last value is repeated `stride` times, and patches of it are embedded
and given a position; encoder layers attend over the patches; a linear map of all of them is the
forecast, in the window's units. Features are independent in the source, so only the load is read.

Deviations: layer normalisation replaces batch normalisation, which depends on the other windows of
a minibatch; no dropout; the linear map also reads the covariates.
"""

import torch
from pydantic import Field
from torch import Tensor, nn

from plfl.layout import WindowShape
from plfl.models.layers import map_first_dimension
from plfl_reproductions.models.attention import Transformer, normalise


class Patchtst(Transformer):
    """Patches as tokens; the last linear map is the head."""

    name = "patchtst"
    label = "PatchTST"

    patch: int = Field(4, ge=1)
    """Steps of a patch."""
    stride: int = Field(2, ge=1)
    """Steps from one patch to the next."""

    def build(self, shape: WindowShape) -> nn.Module:
        return PatchTSTNet(shape, self)


class PatchTSTNet(nn.Module):
    """The module of `patchtst`."""

    def __init__(self, shape: WindowShape, sizes: Patchtst):
        super().__init__()
        # A patch is at most as long as the window and its padding.
        self.stride, steps = sizes.stride, shape.look_back + sizes.stride
        self.patch = min(sizes.patch, steps)
        patches = (steps - self.patch) // self.stride + 1
        self.embed = nn.Linear(self.patch, sizes.width)
        self.position = nn.Parameter(torch.empty(patches, sizes.width).uniform_(-0.02, 0.02))
        self.body = sizes.encoder()
        self.head = nn.Linear(patches * sizes.width + shape.covariates, shape.outputs)

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        z, mean, deviation = normalise(sequence[:, :, :1].permute(1, 2, 0))
        load = torch.cat([z[:, 0], z[-1:, 0].expand(self.stride, -1)])
        patches = load.unfold(0, self.patch, self.stride).permute(2, 0, 1)
        tokens = self.body(map_first_dimension(self.embed, patches) + self.position.mT[..., None])
        outputs = map_first_dimension(
            self.head, torch.cat([tokens.transpose(0, 1).flatten(0, 1), covariates.mT])
        )
        return (outputs * deviation + mean).mT.squeeze(1)
