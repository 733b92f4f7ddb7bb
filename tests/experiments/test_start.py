"""A federation that starts from the model of another study."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plfl.base.errors import ConfigError, DataError, ResultsError
from plfl.experiments.start import read_start
from plfl.experiments.train import train
from plfl.experiments.training_setup import TrainingSetup
from plfl.federated.federation import Federation
from plfl.forecast.contents import describe
from plfl.results.records import Models, write_models
from plfl.study import FORMAT, Cell, Study
from tests.helpers import tiny
from tests.helpers.refusals import naming

GRID = {"client_opt": ["adam"], "server_opt": ["fedavg"]}


def write_public(folder: Path, sharing: str = "P1", **blocks: Any) -> tuple[Path, Models]:
    """The models of a small study in a file, as it keeps them."""
    study, data = tiny.study(grid=GRID | {"sharing": [sharing]}, **blocks), tiny.dataset()
    (cell,) = study.cells
    models = train(study, [cell], data)[cell].models
    assert models is not None
    path = folder / "public.safetensors"
    write_models(path, models, describe(study, cell, data, {}))
    return path, models


def starting(path: Path, **blocks: Any) -> Study:
    federation = {"start": str(path)} | blocks.pop("federation", {})
    return tiny.study(grid=GRID, federation=federation, **blocks)


def federation(study: Study, sharing: str, **keys: Any) -> Federation:
    cell = next(cell for cell in study.cells if cell.sharing == sharing)
    setup = TrainingSetup.for_study(study, tiny.dataset(2, 300))
    return setup.make_federation(cell, study.plan.candidates(cell)[0])


@pytest.mark.parametrize("sharing", ["P1", "P2", "P3"])
def test_everybody_starts_from_the_global_model(sharing: str, tmp_path: Path) -> None:
    path, models = write_public(tmp_path)
    f = federation(starting(path), sharing)
    row = torch.from_numpy(models["global"][0])
    assert torch.equal(f.local, row.expand_as(f.local))
    assert torch.equal(f.x0, row[f.columns])


@pytest.mark.parametrize(
    ("blocks", "word"),
    [
        ({"federation": {"initial": "local"}}, "'local' has no effect"),
        ({"grid": {"method": ["ifca"]}}, "never separate"),
        ({"grid": {"method": ["authors_code"]}}, "set its initial to common"),
    ],
)
def test_what_would_be_drawn_otherwise_is_refused(blocks: dict[str, Any], word: str) -> None:
    federation = blocks.get("federation", {})
    with naming(ConfigError, word):
        tiny.study(
            grid=GRID | blocks.get("grid", {}),
            federation={"start": "public.safetensors"} | federation,
        )


def test_of_a_model_with_personal_parameters_it_is_the_mean(tmp_path: Path) -> None:
    path, models = write_public(tmp_path, "P2")
    f = federation(starting(path), "P1")
    np.testing.assert_allclose(f.x0.numpy(), models["global"].mean(axis=0), rtol=1e-5)


def test_the_numbers_of_a_cell_depend_on_the_content_of_the_file(tmp_path: Path) -> None:
    path, models = write_public(tmp_path)

    def fingerprint(study: Study) -> tuple[str, Cell]:
        return study.plan.fingerprint(study.cells[0]), study.cells[0]

    first = fingerprint(starting(path))
    assert first == fingerprint(starting(path))
    assert first != fingerprint(tiny.study(grid=GRID))
    write_models(path, {"global": models["global"] + 1})
    assert first != fingerprint(starting(path))


def test_a_file_of_another_kind_is_refused_in_words(tmp_path: Path) -> None:
    path, models = write_public(tmp_path)
    study = starting(path)
    in_trained: dict[str, Any] = {}
    other_format: dict[str, Any] = {"format": FORMAT - 1, "study": {}, "columns": []}
    for about in (in_trained, other_format):
        write_models(path, models, about)
        with naming(DataError, f"federation.start: {path}", f"format {FORMAT}", "folder models"):
            read_start(path, study)


def test_a_model_that_reads_something_else_is_refused_by_key(tmp_path: Path) -> None:
    path, _ = write_public(tmp_path)
    others = {
        "windows.horizons": {"windows": {"horizons": 2}},
        "windows.target, model": {"windows": {"target": "change"}, "model": {"output": "linear"}},
        "windows.look_back": {"windows": {"look_back": 5}},
        "model": {"model": {"hidden": 4}},
        "task": {"task": {"name": "quantiles"}},
        "data.features": {"data": {"features": ["load"]}},
        "windows.scaling": {"windows": {"scaling": "per_client"}},
        "the interval of readings (15 instead of 60 min)": {"data": {"resample": 60}},
    }
    features = list(starting(path).data.features)
    others["data.features; train"] = {"data": {"features": [*features[:-2], *features[:-3:-1]]}}
    for key, blocks in others.items():
        study = starting(path, **blocks)
        with naming(DataError, "public.safetensors: its model differs", f" in {key}", "; train it"):
            read_start(path, study)
    with pytest.raises(ResultsError, match="the file does not exist"):
        read_start(tmp_path / "none", starting(path))
    path, _ = write_public(tmp_path, "P3")
    with pytest.raises(DataError, match="has no global model; name the file of a sharing scheme"):
        read_start(path, starting(path))
