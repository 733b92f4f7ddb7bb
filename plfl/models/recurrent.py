"""The common part of `gru` and `lstm`: a recurrent cell over the sequence, and an MLP over its last
state and the covariates.

The steps are written out, because a stack of models computes them faster that way.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from plfl.layout import WindowShape
from plfl.models import Model
from plfl.models.perceptron import head_of


class Recurrent(Model):
    """A recurrent cell, the body, with an MLP, the head."""

    head_patterns = ("head.*",)

    hidden: int = Field(32, ge=1)
    """Units of the recurrent cell."""
    mlp: tuple[Annotated[int, Field(ge=1)], ...] = (64,)
    """Widths of the hidden layers of the head."""


class RecurrentNet(nn.Module):
    """A module with a cell of torch as `body`; subclasses compute its steps."""

    def __init__(self, cell: nn.RNNCellBase, shape: WindowShape, mlp: Sequence[int]):
        super().__init__()
        self.body = cell
        self.head = head_of(cell.hidden_size + shape.covariates, mlp, shape.outputs)

    def last_state(self, sequence: Tensor) -> Tensor:
        """The hidden state (B, H) after all steps of a sequence (B, T, F)."""
        raise NotImplementedError

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (B,), or (B, O) of several outputs."""
        out: Tensor = self.head(torch.cat([self.last_state(sequence), covariates], 1))
        return out.squeeze(1)
