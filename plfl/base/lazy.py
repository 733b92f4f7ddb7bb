"""Large packages that are imported when they are first used: `from plfl.base.lazy import torch`.

A module that the command line or a study imports names them so, since most commands need none of
them. Type checkers see the packages themselves.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

_avoided: dict[str, str] = {}
"""Packages that others, given by name, do without; see `import_without`."""


def import_without(optional_package: str, package: str) -> None:
    """Import a lazy `package` as if `optional_package`, which it would import, were not installed:
    LightGBM takes two thirds of its time to load scikit-learn, which is needed only by its classes
    for scikit-learn. Nothing else in this process may need these."""
    _avoided[package] = optional_package


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """No garbage is collected during the block. What is imported stays; to visit it again and again
    takes a sixth of the time of importing PyTorch."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _load(name: str) -> ModuleType:
    """The package of a name, imported if it has not been."""
    if name in sys.modules:
        return import_module(name)
    part = _avoided.get(name, "")
    with pause_garbage_collection():
        if not part or part in sys.modules:
            return import_module(name)
        sys.modules[part] = None  # type: ignore[assignment]  # its import then fails
        try:
            return import_module(name)
        finally:
            del sys.modules[part]


if TYPE_CHECKING:
    from urllib import request as request

    import constriction as constriction
    import dp_accounting as dp_accounting
    import httpx as httpx
    import lightgbm as lightgbm
    import pandas as pandas
    import torch as torch
    import xlrd as xlrd
    from cryptography import exceptions as exceptions
    from cryptography.hazmat.primitives import ciphers as ciphers
    from cryptography.hazmat.primitives import hashes as hashes
    from cryptography.hazmat.primitives.asymmetric import ec as ec
    from cryptography.hazmat.primitives.asymmetric import x25519 as x25519
    from cryptography.hazmat.primitives.ciphers import aead as aead
    from cryptography.hazmat.primitives.kdf import hkdf as hkdf
    from scipy import optimize as optimize
    from scipy import special as special
else:

    class LazyModule:
        """A package, which is imported when one of its attributes is read."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(_load(self._name), attribute)

    httpx, lightgbm, pandas, torch = map(LazyModule, ("httpx", "lightgbm", "pandas", "torch"))
    constriction, dp_accounting = map(LazyModule, ("constriction", "dp_accounting"))
    optimize, special = map(LazyModule, ("scipy.optimize", "scipy.special"))
    request = LazyModule("urllib.request")
    xlrd = LazyModule("xlrd")
    exceptions = LazyModule("cryptography.exceptions")
    ciphers, hashes, ec, x25519, aead, hkdf = (
        LazyModule(f"cryptography.hazmat.primitives.{name}")
        for name in (
            *("ciphers", "hashes", "asymmetric.ec", "asymmetric.x25519"),
            *("ciphers.aead", "kdf.hkdf"),
        )
    )
