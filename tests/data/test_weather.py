"""The table of a weather station beside meters: joined by true time, and nothing from later."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.base.errors import ConfigError, DataError
from plfl.config.meters import Meters
from plfl.data import meters
from plfl.data.meters.exports import read_exports
from plfl.data.meters.weather import forecasts_in_time
from plfl.first_study.meters import recognise
from plfl.study import Study
from tests.helpers.refusals import naming

ROWS = 24 * 16
DEGREES = np.arange(ROWS) / 20
"""A temperature that differs in every row."""
ZONES = ("UTC", "America/Los_Angeles", "Europe/Berlin", "Australia/Adelaide", "Etc/GMT+7")


def at(start: str, rows: int, minutes: int = 60) -> pd.DatetimeIndex:
    """Instants in UTC."""
    return pd.date_range(start, periods=rows, freq=f"{minutes}min", tz="UTC")


def write(path: Path, index: pd.DatetimeIndex, zone: str | None, **columns: Any) -> Path:
    """A table with local stamps of a zone; None: with UTC offsets."""
    stamps = index.strftime("%Y-%m-%dT%H:%M:%SZ" if zone is None else "%Y-%m-%d %H:%M")
    if zone is not None:
        stamps = index.tz_convert(zone).strftime("%Y-%m-%d %H:%M")
    pd.DataFrame({"when": stamps, **columns}).to_csv(path, index=False)
    return path


def write_load(path: Path, index: pd.DatetimeIndex, zone: str | None = None) -> Path:
    loads = np.random.default_rng(0).uniform(1, 2, len(index)).round(3)
    return write(path, index, zone, kWh=loads)


def study(export: Path, weather: Path, **keys: Any) -> Study:
    given = {
        "exports": [str(export)],
        "weather": str(weather),
        "columns": {"temperature": "Ta"},
        **{"interval": 60, "max_gap": 0},
        **keys,
    }
    data = {"source": "meters", "states": ["all"], "clients": 1, "meters": given}
    return Study.parse({"data": data, "windows": {"scaling": "per_client"}}, "test")


def read(export: Path, weather: Path, **keys: Any) -> pd.Series:
    """The temperature of the only meter, by the end of the interval in UTC."""
    (table,) = meters.read(study(export, weather, **keys).data, "all").values()
    return table["temperature"]


@settings(max_examples=10)
@given(
    load_zone=st.sampled_from([None, *ZONES]),
    weather_zone=st.sampled_from([None, *ZONES]),
    minutes=st.sampled_from([15, 30, 60]),
    step=st.sampled_from([5, 10, 60, 180]),
    late=st.integers(0, 59),
    newest_first=st.booleans(),
)
def test_weather_is_joined_by_true_time(
    load_zone, weather_zone, minutes, step, late, newest_first, tmp_path_factory
):
    """Each value is the mean of what became known in the interval, computed one by one."""
    folder = tmp_path_factory.mktemp("weather")
    loads = at("2021-07-01 06:00", 14 * 24 * 60 // minutes, minutes)
    instants = at("2021-06-30 20:00", 16 * 24 * 60 // step, step) + pd.Timedelta(minutes=late)
    values = np.random.default_rng(late).normal(15, 8, len(instants)).round(2)
    order = slice(None, None, -1 if newest_first else 1)
    weather = write(folder / "w.csv", instants[order], weather_zone, Ta=values[order])
    export = write_load(folder / "m.csv", loads, load_zone)
    keys = {"timezone": load_zone or "UTC", "weather_timezone": weather_zone or "UTC"}
    found = read(export, weather, interval=minutes, **keys)
    (expected,) = [pd.Series(np.nan, loads)]
    for end in loads:
        inside = (instants > end - pd.Timedelta(minutes=minutes)) & (instants <= end)
        if inside.any():
            expected[end] = values[inside].mean()
    expected = expected.loc[expected.first_valid_index() : expected.last_valid_index()]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@settings(max_examples=10)
@given(origin=st.integers(30, 400), seed=st.integers(0, 99), max_gap=st.sampled_from([0, 60, 180]))
def test_no_value_comes_from_the_future(origin, seed, max_gap, tmp_path_factory):
    folder, dice = tmp_path_factory.mktemp("weather"), np.random.default_rng(seed)
    index = at("2021-01-01 01:00", 500)
    kept = dice.random(500) > 0.2
    kept[[0, -1]] = True
    values = dice.normal(size=500).round(3)
    changed = np.where(np.arange(500) > origin, values + 30, values)
    export = write_load(folder / "m.csv", index)
    found = [
        read(export, write(folder / "w.csv", index[kept], None, Ta=one[kept]), max_gap=max_gap)
        for one in (values, changed)
    ]
    pd.testing.assert_series_equal(*(one.iloc[: origin + 1] for one in found))
    assert not found[0].equals(found[1]), "the weather after it was changed"


def test_missing_hours_are_gaps_and_short_ones_keep_the_last_value(tmp_path: Path) -> None:
    index = at("2021-01-01 01:00", ROWS)
    kept = np.ones(ROWS, bool)
    kept[[50, *range(100, 110)]] = False
    weather = write(tmp_path / "w.csv", index[kept], None, Ta=DEGREES[kept])
    found = read(write_load(tmp_path / "m.csv", index), weather, max_gap=60).to_numpy()
    assert found[50] == DEGREES[49]
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(found)), np.arange(100, 110))
    assert found[110] == DEGREES[110]


@pytest.mark.parametrize("late", [1, 2])
def test_the_newest_load_is_kept_where_the_weather_ends_a_little_earlier(tmp_path, late):
    index = at("2021-01-01 01:00", ROWS)
    weather = write(tmp_path / "w.csv", index[:-late], None, Ta=DEGREES[:-late])
    found = read(write_load(tmp_path / "m.csv", index), weather, max_gap=60)
    assert len(found) == ROWS - (late if late > 1 else 0)
    assert found.iloc[-1] == DEGREES[-late - 1]


@pytest.fixture
def two(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """A file of a load and of the weather, which may have other columns."""

    def call(**columns: Any) -> tuple[Path, Path]:
        index = at("2021-01-01 01:00", ROWS)
        export = write_load(tmp_path / "m.csv", index)
        columns = columns or {"Ta": np.arange(ROWS) % 30}
        return export, write(tmp_path / "w.csv", index, None, **columns)

    return call


@pytest.mark.parametrize(
    ("columns", "keys", "named"),
    [
        ({"air": 1.0}, {}, ["air", "columns.temperature", "°C"]),
        ({"Ta": "warm"}, {}, ["Ta", "warm"]),
        ({"Ta": 1.0}, {"columns": {"wind_speed": "Ta2"}}, ["Ta2"]),
        ({"Ta": 1.0}, {"since": "2022-01-01", "until": "2022-02-01"}, []),
    ],
)
def test_what_is_wrong_names_the_file_and_the_remedy(two, columns, keys, named):
    export, weather = two(**columns)
    with naming(DataError, *named, weather if named else export):
        read(export, weather, **keys)


@pytest.mark.parametrize(
    ("column", "keys", "facts"),
    [
        ("Ta", {}, ["line 102: Ta -9999", "-90 and 60 °C (1 such value)", "missing: [-9999]"]),
        ("Ta", {"units": {"temperature": "°F"}}, ["line 102: Ta -9999", "missing: [-9999]"]),
        ("Ta", {"units": {"temperature": "K"}}, ["line 2: Ta 0", "such values", "°C, °F, K"]),
        (
            "gusts",
            {"columns": {"wind_speed": "gusts"}},
            ["line 102: gusts -9999", "between 0 and 115 m/s"],
        ),
    ],
)
def test_a_value_that_the_weather_cannot_have_is_asked_about(two, column, keys, facts):
    values = np.where(np.arange(ROWS) == 100, -9999, np.arange(ROWS) % 30)
    export, weather = two(**{column: values})
    with naming(DataError, f"{weather}: {facts[0]}", *facts[1:]):
        read(export, weather, **keys)


def test_a_mark_of_missing_weather_is_a_gap(two):
    export, weather = two(Ta=np.where(np.arange(ROWS) == 100, -9999, np.arange(ROWS) % 30))
    found = read(export, weather, missing=[-9999], max_gap=0)
    assert np.flatnonzero(found.isna()).tolist() == [100]


def test_weather_of_another_time_or_of_several_stations_is_refused(two, tmp_path):
    export, weather = two()
    early = write(tmp_path / "early.csv", at("2019-01-01", ROWS), None, Ta=DEGREES)
    with pytest.raises(DataError, match="2021-01-01"):
        read(export, early)
    table = pd.read_csv(weather)
    both = pd.concat([table.assign(station=name) for name in ("north", "south")])
    both.to_csv(weather, index=False)
    with pytest.raises(DataError, match="'station'"):
        read(export, weather)


def test_stamps_without_an_offset_need_a_zone(two, tmp_path):
    export, _ = two()
    index = at("2021-01-01 01:00", ROWS)
    weather = write(tmp_path / "local.csv", index, "UTC", Ta=DEGREES)
    keys: dict[str, Any] = {"weather": weather, "columns": {"temperature": "Ta"}}
    with pytest.raises(DataError, match="weather_timezone"):
        recognise([export], Meters.model_validate(keys))
    keys["weather_timezone"] = "Etc/GMT+1"
    imported, _ = recognise([export], Meters.model_validate(keys))
    found = imported.meters["m"].inputs["temperature"]
    np.testing.assert_array_equal(found.to_numpy()[1:], DEGREES[:-1])


def write_forecasts(
    path: Path, seed: int, zone: str | None = None, altered: int | None = None
) -> tuple[pd.DataFrame, Path]:
    """Forecasts for every hour, issued every six hours for the next 48. `altered`: hours before the
    time that a forecast is for; forecasts issued later than this are others."""
    rng = np.random.default_rng(seed)
    issued = at("2021-01-01", 4 * 30, 360).repeat(48)
    valid = issued + pd.to_timedelta(np.tile(np.arange(1, 49), 4 * 30), "h")
    values = rng.normal(10, 5, len(valid)).round(2)
    if altered is not None:
        values = np.where(valid - issued < pd.Timedelta(hours=altered), values + 20, values)
    order = rng.permutation(len(valid))
    rows = pd.DataFrame({"issued": issued, "valid": valid, "Ta": values}).iloc[order]
    form = "%Y-%m-%dT%H:%M:%SZ" if zone is None else "%Y-%m-%d %H:%M"
    stamps = {
        name: (rows[name] if zone is None else rows[name].dt.tz_convert(zone)).dt.strftime(form)
        for name in ("issued", "valid")
    }
    rows.assign(**stamps).to_csv(path, index=False)
    return rows, path


@pytest.mark.parametrize(
    ("ahead", "seed", "zone"), [(4, 1, None), (24, 2, "Etc/GMT+5"), (30, 3, None)]
)
def test_a_forecast_that_was_not_yet_issued_is_never_read(
    ahead: int, seed: int, zone: str | None, tmp_path: Path
) -> None:
    folder = tmp_path
    index = at("2021-01-04", 24 * 20)
    export = write_load(folder / "m.csv", index)
    rows, path = write_forecasts(folder / "w.csv", seed, zone)
    keys = {"weather_issued": "issued", "weather_ahead": ahead, "weather_timezone": zone or "UTC"}
    found = read(export, path, **keys)
    for end in index[:: 24 * 3 + 1]:
        known = rows[(rows["valid"] == end) & (rows["issued"] <= end - pd.Timedelta(hours=ahead))]
        assert found[end.tz_localize(None)] == known.sort_values("issued")["Ta"].iloc[-1]
    _, other = write_forecasts(folder / "other.csv", seed, zone, altered=ahead)
    pd.testing.assert_series_equal(read(export, other, **keys), found)
    _, nearer = write_forecasts(folder / "nearer.csv", seed, zone, altered=ahead + 12)
    assert not read(export, nearer, **keys).equals(found)


def test_where_clocks_change_an_hour_of_doubt_counts_against_a_forecast(tmp_path: Path) -> None:
    export = write_load(tmp_path / "m.csv", at("2021-01-04", 24 * 20))
    rows, path = write_forecasts(tmp_path / "w.csv", 1, "Europe/Berlin")
    zone = {"weather_timezone": "Europe/Berlin"}
    found = read(export, path, weather_issued="issued", weather_ahead=6, **zone)
    end = pd.Timestamp("2021-01-10 12:00")
    known = rows[rows["valid"] == end.tz_localize("UTC")].set_index("issued")["Ta"]
    assert found[end] == known.sort_index()[:"2021-01-10 05:00"].iloc[-1]


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({"weather_issued": "made"}, ("'made'", "'issued'")),
        ({"weather_issued": "Ta"}, ("'Ta'", "2024-01-31 12:00")),
        ({"weather_ahead": 60}, ("60 hours before", "weather_ahead")),
    ],
)
def test_tables_without_issue_times_are_refused(
    keys: dict[str, Any], names: tuple[str, ...], tmp_path: Path
) -> None:
    export = write_load(tmp_path / "m.csv", at("2021-01-04", 24 * 20))
    _, path = write_forecasts(tmp_path / "w.csv", 1)
    with naming(DataError, str(path), *names):
        read(export, path, **{"weather_issued": "issued", "weather_ahead": 6, **keys})


def test_a_study_cannot_look_farther_ahead_than_forecasts_were_issued() -> None:
    keys = {"weather": "w.csv", "weather_issued": "issued", "interval": 60}
    windows = {"look_ahead": 1, "horizons": 24, "scaling": "per_client"}

    def parse(ahead: float | None) -> Study:
        meter_keys = {**keys, "columns": {"temperature": "Ta"}, "weather_ahead": ahead}
        data = {"source": "meters", "states": ["all"], "clients": 1, "meters": meter_keys}
        return Study.parse({"data": data, "windows": windows}, "test")

    assert parse(24).data.meters.weather_ahead == 24
    with naming(ConfigError, "weather_ahead", "24 hours ahead", "24 or more"):
        parse(23)
    with naming(ConfigError, "weather_issued", "set both"):
        parse(None)


@pytest.mark.parametrize(("max_gap", "known"), [(0, 1), (30, 1), (45, 4)])
def test_a_gap_after_the_last_load_is_filled_as_a_whole_or_not(
    tmp_path: Path, max_gap: int, known: int
) -> None:
    loads = at("2021-01-01 00:15", 32, 15)
    export = write_load(tmp_path / "m.csv", loads)
    weather = write(tmp_path / "w.csv", at("2021-01-01 00:00", 13), None, Ta=range(13))
    keys = study(export, weather, interval=15, max_gap=max_gap).data.meters
    later_inputs = read_exports([export], keys, 15).meters["m"].later_inputs
    hours = later_inputs["temperature"].iloc[3:15].to_numpy().reshape(3, 4)
    assert (~np.isnan(hours)).sum(axis=1).tolist() == [known] * 3


def test_weather_whose_columns_are_never_known_together_is_read(tmp_path: Path) -> None:
    export = write_load(tmp_path / "m.csv", at("2021-01-01 00:30", 48, 30))
    halves = at("2021-01-01 00:00", 49, 30)
    is_hour = halves.minute == 0
    degrees, speed = np.where(is_hour, 5.0, np.nan), np.where(is_hour, np.nan, 3.0)
    weather = write(tmp_path / "w.csv", halves, None, Ta=degrees, Wind=speed)
    columns = {"temperature": "Ta", "wind_speed": "Wind"}
    keys = study(export, weather, interval=30, columns=columns).data.meters
    meter = read_exports([export], keys, 30).meters["m"]
    assert meter.inputs.notna().sum().tolist() == [24, 24]


def test_a_time_written_in_two_ways_has_one_forecast() -> None:
    rows = pd.DataFrame(
        {
            "valid": ["2021-01-02T01:00:00Z", "2021-01-02T02:00:00+01:00", "2021-01-02T02:00:00Z"],
            "issued": ["2021-01-01T00:00:00Z", "2021-01-01T12:00:00Z", "2021-01-01T12:00:00Z"],
            "Ta": [1.0, 2.0, 3.0],
        }
    )
    keys = Meters(weather=Path("w.csv"), weather_issued="issued", weather_ahead=6)
    latest = forecasts_in_time(Path("w.csv"), rows, keys, "UTC")
    assert latest["Ta"].tolist() == [2.0, 3.0]


def test_inputs_that_go_on_after_the_last_load_are_rows_of_their_own(tmp_path: Path) -> None:
    index = at("2021-01-01 01:00", ROWS)
    export = write_load(tmp_path / "m.csv", index[:-30])
    weather = write(tmp_path / "w.csv", index, None, Ta=DEGREES)
    layout = study(export, weather).data.meters
    tables, problems = meters.read_files([export], layout, with_later=True)
    (table,) = tables.values()
    assert not problems
    assert table["load"].isna().sum() == table["load"][-30:].isna().sum() == 30
    np.testing.assert_allclose(table["temperature"], DEGREES)
    (without,) = meters.read_files([export], layout)[0].values()
    pd.testing.assert_frame_equal(table[:-30], without, check_freq=False)
