"""LightGBM baselines against LightGBM as a stranger calls it, with features made by pandas."""

import lightgbm
import numpy as np
import pandas as pd
import pytest

from plfl.baselines.fitting import fit
from plfl.baselines.lightgbm import LightGBM
from plfl.baselines.lightgbm_covariates import LightgbmCovariates
from plfl.baselines.lightgbm_lags import LightgbmLags
from plfl.baselines.lightgbm_pooled import LightgbmPooled
from plfl.baselines.trees import LAGGED, TreeWindows
from plfl.data.dataset import SPLITS
from plfl.data.windows import build
from plfl.interfaces.baseline import FitSettings
from tests.helpers import tiny
from tests.helpers.outside import Windowed, dataset, series

pytestmark = pytest.mark.filterwarnings("ignore:The argument .eval_set.")

Frame = pd.DataFrame


def trained_on(w: Windowed) -> "pd.Series[float]":
    """The loads of the training set."""
    return w.truth[: round(0.8 * len(w.table))].dropna()


def scale(w: Windowed) -> float:
    """Mean absolute change over the look-ahead in the training set."""
    return float(trained_on(w).diff(w.ahead).abs().mean())


def own_inputs(w: Windowed) -> Frame:
    stamps = pd.DatetimeIndex(w.table.index)
    calendar = Frame({"time": 4 * stamps.hour + stamps.minute // 15, "day": stamps.day_of_week})
    further = Frame({name: w.input(name) for name in ("temperature", "floor_area")})
    return pd.concat([w.lags(), calendar.shift(w.ahead), further], axis=1)


def relative(w: Windowed) -> Frame:
    load = trained_on(w)
    lags = pd.concat([w.lags(), w.season_lags()], axis=1).sub(w.last, axis=0) / scale(w)
    level = Frame(
        {"level": (w.last - load.mean()) / load.std(ddof=0), "log": np.log(w.last / load.mean())}
    )
    further = Frame({name: w.input(name) for name in ("temperature", "floor_area")})
    return pd.concat([lags, level, w.clock(4), w.weekdays(), further], axis=1)


def regressor(**changes: float) -> lightgbm.LGBMRegressor:
    settings = {"n_estimators": 400, "learning_rate": 0.1, "num_leaves": 31} | changes
    return lightgbm.LGBMRegressor(
        objective="l1", min_child_samples=20, n_jobs=1, seed=1, verbosity=-1, **settings
    )


def trained(
    train: tuple[Frame, Frame], validation: tuple[Frame, Frame], **changes: float
) -> lightgbm.LGBMRegressor:
    x, y = validation
    stop = lightgbm.early_stopping(30, verbose=False)
    return regressor(**changes).fit(
        train[0].to_numpy(),
        train[1],
        eval_set=[(x.to_numpy(), y)],
        eval_metric="l1",
        callbacks=[stop],
    )


def test_one_model_per_client_on_its_own_inputs() -> None:
    data = dataset()
    predict = fit(LightGBM(), data, FitSettings(), {}).predict
    for client in range(2):
        w = Windowed(series(client))
        x, y = own_inputs(w), w.truth
        model = trained(*[(x.loc[w.part(s)], y[w.part(s)]) for s in ("train", "validation")])
        for split in SPLITS:
            wanted = model.predict(x.loc[w.part(split)].to_numpy())
            found = predict(client, data.starts(client, split))
            np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=0)


def test_one_model_per_client_on_the_studys_covariates() -> None:
    data = dataset(
        clients=1, target="load", covariates=[{"name": "lags"}, {"name": "known_future"}]
    )
    w = Windowed(series(0))
    ahead = Frame(w.table["temperature"].reset_index(drop=True))
    # In single precision, as the dataset stores it.
    lags = ((w.season_lags() - data.view.offset[0]) / data.view.scale[0]).astype(np.float32)
    further = Frame({name: w.input(name) for name in ("temperature", "floor_area")})
    x = pd.concat([w.lags().sub(w.last, axis=0) / scale(w), lags, ahead, further], axis=1)
    y = (w.truth - w.last) / scale(w)
    model = trained(*[(x.loc[w.part(s)], y[w.part(s)]) for s in ("train", "validation")])
    rows = w.part("test")
    wanted = w.last[rows] + scale(w) * model.predict(x.loc[rows].to_numpy())
    found = fit(LightgbmCovariates(), data, FitSettings(), {}).predict(0, data.starts(0, "test"))
    np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=0)


def test_leaves_and_rate_are_chosen_on_validation() -> None:
    data = dataset(clients=1, days=25)
    settings = FitSettings(learning_rate=(0.05, 0.3), leaves=(4, 31))
    predict = fit(LightgbmLags(), data, settings, {}).predict
    w = Windowed(series(0, days=25))
    changes = (w.truth - w.last) / scale(w)
    sets = [(relative(w).loc[w.part(s)], changes[w.part(s)]) for s in ("train", "validation")]
    models = [
        trained(*sets, learning_rate=rate, num_leaves=leaves)
        for leaves in (4, 31)
        for rate in (0.05, 0.3)
    ]
    x, y = sets[1]
    errors = [np.abs(model.predict(x.to_numpy()) - y).mean() for model in models]
    best = models[int(np.argmin(errors))]
    rows = w.part("test")
    wanted = w.last[rows] + scale(w) * best.predict(relative(w).loc[rows].to_numpy())
    found = predict(0, data.starts(0, "test"))
    np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=0)


def test_loads_without_a_logarithm_and_flat_ones_are_forecast_too() -> None:
    data = dataset(days=15)
    data.load[:700] -= 2.0  # partly negative
    data.load[700:1000] = 0.0
    flat = data.view.bounds[1]
    data.load[flat[0] : flat[3]] = 3.0
    for baseline in (LightGBM(), LightgbmLags(), LightgbmPooled()):
        predict = fit(baseline, data, FitSettings(), {}).predict
        assert np.isfinite(predict(0, data.starts(0, "test"))).all()
        np.testing.assert_allclose(predict(1, data.starts(1, "test")), 3.0, atol=1e-9)


def test_a_model_of_many_clients_reads_fewer_windows_of_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = tiny.study(windows={"horizons": 4}).windows
    data = build(tiny.tables(3), many)
    whole, _ = TreeWindows(data, LAGGED).stack_windows("train")
    monkeypatch.setattr("plfl.baselines.trees.MOST_POOLED_ROWS", len(whole) // 2)
    half, targets = TreeWindows(data, LAGGED).stack_windows("train")
    assert len(whole) / 3 < len(half) == len(targets) <= len(whole) / 2 + 12
    first = data.starts(0, "train")
    np.testing.assert_array_equal(half[: len(first[::2])], whole[: len(first) : 2])
    own, _ = TreeWindows(data.select(np.array([0])), LAGGED).stack_windows("train")
    assert len(own) == 4 * len(first)
