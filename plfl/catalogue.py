"""What algorithms there are, read from the code itself."""

import inspect
import json
import sys
from typing import Any

from plfl import clients, methods, servers
from plfl.registry import Method
from plfl.study import Study

ROOMS = {"method": methods, "server_opt": servers, "client_opt": clients}


def entries() -> list[dict[str, Any]]:
    """One entry an algorithm: `axis`, `name`, `citation`, `about`, `parameters`.

    A parameter has its `default` and its `meaning`. A method also has `accepts`, the optimisers it
    makes sense with, and `simulation_only`, why it cannot be deployed.
    """
    return [
        _entry(axis, cls) for axis, package in ROOMS.items() for cls in package.available().values()
    ]


def _entry(axis: str, cls: type[Method]) -> dict[str, Any]:
    module = inspect.getdoc(sys.modules[cls.__module__]) or ""
    return {
        "axis": axis,
        "name": cls.name,
        "citation": " ".join(module.split("\n\n")[0].split()),
        "about": " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split()),
        "parameters": {
            name: {
                "default": field.get_default(call_default_factory=True),
                "meaning": " ".join((field.description or "").split()),
            }
            for name, field in cls.model_fields.items()
        },
        "accepts": _accepted(cls) if axis == "method" else None,
        "simulation_only": cls().simulation_only if issubclass(cls, methods.Method) else None,
    }


def _accepted(cls: type[Method]) -> dict[str, list[str]]:
    """Optimisers, with their defaults, that a method makes sense with."""
    study, method = Study(), cls()
    pairs = [
        (client, server)
        for client in clients.available()
        for server in servers.available()
        if not method.refuses(  # type: ignore[attr-defined]
            getattr(study.client_opt, client), getattr(study.server_opt, server)
        )
    ]
    return {
        "client_opt": sorted({client for client, _ in pairs}),
        "server_opt": sorted({server for _, server in pairs}),
    }


def as_json() -> str:
    """All entries as JSON."""
    return json.dumps(entries(), indent=1, ensure_ascii=False)


def as_text() -> str:
    """All entries, to be read."""
    lines = []
    for entry in entries():
        lines += ["", f"{entry['name']} ({entry['axis']})", f"  {entry['citation']}"]
        for name, parameter in entry["parameters"].items():
            lines.append(f"  {name} = {parameter['default']}: {parameter['meaning']}")
        if entry["simulation_only"]:
            lines.append(f"  in the simulator only: {entry['simulation_only']}")
        if entry["accepts"]:
            for axis, names in entry["accepts"].items():
                lines.append(f"  {axis}: {', '.join(names) or 'none with its defaults'}")
    return "\n".join(lines[1:])
