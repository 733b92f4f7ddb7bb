"""Plug-ins: algorithms, models, tasks, baselines and sources from outside of plfl.

A plug-in is a Python file of the user, which a study lists under `plugins`, or a module of an
installed package, which has an entry point of the group `plfl.plugins` for it. A study names its
classes like those of plfl. Such an entry point may also name a package with folders like those of
plfl: its files are then files of plfl (`plfl.plugins.registry`), read when a study names them.

Importing a file runs it. A study that the user runs may name files. Results may be those of
somebody else: their study is data, and the files that it names run only if the user trusts them.
"""

import importlib.metadata
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

from plfl.base.errors import PlflError, Problem, ResultsError
from plfl.base.files import digest, sha256
from plfl.base.keys import Key
from plfl.plugins.registry import (
    ENTRY_POINTS,
    Algorithm,
    describe_error,
    files,
    folders_of,
    list_algorithms,
    plug,
)

_OWN = "plfl_own_"
"""Prefix of the module names of users' files."""
KINDS_BY_PACKAGE = {
    "plfl.methods": "method",
    "plfl.optimizers.client": "local optimiser",
    "plfl.optimizers.server": "server optimiser",
    "plfl.models": "model",
    "plfl.tasks": "task",
    "plfl.baselines": "baseline",
    "plfl.data.sources": "source of data",
    "plfl.experiments.scoring": "scoring",
    "plfl.report.reporting": "reporting",
    "plfl.federated.codecs": "codec",
}
"""The kinds of classes that a plug-in can define, by the package of those of plfl."""
BASES = {
    "plfl.interfaces.baseline": "plfl.baselines",
    "plfl.interfaces.codec": "plfl.federated.codecs",
    "plfl.interfaces.method": "plfl.methods",
    "plfl.interfaces.model": "plfl.models",
    "plfl.interfaces.source": "plfl.data.sources",
    "plfl.interfaces.task": "plfl.tasks",
}
"""The package of a kind by the module of its base class, where the package does not define that."""


@dataclass(frozen=True)
class Plugin:
    """A plug-in that has been imported."""

    origin: str
    """Where it comes from: its file, or its package with the version."""
    module: ModuleType
    digest: str
    """Digest of its code."""
    algorithms: dict[tuple[str, str], type[Algorithm]] = field(repr=False)
    """Its classes, by room (see `KINDS_BY_PACKAGE`) and name."""

    @property
    def contents(self) -> list[str]:
        """What it defines, such as "method clipped"."""
        return [f"{KINDS_BY_PACKAGE[room]} {name}" for room, name in self.algorithms]


_origins: dict[str, Plugin] = {}
"""The plug-ins by the names of their modules."""
PLUGINS_KEY = Key("plugins")
"""The key that lists the files of plug-ins."""
TRUSTED: set[tuple[Path, str]] = set()
"""Files that results may name, with the digests of their code."""


def trust(*files: str | os.PathLike[str]) -> None:
    """Allow results that name these Python files to run them, in this process.

    Files that a study of the user's own has imported are trusted already. A file that changes
    afterwards is no longer trusted.

    >>> import plfl
    >>> plfl.trust("my_method.py")
    """
    for file in map(Path, files):
        try:
            TRUSTED.add((file.resolve(), sha256(file)))
        except OSError as error:
            raise PlflError(
                Problem(file, f"cannot be read ({error.strerror})", "correct the path")
            ) from None


