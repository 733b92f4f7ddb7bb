"""Rows over longer intervals than those of the readings."""

import numpy as np
import pandas as pd

from plfl.base.errors import ConfigError
from plfl.config.study import Study
from plfl.data.features import assemble, resampled
from tests.helpers.refusals import naming

STAMPS = pd.date_range("2018-01-01 00:30", periods=12, freq="15min")
"""From the second quarter of an hour to the first of another."""
TABLE = pd.DataFrame({"load": np.arange(12.0), "temperature": 2 * np.arange(12.0)}, STAMPS)


def test_loads_are_added_up_and_other_readings_averaged():
    found = resampled(TABLE, 60)
    # The readings up to 01:00 do not fill an hour, nor does the last one.
    assert found.index.tolist() == [
        pd.Timestamp("2018-01-01 02:00"),
        pd.Timestamp("2018-01-01 03:00"),
    ]
    assert found["load"].tolist() == [3 + 4 + 5 + 6, 7 + 8 + 9 + 10]
    assert found["temperature"].tolist() == [9, 17]
    table = assemble(found, ["load", "time_index"])
    assert table["time_index"].tolist() == [8, 12]


def test_an_interval_with_a_gap_has_no_value():
    holed = TABLE.copy()
    holed.iloc[4, 0] = np.nan
    found = resampled(holed, 60)
    assert found["load"].isna().tolist() == [True, False]
    assert found["temperature"].tolist() == [9, 17]


def test_shorter_intervals_are_an_error():
    raw = {"data": {"source": "meters", "meters": {"interval": 60}, "resample": 30}}
    with naming(ConfigError, "data.resample", "30 minutes", "60"):
        Study.parse(raw, "study.yaml")


def test_the_interval_of_a_study():
    assert Study().data.interval == 15
    assert Study.parse({"data": {"resample": 60}}, "study.yaml").data.interval == 60
