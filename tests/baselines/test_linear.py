"""Linear baselines against scikit-learn with features made by pandas."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from plfl.baselines import linear
from tests.helpers.outside import Windowed, dataset, series


def test_ridge_of_a_short_history_is_what_scikit_learn_finds() -> None:
    """Of longer ones and of plain `linear` and `ridge`, benchmarks/outside.py says it."""
    data = dataset(history=1).refit()
    predict = linear.ridge_lags(data)
    first = round(0.9 * 40 * 96) - 672
    w = Windowed(series(1), first=first)
    # A week has no window whose loads a week before the target are all known.
    lags = w.season_lags().drop(columns=[f"d7{around:+d}" for around in range(-2, 3)])
    further = {name: w.input(name) for name in ("temperature", "floor_area")}
    x = pd.concat([w.lags(), w.clock(1), w.weekdays(), pd.DataFrame(further), lags], axis=1)
    rows = w.part("train")
    assert len(rows) > 600
    model = make_pipeline(StandardScaler(), Ridge(alpha=1.0))
    model.fit(x.loc[rows].to_numpy(), (w.truth - w.last)[rows])
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
