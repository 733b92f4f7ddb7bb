"""A model: what is trained, as one class in one file.

Its author reads this file and `plfl.layout`; docs/models.md has an example, also of a module of
your own, which needs no class. The file of a model contains its hyperparameters (a `Model`) and its
`nn.Module`, or imports torch in `build` only, so that a study which names the model is read
quickly. A module is built for the shape of a window, and forecasts the windows of a minibatch:
`forward(sequence, covariates)` takes (B, T, F) and (B, G) and returns (B,), or (B, O) if the shape
has several outputs, in scaled units. Its `named_parameters()`, in order, are a row.

Only `build` is required. The hooks stand in the order of their use: facts and checks when a study
is read, then the network of the engines.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import SerializerFunctionWrapHandler, model_serializer

from plfl.base import Module
from plfl.base.errors import Problem
from plfl.interfaces.annotations import Network
from plfl.interfaces.named import Selectable
from plfl.layout import KernelForm, ParameterLayout, WindowShape

DEFAULT = "lstm_mlp"
OWN_MODULE = "own_module"
"""The file for users' own modules."""
_networks: dict[tuple[str, WindowShape], Network] = {}


class Model(Selectable):
    """A model: subclasses define its hyperparameters and build it."""

    features: ClassVar[tuple[str, ...]] = ()
    """The features of the model that a loss can compare: the hidden states of the LSTM at all times
    (`states`), or the inputs of the last layer (`penultimate`)."""
    grows_trees: ClassVar[bool] = False
    """Whether a round adds a tree, on the CPU and from all windows, in place of local steps."""
    only_method: ClassVar[str | None] = None
    """The only method that can train it; None: any but those that train a single model."""
    only_target: ClassVar[str | None] = None
    """The only `windows.target` that it can predict; None: any."""
    head_patterns: ClassVar[Sequence[str]] = ()
    """Patterns of the parameters in the group `head`; empty: those of the last layer."""

    @property
    def summary(self) -> str:
        """The model and its sizes in one word, such as `mlp64-64`."""
        numbers = [value for _, value in self if isinstance(value, int | tuple)]
        sizes = (x for n in numbers for x in (n if isinstance(n, tuple) else (n,)))
        return self.name + "-".join(map(str, sizes))

    @property
    def is_nonnegative(self) -> bool:
        """Whether its forecasts cannot be negative."""
        return False

    def problems(self, shape: WindowShape) -> Sequence[Problem]:
        """Why it cannot be trained on windows of this shape; empty if it can. By default, a module
        is built and tried."""
        from plfl.networks.checks import problems_of

        return problems_of(self, shape)

    def layout(self, shape: WindowShape) -> ParameterLayout:
        """The parameters of a row, for windows of some shape."""
        return self.network(shape).layout

    def operations(self, shape: WindowShape) -> int | None:
        """Floating-point operations of a forward pass over a window; None: as the paper's model."""
        return None

    @abstractmethod
    def build(self, shape: WindowShape) -> Module:
        """A module with initial parameters, drawn from torch's random numbers."""

    def network(self, shape: WindowShape) -> Network:
        """The model for windows of some shape, as the engines train it."""
        from plfl.networks.network import ModuleNetwork

        key = json.dumps(self.settings), shape
        if key not in _networks:
            _networks[key] = ModuleNetwork.for_model(self, shape)
        return _networks[key]

    @property
    def kernel_form(self) -> KernelForm | None:
        """The model as the fused engine's kernel describes it; None if the kernel cannot train."""
        return None

    @model_serializer(mode="wrap")
    def _with_name(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        keys: dict[str, Any] = dump(self)
        return keys if self.name in (DEFAULT, OWN_MODULE) else {"name": self.name} | keys
