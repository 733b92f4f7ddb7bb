"""Methods: which models, tasks, optimisers and engines they work with."""

from collections.abc import Iterator, Mapping
from itertools import chain

from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.config.compute import Compute
from plfl.config.federation import FederationSettings
from plfl.config.grid import Grid
from plfl.interfaces.method import Method
from plfl.interfaces.model import DEFAULT, Model
from plfl.interfaces.task import Task
from plfl.layout import ParameterLayout
from plfl.study.combinations import overrides

Refusals = Mapping[tuple[str, str], str] | Mapping[tuple[str, str, str], str]
"""Why methods do not work with partners, by the names of the method and of the partner."""


def check_combinations(
    grid: Grid, refusals: Refusals, partners: str, count: int
) -> Iterator[Problem]:
    """Report methods that do not work with their `partners`, of which each has a `count`, unless
    `grid.refused` skips such combinations, and some are left."""
    for method in grid.method:
        reasons = {names[1:]: reason for names, reason in refusals.items() if names[0] == method}
        if grid.refused == "error":
            for names, reason in reasons.items():
                yield Problem(
                    Key("grid"), f"{method} does not work with {' and '.join(names)}: {reason}"
                )
        elif len(reasons) == count:
            reason_list = "; ".join(dict.fromkeys(reasons.values()))
            yield Problem(
                Key("grid"), f"{method} does not work with any of the {partners}: {reason_list}"
            )


def check_engine(compute: Compute, model: Model) -> Iterator[Problem]:
    """Report a device on which the model cannot grow."""
    if compute.device == "cuda" and model.grows_trees:
        yield Problem(
            Key("compute.device"), f"the model {model.name} grows on the CPU", "set cpu or auto"
        )


def check_methods(
    methods: Mapping[str, Method],
    model: Model,
    task: Task,
    federation: FederationSettings,
) -> Iterator[Problem]:
    """Report methods that cannot train the model, or with the settings."""
    for name, method in methods.items():
        if model.only_method not in (None, name):
            yield Problem(
                Key("grid.method"),
                f"{name!r} cannot train {model.summary}",
                f"use {model.only_method}",
            )
            continue
        reasons = (
            reasons_by_facts(method, model, task, federation),
            method.reasons_against_settings(model, task, federation),
        )
        for reason in chain(*reasons):
            yield Problem(Key("grid.method"), f"{name!r} {reason}")


def check_buffers(methods: Mapping[str, Method], layout: ParameterLayout) -> Iterator[Problem]:
    """Report methods that cannot train a model with buffers that training changes."""
    for name, method in methods.items():
        if layout.buffers and method.no_buffers:
            yield Problem(
                Key("grid.method"),
                f"{name!r} cannot train a model with {', '.join(layout.buffers)}, since "
                f"{method.no_buffers}",
                "remove the method, or replace layers such as BatchNorm by LayerNorm",
            )


def reasons_by_facts(
    method: Method, model: Model, task: Task, federation: FederationSettings
) -> Iterator[str]:
    """Why a method cannot train a model, or with these settings, as far as its facts say."""
    averages = federation.ema is not None
    if method.only_model not in (None, model.name):
        yield f"needs the model {method.only_model}; set model.name, or remove the method"
    if method.only_task not in (None, task.name):
        yield (
            f"needs the task {method.only_task}, but task.name is {task.name}; remove the method"
        )
    if overrides(method, "mix_outputs") and task.name != "forecast":
        yield f"needs the task forecast, but task.name is {task.name}; remove the method"
    if method.reads_features and not model.features:
        yield (
            f"compares hidden features of the model {DEFAULT}, which {model.summary} does not "
            f"have; remove the method, or set model.name to {DEFAULT}"
        )
    if method.has_teacher and (reason := next(task.reasons_against_teacher(federation.loss), None)):
        yield f"mixes forecasts of a teacher into the targets, which {reason}"
    if overrides(method, "strata", "select") and federation.selection != "uniform":
        yield (
            "selects the clients of a round itself; remove the method, or set "
            "federation.selection to uniform"
        )
    if method.takes_own_steps and (federation.opt_state != "reset" or averages):
        yield (
            "starts every model with fresh moments and keeps no average; remove the method, or "
            "federation.opt_state and federation.ema"
        )
    if method.takes_own_steps and method.needs_equal_steps and federation.local_epochs is not None:
        yield (
            "needs the same number of local steps for every client; remove the method, or set "
            "federation.local_steps instead of federation.local_epochs"
        )
    yield from _unfit_scores(method, federation)


def _unfit_scores(method: Method, federation: FederationSettings) -> Iterator[str]:
    """Why its models cannot be scored with these settings."""
    averages = federation.ema is not None
    if overrides(method, "adapt") and averages:
        yield (
            "adapts the models before each forecast, so their average is not used; remove the "
            "method, or federation.ema"
        )
    if overrides(method, "mix_outputs") and (averages or federation.keep == "best"):
        yield (
            "does not forecast with a model alone, so it can use neither an average nor the "
            "best model; remove the method, or federation.ema and federation.keep"
        )
    if federation.server_ema is not None and method.no_server_average:
        yield f"{method.no_server_average}; remove the method, or federation.server_ema"
    if federation.calibrates and overrides(method, "scored_models", "adapt", "mix_outputs"):
        yield (
            "decides itself what the clients forecast with, which calibration would replace; "
            "remove the method, or federation.calibration"
        )
