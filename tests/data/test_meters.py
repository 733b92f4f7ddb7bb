import gzip
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from plfl.base.errors import DataError
from plfl.config.data import Data
from plfl.config.meters import Meters
from plfl.data import meters
from plfl.data.meters.faults import longest_gap
from plfl.study import Study
from tests.helpers.meter_files import read_meter
from tests.helpers.refusals import naming

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "own-data.md"


def stamps(start: str = "2018-01-01 00:15", rows: int = 96, minutes: int = 15) -> pd.DatetimeIndex:
    return pd.date_range(start, periods=rows, freq=f"{minutes}min")


def loads(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).uniform(1, 2, rows).round(6)


def frame(index: pd.Index, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"timestamp": index, "load": loads(len(index)), **columns})


def counts_of(table: pd.DataFrame) -> dict[str, int]:
    """What a series says about its gaps, without the words."""
    return {name: table.attrs[name] for name in ("gaps", "filled", "missing")}


def read(path: Path, **keys: Any) -> pd.DataFrame:
    return read_meter(path, Meters.model_validate(keys))


def wall(zone: str, first: str, last: str, minutes: int = 15) -> pd.DatetimeIndex:
    """Naive stamps of a clock in `zone` between two instants in UTC."""
    utc = pd.date_range(first, last, freq=f"{minutes}min", tz="UTC")
    return utc.tz_convert(zone).tz_localize(None)


@pytest.fixture
def meter(tmp_path: Path) -> Callable[..., Path]:
    """Writes a CSV file of a meter: `meter(frame)` or `meter(text)`."""

    def write(content: pd.DataFrame | str, name: str = "m.csv", **options: Any) -> Path:
        path = tmp_path / name
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            content.to_csv(path, index=False, **options)
        return path

    return write


# -- files ---------------------------------------------------------------------------------------


def data(folder: Path, clients: int = 2, states: list[str] | None = None) -> Data:
    return Data.model_validate(
        {
            "source": "meters",
            "clients": clients,
            "states": states or ["A"],
            "meters": {"folder": folder},
        }
    )


