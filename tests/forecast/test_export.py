"""An exported model gives the forecasts of `predict`, without plfl."""

import itertools
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
import pytest
import torch
from torch import Tensor, nn

from plfl.base.errors import ConfigError, PlflError
from plfl.data.windows import Scaling
from plfl.forecast.export import Forecasting, traced
from plfl.forecast.model import load
from plfl.layout import WindowShape
from plfl.plugins.registry import algorithms
from plfl.tasks.forecast import Forecast
from tests.forecast.test_model import MLP, RECIPE, study_of
from tests.forecast.test_model import trained as train_to
from tests.helpers.refusals import naming

QUANTILES = {"name": "quantiles", "levels": [0.1, 0.3, 0.4, 0.5, 0.7, 0.9]}


@pytest.mark.parametrize(
    "blocks",
    [
        {"windows": RECIPE, "model": MLP},
        {"windows": {"target": "change"}, "model": {"name": "linear"}},
        {"model": {"name": "linear"}, "task": {"conformal": "personal"}},
        {"windows": {"horizons": 2}, "model": MLP, "task": QUANTILES | {"conformal": "personal"}},
    ],
)
def test_its_forecasts_are_the_same(blocks: dict[str, Any]) -> None:
    train_to(study_of(**blocks), Path("m.safetensors"))
    model = load("m.safetensors")
    model.export("a.pt2", "a")
    readings = model.read(Path("meters/a.csv"))[-1000:]
    expected = model.predict(readings, "a")
    rows, covariates, stamps = model.inputs(readings, "a")
    np.testing.assert_array_equal(stamps.ravel(), expected.index)
    kept = list(expected.filter(like="forecast_")) or ["forecast"]
    if "forecast_lower" in kept:
        kept.insert(1, "forecast")
    shape = stamps.shape[1:] or (1,) * (len(kept) > 1)
    shape += (len(kept),) * (len(kept) > 1)
    forecasts = expected[kept].to_numpy().reshape(len(rows), -1)
    files = {"about.json": ""}
    with mock.patch.dict(sys.modules, {name: None for name in sys.modules if "plfl" in name}):
        program = torch.export.load("a.pt2", extra_files=files).module()
    about = json.loads(files["about.json"])
    assert about["client"] == "a" and about["columns"] == model.columns
    assert about["readings"] == ["windows", *rows.shape[1:]]
    # Any number of windows.
    for some in (slice(None), slice(3, 4), slice(5, 12)):
        loads = program(torch.from_numpy(rows[some]), torch.from_numpy(covariates[some]))
        found = loads.detach().numpy()
        assert found.shape[1:] == shape
        np.testing.assert_allclose(found.reshape(len(found), -1), forecasts[some], rtol=1e-5)


def test_adaptive_intervals_are_those_before_the_first_later_load() -> None:
    train_to(study_of(model=MLP, task=QUANTILES | {"conformal": "adaptive"}), Path("m.safetensors"))
    model = load("m.safetensors")
    model.export("a.pt2", "a")
    readings = model.read(Path("meters/a.csv"))
    rows, covariates, _ = model.inputs(readings, "a")
    program = torch.export.load("a.pt2").module()
    found = program(torch.from_numpy(rows), torch.from_numpy(covariates)).detach().numpy()
    forecasts = model.predict(readings, "a")
    known = (forecasts["made_at"] <= model.scalings["a"].known).to_numpy()
    ends = forecasts.filter(regex="forecast_").to_numpy()[:, [0, -1]]
    np.testing.assert_allclose(found[known][:, 0, [0, -1]], ends[known], rtol=1e-5)
    assert not np.allclose(found[~known][:, 0, [0, -1]], ends[~known], rtol=1e-5)


@pytest.mark.parametrize(
    "blocks",
    [{"windows": {"look_back": 3}}, {"windows": {"horizons": 3}, "model": MLP, "task": QUANTILES}],
)
def test_onnx_gives_the_same_forecasts(blocks: dict[str, Any]) -> None:
    train_to(study_of(**blocks), Path("m.safetensors"))
    model = load("m.safetensors")
    model.export("a.onnx", "a")
    readings = model.read(Path("meters/a.csv"))[-200:]
    rows, covariates, _ = model.inputs(readings, "a")
    forecasts = model.predict(readings, "a")
    kept = list(forecasts.filter(like="forecast_")) or ["forecast"]
    session = onnxruntime.InferenceSession("a.onnx")
    about = json.loads(session.get_modelmeta().custom_metadata_map["about.json"])
    assert about["columns"] == model.columns
    arrays = {"readings": rows, "covariates": covariates}
    given = {node.name: arrays[node.name] for node in session.get_inputs()}
    (found,) = session.run(None, given)
    expected = forecasts[kept].to_numpy().reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    with naming(PlflError, ".onnx"):
        model.export("a.pt", "a")


NETWORKS = algorithms("plfl.models").keys() - {"own_module", "cnn", "cnn44", "resnet18_gn"}


@pytest.mark.parametrize(
    ("name", "relative"), [*zip(sorted(NETWORKS), itertools.cycle([False, True]), strict=False)]
)
def test_every_model_can_be_exported(name: str, relative: bool) -> None:
    model = algorithms("plfl.models")[name]()
    shape = WindowShape(2, 8, 0 if model.problems(WindowShape(2, 8, 3)) else 3)  # type: ignore[attr-defined]
    module = model.network(shape).module()  # type: ignore[attr-defined]
    one = np.ones(2)
    program = Forecasting(module, Scaling(one, 2 * one, one, one, []), relative, Forecast()).eval()
    readings, covariates = torch.rand(4, 8, 2).double(), torch.rand(4, shape.covariates)
    expected = program(readings, covariates)
    found = traced(program, shape, name).module()(readings, covariates)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_model_that_cannot_be_traced_is_refused() -> None:
    class Count(nn.Module):
        def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
            return sequence[:, -1, 0] + len(sequence)

    one = np.ones(2)
    program = Forecasting(Count(), Scaling(one, one, one, one, []), False, Forecast())
    with naming(ConfigError, "mine", "plfl forecast"):
        traced(program, WindowShape(2, 3), "mine")
