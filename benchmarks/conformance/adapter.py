"""What the adapters share: each runs all probes through a library and prints their results."""

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

from benchmarks.conformance import quadratics
from benchmarks.conformance.probes import PROBES, Probe


@dataclass(frozen=True)
class Found:
    """What a library made of a probe."""

    x: list[list[float]]
    """The server's coordinates before round 1 and after every round."""
    personal: list[list[float]]
    """The clients' personalised models after the last round."""


class NotThere(Exception):  # noqa: N818
    """The library has no such method."""


class Stubs(MetaPathFinder, Loader):
    """Stands in for packages that a library imports and nothing that runs here needs."""

    def __init__(self) -> None:
        self.roots: set[str] = set()

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] in self.roots:
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module: ModuleType = MagicMock(__path__=[], __name__=spec.name)
        return module

    def exec_module(self, module: ModuleType) -> None: ...


STUBS = Stubs()


def stub(*packages: str) -> None:
    """Let `import` of these packages and their modules give stand-ins, whether they are installed
    or not: the results do not depend on the versions found."""
    if STUBS not in sys.meta_path:
        sys.meta_path.insert(0, STUBS)
    STUBS.roots |= set(packages)


def main(set_up: Callable[[Path], None], run: Callable[[Path, Probe], Found]) -> None:
    """Run the probes through the library in the folder that is the argument; print JSON."""
    folder = Path(sys.argv[1]).resolve()
    quadratics.prepare()
    results: dict[str, object] = {}
    with Path(os.devnull).open("w") as sink, contextlib.redirect_stdout(sink):
        set_up(folder)
        for name, probe in PROBES.items():
            quadratics.scored.clear()
            try:
                found = run(folder, probe)
                results[name] = {"x": found.x, "personal": found.personal}
            except NotThere:
                results[name] = "not there"
            except Exception:
                results[name] = "failed: " + traceback.format_exc(limit=-2)
    print(json.dumps(results))
