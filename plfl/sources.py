"""Which of our own modules a module depends on, so that a change re-runs what it touches.

Snakemake tracks the file of a rule's script but not the package that it imports.
"""

import ast
import hashlib
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent
QUOTED = re.compile(r"""["'](\w+(?:\.\w+)+)["']""")
"""What may be the name of a file."""

CONFIGURATION = ("plfl.study", "plfl.methods", "plfl.clients", "plfl.servers")
"""What reads the configuration: jobs depend on the values it gives, which are their parameters,
and on the optimisers they use, not on all there are."""


def code_digest(*modules: str) -> str:
    """Fingerprint of the source of `modules` and of every module of ours that they import.

    Of `CONFIGURATION` only the base classes count, unless they are named themselves.
    """
    files = sorted(set().union(*(_closure(module) for module in modules)))
    text = hashlib.sha256()
    for file in files:
        text.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return text.hexdigest()[:16]


def _closure(module: str) -> set[Path]:
    seen: set[Path] = set()
    todo = [module]
    while todo:
        for file in _files(todo.pop(), CONFIGURATION) - seen:
            seen |= {file} | _read_by(file)
            todo += _imports(file)
    return seen


def _files(module: str, apart: Collection[str]) -> set[Path]:
    """Source of a module: its file, or the whole folder of a registry."""
    path = ROOT.joinpath(*module.split(".")[1:])
    if path == ROOT:
        return set()  # the version, which results carry by themselves
    if path.is_dir():
        base = {path / "__init__.py"}
        return base if module in apart or not _is_registry(path) else set(path.glob("*.py"))
    file = path.with_suffix(".py")
    return set() if module in apart or not file.is_file() else {file}


def _is_registry(package: Path) -> bool:
    return "iter_modules" in (package / "__init__.py").read_text(encoding="utf-8")


@cache
def _read_by(file: Path) -> set[Path]:
    """What a module names of the files beside it that are not modules, and of the templates."""
    names = set(QUOTED.findall(file.read_text(encoding="utf-8")))
    beside = (folder / name for folder in (file.parent, ROOT / "templates") for name in names)
    return {path for path in beside if path.suffix != ".py" and path.is_file()}


@cache
def _imports(file: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = _package(file, node.level) if node.level else ""
            module = ".".join(filter(None, [above, node.module]))
            found += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return [name for name in found if name == "plfl" or name.startswith("plfl.")]


def _package(file: Path, level: int) -> str:
    """What so many dots mean at the beginning of a relative import in a file."""
    folders = file.relative_to(ROOT).parts[:-1]
    return ".".join(["plfl", *folders][: len(folders) + 2 - level])
