"""Files of plain arrays (.npz), one for each dataset or pool of images."""

import zlib
from collections.abc import Callable
from os import PathLike
from tokenize import TokenError
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np

from plfl.base.errors import DataError
from plfl.base.files import atomic

T = TypeVar("T")
DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile, zlib.error),
    # NumPy and zipfile raise these for damaged headers.
    *(SyntaxError, TokenError, RuntimeError, ArithmeticError, MemoryError),
)


def save(path: str | PathLike[str], arrays: dict[str, Any]) -> None:
    """Write arrays, numbers and texts by name."""
    with atomic(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def load(path: str | PathLike[str], make: Callable[[dict[str, Any]], T]) -> T:
    """What `make` makes of the arrays that `save` wrote.

    Raises:
        DataError: the file is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return make({name: arrays[name] for name in arrays.files})
    except DAMAGE as error:
        raise DataError(
            f"{path}: is damaged ({error}); make it again with `plfl study … -- --forcerun windows`"
        ) from None
