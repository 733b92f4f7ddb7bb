"""Blocks of keys, and the registry of algorithms, which are blocks in files of the same name.

Algorithms that are not files of plfl (`plfl.plugins`) join them with `plug`.
"""

import ast
import importlib
import inspect
import pkgutil
import textwrap
from functools import cache
from importlib.metadata import entry_points
from itertools import pairwise
from types import ModuleType
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, create_model
from pydantic_core import CoreSchema

from plfl.base.errors import PlflError

Value = bool | int | float | str | None
"""The value of a key of a study, other than lists and blocks."""


class Section(BaseModel):
    """A block of keys. Unknown keys are refused; values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """The docstrings of the keys, by key. They are read from the source when they are needed.
        Pydantic can attach them to the fields (`use_attribute_docstrings`), but only when a class
        is defined, which doubles the time that every process needs to import the configuration."""
        meanings: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            if issubclass(base, Section):
                meanings |= _docstrings(base)
        return {key: meanings[key] for key in cls.model_fields if key in meanings}

    @classmethod
    def extended(cls) -> type["Section"]:
        """The block with all keys that it has now; plug-ins can add keys to some blocks."""
        return cls

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for key, text in cls.meanings().items():
            properties[key].setdefault("description", text)
        return schema


@cache
def extended(base: type["Section"], added: tuple[tuple[str, type["Section"]], ...]) -> Any:
    """The section `base` with further blocks, each a key and its class; `base` without any."""
    fields: dict[str, Any] = {
        key: (block, Field(default_factory=block, description=inspect.getdoc(block)))
        for key, block in added
    }
    if not fields:
        return base
    about: dict[str, Any] = {"__doc__": base.__doc__, "__module__": base.__module__}
    return create_model(base.__name__, __base__=base, **about, **fields)


class Algorithm(Section):
    """Hyperparameters of an algorithm, whose file contains its source, equations and update."""

    name: ClassVar[str]
    """The name in configurations, which is also the name of the file."""
    label: ClassVar[str]
    """The name in figures and reports; by default, the name of the class."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        if "label" not in vars(cls):
            cls.label = cls.__name__


KINDS = {
    "client_opt": "plfl.optimizers.client",
    "server_opt": "plfl.optimizers.server",
    "method": "plfl.methods",
}
"""The packages of the algorithms of a grid, by the key that names them."""

_plugged: dict[str, dict[str, type[Algorithm]]] = {}
"""Algorithms of plug-ins, by the package that they are added to and their name."""


Kind = TypeVar("Kind", bound=Algorithm)


def plug(package: str, cls: type[Algorithm]) -> None:
    """Add an algorithm to those of `package`, or replace the plug-in that had its name."""
    _plugged.setdefault(package, {})[cls.name] = cls


def plugged(package: str) -> dict[str, type[Algorithm]]:
    """The algorithms that plug-ins have added to those of `package`, by name."""
    return dict(_plugged.get(package, {}))


@cache
def files(package: str) -> dict[str, str]:
    """The modules of the files of `package`, whether or not they define an algorithm, by name.

    Installed packages can add files: an entry point in the group named like `package` names a
    package that contains them. The files are listed once: a configuration asks for them hundreds of
    times. PlflError: two files have the same name, or a package cannot be imported.
    """
    files_of: dict[str, str] = {}
    brought = sorted(point.value for point in entry_points(group=package))
    for folder in (package, *brought):
        for info in pkgutil.iter_modules(_imported(folder).__path__):
            module = f"{folder}.{info.name}"
            if (other := files_of.setdefault(info.name, module)) != module:
                raise PlflError(f"the modules {other} and {module} have one name; rename a file")
    return files_of


def algorithm(package: str, name: str) -> type[Algorithm] | None:
    """The algorithm of this name in `package`, or None; only its own file is imported. PlflError:
    the algorithm in the file has another name. Without this rule, a copied file could replace the
    original, and changes to the algorithm would not re-run its cells."""
    return plugged(package).get(name) or _in_file(package, name)


def available(package: str, _kind: type[Kind]) -> dict[str, type[Kind]]:
    """All algorithms of `package`, by name, all of one kind; imports every file."""
    classes = _in_files(package) | plugged(package)
    return cast(dict[str, type[Kind]], {name: classes[name] for name in sorted(classes)})


def find(package: str, _kind: type[Kind], name: str) -> type[Kind]:
    """The algorithm of this name in `package`, all of which are of one kind; or KeyError."""
    cls = algorithm(package, name)
    if cls is None:
        raise KeyError(name)
    return cast(type[Kind], cls)


@cache
def _in_files(package: str) -> dict[str, type[Algorithm]]:
    """The algorithms in all files of `package`, by name."""
    algorithms = {name: _in_file(package, name) for name in sorted(files(package))}
    return {name: cls for name, cls in algorithms.items() if cls is not None}


@cache
def _in_file(package: str, name: str) -> type[Algorithm] | None:
    if name not in files(package):
        return None
    module = _imported(files(package)[name])
    classes = defined_in(module)
    for cls in classes:
        if cls.name != name:
            raise PlflError(
                f"{module.__file__}: {cls.__name__} has the name {cls.name!r}; "
                "rename the file or the algorithm"
            )
    return next(iter(classes), None)


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever a package raises
        raise PlflError(
            f"{name} cannot be imported: {said(error)}; fix the package or remove it"
        ) from error


def said(error: BaseException) -> str:
    """The kind of an error, and its message if it has one."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return type(error).__name__ + (f": {text}" if text else "")


def defined_in(module: ModuleType) -> list[type[Algorithm]]:
    """The algorithms with a name that a module itself defines."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Algorithm)
        and value.__module__ == module.__name__
        and "name" in vars(value)
    ]


@cache  # the schema describes the same blocks many times
def _docstrings(cls: type) -> dict[str, str]:
    """The docstrings below the annotated attributes that a class itself defines."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except OSError:  # a class that `create_model` made has no source
        return {}
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.ClassDef)
    return {
        attribute.target.id: inspect.cleandoc(text.value.value)
        for attribute, text in pairwise(definition.body)
        if isinstance(attribute, ast.AnnAssign)
        and isinstance(attribute.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
