"""What a configuration must know about a task, and how it names one."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from plfl import registry
from plfl.config.named_block import chosen
from plfl.registry import Algorithm

PACKAGE = "plfl.tasks"
"""Holds the tasks, one file each. Only the file of the task that is named is imported."""
DEFAULT = "forecast"
Margins = Literal["none", "personal", "adaptive", "shared"]
"""How the intervals of forecasts are widened: not at all (`none`), by a margin of each client
(`personal`), by such a margin that follows the client's loads (`adaptive`), or by one margin for
all clients (`shared`)."""


class TaskRules(Algorithm):
    """The rules of a task. `plfl.tasks.Task` adds what is computed."""

    own_loss: ClassVar[str | None] = None
    """In words, the loss that replaces `federation.loss`; None if it trains with that loss."""

    def outputs(self, horizons: int) -> int:
        """O, how many numbers a model returns for a window with so many targets."""
        raise NotImplementedError

    def refuses_teacher(self, loss: str) -> str | None:
        """Why a teacher's outputs cannot be mixed into the targets with `federation.loss`; None if
        they can."""
        raise NotImplementedError

    @property
    def margins(self) -> Margins:
        """Whose margins calibrate the intervals of a trained model."""
        return "none"

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that determines what is predicted."""
        settings: dict[str, Any] = self.model_dump(mode="json")
        return settings

    @model_serializer(mode="wrap")
    def _with_name(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        keys: dict[str, Any] = dump(self)
        return {"name": self.name} | keys


def available() -> dict[str, type[TaskRules]]:
    """All tasks by name. This imports torch."""
    return registry.available(PACKAGE, TaskRules)


def find(name: str) -> type[TaskRules]:
    """The task with this name.

    Raises:
        KeyError: there is none.
    """
    return registry.find(PACKAGE, TaskRules, name)


def _chosen(raw: Any) -> Any:
    """The task that a block of a configuration names."""
    if isinstance(raw, TaskRules):
        return raw
    return chosen(raw, what="task", default=DEFAULT, find=find, names=available)


ChosenTask = Annotated[SerializeAsAny[TaskRules], BeforeValidator(_chosen)]
"""A key that names a task: a block with its `name`."""
