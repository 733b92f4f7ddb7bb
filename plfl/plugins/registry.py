"""Blocks of keys, and the registry of algorithms, which are blocks in files of the same name.

Algorithms that are not files of plfl (`plfl.plugins`) join them with `plug`.
"""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoints, distributions
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self, TypeVar, cast, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError

from plfl.base.errors import PlflError, Problem

Value = bool | int | float | str | None
"""The value of a key of a study, other than lists and blocks."""


class Section(BaseModel):
    """A block of keys. Unknown keys are refused; values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_truth_values(cls, raw: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse `yes` and `off` for a number, which pydantic takes for 1 and 0; with all other
        errors of the block."""
        problems = list(_misused_truth_values(cls, raw)) if isinstance(raw, dict) else []
        try:
            section = validate(raw)
        except ValidationError as error:
            if not problems:
                raise
            misused = {problem["loc"][0] for problem in problems}
            problems += [
                make_init_error(detail)
                for detail in error.errors()
                if not (isinstance(detail["input"], bool) and detail["loc"][0] in misused)
            ]
        if problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return section

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
    def extend(cls) -> type["Section"]:
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
def _number_keys(cls: type[Section]) -> frozenset[str]:
    """The keys of a block that take numbers, alone or in lists and by name, and no truth values."""
    types_of = {key: {*_types_in(field.annotation)} for key, field in cls.model_fields.items()}
    return frozenset(
        key for key, types in types_of.items() if types & {int, float} and not types & {bool, Any}
    )


def _types_in(annotation: Any) -> Iterator[Any]:
    """The types that an annotation is made of, `int` and `str` of `dict[str, int]`."""
    parts = get_args(annotation)
    for part in parts:
        yield from _types_in(part)
    if not parts and (annotation is Any or isinstance(annotation, type)):
        yield annotation


def _misused_truth_values(cls: type[Section], raw: dict[Any, Any]) -> Iterator[InitErrorDetails]:
    """Errors about the truth values in the keys of a block that take only numbers."""
    reason = (
        "it is no truth value, as which YAML reads yes, no, on and off; write a number, or a text "
        "in quotes"
    )
    number_keys = _number_keys(cls)
    for key in [key for key in raw if key in number_keys]:
        for place, value in _leaves(raw[key], key):
            if isinstance(value, bool):
                kind = PydanticCustomError("truth_value", reason)
                yield {"type": kind, "loc": place, "input": value}


def _leaves(value: Any, *place: str | int) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The single values in lists and mappings, with their places. Numbers lie at most in lists of a
    mapping; YAML can nest without end."""
    items: Iterable[tuple[str | int, Any]] = ()
    if len(place) <= 3 and isinstance(value, dict):
        items = value.items()
    elif len(place) <= 3 and isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        yield place, value
    for key, item in items:
        yield from _leaves(item, *place, key)


def make_init_error(error: ErrorDetails) -> InitErrorDetails:
    """An error that pydantic found, to be raised with others."""
    context = error.get("ctx", {}) | {"message": error["msg"]}
    kind = PydanticCustomError(error["type"], "{message}", context)
    return {"type": kind, "loc": error["loc"], "input": error["input"]}


@cache
def extend_section(base: type["Section"], blocks: tuple[tuple[str, type["Section"]], ...]) -> Any:
    """The section `base` with further blocks, each a key and its class; `base` without any."""
    fields: dict[str, Any] = {
        key: (block, Field(default_factory=block, description=inspect.getdoc(block)))
        for key, block in blocks
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
    """The name in figures and reports; by default, the name of the class. A comma and what follows
    it are left out beside others."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        if "label" not in vars(cls):
            cls.label = cls.__name__


ENTRY_POINTS = "plfl.plugins"
"""The group of entry points of installed packages that add to plfl. Each names a module that
defines classes, or a package with folders like those of plfl, such as `methods`, and one class per
file in them."""
ALGORITHM_PACKAGES = {
    "client_opt": "plfl.optimizers.client",
    "server_opt": "plfl.optimizers.server",
    "method": "plfl.methods",
}
"""The packages of the algorithms of a grid, by the key that names them."""

