"""Digests of the code that a job runs, so that a change re-runs the jobs that depend on it.

Snakemake tracks the script of a rule, but not the modules that the script imports.
"""

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from plfl.base.files import digest, sha256
from plfl.plugins import FIGURES

ROOT = Path(__file__).resolve().parents[1]
OWN = "plfl"
QUOTED = re.compile(r"""["'](\w+(?:\.\w+)+)["']""")
"""A quoted string, which may be the name of a file."""

CONFIGURATION = "plfl.study"
"""What reads a study. A job depends on the values of its keys, which are its parameters, and on
the algorithms that it uses, but not on the reading, nor on all algorithms."""


def code_digest(*modules: str) -> str:
    """Digest of the source of `modules`, and of all modules that they import from plfl and from
    their own package, which may be that of a plug-in.

    Of a package, only the base classes are included that its `__init__.py` has.
    """
    files = sorted(set().union(*(_closure(module) for module in modules)))
    return digest([(_within(file).as_posix(), sha256(file)) for file in files])


def _folder(package: str) -> Path | None:
    """The folder of plfl or of the package of a plug-in; None if it has none."""
    if package == OWN:
        return ROOT
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def _within(file: Path) -> Path:
    """The path of a file that begins with the folder of its package; plfl's own folder is left
    out."""
    if file.is_relative_to(ROOT):
        return file.relative_to(ROOT)
    file = file.resolve()
    top = file.parent
    while (top.parent / "__init__.py").is_file():
        top = top.parent
    return file.relative_to(top.parent)


def _closure(module: str) -> set[Path]:
    seen: set[Path] = set()
    todo = [module]
    while todo:
        for file in _files(todo.pop()) - seen:
            seen |= {file} | _read_by(file)
            todo += imports(file)
    return seen


@cache
def _files(module: str) -> frozenset[Path]:
    """The source of a module: its file, or the whole folder of the figures, which list
    themselves."""
    package, *parts = module.split(".")
    folder = _folder(package)
    if folder is None or module in (OWN, CONFIGURATION):
        return frozenset()  # plfl itself has the version, which the results store anyway
    path = folder.joinpath(*parts)
    if path.is_dir():
        return frozenset(path.glob("*.py") if module == FIGURES else [path / "__init__.py"])
    file = path.with_suffix(".py")
    return frozenset([file] if file.is_file() else [])


@cache
def _read_by(file: Path) -> set[Path]:
    """The files beside a module, and the templates, whose names the module contains."""
    names = set(QUOTED.findall(file.read_text(encoding="utf-8")))
    folders = (file.parent, file.parent / "templates")
    beside = (folder / name for folder in folders for name in names)
    return {path for path in beside if path.suffix != ".py" and path.is_file()}


@cache
def imports(file: Path) -> list[str]:
    """Names of the modules of plfl, and of its own package, that a file of plfl or of a plug-in
    imports."""
    within = _within(file)
    own = OWN if file.is_relative_to(ROOT) else within.parts[0]
    found = []
    for node in _statements(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            folders = [own, *within.parts[own != OWN : -1]]
            above = ".".join(folders[: len(folders) + 1 - node.level]) if node.level else ""
            module = ".".join(filter(None, [above, node.module]))
            found += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return [name for name in found if name.split(".")[0] in (OWN, own)]


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node. Expressions, which are most of the tree, contain none."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, field, []):
            yield child
            yield from _statements(child)
