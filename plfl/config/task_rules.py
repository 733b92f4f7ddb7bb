"""What a configuration must know about a task, and how it names one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic_core import PydanticCustomError

from plfl import registry
from plfl.config.messages import UNKNOWN, allowed
from plfl.registry import Algorithm

PACKAGE = "plfl.tasks"
"""Holds the tasks, one file each. Only the file of the task that is named is imported."""
DEFAULT = "forecast"
Margins = Literal["none", "personal", "shared"]
"""Whether intervals get a margin at both ends: none, one of each client's own, or one for all."""


class TaskRules(Algorithm):
    """The rules of a task. `plfl.tasks.Task` adds what is computed."""

    def outputs(self, horizons: int) -> int:
        """O, the numbers that a model returns for a window, of which the study predicts some
        `horizons`."""
        raise NotImplementedError

    def refuses_teacher(self, loss: str) -> str | None:
        """Why a teacher's outputs cannot be mixed into the targets with `federation.loss`; None if
        they can."""
        raise NotImplementedError

    @property
    def margins(self) -> Margins:
        """Whose margins the intervals of a trained model get, so that they cover what they say."""
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
    if not isinstance(raw, Mapping):
        return raw
    keys = dict(raw)
    name = keys.pop("name", DEFAULT)
    try:
        cls = find(name)
    except (KeyError, TypeError):
        raise _error(f"name: {name!r} is unknown; {allowed(str(name), available())}") from None
    for key in keys:
        if key not in cls.model_fields:
            known = allowed(str(key), ["name", *cls.model_fields])
            raise _error(f"{key}: unknown key of the task {name}; {known}")
    return cls.model_validate(keys)


def _error(message: str) -> PydanticCustomError:
    return PydanticCustomError(UNKNOWN, "{line}", {"line": message})


ChosenTask = Annotated[SerializeAsAny[TaskRules], BeforeValidator(_chosen)]
"""A key that names a task: a block with its `name`."""
