"""The functions of LightGBM's C interface with which machines grow a tree together."""

import ctypes
from ctypes import POINTER, c_int, c_int32, c_void_p
from typing import Any

from plfl.base.lazy import lightgbm

_SIZES = POINTER(c_int32)
_REDUCER = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int, c_int32)
SCATTER = ctypes.CFUNCTYPE(
    *(None, c_void_p, c_int32, c_int, _SIZES, _SIZES, c_int, c_void_p, c_int32, POINTER(_REDUCER))
)
GATHER = ctypes.CFUNCTYPE(None, c_void_p, c_int32, _SIZES, _SIZES, c_int, c_void_p, c_int32)
"""The functions that LightGBM calls, as its `meta.h` declares them."""


def connect(count: int, client: int, functions: tuple[Any, Any]) -> None:
    """Let the LightGBM of this thread be one of `count` machines."""
    pointers = [ctypes.cast(function, c_void_p) for function in functions]
    call("LGBM_NetworkInitWithFunctions", count, client, *pointers)


def silence() -> None:
    """Let the LightGBM of this thread report errors only."""
    # Each thread has a level of its own, which is set wherever LightGBM reads parameters.
    call("LGBM_GetSampleCount", 1, b"verbosity=-1", ctypes.byref(c_int()))


def disconnect() -> None:
    """Let the LightGBM of this thread be alone."""
    call("LGBM_NetworkFree")


def call(function: str, *arguments: Any) -> None:
    """Call a function of LightGBM's C interface.

    Raises:
        lightgbm.basic.LightGBMError: it failed.
    """
    library: Any = lightgbm.basic
    library._safe_call(getattr(library._LIB, function)(*arguments))
