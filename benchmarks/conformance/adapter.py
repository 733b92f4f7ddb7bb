"""What the adapters share: each runs all probes through a library and prints their results."""

import argparse
import contextlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
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


def stub(name: str) -> None:
    """Let `import name` succeed if the package is not installed; nothing that runs needs it."""
    root = name.partition(".")[0]
    if isinstance(sys.modules.get(root), MagicMock) or importlib.util.find_spec(root) is None:
        sys.modules[name] = MagicMock(__spec__=None)


def main(set_up: Callable[[Path], None], run: Callable[[Path, Probe], Found]) -> None:
    """Run the probes, or those named, through the library in a folder; print JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=lambda text: Path(text).resolve())
    parser.add_argument("probes", nargs="*")
    options = parser.parse_args()
    quadratics.prepare()
    results: dict[str, object] = {}
    with Path(os.devnull).open("w") as sink, contextlib.redirect_stdout(sink):
        set_up(options.folder)
        for name in options.probes or PROBES:
            quadratics.scored.clear()
            try:
                found = run(options.folder, PROBES[name])
                results[name] = {"x": found.x, "personal": found.personal}
            except NotThere:
                results[name] = "not there"
            except Exception:
                results[name] = "failed: " + traceback.format_exc(limit=-2)
    print(json.dumps(results))