def check_trust(study: object, source: str, digests: Mapping[str, str] | None = None) -> None:
    """Refuse, with a ResultsError, a study from a file of results if a Python file that it names is
    missing, has changed since, or is not trusted. `source`: where it comes from, for the message;
    `digests`: SHA-256 of the files when the results were made, as far as they are known."""
    untrusted = []
    for file in dict.fromkeys(_files_in(study)):
        try:
            code = sha256(file)
        except (OSError, ValueError):
            raise ResultsError(
                Problem(
                    source,
                    f"its study needs the Python file {file}, which cannot be read",
                    "restore it, or run plfl in the folder in which the study ran",
                )
            ) from None
        if digests and digests.get(file.as_posix(), code) != code:
            raise ResultsError(
                Problem(
                    source, f"{file} has changed since the training", "restore it, or train again"
                )
            )
        if (file.resolve(), code) not in TRUSTED:
            untrusted.append(str(file))
    if untrusted:
        options = " ".join(f"--trust {file}" for file in untrusted)
        quoted = ", ".join(f'"{file}"' for file in untrusted)
        raise ResultsError(
            Problem(
                source,
                f"its study would run Python code: {', '.join(untrusted)}. Read it",
                f"if you trust it, repeat the command with {options} (in Python: call "
                f"plfl.trust({quoted}) first)",
            )
        )


def digest_named_files(study: object) -> dict[str, str]:
    """SHA-256 of the Python files that a configuration names, by path; see `check_trust`."""
    return {file.as_posix(): sha256(file) for file in _files_in(study)}


def _files_in(value: object) -> Iterator[Path]:
    """The Python files that a configuration names in any key: `a.py` and, for a class, `a.py:Net`.
    Every text that could be such a file counts, so that no key can be forgotten here."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        for name in value:
            yield from _files_in(name)
    elif isinstance(value, str):
        for text in (value, value.rpartition(":")[0]):
            if ".py" in text and (file := locate_file(Path(text), Path())).suffix == ".py":
                yield file


def locate_file(file: Path, folder: Path) -> Path:
    """A file that a study in `folder` lists, from the working directory if it lies below it."""
    path = Path(os.path.normpath(Path.cwd() / folder / file))
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def activate(files_listed: Iterable[Path]) -> list[Problem]:
    """Import plug-ins, also those of installed packages, so that studies can name their algorithms;
    return the problems. If two plug-ins, imported for different studies, define the
    same name, the later one counts."""
    plugins: list[Plugin] = []
    problems: list[Problem] = []
    for file in (None, *dict.fromkeys(files_listed)):
        try:
            plugins += packaged_plugins() if file is None else [_read_file(file)]
        except PlflError as error:
            problems += error.locate_in(PLUGINS_KEY).problems
    origin_of: dict[tuple[str, str], str] = {}
    for plugin in plugins:
        for room, name in plugin.algorithms:
            origin = "plfl" if name in files(room) else origin_of.get((room, name))
            if origin:
                text = (
                    f"{plugin.origin} defines the {KINDS_BY_PACKAGE[room]} {name}, as {origin} does"
                )
                problems.append(Problem(PLUGINS_KEY, text, "rename one"))
        origin_of |= dict.fromkeys(plugin.algorithms, plugin.origin)
    if not problems:
        for plugin in plugins:
            for (room, _), cls in plugin.algorithms.items():
                plug(room, cls)
    return problems


def plugins_of(plugin_files: Iterable[Path]) -> list[Plugin]:
    """The plug-ins of a study that lists these files, those of installed packages first."""
    return [*packaged_plugins(), *map(_read_file, plugin_files)]


def find_plugin(cls: type[Algorithm]) -> Plugin | None:
    """The plug-in that defines an algorithm; None if plfl does."""
    return _origins.get(cls.__module__)


def algorithm_digests(*algorithms: type[Algorithm]) -> dict[str, str]:
    """The digests of the plug-ins that define `algorithms`, by the names of the algorithms."""
    digests = {cls.name: find_plugin(cls) for cls in algorithms}
    return {name: plugin.digest for name, plugin in sorted(digests.items()) if plugin}


@cache
def import_file(file: Path, code: str) -> ModuleType:
    """Import a user's file, whose digest is `code`; each digest is imported once. The file is
    trusted from then on. A study from results must pass `check_trust` first. PlflError: the file
    cannot be imported; the message names the line."""
    spec = importlib.util.spec_from_file_location(f"{_OWN}{file.stem}_{code[:12]}", file)
    if spec is None or spec.loader is None:
        raise PlflError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    trust(file)
    sys.modules[spec.name] = module  # where dataclasses and the like look for it
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's file raises
        del sys.modules[spec.name]
        raise PlflError(
            f"{file}{line_of(error, file)} cannot be imported: {describe_error(error)}"
        ) from None
    return module


def line_of(error: BaseException, file: Path) -> str:
    """Where in a file an error arose, to be written after the file's name."""
    if isinstance(error, SyntaxError) and Path(error.filename or "").name == file.name:
        return f", line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == file.name]
    return f", line {lines[-1]}" if lines else ""


