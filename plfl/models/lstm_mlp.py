"""The paper's forecaster: an LSTM over the look-back and an MLP over all its hidden states.

Source: "Addressing Heterogeneity in Federated Load Forecasting with Personalization Layers", 2024,
https://arxiv.org/abs/2404.01517, and its authors' code. The forward and the backward pass are in
`lstm_mlp_network`; this file does not import torch.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from plfl.base import Module
from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.interfaces.model import Model
from plfl.layout import KernelForm, WindowShape
from plfl.models.lstm_mlp_network import LstmMlpNetwork


class LstmMlp(Model):
    """The forecaster. `name` selects a model (docs/models.md). The default is the paper's: an LSTM
    over the look-back and an MLP over all its hidden states."""

    name = "lstm_mlp"
    features = ("states", "penultimate")

    hidden: int = Field(25, ge=1)
    """Hidden units of the LSTM (paper: 25)."""
    mlp: list[Annotated[int, Field(ge=1)]] = Field([150, 75])
    """Widths of the hidden layers of the MLP, each with a PReLU per channel (paper: 150, 75)."""
    output: Literal["abs", "linear"] = "abs"
    """The forecast is the last layer's output (`linear`), or its absolute value (`abs`, authors'
    code)."""

    def build(self, shape: WindowShape) -> Module:
        return self.network(shape).module()

    def network(self, shape: WindowShape) -> LstmMlpNetwork:
        absolute = self.output == "abs"
        sizes = (shape.inputs, shape.look_back, self.hidden, tuple(self.mlp))
        return LstmMlpNetwork(*sizes, absolute, shape.outputs)

    def problems(self, shape: WindowShape) -> list[Problem]:
        if not shape.covariates:
            return []
        return [
            Problem(
                Key("model"),
                f"{self.name} reads a sequence only, but the windows have covariates of "
                f"{shape.covariates} numbers",
                "choose another model.name, or windows without covariates",
            )
        ]

    @property
    def summary(self) -> str:
        return f"lstm{self.hidden}-mlp{'-'.join(map(str, self.mlp))}"

    @property
    def kernel_form(self) -> KernelForm:
        return KernelForm(self.hidden, tuple(self.mlp), "prelu", self.output == "abs")

    @property
    def is_nonnegative(self) -> bool:
        return self.output == "abs"
