"""Sums of meters: the rows that all have, what a sum knew, and the errors of daily peaks."""

import argparse
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.cli.first_day import sum_row
from plfl.forecast.backtest import FORECASTS, daily_peak_errors, score_pairs
from plfl.forecast.sums import add_up, check_members, on_one_clock
from tests.helpers.refusals import naming


def forecasts_of(first: str, hours: int, load: float, zone: str | None = None) -> pd.DataFrame:
    """Forecasts of the hours after a time."""
    stamps = pd.date_range(first, periods=hours + 1, freq="h", tz=zone)
    return pd.DataFrame({"forecast": load, "made_at": stamps[0]}, stamps[1:])


def test_a_sum_has_the_times_of_all_and_knows_what_the_newest_knows() -> None:
    tables = {
        "a": forecasts_of("2024-01-01 10:00", 24, 1.5),
        "b": forecasts_of("2024-01-01 12:00", 24, 2.0),
    }
    total = add_up(tables, ["forecast"])
    assert (total["forecast"] == 3.5).all()
    assert [total.index[0], total.index[-1]] == [
        *pd.to_datetime(["2024-01-01 13", "2024-01-02 10"])
    ]
    assert (total["made_at"] == pd.Timestamp("2024-01-01 12:00")).all()


def test_meters_of_several_zones_are_added_at_the_same_moment() -> None:
    tables = {
        "a": forecasts_of("2024-01-01 10:00", 3, 1.0, "Europe/Berlin"),
        "b": forecasts_of("2024-01-01 09:00", 3, 1.0, "Europe/London"),
    }
    assert len(add_up(tables, ["forecast"])) == 3


def test_standard_times_of_several_zones_come_on_the_clock_of_the_first() -> None:
    tables = {
        "a": forecasts_of("2024-01-01 10:00", 3, 1.0),
        "b": forecasts_of("2024-01-01 09:00", 3, 1.0),
    }
    zones = {"a": ZoneInfo("Europe/Berlin"), "b": ZoneInfo("Europe/London")}
    found = on_one_clock(tables, zones)
    assert found["a"] is tables["a"] and found["b"].equals(tables["a"])
    assert len(add_up(found, ["forecast"])) == 3
    unknown = on_one_clock(tables, dict.fromkeys(tables))
    assert unknown["b"] is tables["b"]


def test_of_several_horizons_forecasts_made_at_the_same_time_are_added() -> None:
    def table(load: float) -> pd.DataFrame:
        parts = [forecasts_of(f"2024-01-01 {hour}:00", 4, load * hour) for hour in (10, 11)]
        return pd.concat(parts)

    total = add_up({"a": table(1), "b": table(2)[1:]}, ["forecast"])
    assert len(total) == 7
    made_at = total["made_at"].dt.hour.to_numpy()
    np.testing.assert_allclose(total["forecast"], 3 * made_at)


def test_meters_without_a_common_time_have_no_sum() -> None:
    tables = {"a": forecasts_of("2024-01-01", 2, 1), "b": forecasts_of("2025-01-01", 2, 1)}
    with naming(DataError, "a, b", "no time in common"):
        add_up(tables, ["forecast"])
    for names in (["a"], ["a", "sum"]):
        with naming(DataError, "--sum"):
            check_members(names)


def pairs_of(days: int, seed: int) -> pd.DataFrame:
    """A row for each hour, and `days` whole days between two incomplete ones."""
    rng = np.random.default_rng(seed)
    stamps = pd.date_range("2024-01-01 12:00", periods=24 * (days + 1), freq="h")
    table = pd.DataFrame(rng.uniform(1, 2, (len(stamps), 5)), stamps, ["truth", *FORECASTS])
    return table.assign(made_at=stamps - pd.Timedelta(hours=1))


def test_errors_of_a_sum_are_those_of_the_summed_loads() -> None:
    a, b = pairs_of(5, 1), pairs_of(5, 2)
    score = score_pairs(add_up({"a": a, "b": b}, ["truth", *FORECASTS]))
    error = np.abs(a["forecast"] + b["forecast"] - a["truth"] - b["truth"]).mean()
    assert score["mae"] == pytest.approx(error)
    assert score["mae"] < score_pairs(a)["mae"] + score_pairs(b)["mae"]


def test_daily_peaks_one_day_at_a_time() -> None:
    table = pairs_of(4, 3)
    found = daily_peak_errors(table)
    errors, hours = [], []
    for day in pd.date_range("2024-01-02", periods=4):
        part = table[(table.index > day) & (table.index <= day + pd.Timedelta(days=1))]
        assert len(part) == 24
        errors.append(abs(part["forecast"].max() / part["truth"].max() - 1))
        moved = part["forecast"].idxmax() - part["truth"].idxmax()
        hours.append(abs(moved) / pd.Timedelta(hours=1))
    assert found["peak_percent"] == pytest.approx(100 * np.mean(errors), rel=1e-5)
    assert found["peak_hours"] == pytest.approx(np.mean(hours))
    # Of several horizons, the one made longest before counts.
    near = table.assign(made_at=table["made_at"], forecast=0.0)
    far = table.assign(made_at=table["made_at"] - pd.Timedelta(hours=3))
    assert daily_peak_errors(pd.concat([near, far]).sort_index(kind="stable")) == pytest.approx(
        found
    )
    for rows in (1, 20):
        assert np.isnan(daily_peak_errors(table[:rows])["peak_percent"])


def test_daily_peaks_are_those_of_local_days() -> None:
    zone = ZoneInfo("Europe/Berlin")
    stamps = pd.date_range("2024-06-30 23:00", periods=3 * 24 + 1, freq="h")[1:]  # of summer days
    table = pd.DataFrame({"truth": 1.0, "forecast": 1.0}, stamps)
    table.loc["2024-07-01 23:30":"2024-07-02 00:00", "truth"] = 4.0  # after midnight on the clock
    table.loc["2024-07-02 12:00", "forecast"] = 3.0
    found = daily_peak_errors(table, zone)
    assert found["peak_percent"] == pytest.approx(100 * (0 + 1 / 4 + 0) / 3)
    # In standard time this hour belongs to the day before, and two days lack an hour.
    assert daily_peak_errors(table)["peak_percent"] == pytest.approx(100 * (3 / 4 + 2) / 2)


def test_days_on_which_clocks_change_have_no_peak() -> None:
    stamps = pd.date_range("2024-03-30 00:00", "2024-04-01 23:00", freq="h")[1:]
    table = pd.DataFrame({"truth": 1.0, "forecast": 1.0}, stamps)
    table.loc["2024-03-31 12:00", "forecast"] = 9.0
    assert daily_peak_errors(table, ZoneInfo("Europe/Berlin"))["peak_percent"] == 0


def test_a_backtest_warns_of_a_sum_that_is_worse_than_a_day_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = pd.date_range("2024-01-01", periods=48, freq="h")
    table = pd.DataFrame({"truth": 1.0, "naive_day": 0.9, "naive_week": 1.0, "last": 1.2}, times)
    options = argparse.Namespace(sum=True)
    for load, words in ((0.8, "they are medians and in total 20"), (1.05, "")):
        pairs = dict.fromkeys("ab", table.assign(forecast=load))
        (row,) = sum_row(options, pairs, [], dict.fromkeys("ab"), are_medians=True)
        assert row["bias_percent"] == pytest.approx(100 * (load - 1))
        told = capsys.readouterr().err
        assert ("Do not add these forecasts" in told) == bool(words) and words in told
