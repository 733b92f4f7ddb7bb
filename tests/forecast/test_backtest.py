"""Weekly errors, and whether they have grown."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plfl.forecast.backtest import drift, scored, weekly


def pairs_of(days: int) -> pd.DataFrame:
    dice = np.random.default_rng(1)
    index = pd.date_range("2024-01-03 01:00", periods=24 * days, freq="h")
    columns = ["truth", "last", "naive_day", "naive_week", "forecast"]
    return pd.DataFrame(dice.uniform(1, 2, (24 * days, 5)), index, columns)


def test_weeks_are_scored_as_the_whole_is() -> None:
    table = pairs_of(40)
    found = weekly(table)
    # From a Wednesday on, five days of the first week are enough; two of the last are not.
    assert [*found.index] == [*pd.date_range("2024-01-01", periods=6, freq="7D")][: len(found)]
    for monday, mase in found.items():
        inside = table.index.to_series().between(
            monday, monday + pd.Timedelta(days=7), inclusive="right"
        )
        assert mase == pytest.approx(scored(table[inside])["mase"])
    # A meter with twice the loads has the same errors in these units.
    pd.testing.assert_series_equal(weekly(2 * table), found)


def test_drift_is_welchs_interval() -> None:
    past, new = pd.Series([0.5, 0.6, 0.4, 0.5]), pd.Series([0.9, 0.7, 0.8])
    found = drift(past, new)
    assert found["drift"] == pytest.approx(0.3)
    expected = stats.ttest_ind(new, past, equal_var=False).confidence_interval(0.95)
    assert (found["drift_low"], found["drift_high"]) == pytest.approx((*expected,))
    assert drift(past, past)["drift"] == 0 and drift(past, past)["drift_low"] < 0
    assert drift(past + 1, new + 1) == pytest.approx(found)
    assert np.isnan(drift(past, new[:1])["drift_low"])
