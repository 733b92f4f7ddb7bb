"""How a configuration names models and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny

from plfl.config.messages import refusal
from plfl.config.named import choose_class
from plfl.interfaces.model import DEFAULT, OWN_MODULE, Model
from plfl.interfaces.task import Task
from plfl.plugins import registry

MODELS = "plfl.models"
"""The package of the models, one file each. Only the file of the named model is imported: most of
them import torch, which the paper's model does not need for its configuration."""


available_models = partial(registry.available, MODELS, Model)
"""All models by name. This imports torch."""
find_model = partial(registry.find, MODELS, Model)
"""The model with a name; a KeyError if there is none."""


def _model(raw: Any) -> Any:
    """The model that a block of a configuration names."""
    is_own = isinstance(raw, Mapping) and "module" in raw
    if is_own and "name" in raw:
        raise refusal("a module of your own has no name; remove it or `module`", key="name")
    return choose_class(
        raw,
        kind_name="model",
        default=OWN_MODULE if is_own else DEFAULT,
        find=find_model,
        names=lambda: [name for name in available_models() if name != OWN_MODULE],
        other_keys=() if isinstance(raw, Mapping) and ("name" in raw or is_own) else ("module",),
    )


ChosenModel = Annotated[SerializeAsAny[Model], BeforeValidator(_model)]
"""A key that names a model: a block with its `name`, or with the user's own `module`."""


TASKS = "plfl.tasks"
"""The package of the tasks, one file each. Only the file of the named task is imported."""
DEFAULT_TASK = "forecast"
available_tasks = partial(registry.available, TASKS, Task)
"""All tasks by name. This imports torch."""
find_task = partial(registry.find, TASKS, Task)
"""The task with a name; a KeyError if there is none."""
_task = partial(
    choose_class, kind_name="task", default=DEFAULT_TASK, find=find_task, names=available_tasks
)
ChosenTask = Annotated[SerializeAsAny[Task], BeforeValidator(_task)]
"""A key that names a task: a block with its `name`."""
