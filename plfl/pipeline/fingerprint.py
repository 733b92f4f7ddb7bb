"""Digests of the code that a job runs and of the files that a study reads, so that a change re-runs
the jobs that depend on it.

Snakemake tracks the script of a rule, but not the modules that the script imports.

Two other digests of code answer other questions, and follow no imports.
`plfl.plugins.Plugin.digest` says which plug-in defines a cell or a model, in any version of plfl:
it is one of their settings, which a server compares with those of its clients.
`plfl.plugins.digest_named_files` says which Python files results name, so that one that has changed
or is not trusted does not run: files of models have it.
"""

import ast
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from plfl.base.files import digest, sha256
from plfl.base.lazy import pause_garbage_collection

OWN = "plfl"
FOLDERS = {"plfl.report.figures": "*.py", "plfl.data.meters.formats": "*.toml"}
"""Packages that list the files in their folders, and which files these are."""

ANNOTATIONS = "annotations"
"""Files of this name list types for annotations, which compute nothing."""
LEFT_OUT = (OWN, "plfl.study")
"""plfl itself has the version, which the results store anyway; `plfl.study` reads a study. A job
depends on the values of its keys, which are its parameters, and on the algorithms that it uses, but
not on the reading, nor on all algorithms."""


def code_digest(*modules: str) -> str:
    """Digest of the source of `modules`, and of all modules that they import from plfl and from
    their own package. They may be those of plug-ins: of a package or of a user's file. Of a
    package, only the base classes are included that its `__init__.py` has."""
    return digest(sorted(file_digests(*modules).items()))


def method_digest(method: Callable[..., Any], *modules: str) -> str:
    """Digest of the code of a method of an object: of the method and of those methods of the object
    that it calls, with the modules that they import or whose names they use, and of `modules`."""
    assert isinstance(method, MethodType)
    texts, names = [], {*modules}
    for function in _functions_of(type(method.__self__), method.__name__):
        texts.append(inspect.getsource(function))
        names |= _modules_of(function)
    return digest(texts, sorted(file_digests(*sorted(names)).items()))


def _modules_of(function: FunctionType) -> set[str]:
    """Names of the modules that the body of a function imports or whose names it uses; its own
    module if the body uses what is defined there."""
    module = sys.modules[function.__module__]
    own_nodes = _body_of(function)
    used_names = {node.id for node in own_nodes if isinstance(node, ast.Name)}
    used_names -= {*function.__code__.co_varnames}
    names: set[str] = set()
    for node in own_nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update(_imported_modules(node, node.names, module.__package__ or ""))
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            aliases = [a for a in node.names if (a.asname or a.name).split(".")[0] in used_names]
            if aliases:
                names.update(_imported_modules(node, aliases, module.__package__ or ""))
        elif used_names & _defined_names(node):
            names.add(module.__name__)
    return names


def _defined_names(node: ast.stmt) -> set[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = [target for target in ast.walk(node) if isinstance(target, ast.Name)]
    return {target.id for target in targets if isinstance(target.ctx, ast.Store)}


def _functions_of(cls: type, name: str) -> list[FunctionType]:
    """A method of a class, as the class and its parents define it, and the methods that it calls of
    the same object."""
    names, functions = [name], dict[FunctionType, None]()
    for method_name in names:
        for parent in cls.__mro__:
            function = vars(parent).get(method_name)
            if not isinstance(function, FunctionType) or function in functions:
                continue
            functions[function] = None
            names += [
                node.attr
                for node in _body_of(function)
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            ]
    return [*functions]


def _body_of(function: FunctionType) -> list[ast.AST]:
    """All nodes of the body of a function."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef)
    return [node for statement in definition.body for node in ast.walk(statement)]


def file_digests(*modules: str) -> dict[str, tuple[str, ...]]:
    """The digests of the files of these modules and of all that they import, by module."""
    packages = {OWN, *(module.split(".")[0] for module in modules)}
    digests: dict[str, tuple[str, ...]] = {}
    todo = [*modules]
    with pause_garbage_collection():  # syntax trees are none
        while todo:
            module = todo.pop()
            if module not in digests and module.split(".")[0] in packages:
                files = files_of(module)
                if files:
                    digests[module] = tuple(map(_digest, files))
                    todo += [name for file in files for name in imports(file, module)]
    return digests


@cache
def files_of(module: str) -> tuple[Path, ...]:
    """The source of a module and the files beside it, and templates, that it names; of those in
    `FOLDERS`, the files in their folders. Empty: there is no such module."""
    package, *parts = module.split(".")
    spec = importlib.util.find_spec(package)
    if module in LEFT_OUT or parts[-1:] == [ANNOTATIONS] or spec is None:
        return ()
    if spec.submodule_search_locations:
        path = Path(next(iter(spec.submodule_search_locations)), *parts)
    elif spec.origin and not parts:
        path = Path(spec.origin)  # a module that is no package, such as a user's file
    else:
        return ()
    if path.is_dir():
        sources = sorted(path.glob(FOLDERS.get(module, "__init__.py")))
    else:
        sources = [path.with_suffix(".py")]
    sources = [file for file in sources if file.is_file()]
    return tuple(dict.fromkeys(file for source in sources for file in (source, *_read_by(source))))


def _read_by(source: Path) -> list[Path]:
    """The files beside a module, and the templates, whose names are strings in the module, and the
    templates that these include."""
    if source.suffix != ".py":
        return []
    folders = (source.parent, source.parent / "templates")
    content = source.read_bytes()
    named_files = [
        path for folder in folders for path in _other_files(folder) if path.name.encode() in content
    ]
    if not named_files:
        return []
    constants = (
        node.value
        for node in ast.walk(ast.parse(content, source))
        if isinstance(node, ast.Constant)
    )
    strings = {value for value in constants if isinstance(value, str)}
    files = [path for path in named_files if path.name in strings]
    for file in files:  # those that it includes come after it
        if file.suffix == ".jinja":
            text = file.read_bytes()
            included = (p for p in _other_files(file.parent) if f'"{p.name}"'.encode() in text)
            files += [path for path in included if path not in files]
    return files


@cache
def _other_files(folder: Path) -> tuple[Path, ...]:
    """The files of a folder that are no Python files, in order."""
    return tuple(
        path for path in sorted(folder.glob("*.*")) if path.suffix != ".py" and path.is_file()
    )


_digest = cache(sha256)


def forget() -> None:
    """Forget what was read of files, which may have changed since."""
    for function in (imports, files_of, _other_files, _digest):
        function.cache_clear()


@cache
def imports(file: Path, module: str) -> tuple[str, ...]:
    """Names of the modules that the Python file of a module imports, and of what it imports from
    them. Other files import nothing."""
    if file.suffix != ".py":
        return ()
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    names: list[str] = []
    for node in _statements(ast.parse(file.read_bytes(), file).body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names += _imported_modules(node, node.names, package)
    return tuple(names)


def _imported_modules(
    node: ast.Import | ast.ImportFrom, aliases: Iterable[ast.alias], package: str
) -> list[str]:
    """Names of the modules that an import in a package names, and of what it imports from them, for
    some of its aliases."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in aliases]
    base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    return [base, *(f"{base}.{alias.name}" for alias in aliases)]


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """All statements of a block, with those inside of them. Expressions, which are most of a
    tree, have none."""
    for node in body:
        if isinstance(node, ast.stmt):
            yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, field, ()))


def digests_of(files: Iterable[Path]) -> dict[str, str]:
    """SHA-256 of files by path, each read once in this process; those that do not exist are left
    out."""
    return {str(file): _digest(file) for file in files if file.is_file()}
