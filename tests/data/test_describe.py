from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.config.windows import Windows
from plfl.data.dataset import SPLITS
from plfl.data.describe import ENOUGH_WEEKS, describe, list_warnings
from plfl.data.windows import build
from plfl.tasks import metrics as scores

WEEK = 7 * 96
WINDOWS = Windows()


def table(rows: int = 10 * WEEK, start: str = "2018-01-01 00:15", **attrs: Any) -> pd.DataFrame:
    """Ten weeks in which nothing is wrong: load in a daily rhythm."""
    index = pd.date_range(start, periods=rows, freq="15min", name="timestamp")
    load = 2 + np.sin(2 * np.pi * np.arange(rows) / 96)
    made = pd.DataFrame({"load": load, "temperature": 20.0}, index=index)
    made.attrs.update(attrs)
    return made


def changed(rows: slice, load: float) -> pd.DataFrame:
    other = table()
    other.iloc[rows, 0] = load
    return other


def worries_of(tables: dict[str, pd.DataFrame], windows: Windows = WINDOWS) -> list[str]:
    return list_warnings(describe(tables, 15, windows), windows)


def test_numbers_by_hand() -> None:
    index = pd.date_range("2018-01-01 01:00", periods=10, freq="h")
    load = [0.0, 1, 3, 3, 3, 2, 0, 4, 5, 9]
    windows = Windows(look_back=1, look_ahead=1, split=(0.5, 0.2, 0.3))
    row = describe({"m": pd.DataFrame({"load": load}, index=index)}, 60, windows).loc["m"]
    assert row["rows"] == 10
    assert row["first"] == index[0]
    assert row["last"] == index[-1]
    assert row["weeks"] == pytest.approx(10 / 168)
    assert row["features"] == "load"
    assert row["mean"] == 3
    assert (row["min"], row["max"], row["zeros"]) == (0, 9, 0.2)
    assert row["test_persistence_mae"] == (5 - 4 + 9 - 5) / 2
    assert row["flat_hours"] == 3
    assert row["windows"] == 4 + 1 + 2
    assert row["outliers"] == 0


@pytest.mark.parametrize(
    ("bad", "worry"),
    [
        (changed(slice(-WEEK, None), 1.0), "in the test set, the load hardly differs"),
        (table(ENOUGH_WEEKS * WEEK - 1), "only 8.0 weeks of data"),
        (changed(slice(100, 200), 1.0), "the load is constant for 25 hours"),
        (changed(slice(7, 9), 99.0), "2 readings above 10 times almost all others, up to 99 kWh"),
        (changed(slice(0, 6 * WEEK), 0.0), "60% of the readings are zero"),
        (table(gaps=3, filled=68), "68 of 6720 readings are filled with the reading before"),
        (table() * 0.009, "its peak of 0.027 kWh is below 1% of the largest client's 3"),
    ],
)
def test_worries_name_the_client_and_the_reason(bad: pd.DataFrame, worry: str) -> None:
    worries = worries_of({"good": table(), "bad": bad})
    assert any(text.startswith(f"bad: {worry}") for text in worries), worries
    assert not any(text.startswith("good:") for text in worries)


@pytest.mark.parametrize(
    "fine",
    [
        table(ENOUGH_WEEKS * WEEK),
        changed(slice(100, 196), 1.0),  # 24 hours
        table(gaps=1, filled=67),
        table() * 0.01,
    ],
)
def test_limits_are_exact(fine: pd.DataFrame) -> None:
    worries = worries_of({"a": table(), "b": fine})
    assert [text for text in worries if text.startswith("b:")] == []


def with_input(values: Any) -> pd.DataFrame:
    """A table with an input of the user's own."""
    made = table()
    made["humidity"] = values
    return made


HUMIDITY = 40 + np.arange(10 * WEEK) % 50.0


@pytest.mark.parametrize("share", [1 / (10 * WEEK), 0.3])
@pytest.mark.parametrize("mark", [-9999.0, 9999.9])
def test_a_mark_of_missing_values_in_an_input_is_told(mark: float, share: float) -> None:
    values = np.where(np.arange(10 * WEEK) < share * 10 * WEEK, mark, HUMIDITY)
    (worry,) = worries_of({"m": with_input(values)})
    count = int((values == mark).sum())
    assert f"m: humidity: {count} value" in worry and f"from {mark:g}" in worry
    assert "between 40 and 89" in worry and "data.meters.missing" in worry


