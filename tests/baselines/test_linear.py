"""Linear baselines against scikit-learn with features made by pandas."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as OutsideRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from plfl.baselines.fitting import fit
from plfl.baselines.linear import LinearBaseline
from plfl.baselines.ridge import Ridge
from plfl.baselines.ridge_lags import RidgeLags
from plfl.interfaces.baseline import Baseline, FitSettings
from tests.helpers.outside import Windowed, dataset, series


@pytest.mark.parametrize("weeks", [1, 3])
def test_ridge_with_lags_is_what_scikit_learn_finds(weeks: int) -> None:
    """Of plain `ridge`, benchmarks/outside.py says it."""
    data = dataset(history=weeks).refit()
    predict = fit(RidgeLags(), data, FitSettings(), {}).predict
    first = round(0.9 * 40 * 96) - 672 * weeks
    w = Windowed(series(1), first=first)
    lags = w.season_lags()
    rows = w.part("train")
    if weeks == 1:
        # A week has no window whose loads a week before the target are all known.
        lags = lags.drop(columns=[f"d7{around:+d}" for around in range(-2, 3)])
    else:
        rows = rows[rows >= first + 672 + 12 + 4 - 1]
    further = {name: w.input(name) for name in ("temperature", "floor_area")}
    x = pd.concat([w.lags(), w.clock(1), w.weekdays(), pd.DataFrame(further), lags], axis=1)
    assert len(rows) > 600
    model = make_pipeline(StandardScaler(), OutsideRidge(alpha=1.0))
    model.fit(x.loc[rows].to_numpy(), (w.truth - w.last)[rows])
    rows = w.part("test")
    wanted = w.last[rows] + model.predict(x.loc[rows].to_numpy())
    found = predict(1, data.starts(1, "test"))
    np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=0)


def test_linear_is_what_scikit_learn_finds() -> None:
    data, w = dataset(), Windowed(series(1))
    predict = fit(LinearBaseline(), data, FitSettings(), {}).predict
    x, change = w.lags().iloc[:, :-1].sub(w.last, axis=0), w.truth - w.last
    rows = w.part("train")
    model = LinearRegression().fit(x.loc[rows], change[rows])
    rows = w.part("test")
    wanted = w.last[rows] + model.predict(x.loc[rows])
    np.testing.assert_allclose(predict(1, data.starts(1, "test")), wanted, atol=1e-6, rtol=0)


@pytest.mark.parametrize("baseline", [LinearBaseline(), Ridge(), RidgeLags()])
def test_a_load_that_never_changes_is_forecast_as_it_is(baseline: Baseline) -> None:
    data = dataset(days=10)
    data.load[:] = 3.0
    found = fit(baseline, data, FitSettings(), {}).predict(0, data.starts(0, "test"))
    np.testing.assert_allclose(found, 3.0, rtol=1e-12)
