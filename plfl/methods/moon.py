"""MOON (Li et al., CVPR 2021): features near the global model's, far from the last local one's.

down: x;  client: its ClientOpt on MSE + μ · l;  up: D = y − x;  server: x ← ServerOpt(x, D̄)
l = −log(e^(cos(h, h_x) / T) / (e^(cos(h, h_x) / T) + e^(cos(h, h_i) / T)))

h, h_x, h_i: features that the client's model makes of a window now, as it started the round, and
as it was after the last round that the client took part in; before, it is the start of all.
Adapted to forecasting: the features are the forecaster's own, without a projection head.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from plfl.methods.fedopt import FedOpt

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.federation import Federation
    from plfl.methods import Local


class Moon(FedOpt):
    """Model-contrastive learning."""

    name = "moon"
    label = "MOON"

    mu: float = Field(1.0, ge=0)
    """μ of the contrastive term (authors' code: 1; FedADC, its baseline: 1 and 5)."""
    temperature: float = Field(0.5, gt=0)
    """T, by which cosines are divided (paper: 0.5)."""
    features: Literal["states", "penultimate"] = "states"
    """The hidden states of all steps of the LSTM, or the input of the last linear layer."""

    def down(self, f: "Federation", t: int, clients: "Tensor") -> "Local":
        from plfl.training import Contrast

        local = super().down(f, t, clients)
        previous = f.local[clients][:, f.columns]
        term = Contrast(self.mu, self.temperature, self.features)
        return replace(local, previous=previous, contrast=term)
