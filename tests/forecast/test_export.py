"""An exported model gives the forecasts of `predict`, without plfl."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import plfl
from plfl.base.errors import ConfigError, DataError, PlflError
from plfl.config.named import STANDARD_BASELINES
from plfl.config.windows import KnownFuture
from plfl.forecast.export import trace
from plfl.forecast.model import ForecastModel, load
from plfl.forecast.programs import Program, ScaledNetwork
from plfl.layout import WindowShape
from plfl.plugins.registry import Algorithm, available
from tests.helpers import user_modules
from tests.helpers.kept_baselines import FURTHER_BASELINES, keep, score
from tests.helpers.meter_models import (
    MLP,
    RECIPE,
    make_study,
    write_models_of,
    write_readings,
)
from tests.helpers.refusals import naming

QUANTILES = {"name": "quantiles", "levels": [0.1, 0.3, 0.4, 0.5, 0.7, 0.9]}


FUTURE = [{"name": "known_future", "features": ["time_index"]}]


def exported(model: ForecastModel) -> onnxruntime.InferenceSession:
    """The program of the client `a`."""
    model.export("a.onnx", "a")
    session = onnxruntime.InferenceSession("a.onnx")
    about = json.loads(session.get_modelmeta().custom_metadata_map["about.json"])
    assert about["client"] == "a" and about["columns"] == model.columns
    windows = model.study.windows
    is_known = any(isinstance(covariate, KnownFuture) for covariate in windows.covariates)
    rows = model.rows_needed + (windows.farthest if is_known else 0)
    assert about["readings"] == ["windows", rows, len(model.columns)]
    return session


def run(
    session: onnxruntime.InferenceSession, model: ForecastModel, readings: pd.DataFrame
) -> tuple[NDArray[np.float64], NDArray[np.datetime64]]:
    """What it makes of readings, a row per window, and the first stamp that each forecasts."""
    rows, minutes, stamps = model.inputs(readings, "a")
    arrays = {"readings": rows, "minute": minutes}
    arrays = {node.name: arrays[node.name] for node in session.get_inputs()}

    def some(part: slice) -> NDArray[np.float64]:
        return np.asarray(session.run(None, {name: rows[part] for name, rows in arrays.items()})[0])

    loads = some(slice(None))
    for part in (slice(3, 4), slice(5, 12)):  # any number of windows
        np.testing.assert_allclose(some(part), loads[part], rtol=1e-6)
    return loads, stamps.reshape(len(stamps), -1)[:, 0]


def predicted(model: ForecastModel, readings: pd.DataFrame) -> NDArray[np.float64]:
    """The result of `predict` in the form of that of `run`."""
    forecasts, horizons = model.predict(readings, "a"), model.study.windows.horizons
    kept = list(forecasts.filter(like="forecast_")) or ["forecast"]
    if "forecast_lower" in kept:
        kept.insert(1, "forecast")
    shape = (-1,) if len(kept) == horizons == 1 else (-1, horizons)
    shape += (len(kept),) * (len(kept) > 1)
    return forecasts[kept].to_numpy().reshape(shape)


@pytest.mark.parametrize(
    "blocks",
    [
        {"windows": RECIPE, "model": MLP},
        {"windows": RECIPE | {"target": "load", "covariates": FUTURE}, "model": MLP},
        {"windows": {"look_back": 3}},
        {"model": {"name": "linear"}, "task": {"conformal": "personal"}},
        {"windows": {"horizons": 2}, "model": MLP, "task": QUANTILES | {"conformal": "personal"}},
    ],
)
def test_its_forecasts_are_the_same(blocks: dict[str, Any]) -> None:
    write_models_of(make_study(**blocks), Path("m.safetensors"))
    model = load("m.safetensors")
    readings = model.read(Path("meters/a.csv"))
    session = exported(model)
    for some in (readings[-800:], readings[-50:]):  # lags of a week are known, and are not
        wanted = predicted(model, some)
        np.testing.assert_allclose(run(session, model, some)[0], wanted, rtol=1e-5)
    with naming(PlflError, ".onnx"):
        model.export("a.pt2", "a")


@pytest.mark.parametrize("name", ["LSTMForecaster", "CausalNet", "TransformerNet", "NormedNet"])
def test_modules_as_their_users_write_them_become_programs(name: str) -> None:
    """With the statistics of BatchNorm and the encodings of positions, and without Dropout."""
    own = {"module": f"{user_modules.__file__}:{name}"}
    write_models_of(make_study(model=own, windows={"target": "change"}), Path("m.safetensors"))
    model = load("m.safetensors")
    readings = model.read(Path("meters/a.csv"))
    wanted = predicted(model, readings)
    np.testing.assert_allclose(run(exported(model), model, readings)[0], wanted, rtol=1e-4)


def test_adaptive_intervals_are_those_before_the_first_later_load() -> None:
    write_models_of(
        make_study(model=MLP, task=QUANTILES | {"conformal": "adaptive"}), Path("m.safetensors")
    )
    model = load("m.safetensors")
    readings = model.read(Path("meters/a.csv"))
    found = run(exported(model), model, readings)[0][:, 0, [0, -1]]
    wanted = predicted(model, readings)[:, 0, [0, -1]]
    made_at = model.predict(readings, "a")["made_at"]
    known = (made_at <= model.scalings["a"].known_until).to_numpy()
    np.testing.assert_allclose(found[known], wanted[known], rtol=1e-5)
    assert not np.allclose(found[~known], wanted[~known], rtol=1e-5)


QUARTILES = {"name": "quantiles", "levels": [0.25, 0.5, 0.75], "conformal": "personal"}
SEVERAL = {"windows": {**RECIPE, "horizons": 2}, "task": QUARTILES}


@pytest.mark.parametrize(
    ("names", "blocks", "weeks"),
    [
        (["naive_weeks", "lightgbm"], {"windows": {"look_ahead": 2}}, 5),
        (["persistence", "linear", "ridge"], {"windows": {"horizons": 2}}, 2),
        (["ridge_lags", "lightgbm_lags", "lightgbm_covariates", "combined_received"], SEVERAL, 5),
        (["lightgbm_bagged", "combined_received"], {"windows": {"look_ahead": 2}}, 2),
    ],
)
def test_baselines_become_programs(names: list[str], blocks: dict[str, Any], weeks: int) -> None:
    """What they forecast is what `predict` has from LightGBM itself. Of two weeks, the last
    combination has several members."""
    further = [] if {*names} <= {*STANDARD_BASELINES} else FURTHER_BASELINES
    trees = {"trees": 3, "leaves": 3, "further": further}
    study = make_study(**blocks, model=MLP, baselines=trees)
    write_readings(96 * 7 * weeks)
    dataset = plfl.load_dataset(study, "XX")
    packed = score(study, dataset, [*names, "ridge"]).packed
    for name in names:
        model = load(keep(study, dataset, name, Path("m.safetensors"), packed))
        readings = model.read(Path("meters/a.csv"))
        readings.iloc[900:940] = np.nan
        wanted = predicted(model, readings)
        stamps = model.predict(readings, "a").index[:: model.study.windows.horizons]
        loads, first = run(exported(model), model, readings)
        known = np.isfinite(loads.reshape(len(loads), -1)).all(axis=1)
        assert known.sum() > 0.9 * len(wanted)  # a program cannot read what is too long ago
        wanted = wanted[stamps.get_indexer(first[known])]
        np.testing.assert_allclose(loads[known], wanted, rtol=1e-9, err_msg=name)


NETWORKS = available("plfl.models", Algorithm).keys() - {
    "own_module",
    "cnn",
    "cnn44",
    "resnet18_gn",
}


@pytest.mark.parametrize(
    ("name", "relative"), [*zip(sorted(NETWORKS), itertools.cycle([False, True]), strict=False)]
)
def test_every_model_can_be_exported(name: str, relative: bool) -> None:
    windows = {"look_back": 4, "target": "change" if relative else "load"}
    keys = {"leaves": 4} if name == "trees" else {}
    model = available("plfl.models", Algorithm)[name](**keys)
    takes = not model.problems(WindowShape(4, 4, 2))  # type: ignore[attr-defined]
    if takes:
        windows["covariates"] = [{"name": "level"}]
    write_models_of(make_study(windows=windows, model=MLP), Path("m.safetensors"))
    module = model.network(WindowShape(4, 4, 2 * takes)).module()  # type: ignore[attr-defined]
    program = program_of(load("m.safetensors"), module)
    readings, minutes = program.offset + program.scale * torch.rand(4, 4, 4), torch.arange(4)
    expected = program(readings, minutes)
    found = trace(program, 4).module()(readings, minutes)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_model_that_cannot_be_traced_is_refused() -> None:
    class Count(nn.Module):
        def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
            return sequence[:, -1, 0] + len(sequence)

    write_models_of(make_study(), Path("m.safetensors"))
    with naming(ConfigError, "lstm3-mlp4", "plfl forecast"):
        trace(program_of(load("m.safetensors"), Count()), 12)


def test_a_program_that_would_have_to_know_the_date_is_refused() -> None:
    holidays = {"name": "holidays", "country": "US"}
    study = make_study(windows={"target": "change", "covariates": [holidays]}, model=MLP)
    write_models_of(study, Path("m.safetensors"))
    model = load("m.safetensors")
    assert len(model.predict(model.read(Path("meters/a.csv")), "a"))
    with naming(DataError, "holidays", "plfl forecast"):
        model.export("a.onnx", "a")
    assert not Path("a.onnx").exists()


def program_of(model: ForecastModel, module: nn.Module) -> Program:
    scaling = model.scalings["a"]
    return Program(model, scaling, ScaledNetwork(model, scaling, module), model.rows_needed).eval()
