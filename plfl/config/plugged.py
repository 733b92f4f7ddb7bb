"""The plug-ins that a configuration lists, and their blocks of hyperparameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plfl import plugins
from plfl.plugins.registry import KINDS


def with_plugins(raw: Mapping[str, Any], folder: Path) -> tuple[Mapping[str, Any], list[str]]:
    """Import the plug-ins of a configuration.

    Returns:
        The configuration with paths of plug-ins relative to the working directory, and with a block
        of keys for each of their algorithms; and one line for each problem.
    """
    listed = raw.get("plugins", [])
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        return raw, []  # reported by pydantic
    files = [plugins.located(Path(one), folder) for one in listed]
    problems = plugins.activate(files)
    if listed:
        raw = {**raw, "plugins": [file.as_posix() for file in files]}
    if problems or not (found := plugins.active(files)):
        return raw, problems
    blocks = raw.get("hyperparameters", {})
    if not isinstance(blocks, Mapping):
        return raw, []
    blocks = dict(blocks)
    for kind, package in KINDS.items():
        names = [name for one in found for room, name in one.algorithms if room == package]
        if names and isinstance(given := blocks.get(kind, {}), Mapping):
            blocks[kind] = {name: {} for name in names} | dict(given)
    return {**raw, "hyperparameters": blocks}, []
