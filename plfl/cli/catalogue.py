"""The catalogue of algorithms, generated from the code."""

import inspect
import json
import sys
from typing import Any

from plfl import methods, plugins
from plfl.config.algorithms import Hyperparameters
from plfl.config.messages import flow
from plfl.config.rules import MethodRules, Sizes
from plfl.config.sections import Calibration
from plfl.federated import calibration
from plfl.optimizers import client as clients
from plfl.optimizers import server as servers
from plfl.plugins.registry import Algorithm, Section
from plfl.study import Study

HEADINGS = {
    "main": "methods to start with",
    "reproduction": "reproductions of other published methods",
    "plug-in": "methods from plug-ins",
    "server_opt": "server optimisers",
    "client_opt": "client optimisers",
    "calibration": "after the last round",
}
"""The headings of the groups in `plfl methods`, in order."""
ROOMS = {"method": methods, "server_opt": servers, "client_opt": clients}
FLOATS = (
    "Numbers of 4 bytes per client, with the default parameters.\n"
    "d_s: number of shared parameters; d_φ: how many of them are the embedding's."
)


def entries() -> list[dict[str, Any]]:
    """An entry per algorithm, by group (see `HEADINGS`): `axis`, `name`, `group`, `origin`,
    `citation`, `about`, `parameters`, each with a `default` and a `meaning`. A method also has
    `accepts` (the optimisers it accepts), `simulation_only` (why it cannot be deployed) and
    `floats` (the sizes of its messages, see `plfl.config.rules.Sizes`)."""
    listed = [
        _entry(axis, cls) for axis, package in ROOMS.items() for cls in package.available().values()
    ]
    listed.append(_calibration())
    groups = list(HEADINGS)
    return sorted(listed, key=lambda entry: groups.index(entry["group"]))


def _group(axis: str, cls: type[Algorithm]) -> str:
    """The group of an algorithm, one of `HEADINGS`."""
    if axis != "method":
        return axis
    if plugins.of(cls):
        return "plug-in"
    return "main" if cls.__module__.startswith(f"{methods.__name__}.") else "reproduction"


def _entry(axis: str, cls: type[Algorithm]) -> dict[str, Any]:
    sent = cls().sends if issubclass(cls, MethodRules) and "sends" in vars(cls) else None
    return {
        "axis": axis,
        "name": cls.name,
        "group": _group(axis, cls),
        "origin": plugin.origin if (plugin := plugins.of(cls)) else "plfl",
        "citation": _citation(sys.modules[cls.__module__]),
        "about": _first_paragraph(cls),
        "parameters": _parameters(cls),
        "accepts": _accepted(cls) if issubclass(cls, MethodRules) else None,
        "simulation_only": cls().simulation_only if issubclass(cls, MethodRules) else None,
        "floats": sent and sent._asdict(),
    }


def _calibration() -> dict[str, Any]:
    """The entry of `plfl.federated.calibration`, whose parameters are keys of the federation."""
    return {
        "axis": "calibration",
        "name": "calibration",
        "group": "calibration",
        "origin": "plfl",
        "citation": _citation(calibration),
        "about": _first_paragraph(calibration.calibrate),
        "parameters": _parameters(Calibration),
        "accepts": None,
        "simulation_only": None,
        "floats": Sizes("0", "0")._asdict(),
    }


def _parameters(block: type[Section]) -> dict[str, dict[str, Any]]:
    """The `default` and the `meaning` of each key."""
    meanings = block.meanings()
    return {
        name: {
            "default": field.get_default(call_default_factory=True),
            "meaning": " ".join(meanings.get(name, "").split()),
        }
        for name, field in block.model_fields.items()
    }


def _doc(of: object) -> str:
    return inspect.getdoc(of) or ""


def _citation(module: object) -> str:
    """The paragraph of a module's docstring that begins with "Source:", else the first one."""
    paragraphs = _doc(module).split("\n\n")
    sources = [p.removeprefix("Source: ") for p in paragraphs if p.startswith("Source: ")]
    return " ".join([*sources, paragraphs[0]][0].split())


def _first_paragraph(of: object) -> str:
    return " ".join(_doc(of).split("\n\n")[0].split())


def _accepted(cls: type[MethodRules]) -> dict[str, list[str]]:
    """The optimisers, with default hyperparameters, that a method accepts."""
    algorithms, method = Hyperparameters(), cls()
    pairs = [
        (client, server)
        for client in clients.available()
        for server in servers.available()
        if not method.refuses(algorithms.of_client_opt(client), algorithms.of_server_opt(server))
    ]
    return {
        "client_opt": sorted({client for client, _ in pairs}),
        "server_opt": sorted({server for _, server in pairs}),
    }


def as_json() -> str:
    """All entries as JSON."""
    return json.dumps(entries(), indent=1, ensure_ascii=False)


def as_text(study: Study | None = None) -> str:
    """All entries as text, and the contents of the plug-ins of a study and installed packages."""
    active = plugins.active(study.plugins if study else [])
    added = [f"{plugin.origin}: {', '.join(plugin.contents)}" for plugin in active]
    lines: list[str] = []
    group = ""
    for entry in entries():
        if entry["group"] != group:
            group = entry["group"]
            lines += ["", HEADINGS[group].upper()]
        origin = "" if entry["origin"] == "plfl" else f", from {entry['origin']}"
        lines += ["", f"{entry['name']} ({entry['axis']}{origin})", f"  {entry['citation']}"]
        lines.append(f"  {entry['about']}")
        if sent := entry["floats"]:
            lines.append(f"  floats per round: {sent['down']} down, {sent['up']} up")
            if (once := (sent["before_down"], sent["before_up"])) != ("0", "0"):
                lines.append("  floats before round 1: {} down, {} up".format(*once))
        for name, parameter in entry["parameters"].items():
            lines.append(f"  {name} = {flow(parameter['default'])}: {parameter['meaning']}")
        if entry["simulation_only"]:
            lines.append(f"  simulator only: {entry['simulation_only']}")
        if entry["accepts"]:
            for axis, names in entry["accepts"].items():
                lines.append(f"  {axis}: {', '.join(names) or 'none with its defaults'}")
    return "\n".join([*lines[1:], "", FLOATS, *(["\nplug-ins", *added] if added else [])])