def touch(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


def test_files_are_the_first_clients_by_name(tmp_path: Path) -> None:
    touch(tmp_path, "c.CSV", "a.parquet", "b.csv.gz", "readme.txt", ".hidden.csv")
    names = [path.name for path in meters.files(data(tmp_path), "A")]
    assert names == ["a.parquet", "b.csv.gz"]
    assert [path.name for path in meters.files(data(tmp_path, 3), "A")] == [*names, "c.CSV"]


def test_files_missing_or_too_few(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the folder does not exist.*set data.meters.folder"):
        meters.files(data(tmp_path / "none"), "A")
    with naming(DataError, tmp_path / "A"):
        meters.files(data(tmp_path, states=["A", "B"]), "A")
    with pytest.raises(DataError, match="holds no meter files"):
        meters.files(data(tmp_path), "A")
    touch(tmp_path, "only.csv")
    with pytest.raises(DataError, match=r"holds 1 of 2 meter files.*data.clients to 1"):
        meters.files(data(tmp_path), "A")


def test_the_name_of_a_state_can_choose_its_files(tmp_path: Path) -> None:
    for state in ("A", "B"):
        (folder := tmp_path / state).mkdir()
        touch(folder, "A1.csv", "B1.csv")
    keys = {"folder": tmp_path, "only": ["{state}*"]}
    content = {"source": "meters", "clients": 1, "states": ["A", "B"], "meters": keys}
    both = Data.model_validate(content)
    assert [meters.files(both, state)[0].name for state in "AB"] == ["A1.csv", "B1.csv"]


@pytest.mark.parametrize("name", [b"Z\xe4hler.csv", b"{x}.csv"])
def test_names_that_cannot_be_used_are_refused(tmp_path: Path, name: bytes) -> None:
    path = Path(os.fsdecode(bytes(tmp_path) + b"/" + name))
    path.touch()
    with naming(DataError, "rename it") as caught:
        meters.files(data(tmp_path, clients=1), "A")
    str(caught.value).encode("utf-8")


def test_two_files_of_one_client_are_refused(tmp_path: Path) -> None:
    touch(tmp_path, "a.csv", "a.d.csv", "a.parquet")
    with pytest.raises(DataError, match=r"a.csv is also meter 'a'"):
        meters.files(data(tmp_path, clients=3), "A")


def test_lock_files_and_hidden_files_are_no_exports(tmp_path: Path) -> None:
    for name in ("home.xlsx", "~$home.xlsx", ".home.xlsx", "notes.txt"):
        (tmp_path / name).touch()
    assert meters.raw_files([tmp_path]) == [tmp_path / "home.xlsx"]


def test_logs_are_exports_where_they_are_named_or_alone(tmp_path: Path) -> None:
    touch(tmp_path / "exports", "a.csv", "download.log")
    touch(tmp_path / "logs", "kWh.LOG", ".hidden.log")
    touch(tmp_path, "run.log")
    export, logged = tmp_path / "exports" / "a.csv", tmp_path / "logs" / "kWh.LOG"
    assert meters.raw_files([tmp_path / "exports", tmp_path / "logs"]) == [export, logged]
    assert meters.raw_files([tmp_path / "run.log"]) == [tmp_path / "run.log"]
    logged.unlink()
    assert meters.raw_files([tmp_path]) == [export]


# -- forms of files ------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    order=st.permutations(["when", "kWh", "T out", "area", "note"]),
    separator=st.sampled_from([",", ";", "\t", "|"]),
    before=st.sampled_from(
        ["", "sep=?\n1234?5678\n", "Site;Town\n\n", "Portal???\n2023-07-01??\n"]
    ),
    encoding=st.sampled_from(["utf-8", "utf-8-sig"]),
    ending=st.sampled_from([".csv", ".csv.gz", ".parquet"]),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_the_form_of_a_file_does_not_matter(
    tmp_path_factory, order, separator, before, encoding, ending, newline
):
    content = pd.DataFrame(
        {
            "when": stamps(),
            "kWh": loads(96),
            "T out": np.linspace(-5, 5, 96),
            "area": 1000.0,
            "note": "Zähler, alt; ok",
        }
    )
    path = tmp_path_factory.mktemp("form") / f"m{ending}"
    if ending == ".parquet":
        content[order].to_parquet(path)
    else:
        text = before.replace("?", separator) + content[order].to_csv(index=False, sep=separator)
        raw = text.replace("\n", newline).encode(encoding)
        path.write_bytes(gzip.compress(raw) if ending == ".csv.gz" else raw)
    columns = {"timestamp": "when", "load": "kWh", "floor_area": "area", "temperature": "T out"}
    table = read(path, columns=columns)
    assert list(table) == ["load", "temperature", "floor_area"]
    assert table.index.name == "timestamp"
    assert table.index.equals(stamps())
    np.testing.assert_array_equal(table["load"], content["kWh"])
    np.testing.assert_allclose(table["temperature"], content["T out"], rtol=1e-15)
    assert (table["floor_area"] == 1000).all()
    assert set(table.dtypes) == {np.dtype(float)}
    assert table.attrs == {"gaps": 0, "filled": 0, "missing": 0, "remarks": ""}


def test_blank_lines_trailing_delimiters_and_decimal_commas(meter: Callable[..., Path]) -> None:
    text = "timestamp; load;\n2018-01-01 00:15;0,5;\n\n2018-01-01 00:30;1,25;\n;;\n"
    assert read(meter(text))["load"].tolist() == [0.5, 1.25]


# -- time ----------------------------------------------------------------------------------------


def test_offsets_that_change_and_aware_parquet(meter: Callable[..., Path], tmp_path: Path) -> None:
    local = pd.date_range("2018-10-27 22:00", periods=96, freq="15min", tz="UTC").tz_convert(
        "Europe/Berlin"
    )
    content = frame(local)
    content.to_parquet(tmp_path / "m.parquet")
    content["timestamp"] = [stamp.isoformat() for stamp in local]
    expected = local.tz_convert("UTC").tz_localize(None) + pd.Timedelta(hours=1)
    for path in (meter(content), tmp_path / "m.parquet"):
        assert read(path, timezone="Europe/Berlin").index.equals(expected)


def test_offset_that_is_not_the_zone_s_is_reported(meter, caplog):
    index = stamps("2018-01-01 05:15").strftime("%Y-%m-%d %H:%M:%S-05:00")
    path = meter(frame(index))
    caplog.set_level(logging.WARNING, "plfl.data.meters")
    assert read(path, timezone="Etc/GMT+5").index[0] == pd.Timestamp("2018-01-01 05:15")
    assert not caplog.records
    assert read(path).index[0] == pd.Timestamp("2018-01-01 10:15")
    assert "UTC offset -5:00:00 in the stamps" in caplog.text


CLOCKS = [
    *("America/New_York", "America/Los_Angeles", "America/St_Johns", "America/Santiago"),
    *("Europe/London", "Europe/Dublin", "Europe/Berlin", "Europe/Helsinki", "Asia/Tehran"),
    *("Australia/Adelaide", "Australia/Lord_Howe", "Pacific/Auckland", "Pacific/Chatham"),
]


def changes(zone: str, year: int) -> list[pd.Timestamp]:
    """The instants at which clocks are changed, computed from the zone hour by hour."""
    hours = pd.date_range(f"{year}-01-01", f"{year + 1}-01-01", freq="30min", tz="UTC")
    offsets = hours.tz_localize(None) - hours.tz_convert(zone).tz_localize(None)
    return list(hours[1:][np.diff(offsets.asi8) != 0])


@settings(max_examples=25)
@given(
    zone=st.sampled_from(CLOCKS),
    year=st.integers(2015, 2021),
    which=st.integers(0, 1),
    before=st.integers(2, 200),
    after=st.integers(2, 200),
    interval=st.sampled_from([15, 30, 60]),
    stamp=st.sampled_from(["end", "start", "start plus interval"]),
    newest_first=st.booleans(),
)
def test_local_clocks_give_a_regular_grid_and_keep_the_energy(
    tmp_path_factory, zone, year, which, before, after, interval, stamp, newest_first
):
    assume(zone != "Australia/Lord_Howe" or interval < 60)  # half an hour is not on its grid
    step = pd.Timedelta(minutes=interval)
    assume(len(changes(zone, year)) == 2)  # Chile kept summer time through 2015
    change = changes(zone, year)[which]
    first, last = change - before * pd.Timedelta("1h"), change + after * pd.Timedelta("1h")
    ends = pd.date_range(first, last, freq=step)
    stamped = ends if stamp == "end" else ends - step
    local = stamped.tz_convert(zone).tz_localize(None)
    if stamp == "start plus interval":
        local += step
    content = frame(local)
    path = tmp_path_factory.mktemp("clock") / "m.csv"
    content[:: -1 if newest_first else 1].to_csv(path, index=False)

    table = read(
        path, timezone=zone, interval=interval, stamp="start" if stamp == "start" else "end"
    )

    year_round = pd.date_range(f"{first.year}-01-01", periods=12, freq="30D", tz=zone)
    offsets = year_round.tz_localize(None) - year_round.tz_convert("UTC").tz_localize(None)
    assert table.index.equals(ends.tz_localize(None) + offsets.min())
    assert (np.diff(table.index) == step).all()
    assert table["load"].sum() == pytest.approx(content["load"].sum(), rel=1e-12)
    assert counts_of(table) == {"gaps": 0, "filled": 0, "missing": 0}


@pytest.mark.parametrize(
    ("zone", "interval", "which"),
    [("America/Chicago", 15, 0), ("Europe/London", 15, 1), ("Australia/Melbourne", 60, 1)],
)
def test_clock_changes_are_recognised_in_a_fixed_zone(meter, caplog, zone, interval, which):
    change = changes(zone, 2018)[which]
    day = pd.Timedelta(days=2)
    path = meter(frame(wall(zone, str(change - day)[:19], str(change + day)[:19], interval)))
    try:
        read(path, interval=interval)
    except DataError as error:  # readings of two hours have the same stamps
        assert "daylight saving time, set data.meters.timezone to its place" in str(error)
    else:
        assert "gaps of an hour on a Sunday (is data.meters.timezone right?): 1" in caplog.text


# -- gaps ----------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32 - 1),
    origin=st.integers(1, 94),
    max_gap=st.sampled_from([60, 24 * 60]),
)
@settings(max_examples=40)
def test_no_value_depends_on_readings_after_it(seed, origin, max_gap, tmp_path_factory):
    dice = np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("gaps") / "m.parquet"
    content = frame(stamps(), temperature=dice.normal(size=96))
    for column in ("load", "temperature"):
        for start in dice.integers(1, 91, size=3):
            content.loc[start : start + dice.integers(0, 6), column] = np.nan
    later = np.arange(96) > origin
    # A table ends where one of its columns does.
    assume(content.loc[later, ["load", "temperature"]].notna().all(axis=1).any())
    changed = content.copy()
    changed.loc[later, ["load", "temperature"]] += dice.uniform(1, 9, (int(later.sum()), 2))
    columns = {name: name for name in ("timestamp", "load", "temperature")}
    # Energy beside a gap that may be of all of it is judged by the readings on both sides, and made
    # a gap; power is not.
    keys = {"columns": columns, "max_gap": max_gap, "unit": "kW"}
    tables = []
    for table in (content, changed):
        table.to_parquet(path)
        tables.append(read(path, **keys))
    before, after = (table.iloc[: origin + 1] for table in tables)
    pd.testing.assert_frame_equal(before, after)
    assert not tables[0].equals(tables[1]), "the readings after it were changed"


def test_a_gap_above_the_limit_stays_a_gap(meter, caplog):
    content = frame(stamps())
    path = meter(content.drop(index=[10, 20, 21]))
    assert counts_of(read(path, max_gap=30)) == {"gaps": 2, "filled": 3, "missing": 0}
    assert f"{path}: load: 3 missing readings in 2 gaps, " in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "plfl"):
        table = read(path, max_gap=29)
    assert counts_of(table) == {"gaps": 2, "filled": 1, "missing": 2}
    assert "2 missing readings in 1 gap" in table.attrs["remarks"]
    # None of its readings is filled.
    assert np.flatnonzero(table["load"].isna()).tolist() == [20, 21]
    assert table["load"].iloc[10] == content["load"].iloc[9]
    assert "2 missing readings in 1 gap, the longest 30 minutes from 2018-01-01 05" in caplog.text