@pytest.mark.parametrize(
    "fine",
    [
        HUMIDITY,
        np.where(HUMIDITY > 88, 980.0, HUMIDITY),  # a distance of at most 20 times their range
        np.where(HUMIDITY > 88, 500.0, 0.0),  # a switch
        np.full(10 * WEEK, 7.0),
        np.full(10 * WEEK, np.nan),
    ],
)
def test_an_input_without_far_values_is_not_told(fine: Any) -> None:
    assert worries_of({"m": with_input(fine)}) == []


def test_different_spans_are_told_once() -> None:
    later = table(start="2018-02-01 00:15")
    tables = {"a": table(), "b": later, "c": later}
    (worry,) = worries_of(tables)
    assert "begin between 2018-01-01 00:15:00 and 2018-02-01 00:15:00 and end between" in worry
    assert "different dates" in worry
    (worry,) = worries_of({"a": table(), "b": table()[2 * WEEK :]})
    assert "begin between" in worry and "end between" not in worry
    description = describe(tables, 15, WINDOWS, date(2018, 2, 15))
    assert not any(
        "different" in told for told in list_warnings(description, WINDOWS, date(2018, 2, 15))
    )


@pytest.mark.parametrize("origin", [None, date(2018, 2, 5)])
@pytest.mark.parametrize(
    "windows", [WINDOWS, Windows(look_back=5, look_ahead=96, history=3), Windows(horizons=4)]
)
def test_windows_and_their_persistence_are_those_of_the_study(windows, origin):
    """The persistence of the test set is the denominator of MASE."""
    made = table() * np.random.default_rng(2).uniform(size=(10 * WEEK, 1))
    dataset = build({"m": made}, windows, origin=origin)
    starts = dataset.starts(0, "test")
    persistence = dataset.load[dataset.persistence_rows(starts)]
    targets = dataset.load[dataset.target_rows(starts)].T
    row = describe({"m": made}, 15, windows, origin).loc["m"]
    assert row["test_persistence_mae"] == pytest.approx(scores.mae(targets, persistence))
    assert row["windows"] == sum(len(dataset.starts(0, split)) for split in SPLITS)


def test_a_daily_load_has_no_mase_a_day_ahead() -> None:
    daily = table(30 * WEEK)
    daily["load"] = np.tile(np.linspace(1, 2, 96), 30 * 7)
    (worry,) = worries_of({"m": daily}, Windows(look_ahead=96))
    assert "MASE is undefined" in worry
    assert worries_of({"m": daily}) == []


def test_clients_that_are_scaled_by_themselves_may_be_small() -> None:
    tables = {"a": table(), "b": table() * 0.001, "c": table() * 0.001 - 0.002}
    assert "windows.scaling: per_client" in "".join(worries_of(tables))
    assert worries_of(tables, Windows(scaling="per_client")) == []
    assert worries_of(tables, Windows(target="change")) == []


def test_what_many_clients_share_is_one_line() -> None:
    hours = pd.date_range("2023-01-01", periods=24 * 7 * 3, freq="h")
    tables = {
        f"c{number}": pd.DataFrame(
            {"load": np.random.default_rng(number).uniform(1, 2, len(hours))}, hours
        )
        for number in range(5)
    }
    (line,) = list_warnings(describe(tables, 60, Windows()), Windows())
    assert line.startswith("5 clients (c0, c1, c2 …): only 3.0 weeks of data")


def test_evenings_of_homes_are_no_outliers() -> None:
    hours = pd.date_range("2023-01-01", periods=24 * 7 * 10, freq="h")
    load = np.random.default_rng(0).uniform(0.05, 0.15, len(hours))
    load[np.asarray(hours.hour) == 19] = 7.0
    assert (
        describe({"c": pd.DataFrame({"load": load}, hours)}, 60, Windows())["outliers"].item() == 0
    )
    load[99] = 80.0
    assert (
        describe({"c": pd.DataFrame({"load": load}, hours)}, 60, Windows())["outliers"].item() == 1
    )