PLUGGED: dict[str, dict[str, type[Algorithm]]] = {}
"""Algorithms of plug-ins, by the package that they are added to and their name."""


Kind = TypeVar("Kind", bound=Algorithm)


def plug(package: str, cls: type[Algorithm]) -> None:
    """Add an algorithm to those of `package`, or replace the plug-in that had its name."""
    PLUGGED.setdefault(package, {})[cls.name] = cls


def plugged_algorithms(package: str) -> dict[str, type[Algorithm]]:
    """The algorithms that plug-ins have added to those of `package`, by name."""
    return dict(PLUGGED.get(package, {}))


@cache
def find_entry_points() -> EntryPoints:
    """The entry points of all installed packages. Each of these has a file to read for them."""
    return EntryPoints(point for package in distributions() for point in package.entry_points)


@cache
def files(package: str) -> dict[str, str]:
    """The modules of the files of `package`, whether or not they define an algorithm, by name.

    Installed packages can add files (see `ENTRY_POINTS`), in a folder named like that of plfl. The
    files are listed once: a configuration asks for them hundreds of times. PlflError: two files
    have the same name, or a package cannot be imported.
    """
    files_of: dict[str, str] = {}
    points = find_entry_points()
    folders = {
        folder
        for point in points.select(group=ENTRY_POINTS)
        for folder in folders_of(point.value, [package])
    }
    # Version 0.1 had one group per folder. They are read until version 1.0.
    folders |= {point.value for point in points.select(group=package)}
    for folder in (package, *sorted(folders)):
        for info in pkgutil.iter_modules(_import(folder).__path__):
            module = f"{folder}.{info.name}"
            if (other_module := files_of.setdefault(info.name, module)) != module:
                raise PlflError(
                    Problem(
                        "",
                        f"the modules {other_module} and {module} have one name",
                        "rename a file",
                    )
                )
    return files_of


def folders_of(module: str, packages: Iterable[str]) -> list[str]:
    """The folders with files for `packages` of plfl, such as `plfl.methods`, that the package
    `module` has under the same names; none if it is no package. It is not imported."""
    top, *parts = module.split(".")
    spec = importlib.util.find_spec(top)
    places = list(spec.submodule_search_locations or ()) if spec else []
    names = [package.split(".")[1:] for package in packages]
    return [
        ".".join([module, *name])
        for name in names
        if any(Path(place, *parts, *name).is_dir() for place in places)
    ]


def algorithm(package: str, name: str) -> type[Algorithm] | None:
    """The algorithm of this name in `package`, or None; only its own file is imported. PlflError:
    the algorithm in the file has another name. Without this rule, a copied file could replace the
    original, and changes to the algorithm would not re-run its cells."""
    return plugged_algorithms(package).get(name) or _in_file(package, name)


def available(package: str, _kind: type[Kind]) -> dict[str, type[Kind]]:
    """All algorithms of `package`, by name, all of one kind; imports every file."""
    classes = _in_files(package) | plugged_algorithms(package)
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
    module = _import(files(package)[name])
    classes = list_algorithms(module)
    for cls in classes:
        if cls.name != name:
            raise PlflError(
                Problem(
                    str(module.__file__),
                    f"{cls.__name__} has the name {cls.name!r}",
                    "rename the file or the algorithm",
                )
            )
    return next(iter(classes), None)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever a package raises
        raise PlflError(
            Problem(
                "",
                f"{name} cannot be imported: {describe_error(error)}",
                "fix the package or remove it",
            )
        ) from error


def describe_error(error: BaseException) -> str:
    """The kind of an error, and its message if it has one."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return type(error).__name__ + (f": {text}" if text else "")


def list_algorithms(module: ModuleType) -> list[type[Algorithm]]:
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
