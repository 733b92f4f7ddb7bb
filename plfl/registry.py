"""The registry of algorithms: every module of a package defines one, named like its file."""

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import Any, ClassVar

from plfl.errors import PlflError
from plfl.section import Section


class Algorithm(Section):
    """The hyperparameters of an algorithm.

    The file of a subclass holds its source, equations and update.
    """

    name: ClassVar[str]
    """The name in configurations, which is also the name of the file."""
    label: ClassVar[str]
    """The name in figures and reports; by default, the name of the class."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        if "label" not in vars(cls):
            cls.label = cls.__name__


@cache
def algorithms(package: str) -> dict[str, type[Algorithm]]:
    """Every algorithm in the modules of `package`, by name.

    Raises:
        PlflError: an algorithm is not named like its file. Without this rule, a copied file could
            replace the original, and changes to the algorithm would not re-run its cells.
    """
    found = {}
    for name in names(package):
        module = importlib.import_module(f"{package}.{name}")
        for one in _defined_in(module):
            if one.name != name:
                raise PlflError(
                    f"{module.__file__}: {one.__name__} has the name {one.name!r}; "
                    "rename the file or the algorithm"
                )
            found[one.name] = one
    return dict(sorted(found.items()))


def names(package: str) -> list[str]:
    """Names of the files of `package`, whether or not they define an algorithm."""
    return [info.name for info in pkgutil.iter_modules(importlib.import_module(package).__path__)]


@cache
def algorithm(package: str, name: str) -> type[Algorithm] | None:
    """The algorithm of this name in `package`, or None; the files of others are not imported."""
    if name not in names(package):
        return None
    found = _defined_in(importlib.import_module(f"{package}.{name}"))
    return next((one for one in found if one.name == name), None)


def _defined_in(module: ModuleType) -> list[type[Algorithm]]:
    """The algorithms with a name that a module itself defines."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Algorithm)
        and value.__module__ == module.__name__
        and "name" in vars(value)
    ]
