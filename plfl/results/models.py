"""Files of models: the rows of all clients as safetensors, and what is known of them as JSON."""

import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.numpy

from plfl.base.errors import ResultsError
from plfl.base.files import atomic
from plfl.results.records import DAMAGE, MODELS, Models

_KEY = "plfl"


def write_models(path: Path, models: Models, about: dict[str, Any] | None = None) -> None:
    """Write models (N, P) and, as JSON in the header of the file, what is known `about` them."""
    with atomic(path) as temporary:
        temporary.write_bytes(packed(models, about))


def packed(models: Models, about: dict[str, Any] | None = None) -> bytes:
    """The content of the file that `write_models` writes."""
    rows = {str(model): rows for model, rows in models.items()}
    header = json.dumps({"about": about or {}, "sha256": _sum(models)})
    return safetensors.numpy.save(rows, {_KEY: header})


def read_models(path: Path) -> tuple[Models, dict[str, Any]]:
    """Read what `write_models` wrote.

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
            found.update(model.encode() + models[model].tobytes())
    return found.hexdigest()
