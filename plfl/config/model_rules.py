"""The facts about a model that a configuration needs, and how it names one."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import (
    BeforeValidator,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from plfl.config.messages import refusal
from plfl.config.named_block import Named, chosen
from plfl.layout import KernelForm, ParameterLayout, WindowShape
from plfl.plugins import registry

PACKAGE = "plfl.models"
"""The package of the models, one file each. Only the file of the named model is imported: most of
them import torch, which the paper's model does not need for its configuration."""
DEFAULT = "lstm_mlp"
OWN = "own_module"
"""The file for users' own modules."""


class ModelRules(Named):
    """The rules of a model. `plfl.models.Model` adds its computations."""

    features: ClassVar[tuple[str, ...]] = ()
    """The features of the model that a loss can compare: the hidden states of the LSTM at all times
    (`states`), or the inputs of the last layer (`penultimate`)."""

    def layout(self, shape: WindowShape) -> ParameterLayout:
        """The parameters of a row, for windows of some shape."""
        raise NotImplementedError

    def problems(self, shape: WindowShape) -> list[str]:
        """Why it cannot be trained on windows of this shape; empty if it can."""
        raise NotImplementedError

    @property
    def summary(self) -> str:
        """The model and its sizes in one word, such as `mlp64-64`."""
        raise NotImplementedError

    def operations(self, shape: WindowShape) -> int | None:
        """Floating-point operations of a forward pass over one window.

        None: unknown; then those of the paper's model are used.
        """
        return None

    @property
    def kernel_form(self) -> KernelForm | None:
        """The model as the fused engine's kernel describes it; None if the kernel cannot train
        it."""
        return None

    @property
    def is_nonnegative(self) -> bool:
        """Whether its forecasts cannot be negative."""
        return False

    @model_serializer(mode="wrap")
    def _with_name(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        keys: dict[str, Any] = dump(self)
        return keys if self.name in (DEFAULT, OWN) else {"name": self.name} | keys


available = partial(registry.available, PACKAGE, ModelRules)
"""All models by name. This imports torch."""
find = partial(registry.find, PACKAGE, ModelRules)
"""The model with a name; a KeyError if there is none."""


def _chosen(raw: Any) -> Any:
    """The model that a block of a configuration names."""
    own = isinstance(raw, Mapping) and "module" in raw
    if own and "name" in raw:
        raise refusal("a module of your own has no name; remove it or `module`", key="name")
    return chosen(
        raw,
        what="model",
        default=OWN if own else DEFAULT,
        find=find,
        names=lambda: [name for name in available() if name != OWN],
        beside=() if isinstance(raw, Mapping) and ("name" in raw or own) else ("module",),
    )


ChosenModel = Annotated[SerializeAsAny[ModelRules], BeforeValidator(_chosen)]
"""A key that names a model: a block with its `name`, or with the user's own `module`."""
