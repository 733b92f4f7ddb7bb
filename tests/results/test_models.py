"""Files of models: they come back to the bit, and damage is noticed."""

from pathlib import Path

import numpy as np

from plfl.base.errors import ResultsError
from plfl.results.records import Models, read_models, write_models
from tests.helpers.refusals import naming

MODELS: Models = {
    "local": np.arange(6, dtype=np.float32).reshape(2, 3),
    "global": np.full((2, 3), np.float32(0.1)),
}


def test_they_come_back(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    write_models(file, MODELS, {"scale": 0.1 + 0.2})
    found, about = read_models(file)
    assert list(found) == ["local", "global"] and about == {"scale": 0.1 + 0.2}
    assert all(np.array_equal(found[model], MODELS[model]) for model in found)
    write_models(file, {"local": MODELS["local"]})
    assert list(read_models(file)[0]) == ["local"]


def test_damage_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    write_models(file, MODELS)
    whole = file.read_bytes()
    for damaged in (whole[:-5] + b"\0\0\0\0\7", whole[:40], b""):
        file.write_bytes(damaged)
        with naming(ResultsError, file):
            read_models(file)
    import safetensors.numpy

    safetensors.numpy.save_file({"local": MODELS["local"]}, file)
    with naming(ResultsError, file, "plfl"):
        read_models(file)
