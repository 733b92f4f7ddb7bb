"""Pretrained models as baselines: programs in files, and Fracast-0."""

from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
import torch

from plfl.base.errors import DataError
from plfl.baselines.fracast import Fracast
from plfl.baselines.naive_day import NaiveDay
from plfl.baselines.pretrained import Pretrained
from plfl.config.windows import Windows
from plfl.data.dataset import Dataset
from plfl.data.windows import build
from plfl.interfaces.baseline import FitSettings

SETTINGS = FitSettings()
DAY = 24


def dataset(horizons: int = DAY) -> Dataset:
    stamps = pd.date_range("2024-01-01 01:00", periods=30 * DAY, freq="h")
    tables = {}
    for seed, name in enumerate("ab"):
        loads = np.random.default_rng(seed).gamma(4.0, 0.1, len(stamps))
        tables[name] = pd.DataFrame({"load": loads + np.sin(stamps.hour.to_numpy()) ** 2}, stamps)
    return build(tables, Windows(look_back=12, look_ahead=1, horizons=horizons))


class Yesterday(torch.nn.Module):
    """Repeats the loads that it reads."""

    def forward(self, loads: torch.Tensor) -> torch.Tensor:
        return loads.clone()


def write_program(path: Path) -> Path:
    """A program that returns the loads that it reads."""
    if path.suffix == ".pt":
        torch.jit.trace(Yesterday(), torch.zeros(1, DAY)).save(str(path))
        return path
    shape = ["W", DAY]
    loads, forecasts = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name in ("loads", "forecasts")
    )
    node = onnx.helper.make_node("Identity", ["loads"], ["forecasts"])
    graph = onnx.helper.make_graph([node], "yesterday", [loads], [forecasts])
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return path


def keys(file: Path, context: int = DAY) -> Pretrained:
    return Pretrained(file=file, context=context, trained_on_this_dataset=False)


@pytest.mark.parametrize("name", ["model.onnx", "model.pt"])
@pytest.mark.parametrize("horizons", [DAY, 3, 1])
def test_a_program_that_repeats_a_day_is_the_naive_forecast(
    tmp_path: Path, name: str, horizons: int
) -> None:
    data = dataset(horizons)
    fitted = keys(write_program(tmp_path / name)).fit(data, SETTINGS, {})
    naive = NaiveDay().fit(data, SETTINGS, {})
    starts = data.starts(1, "test")
    expected = naive.predict(1, starts)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(fitted.predict(1, starts), expected, rtol=1e-6)


def test_a_program_must_be_a_forecaster(tmp_path: Path) -> None:
    data = dataset()
    with pytest.raises(DataError, match=r"model.pkl ends neither in .onnx nor in .pt"):
        keys(tmp_path / "model.pkl").fit(data, SETTINGS, {})
    for name in ("model.onnx", "model.pt"):
        with pytest.raises(DataError, match=rf"{name} does not exist; check `file`"):
            keys(tmp_path / name).fit(data, SETTINGS, {})
        (tmp_path / name).write_bytes(b"no program")
        with pytest.raises(DataError, match=rf"{name}: cannot be read as"):
            keys(tmp_path / name).fit(data, SETTINGS, {})
    shorter = keys(write_program(tmp_path / "short.pt"), context=12).fit(data, SETTINGS, {})
    with pytest.raises(DataError, match=r"returns \(\d+, 12\) for .*; export it with 24 or more"):
        shorter.predict(0, data.starts(0, "test"))


@pytest.mark.parametrize("fill", [False, True])
def test_unknown_loads_are_filled_on_demand(tmp_path: Path, fill: bool) -> None:
    data = dataset()
    first = int(data.view.bounds[0, 0])
    data.load[first + 5] = np.nan
    file = write_program(tmp_path / "model.pt")
    settings = Pretrained(file=file, context=DAY, trained_on_this_dataset=False, fill=fill)
    fitted = settings.fit(data, SETTINGS, {})
    (forecast,) = fitted.predict(0, np.array([first]))  # its last input is the 12th reading
    known = data.load[first : first + 12]
    filled = np.r_[np.repeat(known[0], 12), known[:5], known[4], known[6:]]
    expected = filled if fill else np.r_[np.full(12, np.nan), known]
    np.testing.assert_allclose(forecast, expected, rtol=1e-6)


def test_fracast_forecasts_as_its_own_package_does() -> None:
    own = pytest.importorskip("fracast", reason="fracast is not installed")
    data = dataset()
    fitted = Fracast(trained_on_this_dataset=False).fit(data, SETTINGS, {})
    starts = data.starts(1, "test")[:3]
    forecasts = fitted.predict(1, starts)
    model = own.FracastModel.from_pretrained(weights="fp32")
    for start, forecast in zip(starts, forecasts, strict=True):
        known = data.load[data.view.bounds[1, 0] : start + data.look_back]
        quantiles = model.forecast(known, horizon=DAY)
        median = np.asarray(quantiles)[..., model.quantiles.index(0.5)].reshape(-1)
        np.testing.assert_allclose(forecast, median, rtol=1e-5)
    assert np.abs(forecasts - data.truth(starts)).mean() < 0.5 * data.truth(starts).mean()


def test_fracast_has_quantiles_and_reads_no_later_load() -> None:
    pytest.importorskip("fracast", reason="fracast is not installed")
    data = dataset()
    settings = FitSettings(levels=(0.1, 0.45, 0.9))
    fitted = Fracast(trained_on_this_dataset=False).fit(data, settings, {})
    start = data.starts(1, "test")[:1]
    before = fitted.predict(1, start)
    assert before.shape == (1, DAY, 3)
    assert (np.diff(before, axis=-1) > 0).all()
    data.load[start[0] + data.look_back :] = 100.0
    np.testing.assert_array_equal(fitted.predict(1, start), before)
    early = np.array([data.view.bounds[1, 0] - data.look_back + 4])  # knows four loads
    assert np.isnan(fitted.predict(1, early)).all()
