"""Origins and histories: which windows train, choose and test, found window by window."""

from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import ConfigError, DataError
from plfl.config.sections import Windows
from plfl.config.study import Study
from plfl.data.windows import build, federations_of
from tests.helpers import tiny
from tests.helpers.refusals import naming

ORIGIN = date(2018, 3, 12)
HOURS = pd.date_range("2018-01-01 01:00", periods=24 * 110, freq="h")


def table(level: float = 0.0) -> pd.DataFrame:
    return pd.DataFrame({"load": level + np.arange(len(HOURS), dtype=float)}, HOURS)


@pytest.mark.parametrize(("weeks", "horizons"), [(1, 1), (1, 24), (4, 1), (None, 24)])
def test_windows_are_those_of_a_search_by_time(weeks: int | None, horizons: int) -> None:
    look_back, look_ahead = 24, 1
    windows = Windows(look_back=look_back, look_ahead=look_ahead, horizons=horizons, history=weeks)
    dataset = build({"a": table(), "b": table(9.0)}, windows, origin=ORIGIN)
    cut = pd.Timestamp(ORIGIN)
    first = HOURS[0] if weeks is None else cut - timedelta(weeks=weeks) + timedelta(hours=1)
    history = HOURS[(first <= HOURS) & (cut >= HOURS)]
    held = max(len(history) // 5, 24)
    chosen_from = history[-held]
    wanted: dict[str, list[pd.Timestamp]] = {"train": [], "validation": [], "test": [], "refit": []}
    for at in HOURS:  # the stamp of the first input
        inputs_end = at + timedelta(hours=look_back - 1)
        target = inputs_end + timedelta(hours=look_ahead)
        end = target + timedelta(hours=horizons - 1)
        if at >= first and end <= cut:
            wanted["refit"].append(at)
        if at >= first and end < chosen_from:
            wanted["train"].append(at)
        if at >= first and target >= chosen_from and end <= cut:
            wanted["validation"].append(at)
        if at > cut and end <= cut + timedelta(weeks=4):
            wanted["test"].append(at)
    for i in range(2):
        for split in ("train", "validation", "test"):
            found = dataset.stamps[dataset.starts(i, split)]
            assert pd.DatetimeIndex(found).tolist() == wanted[split], split
        again = dataset.refit()
        assert pd.DatetimeIndex(again.stamps[again.starts(i, "train")]).tolist() == wanted["refit"]


def test_a_series_that_does_not_reach_over_the_test_set_is_refused() -> None:
    for origin in (date(2018, 4, 10), date(2018, 1, 1)):
        with naming(DataError, "data.origins"):
            build({"a": table()}, Windows(), origin=origin)
    with naming(DataError, "windows.history"):
        build({"a": table()}, Windows(history=1, look_back=150), origin=ORIGIN)


def test_origins_are_an_axis() -> None:
    of = tiny.study(data={"origins": {"last": "2018-09-30", "count": 3, "step": 13}})
    assert list(of.variants) == [
        f"origins={day}" for day in ("2018-04-01", "2018-07-01", "2018-09-30")
    ]
    assert [one.data.cut for one in of.variants.values()] == of.data.cuts
    both = tiny.study(
        data={"origins": ["2018-04-01", "2018-07-01"]}, grid={"windows.history": [1, 4]}
    )
    assert len(both.variants) == 4
    assert all(one.retrains for one in both.variants.values())
    with naming(ConfigError, "data.origins"):
        Study.parse({"grid": {"data.origins": ["2018-04-01"]}}, "twice")


def test_a_state_is_divided_into_federations_of_a_size() -> None:
    names = [f"m{i}" for i in range(14)]
    found = federations_of(names, 4)
    assert sorted(np.bincount(found)) == [3, 3, 4, 4]
    backwards = federations_of(names[::-1], 4)[::-1]
    np.testing.assert_array_equal(found, backwards)
    assert len(np.unique(federations_of(names, 24))) == 1
