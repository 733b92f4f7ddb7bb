"""Windows: covariates, targets and the history."""

from collections.abc import Iterator

from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.config.data import Data
from plfl.config.error_messages import list_allowed
from plfl.config.federation import FederationSettings
from plfl.config.tuning import ROUNDS, Tuning
from plfl.config.windows import KnownFuture, Windows
from plfl.interfaces.model import Model
from plfl.interfaces.task import Task

WITHOUT_VALIDATION = "windows.history, data.origins and a windows.split with 0 for validation"
"""What leaves no validation set of its own."""


def check_covariates(windows: Windows, data: Data) -> Iterator[Problem]:
    """Report features that are not known in advance."""
    for i, transform in enumerate(windows.covariates):
        path = f"windows.covariates.{i}.{transform.name}"
        if isinstance(transform, KnownFuture):
            column_names = [name for name in data.inputs if name != "load"]
            for name in transform.features:
                if name == "load":
                    yield Problem(
                        Key(f"{path}.features"), "'load' is not known in advance", "remove it"
                    )
                elif name not in column_names:
                    yield Problem(
                        Key(f"{path}.features"),
                        f"{name!r} is not among the inputs of data.features",
                        list_allowed(name, column_names),
                    )
    lead_hours, farthest_hours = data.meters.weather_ahead, windows.farthest * data.interval / 60
    if data.source == "meters" and lead_hours is not None and lead_hours < farthest_hours:
        yield Problem(
            Key("data.meters.weather_ahead"),
            f"is {lead_hours:g} hours, but the farthest target is {farthest_hours:g} hours "
            "ahead, when these forecasts were not yet known",
            f"set it to {farthest_hours:g} or more",
        )


def check_target(windows: Windows, model: Model) -> Iterator[Problem]:
    """Report an output of the model that cannot be the target."""
    if model.only_target not in (None, windows.target):
        yield Problem(
            Key("windows.target"),
            f"the model {model.name} cannot predict {windows.target!r}",
            f"set it to {model.only_target}",
        )
    if windows.is_relative and model.is_nonnegative:
        yield Problem(
            Key("model.output"),
            f"'abs' cannot predict a fall of the load, but windows.target is {windows.target}",
            "set it to linear",
        )


def check_history(
    windows: Windows,
    data: Data,
    task: Task,
    federation: FederationSettings,
    tuning: Tuning,
) -> Iterator[Problem]:
    """Report keys that contradict `WITHOUT_VALIDATION` or tuned numbers of rounds."""
    in_history = not windows.has_validation or bool(data.origin_dates)
    if data.source_class.examples != "loads" and (in_history or data.federations):
        keys = {
            "data.origins": data.origin_dates,
            "windows.history": windows.history is not None,
            "windows.split": not windows.has_validation,
            "data.federations": data.federations,
        }
        key = next(key for key, is_set in keys.items() if is_set)
        yield Problem(
            Key(key), f"is for series of loads, but data.source is {data.source}", "remove it"
        )
    if tuning.rounds and (last_rounds := tuning.rounds[-1]) > federation.rounds:
        yield Problem(
            Key(f"tuning.search.{ROUNDS}"),
            f"{last_rounds} is more than federation.rounds {federation.rounds}, which the "
            "training has",
            "raise that, or remove it here",
        )
    if tuning.rounds and federation.schedule.shape == "cosine":
        yield Problem(
            Key("federation.schedule.shape"),
            "'cosine' depends on federation.rounds, so that no smaller number can be tried "
            "within a training",
            f"set it to step, or remove tuning.search.{ROUNDS}",
        )
    retrains = WITHOUT_VALIDATION if in_history else f"tuning.search.{ROUNDS}"
    if (in_history or tuning.rounds) and federation.keep == "best":
        yield Problem(
            Key("federation.keep"),
            f"'best' is another choice of rounds than {retrains}",
            f"set it to last and list numbers of rounds under tuning.search.{ROUNDS}",
        )
    if in_history and task.widening != "none":
        yield Problem(
            Key("task.conformal"),
            f"{task.widening!r} needs a validation set that the models do not train on, but "
            f"{WITHOUT_VALIDATION} have none",
            "set it to none, or remove them",
        )
