"""Finds algorithms by file: every module of a package that defines a `Method` with a `name`."""

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from plfl.errors import PlflError


class Method(BaseModel):
    """Frozen hyperparameters of one algorithm; its file holds citation, equations and update."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )

    name: ClassVar[str]
    """The name by which a configuration refers to the algorithm."""
    label: ClassVar[str]
    """The name in print; the class's own where it has no other."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        if "label" not in vars(cls):
            cls.label = cls.__name__


@cache
def methods(package: ModuleType) -> dict[str, type[Method]]:
    """Every algorithm of `package`, by name: one public `Method` class a module.

    Raises:
        PlflError: an algorithm has another name than its file, by which changes of it are noticed;
            a copied file would take the place of the one it was copied from.
    """
    found: dict[str, type[Method]] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, Method)
                and value.__module__ == module.__name__
                and "name" in vars(value)
            ):
                if value.name != info.name:
                    raise PlflError(
                        f"{module.__file__}: {value.__name__} has the name {value.name!r}; give "
                        "the file the name of its algorithm"
                    )
                found[value.name] = value
    return dict(sorted(found.items()))
