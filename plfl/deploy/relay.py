"""The program `flwr-clientapp` of clients: Flower's command of this name, which starts sooner.

Flower starts it for every message. Its package imports the command of the SuperNode, too,
which takes a third of the processor time of the start and is not used here.
"""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType

from plfl.base.files import write_text
from plfl.base.lazy import pause_garbage_collection

COMMAND = "flwr-clientapp"
UNUSED, FUNCTION = "flwr.supernode.cli.flower_supernode", "flower_supernode"
"""The module of the SuperNode's command, and what is imported from it."""


def command() -> Callable[[], None]:
    """Flower's command."""
    module = ModuleType(UNUSED)
    setattr(module, FUNCTION, None)
    sys.modules[UNUSED] = module
    (entry,) = distribution("flwr").entry_points.select(name=COMMAND)
    with pause_garbage_collection():
        function: Callable[[], None] = entry.load()
    return function


def add_command(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Write the program into a folder; return the environment in which Flower starts it."""
    folder.mkdir(parents=True, exist_ok=True)
    python = shlex.quote(sys.executable)
    write_text(folder / COMMAND, f'#!/bin/sh\nexec {python} -P -m {__name__} "$@"\n')
    (folder / COMMAND).chmod(0o700)
    path = f"{folder.resolve()}{os.pathsep}{environment['PATH']}"
    return {**environment, "PATH": path}


if __name__ == "__main__":
    command()()
