"""A multilayer perceptron over the flattened sequence and the covariates.

If inputs and target are scaled for each client, this is the smallest network that forecasts a
building well. Its head starts small, so that the first forecasts are close to zero: for a target
that is relative to the last value, close to persistence.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plfl.base import Module
from plfl.base.errors import Problem
from plfl.interfaces.model import Model
from plfl.layout import KernelForm, ParameterLayout, WindowShape


class Mlp(Model):
    """Linear layers with SiLU between them, over sequence and covariates."""

    name = "mlp"
    label = "MLP"

    hidden: tuple[Annotated[int, Field(ge=1)], ...] = (64, 64)
    """Widths of the hidden layers, which are the body; the last layer is the head."""

    def build(self, shape: WindowShape) -> Module:
        from plfl.models.layers import Perceptron

        return Perceptron(shape, self.hidden)

    def layout(self, shape: WindowShape) -> ParameterLayout:
        width = shape.look_back * shape.inputs + shape.covariates
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, units in enumerate(self.hidden):
            shapes[f"body.{2 * layer}.weight"] = (units, width)
            shapes[f"body.{2 * layer}.bias"] = (units,)
            width = units
        shapes |= {"head.weight": (shape.outputs, width), "head.bias": (shape.outputs,)}
        return ParameterLayout(shapes, ("head.*",))

    def problems(self, shape: WindowShape) -> list[Problem]:
        return []  # it can be built for windows of any shape

    @property
    def kernel_form(self) -> KernelForm:
        return KernelForm(0, self.hidden, "silu")
