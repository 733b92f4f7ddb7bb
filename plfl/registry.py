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
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        module = importlib.import_module(f"{package}.{info.name}")
        for algorithm in _defined_in(module):
            if algorithm.name != info.name:
                raise PlflError(
                    f"{module.__file__}: {algorithm.__name__} has the name {algorithm.name!r}; "
                    "rename the file or the algorithm"
                )
            found[algorithm.name] = algorithm
    return dict(sorted(found.items()))


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
