"""Large packages that are imported when they are first used: `from plfl.base.lazy import torch`.

A module that the command line or a study imports names them so, since most commands need none of
them. Type checkers see the packages themselves.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import constriction as constriction
    import dp_accounting as dp_accounting
    import httpx as httpx
    import lightgbm as lightgbm
    import pandas as pandas
    import torch as torch
else:

    class LazyModule:
        """A package, which is imported when one of its attributes is read."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(self._name), attribute)

    httpx, lightgbm, pandas, torch = map(LazyModule, ("httpx", "lightgbm", "pandas", "torch"))
    constriction, dp_accounting = map(LazyModule, ("constriction", "dp_accounting"))
