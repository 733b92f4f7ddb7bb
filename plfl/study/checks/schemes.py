"""Sharing schemes: their names, what they share, and when clients take part in them."""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.config.baselines import BASELINE
from plfl.config.data import Data
from plfl.config.error_messages import list_allowed
from plfl.config.federation import FederationSettings
from plfl.config.grid import Grid
from plfl.config.named import available_sources, available_tasks
from plfl.config.sharing import Scheme
from plfl.config.windows import Windows
from plfl.interfaces.task import Task
from plfl.layout import GROUPS, ParameterLayout
from plfl.study.checks.privacy import PRIVACY


def check_names(
    sharing: Sequence[str], schemes: Collection[str], task: Task, data: Data
) -> Iterator[Problem]:
    """Report sharing schemes with taken or unknown names, and sources without a task's targets."""
    if BASELINE in schemes:
        yield Problem(
            Key(f"sharing.{BASELINE}"),
            "this name marks the rows of baselines in the tables",
            "choose another name for the sharing scheme",
        )
    for name in sharing:
        if name not in schemes:
            yield Problem(Key("grid.sharing"), f"{name!r} is unknown", list_allowed(name, schemes))
    if (examples := data.source_class.examples) != task.examples:
        tasks = [n for n, cls in available_tasks().items() if cls.examples == examples]
        fitting = available_sources().items()
        source_names = [name for name, cls in fitting if cls.examples == task.examples]
        yield Problem(
            Key("task.name"),
            f"{task.name!r} needs {task.examples}, but data.source {data.source} has {examples}",
            f"set data.source to {' or '.join(source_names)}, or task.name to {' or '.join(tasks)}",
        )


def check_sharing(sharing: Mapping[str, list[str]], layout: ParameterLayout) -> Iterator[Problem]:
    """Report patterns that match no parameter of the model."""
    names = layout.names
    for scheme, patterns in sharing.items():
        path = f"sharing.{scheme}"
        for pattern in patterns:
            if layout.match(pattern):
                continue
            if buffers := [name for name in layout.buffers if fnmatchcase(name, pattern)]:
                yield Problem(
                    Key(path),
                    f"{pattern!r} means {', '.join(buffers)}, which belong to one client and "
                    "are never sent",
                    "remove it, and list parameters",
                )
            elif pattern in GROUPS:
                yield Problem(
                    Key(path),
                    f"{pattern!r} has no parameter: all are in the other group",
                    "correct model.head, or list other patterns",
                )
            else:
                suggestion = list_allowed(pattern, [*GROUPS, *names])
                yield Problem(Key(path), f"{pattern!r} matches no parameter", suggestion)


def check_joining(
    schemes: Mapping[str, Scheme], windows: Windows, federation: FederationSettings
) -> Iterator[Problem]:
    """Report sharing schemes that contradict other keys."""
    for name, scheme in schemes.items():
        if scheme.join == "unseen" and windows.scaling == "pooled":
            yield Problem(
                Key("windows.scaling"),
                "'pooled' would tell a federation the limits of clients that join later "
                f"(sharing.{name})",
                "set it to per_client",
            )
        if scheme.history and scheme.join == "raw":
            yield Problem(
                Key(f"sharing.{name}.history"), "works only with join: unseen", "remove it"
            )
        if scheme.history and len({s.history for s in schemes.values() if s.history}) > 1:
            yield Problem(
                Key(f"sharing.{name}.history"), "all schemes must have the same number of weeks"
            )
        if federation.calibrates or federation.ema is not None:
            yield Problem(
                Key(f"sharing.{name}"),
                "clients that do not train in the rounds have no average and no calibration",
                "use the method fine_tuning, or remove federation.ema and federation.calibration",
            )


def check_private_schemes(grid: Grid, joining: Container[str]) -> Iterator[Problem]:
    """Report sharing schemes of the grid for which ε is unknown: those of `joining`, in which
    clients join after the rounds."""
    for name in grid.sharing:
        if name in joining:
            yield Problem(
                Key(f"sharing.{name}"),
                "with `join`, clients send raw data or train in several federations, which "
                f"{PRIVACY} does not count",
                "remove one of them",
            )
