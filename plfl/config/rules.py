"""The facts about models, tasks and methods that a configuration needs, and how it names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BeforeValidator,
    SerializeAsAny,
)

from plfl.config.messages import refusal
from plfl.config.named import choose_class
from plfl.config.sections import FederationSettings
from plfl.interfaces.model import DEFAULT, OWN, Model
from plfl.interfaces.task import Task
from plfl.layout import ParameterLayout
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.plugins import registry
from plfl.plugins.registry import Algorithm

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
        default=OWN if is_own else DEFAULT,
        find=find_model,
        names=lambda: [name for name in available_models() if name != OWN],
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


class Sizes(NamedTuple):
    """The sizes of a method's messages for one client, in numbers of 4 bytes: terms of d_s, the
    number of shared parameters, d_φ, those of the embedding, and hyperparameters by name."""

    down: str = "d_s"
    """Down to a participant in a round."""
    up: str = "d_s"
    """Up from a participant in a round."""
    before_down: str = "0"
    """Down to every client before round 1."""
    before_up: str = "0"
    """Up from every client before round 1."""


class MethodRules(Algorithm):
    """The rules of a method. `plfl.methods.Method` adds its computations."""

    ignores_sharing: ClassVar[bool] = False
    """Whether the method has an effect even if the sharing scheme shares nothing."""

    no_proximal: ClassVar[str | None] = None
    """Why it cannot be combined with a proximal ClientOpt; None if it can."""

    own_server: ClassVar[str | None] = None
    """What the method's server does instead of a step of the ServerOpt, which must then be
    `fedavg`. None if any ServerOpt may take the step."""
    server_lr: ClassVar[str | None] = None
    """If the method has an `own_server`: the symbol of the quantity that the learning rate of
    `fedavg` stands for. None if the rate has no meaning; it must then be 1."""

    def refuses(self, client_opt: ClientOpt, server_opt: ServerOpt) -> str | None:
        """Why the method does not work with these optimisers; None if it does."""
        if self.no_proximal and client_opt.proximal:
            return f"{self.no_proximal}; use sgd for prox, adam for proxadam"
        if self.own_server:
            has_rate = self.server_lr is not None
            if server_opt.name != "fedavg" or not (has_rate or server_opt.lr == 1):
                fedavg = f"fedavg, whose lr is {self.server_lr}" if has_rate else "fedavg with lr 1"
                return f"{self.own_server}; use {fedavg}"
        return None

    def unshareable(self, shared: NDArray[np.bool_], layout: ParameterLayout) -> str | None:
        """Why the method cannot be combined with this sharing scheme, whose mask (P,) `shared` has
        at least one parameter; None if it can."""
        return None

    own_steps: ClassVar[bool] = False
    """Whether it takes the local steps in a routine of its own (`TrainInstructions.routine`)."""
    equal_steps: ClassVar[bool] = True
    """Whether such a routine needs equally many local steps of all clients."""
    reads_features: ClassVar[bool] = False
    """Whether its loss reads hidden states of the model: of the LSTM or of the MLP."""
    only_task: ClassVar[str | None] = None
    """The only task for which it is defined; None if it is for any task."""
    only_model: ClassVar[str | None] = None
    """The only model that it can train; None if it can train any network."""
    has_teacher: ClassVar[bool] = False
    """Whether it mixes a teacher's outputs into the targets."""

    updates_only: ClassVar[bool] = False
    """Whether the server uses nothing from the clients except their mean update, as
    `federation.privacy` needs. Subclasses do not inherit it: each must declare it."""

    sends: ClassVar[Sizes | None] = None
    """What it sends, for `plfl methods`; None: it does not say. Subclasses do not inherit it."""

    no_buffers: ClassVar[str | None] = None
    """Why it cannot train a model with buffers that training changes, such as the statistics of
    BatchNorm; None if it can."""

    no_codec: ClassVar[str | None] = None
    """Why the channel cannot code the method's messages (`channel`); None if it can."""

    no_server_average: ClassVar[str | None] = None
    """Why the server's parameters have no average over the rounds (`federation.server_ema`); None
    if they have one."""

    # The following depend on which hooks the method has, see `Method`.

    selects: ClassVar[bool] = False
    """Whether the method chooses the participants (`Method.strata`, `Method.select`)."""

    has_own_model: ClassVar[bool] = False
    """Whether clients forecast with another model than the one that they train for the server
    (`Method.scored`)."""

    adapts: ClassVar[bool] = False
    """Whether clients train a model further before they forecast with it (`Method.adapt`)."""

    mixes: ClassVar[bool] = False
    """Whether the forecasts do not come from a model alone (`Method.mixed`)."""

    def unfit(self, model: Model, task: Task, federation: FederationSettings) -> Iterator[str]:
        """Why the method cannot train this model, or with these settings; empty if it can."""
        averages = federation.ema is not None
        if self.only_model not in (None, model.name):
            yield f"needs the model {self.only_model}; set model.name, or remove the method"
        if self.only_task not in (None, task.name):
            yield (
                f"needs the task {self.only_task}, but task.name is {task.name}; remove the method"
            )
        if self.mixes and task.name != "forecast":
            yield f"needs the task forecast, but task.name is {task.name}; remove the method"
        if self.reads_features and not model.features:
            yield (
                f"compares hidden features of the model {DEFAULT}, which {model.summary} does not "
                f"have; remove the method, or set model.name to {DEFAULT}"
            )
        if self.has_teacher and (reason := task.refuses_teacher(federation.loss)):
            yield f"mixes forecasts of a teacher into the targets, which {reason}"
        if self.selects and federation.selection != "uniform":
            yield (
                "selects the clients of a round itself; remove the method, or set "
                "federation.selection to uniform"
            )
        if self.own_steps and (federation.opt_state != "reset" or averages):
            yield (
                "starts every model with fresh moments and keeps no average; remove the method, or "
                "federation.opt_state and federation.ema"
            )
        if self.own_steps and self.equal_steps and federation.local_epochs is not None:
            yield (
                "needs the same number of local steps for every client; remove the method, or set "
                "federation.local_steps instead of federation.local_epochs"
            )
        yield from self._unfit_scoring(federation)

    def _unfit_scoring(self, federation: FederationSettings) -> Iterator[str]:
        """Why its models cannot be scored with these settings."""
        averages = federation.ema is not None
        if self.adapts and averages:
            yield (
                "adapts the models before each forecast, so their average is not used; remove the "
                "method, or federation.ema"
            )
        if self.mixes and (averages or federation.keep == "best"):
            yield (
                "does not forecast with a model alone, so it can use neither an average nor the "
                "best model; remove the method, or federation.ema and federation.keep"
            )
        if federation.server_ema is not None and self.no_server_average:
            yield f"{self.no_server_average}; remove the method, or federation.server_ema"
        if federation.calibrates and (self.has_own_model or self.adapts or self.mixes):
            yield (
                "decides itself what the clients forecast with, which calibration would replace; "
                "remove the method, or federation.calibration"
            )

    def in_rounds(self) -> MethodRules:
        """The method without its part before a client forecasts, such as fine-tuning. Cells whose
        methods are equal in this form have the same rounds, and train together."""
        return self

    simulation_only: ClassVar[str | None] = None
    """Why the method cannot be deployed (`plfl.deploy`); None if it can."""

    def undeployable(self) -> str | None:
        """Why the method with these hyperparameters cannot be deployed; None if it can."""
        return self.simulation_only