def test_sentinels_jumps_and_outages_become_gaps(meter, caplog):
    content = frame(stamps(rows=200))
    content.loc[100, "load"] = 1e6
    content.loc[120:135, "load"] = 0.0
    content.loc[150:152, "load"] = 0.0
    content.loc[170:, "load"] += 20  # a lasting change, which costs three readings
    content["load"] = content["load"].astype(object)
    content.loc[[50, 51], "load"] = [-9999.0, "offline"]
    path = meter(content)
    faults = {"missing": [-9999, "offline"], "max_jump": 3, "zero_run": 4}
    with caplog.at_level(logging.WARNING, "plfl"):
        table = read(path, max_gap=0, **faults)
    gaps = [50, 51, 100, *range(120, 136), *range(170, 173)]
    assert np.flatnonzero(table["load"].isna()).tolist() == gaps
    assert "jumps made gaps: 4, zeros of outages made gaps: 16" in caplog.text


@pytest.mark.parametrize(
    ("role", "unit", "given", "expected"),
    [
        ("temperature", "°F", 104.0, 40.0),
        ("temperature", "K", 273.15, 0.0),
        ("wind_speed", "km/h", 36.0, 10.0),
        ("wind_speed", "mph", 1.0, 0.44704),
        ("floor_area", "m²", 1.0, 10.7639104),
        ("radiation", "W/m²", 7.0, 7.0),
    ],
)
def test_units_of_other_columns(meter, role, unit, given, expected):
    columns = {name: name for name in ("timestamp", "load", role)}
    path = meter(frame(stamps(), **{role: given}))
    table = read(path, columns=columns, units={role: unit})
    np.testing.assert_allclose(table[role], expected, atol=1e-12)


