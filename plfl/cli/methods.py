"""`plfl methods`: the algorithms that a study can name."""

import argparse
import inspect
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from plfl import methods as method_room
from plfl import plugins
from plfl.cli.common import Commands, add_parser
from plfl.config.federation import Calibration
from plfl.federated import calibration
from plfl.interfaces.method import Method
from plfl.optimizers import client, server
from plfl.plugins.registry import Algorithm, Section
from plfl.study import Study

EXAMPLES = """
plfl methods
plfl methods --json
plfl methods my.yaml                # those of its plug-ins, too
"""
FLOATS = """\
# floats: numbers of 4 bytes per client and round, and before round 1, with the default parameters.
# d_s: number of shared parameters; d_φ: how many of them are the embedding's.
"""


def add(commands: Commands) -> None:
    parser = add_parser(commands, "methods", EXAMPLES, run)
    text = "a study, whose plug-ins are listed, too"
    parser.add_argument("config", type=Path, nargs="?", help=text)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(options: argparse.Namespace) -> None:
    """Print what a study can name: its own plug-ins and those of installed packages, too."""
    study = Study.load(options.config) if options.config else None
    algorithms = _algorithms()
    algorithms["plug-ins"] = {
        plugin.origin: plugin.contents
        for plugin in plugins.plugins_of(study.plugins if study else [])
    }
    if options.json:
        print(json.dumps(algorithms, indent=1, ensure_ascii=False))
    else:
        print(FLOATS + yaml.safe_dump(algorithms, sort_keys=False, allow_unicode=True, width=100))


def _algorithms() -> dict[str, dict[str, Any]]:
    """The algorithms by the key of a study that names them, and by name: their `origin`, a package
    or a plug-in; the `citation` of their file; the `floats` of methods that say them (see
    `plfl.interfaces.method.Sizes`); and the defaults of their `parameters`."""

    def described(block: type[Section], module: ModuleType) -> dict[str, Any]:
        paragraphs = (inspect.getdoc(module) or "").split("\n\n")
        sources = [p.removeprefix("Source: ") for p in paragraphs if p.startswith("Source: ")]
        plugin = plugins.find_plugin(block) if issubclass(block, Algorithm) else None
        facts: dict[str, Any] = {
            "origin": plugin.origin if plugin else module.__name__.partition(".")[0],
            "citation": " ".join([*sources, paragraphs[0]][0].split()),
        }
        message_sizes = (
            block().sends if issubclass(block, Method) and "sends" in vars(block) else None
        )
        if message_sizes:
            facts["floats"] = {
                occasion: n for occasion, n in message_sizes._asdict().items() if n != "0"
            }
        facts["parameters"] = block().model_dump(mode="json")
        return facts

    rooms = {"method": method_room, "server_opt": server, "client_opt": client}
    algorithms = {
        key: {name: described(cls, sys.modules[cls.__module__]) for name, cls in classes.items()}
        for key, classes in ((key, room.available()) for key, room in rooms.items())
    }
    return algorithms | {"federation": {"calibration": described(Calibration, calibration)}}
