"""Files of models: the rows of all clients as safetensors, and facts about them as JSON."""

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from plfl.base.errors import ResultsError
from plfl.base.files import atomic
from plfl.results.records import DAMAGE, MODELS, Models

_KEY = "plfl"


def write_models(path: Path, models: Models, about: dict[str, Any] | None = None) -> None:
    """Write models (N, P) and, as JSON in the header of the file, facts `about` them."""
    with atomic(path) as temporary:
        fill(temporary, models, about)


def fill(path: Path, models: Models, about: dict[str, Any] | None = None) -> None:
    """Write the file of `write_models` in place, without a copy of the models in memory."""
    own = json.dumps({"about": about or {}, "sha256": _sum(models)})
    header: dict[str, Any] = {"__metadata__": {_KEY: own}}
    ends = np.cumsum([0, *(rows.nbytes for rows in models.values())]).tolist()
    for (model, rows), span in zip(models.items(), itertools.pairwise(ends), strict=True):
        header[model] = {"dtype": "F32", "shape": rows.shape, "data_offsets": span}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for rows in models.values():
            file.write(np.ascontiguousarray(rows).data)


def read_models(path: Path) -> tuple[Models, dict[str, Any]]:
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
            names = file.keys()
            models: Models = {model: file.get_tensor(model) for model in MODELS if model in names}
        if header["sha256"] != _sum(models):
            raise ValueError("its numbers have changed")
        return models, header["about"]
    except FileNotFoundError:
        raise ResultsError(f"{path}: the file does not exist; check the path") from None
    except (*DAMAGE, safetensors.SafetensorError) as error:
        raise ResultsError(
            f"{path}: is no model that can be read ({error}); name a file of results/NAME/models, "
            "or train it again"
        ) from None


def _sum(models: Models) -> str:
    found = hashlib.sha256()
    for model in MODELS:
        if model in models:
            found.update(model.encode())
            found.update(np.ascontiguousarray(models[model]).data)
    return found.hexdigest()
