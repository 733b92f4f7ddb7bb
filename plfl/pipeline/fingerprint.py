"""Digests of the code that a job runs and of the files that a study reads, so that a change re-runs
the jobs that depend on it.

Snakemake tracks the script of a rule, but not the modules that the script imports.
"""

import importlib.util
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from plfl.base.files import digest, sha256

ROOT = Path(__file__).resolve().parents[1]
OWN = "plfl"
FOLDERS = {"plfl.report.figures": "*.py", "plfl.data.meters.formats": "*.toml"}
"""Packages that list the files in their folders, and which files these are."""
IMPORT = re.compile(r"^ *(?:from|import) +([\w.]+)(?: +import +(\([^)]*\)|.*))?", re.MULTILINE)
"""An import: the module, and the names from it."""
QUOTED = re.compile(r"""["'](\w+(?:\.\w+)+)["']""")
"""A quoted string, which may be the name of a file."""

ANNOTATIONS = "annotations"
"""Files of this name list types for annotations, which compute nothing."""
LEFT_OUT = (OWN, "plfl.study")
"""plfl itself has the version, which the results store anyway; `plfl.study` reads a study. A job
depends on the values of its keys, which are its parameters, and on the algorithms that it uses, but
not on the reading, nor on all algorithms."""


def code_digest(*modules: str) -> str:
    """Digest of the source of `modules`, and of all modules that they import from plfl and from
    their own package, which may be that of a plug-in. Of a package, only the base classes are
    included that its `__init__.py` has."""
    return digest(sorted(_closure(*modules).items()))


def _closure(*modules: str) -> dict[str, tuple[str, ...]]:
    """The digests of the files of these modules and of all that they import, by module."""
    packages = {OWN, *(module.split(".")[0] for module in modules)}
    digests: dict[str, tuple[str, ...]] = {}
    todo = [*modules]
    while todo:
        module = todo.pop()
        if module not in digests and module.split(".")[0] in packages:
            files = _files(module)
            if files:
                digests[module] = tuple(map(_digest, files))
                todo += [name for file in files for name in imports(file)]
    return digests


@cache
def _files(module: str) -> tuple[Path, ...]:
    """The source of a module and the files beside it, and templates, that it names; of those in
    `FOLDERS`, the files in their folders. Empty: there is no such module."""
    package, *parts = module.split(".")
    spec = importlib.util.find_spec(package)
    is_left_out = module in LEFT_OUT or parts[-1:] == [ANNOTATIONS]
    if is_left_out or spec is None or not spec.submodule_search_locations:
        return ()
    path = Path(next(iter(spec.submodule_search_locations)), *parts)
    if path.is_dir():
        sources = sorted(path.glob(FOLDERS.get(module, "__init__.py")))
    else:
        sources = [path.with_suffix(".py")]
    sources = [file for file in sources if file.is_file()]
    return tuple(dict.fromkeys(file for source in sources for file in (source, *_read_by(source))))


def _read_by(source: Path) -> list[Path]:
    """The files beside a module, and the templates, whose names the module contains."""
    names = sorted(set(QUOTED.findall(source.read_text(encoding="utf-8"))))
    folders = (source.parent, source.parent / "templates")
    candidates = (folder / name for folder in folders for name in names)
    return [path for path in candidates if path.suffix != ".py" and path.is_file()]


_digest = cache(sha256)


@cache
def imports(file: Path) -> tuple[str, ...]:
    """Names of the modules that a Python file imports, and of what it imports from them."""
    if file.suffix != ".py":
        return ()
    names = []
    for module, imported in IMPORT.findall(file.read_text(encoding="utf-8")):
        names += [module, *(f"{module}.{name}" for name in re.findall(r"\w+", imported))]
    return tuple(names)


def digests_of(files: Iterable[Path]) -> dict[str, str]:
    """SHA-256 of files by path, each read once in this process; those that do not exist are left
    out."""
    return {str(file): _digest(file) for file in files if file.is_file()}
