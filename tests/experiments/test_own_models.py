"""Studies of other models: the guide's example as written, and built-in ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from plfl.data.windows import build
from plfl.experiments import training_setup
from plfl.experiments.train import train
from plfl.experiments.training_setup import network_of
from plfl.experiments.workload import workload
from plfl.study import Study
from plfl.training.stacked import Stacked
from tests.helpers import tiny
from tests.helpers.interruption import check_resumes
from tests.helpers.oracle import Reference
from tests.helpers.repository import blocks

DATASET, CPU = tiny.dataset(), torch.device("cpu")
METHODS = ["fedopt", "scaffold", "fedgkd", "ifca", "fedac"]


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The guide's example in the working directory, and its block of the configuration."""
    (module,), (_, block) = (blocks("docs/models.md", name) for name in ("python", "yaml"))
    (tmp_path / "mine.py").write_text(module, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    raw: dict[str, Any] = yaml.safe_load(block)
    return raw


def study(model: dict[str, Any], **blocks: Any) -> Study:
    given: dict[str, Any] = {
        "data": {"features": ["load", "temperature"]},
        "grid": {"client_opt": ["adamw"], "server_opt": ["fedavg"]},
        "federation": {"evaluate_every": 1},
        "compute": {"device": "cpu"},
    }
    for name, block in blocks.items():
        given[name] = given.get(name, {}) | block
    return tiny.study(model=model, **given)


def test_the_guides_example_trains_and_resumes(guide: dict[str, Any], tmp_path: Path) -> None:
    grid = {"method": METHODS, "sharing": ["P2"], "refused": "skip"}
    own_study = study(guide["model"], grid=grid)
    whole = check_resumes(own_study, DATASET, tmp_path / "checkpoint", after=3)
    assert {cell.method for cell in whole} >= {"fedopt", "fedgkd", "ifca", "fedac"}
    for result in whole.values():
        tested = result.records.query("split == 'test'")
        assert np.isfinite(tested["mase"]).all()


def test_the_guides_example_sends_what_its_schemes_share(guide: dict[str, Any]) -> None:
    own_study = study(guide["model"])
    layout = network_of(own_study, DATASET.shape).layout
    assert own_study.plan.parameters(["head"]) == [n for n in layout.names if n.startswith("head.")]
    results = train(own_study, own_study.cells, DATASET)
    sent = workload(own_study).set_index("sharing")["megabytes"]
    for cell, result in results.items():
        shared = int(layout.mask(own_study.sharing[cell.sharing]).sum())
        trained = result.records.query("split == 'train' and round == 1 and model == 'local'")
        assert set(trained["bytes_up"]) == {4 * shared}
        assert sent[cell.sharing] == pytest.approx(2 * 3 * 3 * 4 * shared / 1e6)
    assert layout.mask(["body"]).sum() + layout.mask(["head"]).sum() == layout.width


def test_the_guides_example_agrees_with_autograd(guide, monkeypatch):
    scores, own_study = [], study(guide["model"], federation={"loss": "huber"})
    engines: list[Any] = [Stacked, Reference]
    for engine in engines:
        monkeypatch.setattr(
            training_setup, "make_engine", lambda _, *arguments, kind=engine: kind(*arguments, CPU)
        )
        records = pd.concat(
            [r.records for r in train(own_study, own_study.cells, DATASET).values()]
        )
        scores.append(records[["loss", "mae", "mase"]].to_numpy(float))
    np.testing.assert_allclose(*scores, rtol=2e-3)


def test_the_guides_example_forecasts_quantiles_of_several_horizons(guide: dict[str, Any]) -> None:
    task = {"name": "quantiles", "levels": [0.1, 0.5, 0.9], "conformal": "personal"}
    own_study = study(guide["model"], windows={"horizons": 2}, task=task, federation={"rounds": 1})
    data = build(tiny.tables(), own_study.windows)
    records = train(own_study, own_study.cells[:1], data)[own_study.cells[0]].records.query(
        "split == 'test'"
    )
    assert np.isfinite(records[["mase_h4", "mase_h5", "crps", "coverage_80"]]).all(axis=None)


def test_losses_differ() -> None:
    last = {}
    for loss in ("mse", "mae", "huber"):
        # Adam does not notice that Huber's loss is half the squared error of small errors.
        grid, federation = {"client_opt": ["sgd"]}, {"loss": loss}
        own_study = study({"name": "mlp", "hidden": [4]}, grid=grid, federation=federation)
        found = train(own_study, own_study.cells[:1], DATASET)[own_study.cells[0]].records
        last[loss] = found.query("split == 'test'")["mase"].to_numpy()
    assert not np.allclose(last["mse"], last["mae"])
    assert not np.allclose(last["mse"], last["huber"])
