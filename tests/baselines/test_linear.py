"""Linear baselines against scikit-learn with features made by pandas."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from plfl.baselines import linear
from plfl.data.dataset import SPLITS
from tests.helpers.outside import Windowed, dataset, series


def with_lags(w: Windowed) -> pd.DataFrame:
    further = {name: w.input(name) for name in ("temperature", "floor_area")}
    calendar = [w.clock(1), w.weekdays()]
    return pd.concat([w.lags(), *calendar, pd.DataFrame(further), w.season_lags()], axis=1)


def ridge_of(x: pd.DataFrame, change: "pd.Series[float]", rows: "pd.Index[int]") -> Pipeline:
    """As scikit-learn finds it."""
    model = make_pipeline(StandardScaler(), Ridge(alpha=1.0))
    return model.fit(x.loc[rows].to_numpy(), change[rows])


def test_ridge_is_what_scikit_learn_finds() -> None:
    """Of plain `linear` and `ridge`, benchmarks/outside.py says it."""
    data = dataset()
    predict = linear.ridge_lags(data)
    for client in range(2):
        w = Windowed(series(client))
        x = with_lags(w)
        rows = w.part("train")
        model = ridge_of(x, w.truth - w.last, rows[rows >= 672 + 15])
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
    # A week has no window whose loads a week before the target are all known.
    x = with_lags(w).drop(columns=[f"d7{around:+d}" for around in range(-2, 3)])
    rows = w.part("train")
    assert len(rows) > 600
    model = ridge_of(x, w.truth - w.last, rows)
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
