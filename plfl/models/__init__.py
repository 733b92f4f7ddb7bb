"""Models, one file per model.

The file of a model contains its hyperparameters (a `Model`) and its `nn.Module`. A module is built
for the shape of a window, and forecasts the windows of a minibatch: `forward(sequence, covariates)`
takes (B, T, F) and (B, G) and returns (B,), or (B, O) if the shape has several outputs, in scaled
units. Its `named_parameters()`, in order, are a row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from plfl.config.rules import ModelRules
from plfl.layout import ParameterLayout, WindowShape

if TYPE_CHECKING:  # reading a configuration imports this package and should not wait for torch
    from torch import nn

    from plfl.models.network import Network
    from plfl.study import Study

_networks: dict[tuple[str, WindowShape], Network] = {}


class Model(ModelRules):
    """A model: subclasses define its hyperparameters and build it."""

    head_patterns: ClassVar[Sequence[str]] = ()
    """Patterns of the parameters in the group `head`; empty: those of the last layer."""

    def build(self, shape: WindowShape) -> nn.Module:
        """A module with initial parameters, drawn from torch's random numbers."""
        raise NotImplementedError

    def network(self, shape: WindowShape) -> Network:
        """The model for windows of some shape, as the engines train it."""
        from plfl.models.network import ModuleNetwork

        key = json.dumps(self.settings), shape
        if key not in _networks:
            _networks[key] = ModuleNetwork.of(self, shape)
        return _networks[key]

    def layout(self, shape: WindowShape) -> ParameterLayout:
        return self.network(shape).layout

    def problems(self, shape: WindowShape) -> list[str]:
        from plfl.models.checks import problems_of

        return problems_of(self, shape)

    @property
    def summary(self) -> str:
        numbers = [value for _, value in self if isinstance(value, int | tuple)]
        sizes = (x for n in numbers for x in (n if isinstance(n, tuple) else (n,)))
        return self.name + "-".join(map(str, sizes))


def model_of(study: Study) -> Model:
    """The model of a study; the configuration itself knows only the rules of models."""
    assert isinstance(study.model, Model)
    return study.model