# -- messages ------------------------------------------------------------------------------------

GOOD = frame(stamps())


def put(at: int, value: Any, column: str = "load") -> pd.DataFrame:
    """A good file with one other value."""
    changed = GOOD.astype({column: object})
    changed.loc[at, column] = value
    return changed


MESSAGES: list[tuple[tuple[str, ...], pd.DataFrame | str, dict[str, Any]]] = [
    (("columns.load", "'Load'", "did you mean 'load'"), GOOD, {"columns": {"load": "Load"}}),
    (
        ("several columns", "'load'", "data.meters.columns.load"),
        GOOD.assign(other=1.0).rename(columns={"other": "load"}),
        {"columns": {"load": "load"}},
    ),
    (("several columns", "one meter each"), GOOD.rename(columns={"load": "a"}).assign(b=1.0), {}),
    (("no header",), put(2, "", "timestamp"), {}),
    (("line 98", "1 field"), GOOD.to_csv(index=False) + "2018-01-0", {}),
    (("line 7", "load 'n. v.'"), put(5, "n. v."), {}),
    (("line 7", "load 'inf'"), put(5, "inf"), {}),
    (("line 7", "1 negative value", "-1", "data.meters.allow_negative"), put(5, -1), {}),
    (("no reading of a whole interval",), GOOD.head(1), {"interval": 60, "step": 15}),
    (("line 22", "'2018'", "ISO8601"), put(20, "2018", "timestamp"), {}),
    (("line 4", "UTC offset"), put(2, "2018-01-01 00:45Z", "timestamp"), {}),
    (
        ("line 4", "'2018-01-01 00:15:00'", "%Y%m%d"),
        "Site;Town\n\n" + GOOD.to_csv(index=False),
        {"header": 3, "date_format": "%Y%m%d"},
    ),
    (("date_format", "'%Q'"), GOOD, {"date_format": "%Q"}),
    (
        ("2018-03-11 02:00:00", "America/New_York", "data.meters.timezone", "Etc/GMT+5"),
        frame(stamps("2018-03-10 00:15", 200)),
        {"timezone": "America/New_York"},
    ),
    (
        ("line 5", "2018-01-01 00:50:00", "15 minutes"),
        pd.concat([GOOD[:3], put(2, "2018-01-01 00:50:00", "timestamp")[2:3], GOOD[3:]]),
        {},
    ),
    (("00:07:00", "15 minutes"), frame(stamps("2018-01-01 00:07")), {}),
]
"""What a message names (place, value, key), of which file, with which `data.meters`."""


