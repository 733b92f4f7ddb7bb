"""Linear baselines against scikit-learn with features made by pandas."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from plfl.baselines import linear
from plfl.data.dataset import SPLITS
from tests.helpers.outside import Windowed, dataset, series


def differences(w: Windowed) -> pd.DataFrame:
    return w.lags().sub(w.last, axis=0)


def without_lags(w: Windowed) -> pd.DataFrame:
    further = {name: w.input(name) for name in ("temperature", "floor_area")}
    return pd.concat([w.lags(), w.clock(1), w.weekdays(), pd.DataFrame(further)], axis=1)


def with_lags(w: Windowed) -> pd.DataFrame:
    return pd.concat([without_lags(w), w.season_lags()], axis=1)


def without_week_lags(x: pd.DataFrame) -> pd.DataFrame:
    """A week has no window whose loads a week before the target are all known."""
    return x.drop(columns=[f"d7{around:+d}" for around in range(-2, 3)])


@pytest.mark.parametrize(
    ("fit", "design", "first_start", "model"),
    [
        (linear.linear, differences, 0, LinearRegression()),
        (linear.ridge, without_lags, 0, make_pipeline(StandardScaler(), Ridge(alpha=1.0))),
        (linear.ridge_lags, with_lags, 672, make_pipeline(StandardScaler(), Ridge(alpha=1.0))),
    ],
)
def test_they_are_what_scikit_learn_finds(
    fit: object, design: Callable[[Windowed], pd.DataFrame], first_start: int, model: object
) -> None:
    data = dataset()
    predict = fit(data)
    for client in range(2):
        w = Windowed(series(client))
        x, change = design(w), w.truth - w.last
        rows = w.part("train")
        rows = rows[rows >= first_start + 15]
        model.fit(x.loc[rows].to_numpy(), change[rows])
        for split in SPLITS:
            rows = w.part(split)
            wanted = w.last[rows] + model.predict(x.loc[rows].to_numpy())
            found = predict(client, data.starts(client, split))
            np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=0)


def test_a_short_history_trains_on_what_it_has() -> None:
    data = dataset(history=1).refit()
    predict = linear.ridge_lags(data)
    first = round(0.9 * 40 * 96) - 672
    w = Windowed(series(1), first=first)
    x, change = without_week_lags(with_lags(w)), w.truth - w.last
    rows = w.part("train")
    assert len(rows) > 600
    model = make_pipeline(StandardScaler(), Ridge(alpha=1.0))
    model.fit(x.loc[rows].to_numpy(), change[rows])
    rows = w.part("test")
    wanted = w.last[rows] + model.predict(x.loc[rows].to_numpy())
    found = predict(1, data.starts(1, "test"))
    np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=0)


@pytest.mark.parametrize("fit", [linear.linear, linear.ridge, linear.ridge_lags])
def test_a_load_that_never_changes_is_forecast_as_it_is(fit: object) -> None:
    data = dataset(days=10)
    data.load[:] = 3.0
    found = fit(data)(0, data.starts(0, "test"))
    np.testing.assert_allclose(found, 3.0, rtol=1e-12)
