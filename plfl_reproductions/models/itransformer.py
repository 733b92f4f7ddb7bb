"""iTransformer: attention between features, each of which is a token of all its steps.

Source: Yong Liu et al., "iTransformer: Inverted Transformers Are Effective for Time Series
Forecasting", ICLR 2024, https://arxiv.org/abs/2310.06625; authors' code:
https://github.com/thuml/iTransformer.

A window is normalised feature by feature. Every feature, as a vector of its steps, is embedded;
encoder layers attend over the features; a linear map of the load's token is the forecast, in the
window's units.

Deviations: no dropout; the linear map also reads the covariates.
"""

import torch
from torch import Tensor, nn

from plfl.layout import WindowShape
from plfl.models.layers import map_first_dimension
from plfl_reproductions.models.attention import Transformer, normalise


class Itransformer(Transformer):
    """Features as tokens; the last linear map is the head."""

    name = "itransformer"
    label = "iTransformer"

    def build(self, shape: WindowShape) -> nn.Module:
        return ITransformerNet(shape, self)


class ITransformerNet(nn.Module):
    """The module of `itransformer`."""

    def __init__(self, shape: WindowShape, sizes: Itransformer):
        super().__init__()
        self.embed = nn.Linear(shape.look_back, sizes.width)
        self.body = sizes.encoder()
        self.head = nn.Linear(sizes.width + shape.covariates, shape.outputs)

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        z, mean, deviation = normalise(sequence.permute(1, 2, 0))
        token = self.body(map_first_dimension(self.embed, z))[:, 0]
        outputs = map_first_dimension(self.head, torch.cat([token, covariates.mT]))
        return (outputs * deviation + mean).mT.squeeze(1)
