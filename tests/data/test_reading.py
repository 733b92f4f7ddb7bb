"""Raw readings become the right loads: whatever order they are in, however their intervals change,
for registers that are swapped, and for clocks that are unlike a computer's."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.base.errors import DataError
from plfl.config.data import Data
from plfl.config.meters import Meters
from plfl.data import meters
from plfl.data.meters.stamps import parse
from plfl.data.meters.tables import RawTable

HOUR = pd.Timedelta(hours=1)


def loads(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.2, 1.5, rows).round(2)


def times(start: str, rows: int, minutes: int = 60) -> pd.DatetimeIndex:
    return pd.date_range(start, periods=rows, freq=f"{minutes}min")


def table(stamps: Sequence[Any] | pd.Index, values: Any, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"timestamp": stamps, **columns, "load": values})


def study(folder: Path, clients: int = 1, **keys: Any) -> dict[str, pd.DataFrame]:
    """What a study reads from the exports in a folder."""
    keys = {"exports": [folder], "interval": 60, "max_gap": 0} | keys
    data = {"source": "meters", "states": ["A"], "clients": clients, "meters": keys}
    return meters.read(Data.model_validate(data), "A")


def read(folder: Path, content: pd.DataFrame, **keys: Any) -> pd.Series:
    """The load that a study reads from an export with one meter."""
    content.to_csv(folder / "m.csv", index=False)
    (found,) = study(folder, **keys).values()
    return found["load"]


# -- order ---------------------------------------------------------------------------------------


def exchange(stamps: pd.DatetimeIndex) -> list[pd.Timestamp]:
    """Stamps whose day and month are exchanged where that gives a date."""
    return [
        stamp.replace(day=stamp.month, month=stamp.day) if stamp.day <= 12 else stamp
        for stamp in stamps
    ]


def test_stamps_whose_day_and_month_are_exchanged_in_part_are_refused(tmp_path):
    stamps = times("2024-03-20", 24 * 40)
    content = table(exchange(stamps), loads(len(stamps)))
    with pytest.raises(DataError) as error:
        read(tmp_path, content)
    text = "day and month of its stamps are exchanged up to the twelfth of a month (264 such"
    assert f"m.csv: line 290: {text}" in str(error.value)
    # Rows in another order are only sorted.
    later_rows = pd.concat([content.iloc[500:], content.iloc[:500]])
    assert len(read(tmp_path, later_rows)) > 24 * 40
    assert len(read(tmp_path, table(stamps, loads(len(stamps))))) == 24 * 40


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    layout=st.sampled_from(["alone", "wide", "long"]),
    stamp=st.sampled_from(["end", "start"]),
    minutes=st.sampled_from([15, 30, 60]),
    form=st.sampled_from(
        ["%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%Y-%m-%d %H:%M+02:00", "%Y%m%d%H%M"]
    ),
    by_clock=st.booleans(),
    cumulative=st.booleans(),
)
def test_the_order_of_rows_changes_nothing(
    tmp_path_factory, seed, layout, stamp, minutes, form, by_clock, cumulative
):
    folder, dice = tmp_path_factory.mktemp("order"), np.random.default_rng(seed)
    stamps = times("2013-06-01", 60 * 24 * 14 // minutes, minutes)
    columns = {
        name: loads(len(stamps), dice.integers(99)) for name in "ab"[: 1 + (layout != "alone")]
    }
    if cumulative:
        columns = {name: values.cumsum().round(2) for name, values in columns.items()}
    content = pd.DataFrame({"time": stamps.strftime(form), **columns})
    content = content.drop(index=dice.choice(len(stamps), 5, replace=False))
    if layout == "long":
        content = content.melt("time", var_name="meter", value_name="load")
    keys = {"stamp": stamp, "interval": minutes, "cumulative": cumulative, "timezone": "Etc/GMT-2"}
    found = []
    orders = [np.arange(len(content)), dice.permutation(len(content))]
    if by_clock:  # as of a melted table with a row per day
        orders[1] = content["time"].str[10:].argsort(kind="stable").to_numpy()
    for order in orders:
        content.iloc[order].to_csv(folder / "m.csv", index=False)
        found.append(study(folder, len(columns), **keys))
    assert list(found[0]) == list(found[1])
    for name, series in found[0].items():
        pd.testing.assert_frame_equal(found[1][name], series)
    first = stamps[0] + (pd.Timedelta(minutes=minutes) if stamp == "start" else 0 * HOUR)
    assert (found[0].popitem()[1].index - first >= 0 * HOUR).all()


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    minutes=st.sampled_from([15, 30, 60]),
    unit=st.sampled_from(["Wh", "kWh", "MWh", "W", "kW", "MW"]),
    cumulative=st.booleans(),
    overlap=st.integers(0, 30),
)
def test_two_files_and_another_unit_change_nothing(
    tmp_path_factory, seed, minutes, unit, cumulative, overlap
):
    folder, dice = tmp_path_factory.mktemp("parts"), np.random.default_rng(seed)
    content = table(times("2013-06-01 01:00", 600, minutes), 1 + loads(600, seed % 99) / 10)
    content = content.drop(index=dice.choice(600, 5, replace=False)).reset_index(drop=True)
    if cumulative := cumulative and unit.endswith("h"):
        content["load"] = content["load"].cumsum().round(3)
    keys = {"interval": minutes, "cumulative": cumulative}
    whole = read(folder, content, **keys)
    (folder / "m.csv").unlink()
    per_kwh = {"k": 1, "M": 1e-3}.get(unit[0], 1e3) * (1 if unit.endswith("h") else 60 / minutes)
    scaled = content.assign(load=content["load"] * per_kwh)
    at = int(dice.integers(50, 550))
    for name, part in (("a", scaled[:at]), ("b", scaled[at - overlap :])):
        (folder / name).mkdir()
        part.to_csv(folder / name / "m.csv", index=False)
    files = [folder / name / "m.csv" for name in "ab"]
    (found,) = study(folder, **keys | {"exports": files, "unit": unit, "join_files": True}).values()
    pd.testing.assert_series_equal(found["load"], whole, rtol=1e-9)


def test_the_repeated_hour_of_rows_without_order_is_a_gap(tmp_path: Path) -> None:
    utc = pd.date_range("2021-10-29", "2021-11-02", freq="h", tz="UTC")
    content = table(utc.tz_convert("Europe/Berlin").tz_localize(None), loads(len(utc)))
    ordered = read(tmp_path, content, timezone="Europe/Berlin")
    assert ordered.notna().all()
    mixed = read(tmp_path, content.sample(frac=1, random_state=0), timezone="Europe/Berlin")
    assert list(mixed.index[mixed.isna()]) == list(times("2021-10-31 01:00", 2))
    pd.testing.assert_series_equal(mixed.dropna(), ordered[mixed.notna()])


@pytest.mark.parametrize("stamp", ["start", "end"])
def test_columns_are_read_like_files_of_their_own(tmp_path: Path, stamp: str) -> None:
    stamps = times("2023-03-20", 24 * 14)
    columns = {f"h{number}": loads(len(stamps), number) for number in range(5)}
    columns["h2"][7] = np.nan
    columns["h3"][8:] += 0.5
    skipped = stamps != "2023-03-26 02:00"
    wide = pd.DataFrame({"timestamp": stamps, **columns})[skipped]
    keys = {"timezone": "Europe/Berlin", "stamp": stamp, "unit": "kW", "max_gap": 60}
    wide.to_csv(tmp_path / "wide.csv", index=False)
    together = study(tmp_path, len(columns), **keys)
    (tmp_path / "wide.csv").unlink()
    for name in columns:
        wide[["timestamp", name]].to_csv(tmp_path / f"{name}.csv", index=False)
    for name, alone in study(tmp_path, len(columns), **keys).items():
        pd.testing.assert_frame_equal(together[name], alone)
        assert together[name].attrs == alone.attrs


# -- intervals -----------------------------------------------------------------------------------


def joined(*parts: tuple[int, int]) -> pd.DataFrame:
    """Parts of so many hours with readings every so many minutes: .4 kWh in every hour."""
    ends, values, at = [], [], pd.Timestamp("2021-09-01")
    for hours, minutes in parts:
        ends += list(times(str(at), hours * 60 // minutes + 1, minutes)[1:])
        values += [0.4 * minutes / 60 + 0.001 * (i % 2) for i in range(hours * 60 // minutes)]
        at += hours * HOUR
    return table(ends, np.round(values, 4))


MIXTURES = {
    "half hours, then hours": [(720, 30), (360, 60)],
    "hours, then half hours": [(720, 60), (120, 30)],
    "days in turns": [(24, 30), (24, 60)] * 15,
    "every third hour": [*[(2, 30), (1, 60)] * 100, (2, 30)],
    "three of them": [(240, 15), (240, 60), (240, 30)],
}


@pytest.mark.parametrize("parts", MIXTURES.values(), ids=MIXTURES.keys())
@pytest.mark.parametrize("stamp", ["end", "start"])
def test_intervals_that_change_are_named(tmp_path, parts, stamp):
    content = joined(*parts)
    minutes = np.repeat([m for _, m in parts], [h * 60 // m for h, m in parts])
    if stamp == "start":
        content["timestamp"] -= pd.to_timedelta(minutes, unit="min")
    told = r"line \d+: m: the interval changes from \d\d to \d\d minutes at 2021-.*meters.until"
    with pytest.raises(DataError, match=told):
        read(tmp_path, content, stamp=stamp)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 99),
    middle=st.lists(
        st.tuples(st.integers(1, 30), st.sampled_from([15, 30, 60])), min_size=1, max_size=8
    ),
    ends=st.sampled_from([15, 30]),
    stamp=st.sampled_from(["end", "start"]),
)
def test_no_mixture_of_intervals_gives_wrong_loads(tmp_path_factory, seed, middle, ends, stamp):
    """It is refused, or a reading that may be of a longer interval, such as a single hourly one, is
    a gap."""
    parts = [(40, ends), *middle, (40, ends)]
    minutes = np.repeat([m for _, m in parts], [h * 60 // m for h, m in parts])
    content = joined(*parts)
    content["load"] *= np.random.default_rng(seed).uniform(0.9, 1.1, len(content))
    if stamp == "start":
        content["timestamp"] -= pd.to_timedelta(minutes, unit="min")
    folder = tmp_path_factory.mktemp("mixture")
    try:
        found = read(folder, content, interval=ends, stamp=stamp)
    except DataError as error:
        assert re.search("interval changes|off the grid", str(error))
    else:
        np.testing.assert_allclose(found.dropna(), 0.4 * ends / 60, rtol=0.2)


def test_readings_too_far_apart_are_refused(tmp_path: Path) -> None:
    content = table(times("2023-01-01", 500, 120), loads(500))
    with pytest.raises(DataError, match=r"120 minutes apart; .* every 15, 30 or 60 minutes"):
        read(tmp_path, content)


def test_a_missing_reading_is_no_longer_interval(tmp_path: Path) -> None:
    content = joined((24 * 40, 30))
    content = content.drop(index=np.random.default_rng(1).choice(len(content), 100, replace=False))
    found = read(tmp_path, content, interval=30)
    assert found.isna().sum() == pytest.approx(100, abs=1)  # the first may be missing


# -- registers -----------------------------------------------------------------------------------

USED = loads(960)
COUNTED = 5000 + USED.cumsum().round(2)
FROM_500 = np.arange(960) >= 500
DAY = np.arange(960) // 24
NOISE = np.random.default_rng(1).choice([-0.001, 0, 0.001], 960)
LATER = COUNTED + FROM_500 * 9e4
DROPOUT = np.isin(np.arange(960), range(300, 306))
REGISTERS: dict[str, tuple[np.ndarray, list[int]]] = {
    "plain": (COUNTED, []),
    "swapped": (COUNTED - FROM_500 * COUNTED[499], [500]),
    "swapped for a higher one": (COUNTED + FROM_500 * 40000, [500]),
    "reset every day": (pd.Series(USED).groupby(DAY).cumsum().to_numpy(), [*range(24, 960, 24)]),
    "noise": (COUNTED + NOISE, []),
    "noise and a swap": (COUNTED + NOISE - FROM_500 * 4000, [500]),
    "did not read": (np.where(DROPOUT, 0, COUNTED), [*range(300, 307)]),
    "did not read, and swapped": (np.where(DROPOUT, 0, LATER), [*range(300, 307), 500]),
}
"""What a register shows every hour, and the hours of which it says nothing."""


@pytest.mark.parametrize(("shown", "unknown"), REGISTERS.values(), ids=REGISTERS.keys())
def test_registers_are_asked_for_and_their_differences_are_right(tmp_path, shown, unknown):
    content = table(times("2023-01-01 01:00", 960), shown.round(3))
    with pytest.raises(DataError, match=r"like those of a cumulative register; set data.meters.c"):
        read(tmp_path, content)
    np.testing.assert_array_equal(read(tmp_path, content, cumulative=False), shown.round(3))
    found = read(tmp_path, content, cumulative=True)
    assert (np.flatnonzero(found.isna()) + 1).tolist() == unknown
    known = found.notna().to_numpy()
    np.testing.assert_allclose(
        found[known], USED[1:][known], atol=0.0021 if shown is not COUNTED else 0
    )
    # Rounding errors do not make equal differences different.
    assert set(found[known]) <= set(np.round(found[known], 3))


def test_what_a_register_counts_while_it_is_not_read_is_told_or_spread(tmp_path, caplog):
    use = np.where(np.arange(48) % 2, 0.1, 0.2)
    shown = np.where(np.isin(np.arange(48), range(20, 26)), 0, 721.01 + use.cumsum()).round(2)
    content, total = table(times("2023-01-01 01:00", 48), shown), shown[-1] - shown[0]
    gap = read(tmp_path, content, cumulative=True)
    assert gap.sum() == pytest.approx(total - 1.1)
    told = "1.1 kWh that the register counted while it was not read are no loads"
    assert f"{told} (data.meters.max_gap: 360 spreads them evenly), gaps: 1" in caplog.text
    spread = read(tmp_path, content, cumulative=True, max_gap=360)
    assert spread.sum() == pytest.approx(total)
    np.testing.assert_allclose(spread[gap.isna().to_numpy()], 1.1 / 7)
    assert "whose use is spread evenly: 6" in caplog.text


@pytest.mark.parametrize("cumulative", [None, True])
@pytest.mark.parametrize("minutes", [0, 30], ids=["same times", "in turns"])
@pytest.mark.parametrize("second", [5100, 9000], ids=["overlapping", "apart"])
def test_two_registers_in_one_column_are_seen(tmp_path, second, minutes, cumulative):
    ends = times("2023-01-01 01:00", 480)
    stamps = np.ravel([ends, ends + pd.Timedelta(minutes=minutes)], order="F")
    shown = np.ravel([5000 + loads(480).cumsum(), second + loads(480, 1).cumsum()], order="F")
    content = table(pd.DatetimeIndex(stamps), shown.round(2)).drop(index=[200, 301])
    keys = {} if cumulative is None else {"cumulative": cumulative}
    with pytest.raises(DataError, match=r"two registers in turns; .* data.meters.columns.meter"):
        read(tmp_path, content, interval=30 if minutes else 60, **keys)


@pytest.mark.parametrize(
    "values", [loads(960), 0.2 + (np.arange(960) % 24) * 0.01, np.sin(np.arange(960)) + 2]
)
def test_loads_are_no_registers(tmp_path: Path, values: np.ndarray) -> None:
    read(tmp_path, table(times("2023-01-01 01:00", 960), values.round(3)))


def test_a_register_with_hourly_and_half_hourly_readings(tmp_path: Path) -> None:
    content = joined((240, 30), (240, 60))
    content["load"] = content["load"].cumsum().round(4)
    np.testing.assert_allclose(read(tmp_path, content, cumulative=True), 0.4, atol=0.002)


def test_a_register_that_is_read_at_irregular_times_rises_evenly_between_them(tmp_path, caplog):
    seconds = np.random.default_rng(0).integers(280, 320, 12 * 24 * 4).cumsum()
    stamps = pd.Timestamp("2023-01-01") + pd.to_timedelta(seconds, unit="s")
    is_evening = pd.Series(stamps.hour >= 18)
    use = np.diff(seconds, prepend=0) / 3600 * np.where(is_evening, 3, 1)
    content = table(stamps, (500 + use.cumsum()).round(3))
    content = content[~((stamps >= "2023-01-03 03:30") & (stamps < "2023-01-03 07:30"))]
    found = read(tmp_path, content, cumulative=True)
    missing = found[found.isna()].index
    assert [*missing] == [*times("2023-01-03 04:00", 5)]
    expected = np.where((found.index - HOUR).hour >= 18, 3, 1)
    np.testing.assert_allclose(found.dropna(), expected[found.notna()], atol=0.2)
    assert found.sum() == pytest.approx(expected[found.notna()].sum(), abs=0.3)
    assert f"at irregular times, between which it rises evenly: {len(content)}" in caplog.text


@pytest.mark.parametrize("seconds", [1, 10, 30])
def test_a_register_that_is_read_every_few_seconds_is_read(tmp_path: Path, seconds: int) -> None:
    stamps = pd.date_range("2023-01-01", "2023-01-01 05:00", freq=f"{seconds}s")
    use = np.where(stamps.hour >= 3, 3, 1) * seconds / 3600
    found = read(tmp_path, table(stamps, (500 + use.cumsum()).round(3)), cumulative=True)
    np.testing.assert_allclose(found.dropna(), [1, 1, 1, 3, 3], atol=0.02)


# -- clocks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "zone",
    [
        *("Asia/Kolkata", "Asia/Kathmandu", "Australia/Adelaide", "Asia/Tehran", "Asia/Yangon"),
        *("America/St_Johns", "Pacific/Chatham"),
    ],
)
def test_hours_are_those_of_the_zone(tmp_path: Path, zone: str) -> None:
    content = table(times("2023-07-10 00:15", 960, 15), loads(960))
    found = read(tmp_path, content, timezone=zone)
    np.testing.assert_allclose(found, content["load"].to_numpy().reshape(-1, 4).sum(axis=1))
    assert (found.index.minute == 0).all()


@pytest.mark.parametrize(
    ("zone", "before", "after"),
    [
        ("Europe/Istanbul", "2015-01-10", "2019-01-10"),
        ("Europe/Moscow", "2012-06-10", "2019-06-10"),
        ("Africa/Casablanca", "2017-01-10", "2020-01-10"),
    ],
)
def test_meters_of_a_town_are_on_one_clock(tmp_path, zone, before, after):
    """One of them began before the standard time of the zone changed, the other one after it."""
    for name, start in (("old", before), ("new", after)):
        hours = pd.date_range(start, pd.Timestamp(after) + 240 * HOUR, freq="h", tz="UTC")
        values = 1 + hours.hour / 10
        table(hours, values).to_csv(tmp_path / f"{name}.csv", index=False)
    tables = study(tmp_path, 2, timezone=zone)
    last = tables["new"].index
    pd.testing.assert_series_equal(
        tables["old"]["load"][last], tables["new"]["load"], check_freq=False
    )


@pytest.mark.parametrize("name", ["EST", "IST"])
def test_names_of_zones_belong_into_the_format(tmp_path: Path, name: str) -> None:
    local = times("2023-03-01", 24 * 60)
    content = table(local.strftime(f"%Y-%m-%d %H:%M {name}"), loads(len(local)))
    with pytest.raises(DataError, match=rf"line 2: .*date_format: '%Y-%m-%d %H:%M {name}'"):
        read(tmp_path, content)
    with pytest.raises(DataError, match=r"names of zones \(%Z\) are not read"):
        read(tmp_path, content, date_format="%Y-%m-%d %H:%M %Z")
    keys = {"date_format": f"%Y-%m-%d %H:%M {name}", "timezone": "Etc/GMT+5"}
    assert read(tmp_path, content, **keys).index.equals(local.rename("timestamp"))


def days(content: pd.DataFrame, start: str, end: str, form: str) -> pd.DataFrame:
    """Quarter hours with a column of dates, those of their starts, beside their start and end."""
    starts = content["timestamp"] - pd.Timedelta(minutes=15)
    clock = {start: starts, end: content["timestamp"]}
    columns = {name: when.dt.strftime(form) for name, when in clock.items() if name}
    return pd.DataFrame(
        {"Datum": starts.dt.strftime("%d.%m.%Y"), **columns, "load": content["load"]}
    )


@pytest.mark.parametrize(
    ("start", "end", "keys"),
    [
        ("Zeit von", "Zeit bis", {}),
        ("Zeit von", "Zeit bis", {"stamp": "start"}),
        ("", "USAGE_END_TIME", {}),
        ("", "Zeit", {}),
        ("Zeit", "", {"stamp": "start"}),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_end_times_beside_the_date_of_the_start(tmp_path, start, end, keys, order):
    content = table(times("2024-02-01 00:15", 960, 15), loads(960))
    export = days(content, start, end, "%H:%M:%S")
    export = export[::order]
    export.to_csv(tmp_path / "m.csv", index=False)
    (found,) = study(tmp_path, interval=15, timezone="Europe/Vienna", **keys).values()
    assert found.index[-1] == pd.Timestamp("2024-02-11")
    np.testing.assert_array_equal(found["load"], content["load"])
    if end == "Zeit":
        with pytest.raises(DataError, match=r"midnight follows the evening .* data.meters.stamp"):
            study(tmp_path, stamp="start")


@pytest.mark.parametrize("zone", ["America/Chicago", "Europe/Berlin"])
@pytest.mark.parametrize("minutes", [15, 60])
@pytest.mark.parametrize("empty", [np.nan, 0])
def test_padding_of_spring_after_end_stamps_is_dropped(tmp_path, zone, minutes, empty, caplog):
    """Each day has the same rows, whose stamps are the start plus the length of the interval."""
    starts = times("2022-03-10", 20 * 24 * 60 // minutes, minutes)
    real = pd.Series(starts.tz_localize(zone, nonexistent="NaT")).notna().to_numpy()
    values = np.where(real, loads(len(starts)), empty)
    content = table(starts + pd.Timedelta(minutes=minutes), values)
    found = read(tmp_path, content, timezone=zone, interval=minutes)
    np.testing.assert_array_equal(found, values[real])
    assert f"padding of the hour that clocks skip dropped: {60 // minutes}" in caplog.text


# -- forms of stamps -----------------------------------------------------------------------------


def written(stamps: pd.DatetimeIndex, form: str) -> pd.Index:
    """Stamps in a form that `strftime` does not know."""
    since = stamps - pd.Timestamp(0)
    if form.startswith("epoch"):
        return (since // pd.Timedelta(1, unit=form.split()[1])).astype(str)
    midnight = stamps == stamps.normalize()
    late = (stamps - pd.Timedelta(days=1)).strftime(form.replace("%H", "24"))
    return pd.Index(np.where(midnight, late, stamps.strftime(form)))


@pytest.mark.parametrize("start", ["2023-01-10 00:15", "2023-01-10"])
@pytest.mark.parametrize(
    "form",
    [
        *("epoch s", "epoch ms", "epoch us", "epoch ns", "%Y%m%d%H%M", "%Y%m%d %H%M"),
        *("%Y-%m-%d %H:%M", "%d.%m.%Y %H%M"),
    ],
)
def test_forms_of_stamps(tmp_path: Path, start: str, form: str) -> None:
    stamps = times(start, 960, 15)
    content = table(written(stamps, form), loads(960))
    found = read(tmp_path, content, interval=15)
    assert found.index.equals(stamps.rename("timestamp"))
    np.testing.assert_array_equal(found, content["load"])


@pytest.mark.parametrize(
    ("form", "stamp"),
    [("{}", "end"), ("{}", "start"), ("{:02}", "end"), ("{}00", "end"), ("{:02}00", "end")],
)
def test_hours_from_1_to_24(tmp_path: Path, form: str, stamp: str) -> None:
    ends = times("2023-01-10 01:00", 240)
    dates = (ends - HOUR).strftime("%Y-%m-%d")
    hours = [form.format(hour or 24) for hour in ends.hour]
    content = pd.DataFrame({"date": dates, "hour": hours, "load": loads(240)})
    content.to_csv(tmp_path / "m.csv", index=False)
    (found,) = study(tmp_path, stamp=stamp).values()
    assert found.index.equals(ends.rename("timestamp"))
    np.testing.assert_array_equal(found["load"], content["load"])


def test_files_with_the_same_stamps_are_read_alike_and_refused_by_name() -> None:
    cells = pd.DataFrame({"t": ["05/06/2024 00:00", "05/06/2024 01:00"]}, index=[2, 3], dtype=str)
    raw_tables = [RawTable(Path(name), cells.copy(), "text") for name in ("a.csv", "b.csv")]
    days_first, months_first = (
        Meters(timezone="UTC", date_format=form) for form in ("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M")
    )
    for keys, day in ((days_first, "2024-06-05"), (months_first, "2024-05-06")):
        for raw in raw_tables:
            stamps = parse(raw, ("t",), keys).stamps
            assert stamps.to_list() == [*pd.date_range(day, periods=2, freq="h")]
            stamps[:] = pd.NaT  # what one caller does to its stamps reaches no other
    for raw in raw_tables:
        with pytest.raises(DataError, match=f"{raw.path}: line 2"):
            parse(raw, ("t",), Meters(timezone="UTC", date_format="%Y-%m-%d"))
