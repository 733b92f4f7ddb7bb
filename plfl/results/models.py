"""Files of models: the rows of all clients as safetensors, and facts about them as JSON."""

import hashlib
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from plfl.base.errors import ResultsError
from plfl.base.files import atomic
from plfl.results.records import DAMAGE, MODELS, Models

_KEY = "plfl"
_TYPES = {"F32": np.float32, "F64": np.float64, "U8": np.uint8}
Arrays = Mapping[str, NDArray[Any]]
"""Arrays of a file by name: the models (N, P) of `Models`, or those of a baseline."""


def write_models(path: Path, models: Models | Arrays, about: dict[str, Any] | None = None) -> None:
    """Write models (N, P) and, as JSON in the header of the file, facts `about` them."""
    with atomic(path) as temporary:
        fill(temporary, models, about)


def fill(path: Path, models: Models | Arrays, about: dict[str, Any] | None = None) -> None:
    """Write the file of `write_models` in place, without a copy of the models in memory."""
    own = json.dumps({"about": about or {}, "sha256": _sum(models)})
    header: dict[str, Any] = {"__metadata__": {_KEY: own}}
    ends = np.cumsum([0, *(rows.nbytes for rows in models.values())]).tolist()
    for (model, rows), span in zip(models.items(), itertools.pairwise(ends), strict=True):
        kind = next(name for name, kind in _TYPES.items() if rows.dtype == kind)
        header[model] = {"dtype": kind, "shape": rows.shape, "data_offsets": span}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for rows in models.values():
            file.write(np.ascontiguousarray(rows).data)


def read_models(path: Path) -> tuple[Models, dict[str, Any]]:
    """Read a file of `write_models` with the models of a cell; see `read_arrays`."""
    arrays, about = read_arrays(path)
    return {model: arrays[model] for model in MODELS if model in arrays}, about


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read a file of `write_models`.

    Raises:
        ResultsError: the file is missing, damaged, or not one of plfl.
    """
    try:
        with safetensors.safe_open(path, "numpy") as file:
            metadata = file.metadata() or {}
            if _KEY not in metadata:
                raise ValueError("it was not written by plfl")
            header = json.loads(metadata[_KEY])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header["sha256"] != _sum(arrays):
            raise ValueError("its numbers have changed")
        return arrays, header["about"]
    except FileNotFoundError:
        raise ResultsError(f"{path}: the file does not exist; check the path") from None
    except (*DAMAGE, safetensors.SafetensorError) as error:
        raise ResultsError(
            f"{path}: is no model that can be read ({error}); name a file of results/NAME/models, "
            "or train it again"
        ) from None


def _sum(models: Models | Arrays) -> str:
    found = hashlib.sha256()
    for name, rows in sorted(models.items(), reverse=True):  # `local` before `global`
        found.update(name.encode())
        found.update(np.ascontiguousarray(rows).data)
    return found.hexdigest()