@pytest.mark.parametrize(("names", "content", "keys"), MESSAGES, ids=lambda v: str(v)[:40])
def test_messages(meter, names, content, keys):
    path = meter(content)
    with pytest.raises(DataError) as raised:
        read(path, **keys)
    told = str(raised.value)
    assert all(name in told for name in names), told
    assert told.startswith((f"{path}: ", "data.meters."))


@pytest.mark.parametrize(
    ("year", "zone"),
    [("0018", "UTC"), ("1918", "America/New_York"), ("9018", "UTC"), ("9999", "America/New_York")],
)
def test_a_stray_year_is_refused(meter: Callable[..., Path], year: str, zone: str) -> None:
    for at, line in ((0, "line 2"), (-1, "line 97")):
        table = frame(stamps().astype(str))
        table.loc[table.index[at], "timestamp"] = f"{year}-01-01 00:15"
        with pytest.raises(DataError, match=f"{line}: '{year}.*between the years 1970 and"):
            read(meter(table), timezone=zone)


# -- the guide -----------------------------------------------------------------------------------


def test_the_configuration_in_the_guide_reads_the_file_in_the_guide(meter):
    text = GUIDE.read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    study = Study.parse(yaml.safe_load(block), "docs/own-data.md")
    assert study.data.source == "meters"
    (content,) = re.findall(r"```\n(read at.*?)```", text, flags=re.DOTALL)
    table = read_meter(meter(content), study.data.meters)
    assert list(table.index) == [*pd.to_datetime(["2023-01-01 00:15", "2023-01-01 00:30"])]
    assert table.to_numpy().tolist() == [[3.2, -2.5, 18000], [3.05, -2.5, 18000]]


def test_text_files_in_a_folder_may_be_notes(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("NA.txt", "school.csv")]
    for file in files:
        file.write_text("timestamp,load\n", encoding="utf-8")
    assert meters.raw_files([tmp_path]) == files[1:]
    assert meters.raw_files(files) == files


@pytest.mark.parametrize(("days", "words"), [(58.5, "58.5 days"), (7300, "7,300 days")])
def test_a_long_gap_is_a_number_of_days(days: float, words: str) -> None:
    index = pd.date_range("2000-01-01", periods=7400 * 2, freq="12h")
    load = pd.Series(1.0, index).mask(index <= index[0] + pd.Timedelta(days=days))
    load.iloc[0] = 1
    assert longest_gap(load, 720).startswith(f"{words} from 2000-01-01 00:00")