def _read_file(file: Path) -> Plugin:
    if file.suffix != ".py":
        raise PlflError(Problem("", f"{file} is not a Python file", "list files that end in .py"))
    try:
        code = sha256(file)
    except OSError as error:
        problem = "the file does not exist" if not file.exists() else str(error.strerror)
        raise PlflError(
            Problem(file, problem, "correct the path, which is relative to the file of the study")
        ) from None
    module = import_file(file, code)
    return _plugin(str(file), module, code)


@cache
def packaged_plugins() -> list[Plugin]:
    """The plug-ins of installed packages. One that cannot be imported stops every study."""
    plugins = []
    for point in sorted(importlib.metadata.entry_points(group=ENTRY_POINTS)):
        package = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        try:
            module = point.load()
        except Exception as error:
            raise PlflError(
                Problem(
                    "",
                    f"the entry point {point.name} = {point.value} of {package} cannot be "
                    f"imported: {describe_error(error)}",
                    "fix the package or remove it",
                )
            ) from None
        if list_algorithms(module) or not folders_of(point.value, KINDS_BY_PACKAGE):
            plugins.append(_plugin(package, module, _code_of(module)))
    return plugins


def _code_of(module: ModuleType) -> str:
    """Digest of all Python files of the package of a module."""
    top = sys.modules[module.__name__.partition(".")[0]]
    folders = map(Path, getattr(top, "__path__", []))
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    return digest([sha256(file) for file in files or [Path(str(top.__file__))]])


def _plugin(origin: str, module: ModuleType, code: str) -> Plugin:
    if module.__name__ not in _origins or _origins[module.__name__].origin != origin:
        classes = {
            (_package_of_kind(cls), cls.name): cls
            for cls in list_algorithms(module)
            if _package_of_kind(cls)
        }
        plugin = Plugin(origin, module, code, classes)
        if not classes:
            raise PlflError(
                f"{origin} defines nothing that plfl knows: no class with a `name` that derives "
                f"from a {', '.join(KINDS_BY_PACKAGE.values())}"
            )
        for cls in classes.values():
            _check_functions(origin, cls)
        _origins[module.__name__] = plugin
    return _origins[module.__name__]


def _check_functions(origin: str, cls: type[Algorithm]) -> None:
    """Refuse functions that plfl would never call, and those that are missing."""
    if missing := sorted(cls.__abstractmethods__):
        raise PlflError(
            Problem(
                origin,
                f"{cls.__name__} lacks {', '.join(missing)}, which plfl calls",
                "define it, or derive the class from one that does",
            )
        )
    hook_names = {name for base in cls.__mro__[1:] for name in vars(base) if name[0] != "_"}
    own_names = {name for name, value in vars(cls).items() if isinstance(value, FunctionType)}
    for name in own_names - hook_names:
        if name[0] != "_" and (similar_names := get_close_matches(name, hook_names, 1, 0.85)):
            raise PlflError(
                Problem(
                    origin,
                    f"{cls.__name__}.{name} is never called",
                    f"did you mean {similar_names[0]!r}? If it is a function of your own, call "
                    f"it _{name}",
                )
            )


def _package_of_kind(cls: type[Algorithm]) -> str:
    modules = (BASES.get(base.__module__, base.__module__) for base in cls.__mro__)
    return next((module for module in modules if module in KINDS_BY_PACKAGE), "")
