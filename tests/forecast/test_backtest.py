"""Weekly errors, and whether they have grown."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plfl.base.errors import ResultsError
from plfl.forecast.backtest import describe_all, drift, score_pairs, weekly
from plfl.forecast.choice import Forecasters
from tests.helpers import fake_results
from tests.helpers.refusals import naming


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
        assert mase == pytest.approx(score_pairs(table[inside])["mase"])
    # A meter with twice the loads has the same errors in these units.
    pd.testing.assert_series_equal(weekly(2 * table), found)


def test_a_week_needs_half_of_its_own_forecasts() -> None:
    table = pairs_of(12)[24 * 5 :]  # one whole week
    assert [*weekly(table).index] == [pd.Timestamp("2024-01-08")]
    assert weekly(table[:80]).empty and weekly(table[:0]).empty
    leads = [table.assign(made_at=table.index - pd.Timedelta(hours=h)) for h in (1, 2)]
    assert len(weekly(pd.concat(leads))) == 1
    assert weekly(pd.concat([leads[0][:100], leads[1][:60]])).empty


def test_drift_is_welchs_interval() -> None:
    past, new = pd.Series([0.5, 0.6, 0.4, 0.5]), pd.Series([0.9, 0.7, 0.8])
    found = drift(past, new)
    assert found["drift"] == pytest.approx(0.3)
    expected = stats.ttest_ind(new, past, equal_var=False).confidence_interval(0.95)
    assert (found["drift_low"], found["drift_high"]) == pytest.approx((*expected,))
    assert drift(past, past)["drift"] == 0 and drift(past, past)["drift_low"] < 0
    assert drift(past + 1, new + 1) == pytest.approx(found)
    assert np.isnan(drift(past, new[:1])["drift_low"])


def test_a_meter_whose_load_hardly_changes_has_no_mase_and_no_drift() -> None:
    table = 5 + 0.001 * pairs_of(21)
    found = score_pairs(table)
    assert np.isnan(found["mase"]) and found["mae"] > 0
    assert weekly(table).empty


def test_several_meters_have_a_line_for_all() -> None:
    row = {"mae": 1.0, "naive_day": 2.0, "percent_of_load": 30.0, "mase": 0.5}
    worse = {"mae": 3.0, "naive_day": 2.0, "percent_of_load": 50.0, "mase": 0.9}
    assert describe_all([row]) == ""
    assert describe_all([row, worse, row]) == (
        "3 meters: on average wrong by 36.7 % of the load, MASE 0.633; better than repeating the "
        "load of a day before in 2 of 3"
    )


def test_a_meter_without_mase_gets_the_forecaster_of_least_error_in_kwh(tmp_path: Path) -> None:
    tables = fake_results.write(tmp_path, fake_results.TINY, constant=1)
    forecasters = Forecasters(tmp_path)
    names = ["ridge", "lightgbm", "P2"]
    index = {"state": "CA", "name": names, "file": [f"{name}.safetensors" for name in names]}
    vars(forecasters)["index"] = pd.DataFrame(index)  # as if the models were there
    other, constant = tables.clients["client"]
    choice = forecasters.choose(constant)
    assert choice.name == "lightgbm"
    assert choice.why.startswith("least error of its validation set, kWh ")
    assert forecasters.choose(other).why.startswith("least mean error of all on validation, MASE ")
    with naming(ResultsError, "nobody: did not take part", "with `plfl forecast --new`"):
        forecasters.choose("nobody")
