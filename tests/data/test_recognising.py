"""`plfl init meters`: every form of a raw export gives the same series, and a study of them."""

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import openpyxl
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.cli.main import main
from plfl.config.meters import Meters
from plfl.data import sources
from plfl.data.meters import read_files, stamps
from plfl.data.meters.exports import Exports
from plfl.first_study.meters import recognise
from plfl.study import Study
from tests.helpers.refusals import naming

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "own-data.md"
ROWS = 24 * 40
"""Forty days of hours: a day above 12 tells days from months."""


def hours(start: str = "2020-02-01 01:00", rows: int = ROWS) -> pd.DatetimeIndex:
    return pd.date_range(start, periods=rows, freq="h")


def loads(rows: int = ROWS, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(1, 2, rows).round(3)


def text(stamps: pd.DatetimeIndex, *columns: Any, form: str = "%Y-%m-%d %H:%M") -> list[str]:
    """Lines of a comma-separated file, without its header."""
    fields = zip(stamps.strftime(form), *columns, strict=True)
    return [",".join(map(str, row)) for row in fields]


@pytest.fixture
def bring(tmp_path: Path) -> Callable[..., Exports]:
    """Reads text, or files, with options: `bring("a.csv", lines, unit="W")`."""

    def call(file: str, lines: list[str], /, **options: Any) -> Exports:
        raw = tmp_path / "raw"
        raw.mkdir(exist_ok=True)
        (raw / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
        keys = {"timezone": "UTC"} | options
        return read(raw, **{key: value for key, value in keys.items() if value is not None})

    return call


def read(*paths: Path, **keys: Any) -> Exports:
    """What is recognised in raw exports, without the study."""
    return recognise(paths, Meters.model_validate(keys))[0]


def load(imported: Exports, name: str = "a") -> pd.Series:
    return imported.meters[name].load


def same(series: pd.Series, stamps: pd.DatetimeIndex, values: Any) -> None:
    np.testing.assert_allclose(series, values, rtol=1e-12)
    assert list(series.index) == list(stamps.tz_localize("UTC") if stamps.tz is None else stamps)


# -- UTC offsets beside local times ---------------------------------------------------------------

SYDNEY = pd.date_range("2020-04-01 13:00", periods=ROWS, freq="h", tz="UTC").tz_convert(
    "Australia/Sydney"
)
"""Hours over the end of summer time, on 5 April."""
SHIFT = (SYDNEY.tz_localize(None) - SYDNEY.tz_convert(None)) / pd.Timedelta(minutes=1)


@pytest.mark.parametrize(
    ("column", "offsets"),
    {
        "UTC Offset (minutes)": SHIFT.astype(int),
        "tz_offset": SHIFT / 60,
        "utcoffset": (SHIFT * 60).astype(int),
        "zone": [f"+{int(shift) // 60:02}:00" for shift in SHIFT],
        "TimeZoneOffset": [f"+{int(shift) // 60:02}00" for shift in SHIFT],
        "Time Zone": [f"UTC+{int(shift) // 60:02}:00" for shift in SHIFT],
    }.items(),
)
@pytest.mark.parametrize("file", ["a.csv", "a.parquet"])
def test_a_column_of_utc_offsets_settles_local_times(
    tmp_path: Path, column: str, offsets: Any, file: str
) -> None:
    """No place is asked for, both hours that clocks repeat are known, and no meter is named so."""
    clock = pd.Series(SYDNEY.strftime("%Y-%m-%d %H:%M"))
    table = pd.DataFrame({"time": clock, column: offsets, "Active energy (kWh)": loads()})
    path = tmp_path / file
    table.to_csv(path, index=False) if file == "a.csv" else table.to_parquet(path)
    for keys in ({}, {"timezone": "Australia/Sydney"}):
        exports = read(path, **keys, stamp="end")
        assert f"UTC offsets in {column!r}" in exports.report()[0]
        same(load(exports), SYDNEY.tz_convert("UTC"), loads())


def test_a_date_and_a_clock_have_an_offset_and_a_format_names_it(here: Path) -> None:
    dates, clocks = SYDNEY.strftime("%d/%m/%Y"), SYDNEY.strftime("%H:%M")
    columns = {"Date": dates, "Time": clocks, "GMT offset": SHIFT.astype(int), "kWh": loads()}
    pd.DataFrame(columns).to_csv("a.csv", index=False)
    assert main(["init", "meters", "a.csv", "--stamp", "end", "--save-format", "mine.toml"]) == 0
    same(load(read(Path("a.csv"), format="mine.toml")), SYDNEY.tz_convert("UTC"), loads())
    text = Path("a.csv").read_text(encoding="utf-8").replace(",660,", ",x,")
    Path("a.csv").write_text(text, encoding="utf-8")
    with naming(DataError, "'GMT offset' has other values than UTC offsets", "time.offset"):
        read(Path("a.csv"), format="mine.toml")


@pytest.mark.parametrize("column", ["time", "time (UTC)"])
def test_offsets_beside_times_in_utc_move_none(tmp_path: Path, column: str) -> None:
    utc = SYDNEY.tz_convert("UTC")
    columns = {column: utc.strftime("%Y-%m-%d %H:%M"), "utc_offset": SHIFT, "kWh": loads()}
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    same(load(read(tmp_path / "a.csv", timezone="UTC", stamp="end")), utc, loads())


def test_numbers_that_are_no_utc_offsets_move_no_time(tmp_path: Path) -> None:
    utc = SYDNEY.tz_convert("UTC")
    columns = {"time": utc.strftime("%Y-%m-%d %H:%M"), "utc_offset": 7 * SHIFT, "kWh": loads()}
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match="no UTC offset"):
        read(tmp_path / "a.csv", stamp="end")


BERLIN = {"timezone": "Europe/Berlin"}


@pytest.mark.parametrize(
    ("column", "offsets", "keys"),
    [
        ("timezoneOffset", -60, BERLIN),  # as JavaScript has it
        ("UTC offset", -60, {"timezones": {"a": "Europe/Berlin"}}),
        ("timezoneOffset", -SHIFT, {"timezone": "Australia/Sydney"}),
        ("utc_offset", 3600, {"timezone": "Asia/Tokyo"}),
        ("Zeitverschiebung (min)", 15, BERLIN),
        ("Deviation", "+01:30", BERLIN),
        ("Deviation", "+01:00", BERLIN),
        ("Zone Offset", 1, BERLIN),
    ],
)
def test_what_is_no_offset_of_the_place_moves_no_time(
    tmp_path: Path, column: str, offsets: Any, keys: dict[str, Any]
) -> None:
    clock = pd.date_range("2023-02-01", periods=ROWS, freq="h")
    columns = {"time": clock, column: offsets, "energy (kWh)": loads()}
    if not isinstance(offsets, int | str):
        clock = SYDNEY
        columns["time"] = clock.strftime("%Y-%m-%d %H:%M").to_numpy()
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    exports = read(tmp_path / "a.csv", **keys, stamp="end")
    first = exports.meters["a"].load.index[0]
    zone = {*keys.get("timezones", {}).values()} or {keys["timezone"]}
    assert first == (clock[0] if clock is SYDNEY else clock[0].tz_localize(*zone))
    assert f"UTC offsets in {column!r}" not in exports.report()[0]


@pytest.mark.parametrize("offsets", [-60, -SHIFT])
def test_offsets_that_fit_with_either_sign_do_not_settle_the_place(
    here: Path, offsets: Any
) -> None:
    clock = SYDNEY.strftime("%Y-%m-%d %H:%M")
    columns = {"time": clock, "timezoneOffset": offsets, "energy (kWh)": loads()}
    pd.DataFrame(columns).to_csv("a.csv", index=False)
    with pytest.raises(DataError, match="no UTC offset"):
        recognise([Path("a.csv")], Meters(stamp="end"))


# -- layouts -------------------------------------------------------------------------------------


def test_parts_of_a_meter_in_files_of_its_own_have_its_name(tmp_path: Path) -> None:
    lines, paths = text(hours(), loads()), []
    for folder, part in (("early", lines[:500]), ("late", lines[500:])):
        (tmp_path / folder).mkdir()
        paths.append(tmp_path / folder / "school.csv")
        paths[-1].write_text("\n".join(["t,kWh", *part]))
    same(load(read(*paths, timezone="UTC", join_files=True), "school"), hours(), loads())
    zoned = text(hours(rows=500), loads(500), form="%Y-%m-%d %H:%MZ")
    paths[0].write_text("\n".join(["t,kWh", *zoned]))
    with pytest.raises(DataError, match=r"late/school.csv: the stamps have no UTC offset"):
        read(*paths, join_files=True)


@pytest.mark.parametrize(
    ("column", "is_assumed"),
    [
        ("kWh/hh", False),
        ("kWh/half hour", False),
        ("KWH/hh (per half hour)", False),
        ("Channel 5", True),
    ],
)
def test_files_with_the_same_column_are_meters_named_after_them(column, is_assumed, here, invoke):
    for seed, name in enumerate(("a", "b", "c")):
        rows = text(hours(), loads(seed=seed))
        Path(f"{name}.csv").write_text("\n".join([f"t,{column}", *rows]))
    said = invoke("init", "meters", "a.csv", "b.csv", "c.csv", "--timezone", "UTC").out
    assert [line[0] for line in said.splitlines() if "960 readings" in line] == ["a", "b", "c"]
    assert ("set --join-files if they are parts of one meter" in said) == is_assumed
    data = Study.load(Path("meters.yaml")).data
    table = sources.source_of(data).load(data, "all")["c"]
    np.testing.assert_allclose(table["load"], loads(seed=2))


def test_months_with_the_same_column_are_asked_about_once(here, invoke):
    files = [f"{number}.csv" for number in range(5)]
    for file, lines in zip(files, np.array_split(text(hours(), loads()), 5), strict=True):
        Path(file).write_text("\n".join(["t,shop", *lines]))
    command = ("init", "meters", *files, "--timezone", "UTC")
    head, *questions = invoke(*command, status=2).err.splitlines()
    assert head == "plfl: 1 problem, nothing was written"
    (question,) = questions
    assert "; set --columns load=shop if every file holds one meter, or --join-files" in question
    assert "shop: 960 readings" in invoke(*command, "--join-files").out


def test_dates_stay_in_the_names_of_files_of_which_none_are_joined(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}_2020-02-0{day}.csv" for day, name in ((1, "bank"), (2, "shop"))]
    for path in paths:
        path.write_text("\n".join(["t,kWh", *text(hours(), loads())]))
    for files in (paths, paths[:1]):
        exports, study = recognise(files, Meters(timezone="UTC", join_files=True))
        assert [*exports.meters] == [path.stem for path in files]
        data = Study.parse(study, "study").data
        assert [*sources.source_of(data).load(data, "all")] == [path.stem for path in files]
    paths.append(paths[1].with_name("shop_2020-04-01.csv"))
    later = text(hours("2020-04-01 01:00"), loads())
    paths[2].write_text("\n".join(["t,kWh", *later]))
    assert [*read(*paths, timezone="UTC", join_files=True).meters] == ["bank", "shop"]


METASYS = """Point Name,HALL MTR KWH,,,Point Name,LAB MTR KWH,
Units,kWh,,,Units,kWh,
Average,"1,280,640.8",,,Average,"413,797.9",
TimeStamp,DataValue,Reliability,,TimeStamp,DataValue,Reliability"""
"""The head of a trend report of Metasys, with a table for each point."""


def test_tables_side_by_side_are_meters_named_above_them(tmp_path: Path) -> None:
    """They are registers that are read about the hour, and one ends earlier."""
    rises = np.random.default_rng(0).integers(10, 90, (2, 500))
    stamps = hours(rows=500)
    late = stamps + pd.to_timedelta((np.arange(500) % 4 == 1).astype(int), unit="min")
    total = (1_248_332 + rises[0].cumsum(), 402_118 + rises[1].cumsum())
    lines = [
        f'{a:%m/%d/%Y %H:%M},"{x:,}",Reliable,,'
        + (f'{b:%m/%d/%Y %H:%M},"{y:,}",Reliable' if row < 400 else ",,")
        for row, (a, x, b, y) in enumerate(zip(late, total[0], stamps, total[1], strict=True))
    ]
    (tmp_path / "report.csv").write_text("\n".join([METASYS, *lines]))
    exports = read(tmp_path / "report.csv", timezone="UTC")
    assert "2 tables side by side" in exports.report()[0]
    same(load(exports, "LAB MTR KWH"), stamps[1:400], rises[1, 1:400])
    assert load(exports, "HALL MTR KWH").sum() == pytest.approx(rises[0, 1:].sum())
    np.testing.assert_allclose(load(exports, "HALL MTR KWH"), rises[0, 1:], atol=2)


@pytest.mark.parametrize("seconds", [297.9, 300, 302.1])
def test_a_register_that_is_read_about_every_five_minutes_has_quarter_hours(
    tmp_path: Path, seconds: float
) -> None:
    delays = np.random.default_rng(1).uniform(0, 2, 3000).round(3)
    stamps = pd.Timestamp("2020-02-01 00:01:07") + pd.to_timedelta(
        np.arange(3000) * seconds + delays, unit="s"
    )
    table = pd.DataFrame({"time": stamps, "total (kWh)": loads(3000).cumsum()})
    table.to_csv(tmp_path / "a.csv", index=False)
    (meter,) = read(tmp_path / "a.csv", timezone="UTC").meters.values()
    assert meter.minutes == 15
    assert meter.load.sum() == pytest.approx(loads(3000).sum(), rel=0.01)


@pytest.mark.parametrize("file", ["a.csv", "a.xlsx"])
@pytest.mark.parametrize("head", [["Hall,,Lab,", "Time,kWh,Time,kWh"], ["Time,Hall,Time,Lab"]])
def test_pairs_of_times_and_readings_are_meters(tmp_path: Path, head: list[str], file: str) -> None:
    later = hours("2020-03-01 01:00")
    rows = text(hours(), loads(), later.strftime("%Y-%m-%d %H:%M"), loads(seed=1))
    lines = [*head, *rows]
    if file == "a.csv":
        (tmp_path / file).write_text("\n".join(lines))
    else:
        book = openpyxl.Workbook()
        for line in lines:
            book.active.append(
                [float(x) if re.fullmatch(r"\d\.\d+", x) else x for x in line.split(",")]
            )
        book.save(tmp_path / file)
    exports = read(tmp_path / file, timezone="UTC", unit="kWh", stamp="end")
    same(load(exports, "Hall"), hours(), loads())
    same(load(exports, "Lab"), later, loads(seed=1))


def test_a_table_of_something_else_beside_one_of_loads_is_left_out(tmp_path: Path) -> None:
    clocks = hours().strftime("%Y-%m-%d %H:%M")
    lines = ["Date,Hall (kWh),Date,Outside (°C)", *text(hours(), loads(), clocks, loads(seed=1))]
    (tmp_path / "a.csv").write_text("\n".join(lines), encoding="utf-8")
    exports = read(tmp_path / "a.csv", timezone="UTC", stamp="end")
    assert len(exports.meters) == 1
    same(load(exports), hours(), loads())


@pytest.mark.parametrize(
    ("above", "header", "unit", "left_out"),
    [
        ("", "Time,Consumption (kWh),Time,Feed-in (kWh)", None, "'Feed-in (kWh)' (by its name)"),
        ("", "Time,Energy (kWh),Time,Gas (kWh)", None, "'Gas (kWh)' (by its name)"),
        ("", "Time,Energy (kWh),Time,Outdoor Temperature (C)", None, "Temperature (C)' (by its"),
        ("", "Time,Energy,Time,Temperature", "kWh", "'Temperature' (by its name)"),
        ("Grid import,,Grid export,", "Time,kWh,Time,kWh", None, "'Grid export' (by its name)"),
        ("", "Time,Hall (kWh),Time,Humidity (%)", None, "'Humidity (%)' (%)"),
    ],
)
def test_tables_side_by_side_that_are_no_loads_are_left_out(
    bring: Callable[..., Exports], above: str, header: str, unit: str | None, left_out: str
) -> None:
    clocks = hours().strftime("%Y-%m-%d %H:%M")
    rows = text(hours(), loads(), clocks, loads(seed=1))
    exports = bring("a.csv", [*filter(None, [above]), header, *rows], unit=unit)
    same(load(exports), hours(), loads())
    assert left_out in exports.report()[0]


@pytest.mark.parametrize(
    ("above", "header"),
    [
        ("Actual,,Baseline,", "Time,Value,Time,Value"),
        ("From 2023-03-01,,To 2023-03-14,", "Time,Value,Time,Value"),
        ("", "Time,Measured (kWh),Time,Forecast (kWh)"),
        ("", "Time,Verbrauch,Time,Vorjahr"),
        ("", "Time,2022,Time,2023"),
        ("", "Time,Electricity,Time,Heat"),
    ],
)
def test_tables_side_by_side_whose_names_are_not_those_of_meters_are_asked_about(
    bring: Callable[..., Exports], above: str, header: str
) -> None:
    rows = text(hours(), loads(), hours().strftime("%Y-%m-%d %H:%M"), loads(seed=1))
    with naming(DataError, "2 tables side by side", "such as Meter A and Meter B"):
        bring("a.csv", [*filter(None, [above]), header, *rows], unit="kWh")


def test_names_of_tables_side_by_side_may_have_main_meters(bring: Callable[..., Exports]) -> None:
    names = ["BLDG-A MAIN MTR KWH", "BLDG-A CHILLER MTR KWH", "BLDG-B MAIN MTR KWH"]
    clocks = hours().strftime("%Y-%m-%d %H:%M")
    rows = text(hours(), loads(), *(part for seed in (1, 2) for part in (clocks, loads(seed=seed))))
    exports = bring("a.csv", [",,".join(names) + ",", ",".join(["Time,Value"] * 3), *rows])
    for seed, name in enumerate(names):
        same(load(exports, name), hours(), loads(seed=seed))


def test_tables_side_by_side_without_names_are_asked_about(here, invoke):
    later = hours("2020-03-01 01:00").strftime("%Y-%m-%d %H:%M")
    rows = text(hours(), loads(), later, loads(seed=1))
    Path("a.csv").write_text("\n".join(["Time,kWh,Time,kWh", *rows]))
    said = invoke("init", "meters", "a.csv", "--timezone", "UTC", "--stamp", "end", status=2).err
    assert "has 2 tables side by side" in said and "the line above it" in said
    assert said.endswith("--stamp end --columns timestamp=Time --columns load=kWh\n")
    for number, (first, second) in enumerate((("Time", "kWh"), ("Time (2)", "kWh (2)"))):
        columns = {"timestamp": first, "load": second}
        exports = read(Path("a.csv"), timezone="UTC", stamp="end", columns=columns)
        same(load(exports), hours(f"2020-0{number + 2}-01 01:00"), loads(seed=number))


def test_spreadsheets(tmp_path: Path) -> None:
    frame = pd.DataFrame({"Zeit": hours(), "x": loads(), "y": loads(seed=1)})
    frame.to_excel(tmp_path / "a.xlsx", index=False, startrow=3)
    imported = read(tmp_path / "a.xlsx", timezone="UTC")
    same(load(imported, "y"), hours(), loads(seed=1))
    assert imported.report()[0].endswith("a.xlsx: XLSX, header in line 4, wide, stamps ISO8601")


def test_spreadsheets_need_openpyxl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"time": hours(), "x": loads()}).to_excel(tmp_path / "a.xlsx", index=False)
    monkeypatch.setattr("plfl.data.meters.file_contents.find_spec", lambda name: None)
    with naming(DataError, "a.xlsx: XLSX files need openpyxl; pip install 'plfl[xlsx]'"):
        read(tmp_path / "a.xlsx")


# -- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [["t,A,B", "Unit,MWh,MWh"], ["t,A [MWh],B (MWh)"]])
def test_units_in_a_file_are_those_of_the_readings(bring, lines, tmp_path):
    lines = [*lines, *text(hours(), loads(), loads(seed=1))]
    imported = bring("a.csv", lines)
    assert imported.report()[0].endswith(", in MWh")
    same(load(imported, "A"), hours(), 1000 * loads())
    same(load(imported, "B"), hours(), 1000 * loads(seed=1))
    done = bring("a.csv", lines, unit="kWh").meters["A"].changes
    assert any("MWh" in what and "data.meters.unit" in what for what in done), done


@pytest.mark.parametrize(
    ("form", "options"),
    [
        (lambda v: f"{v:.3f}".replace(".", ","), {}),
        (lambda v: f"{v * 1000:,.1f}", {"unit": "Wh"}),
        (lambda v: f"{v * 1000:,.1f}".translate({44: 46, 46: 44}), {"unit": "Wh"}),
        (lambda v: f"{v * 1000:,.0f}".replace(",", " "), {"unit": "Wh"}),
        (lambda v: f"{v * 1000:,.0f}", {"unit": "Wh", "decimal": "."}),
        (lambda v: f"{v:.3f}".replace(".", ","), {"decimal": ","}),
    ],
)
def test_decimal_commas_and_thousands(bring, form, options):
    lines = text(hours(), ["?"] * ROWS)
    lines = [
        line.replace(",", ";").replace("?", form(value))
        for line, value in zip(lines, loads(), strict=True)
    ]
    same(load(bring("a.csv", ["t;load", *lines], **options)), hours(), loads())


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (['"1,050"', "56.7", '"1,100"'], [1050, 56.7, 1100]),
        (["1.05", '"0,5"', "2.5"], None),
        (['"1,050"', '"2,850"', '"1,100"'], None),
        (["1.050", "2.850", "1.100"], [1.05, 2.85, 1.1]),
        (["850", "1.05", "1.234"], [850, 1.05, 1.234]),
        (["850", "1.050", "12.345"], None),
    ],
)
def test_decimals_are_told_from_thousands(bring, values, expected):
    lines = ["t,load", *text(hours(rows=3), values)]
    if expected is None:
        with pytest.raises(DataError, match=r"line \d: load '.*' may have .*data.meters.decimal"):
            bring("a.csv", lines)
    else:
        same(load(bring("a.csv", lines, unit="kWh")), hours(rows=3), expected)


@pytest.mark.parametrize("least", [0, 1])
def test_one_damaged_number_makes_no_thousands(bring: Callable[..., Exports], least: int) -> None:
    lines = text(hours(), (least + loads() / 100).round(3) + 0.0005)
    lines = [re.sub(r"5$", "", line) for line in lines]  # three digits after each point
    lines[100] = re.sub(r",.*", ",1.234.567", lines[100])
    with naming(DataError, "line 102", "'1.234.567' is not a number (1 such value)"):
        bring("a.csv", ["t,load", *lines], unit="kWh")


def test_a_mark_without_a_digit_has_no_decimal_point(bring: Callable[..., Exports]) -> None:
    lines = [line.replace(",", ";") for line in text(hours(rows=4), ["?"] * 4)]
    cells = ["1,05", "N.D.", "2,5", "0,125"]
    lines = [line.replace("?", cell) for line, cell in zip(lines, cells, strict=True)]
    exports = bring("a.csv", ["t;load", *lines], unit="kWh", missing=["N.D."])
    same(load(exports), hours(rows=4), [1.05, float("nan"), 2.5, 0.125])


def test_names_of_a_header_may_begin_with_a_date(bring: Callable[..., Exports]) -> None:
    header = "time,2023-03-01 meter A,2023-04-02 meter B"
    for keys in ({}, {"header": 1}):
        exports = bring(
            "a.csv", [header, *text(hours(), loads(), loads(seed=1))], unit="kWh", **keys
        )
        same(load(exports, "2023-04-02 meter B"), hours(), loads(seed=1))


def test_a_name_with_no_day_of_the_calendar_dates_no_times(bring: Callable[..., Exports]) -> None:
    clocks = [f"{hour:02}:00,{hour / 8}" for hour in range(24)]
    with naming(DataError, "home_20230231.csv: no date was found in the first"):
        bring("home_20230231.csv", ["time,kWh", *clocks])


def test_registers_that_follow_each_other_are_no_zeros_between_them(
    bring: Callable[..., Exports],
) -> None:
    first, second = loads().astype(object), loads().astype(object)
    first[200:], second[:250] = 0, ""
    exports = bring(
        "a.csv", ["t,H P1,H P2", *text(hours(), first, second)], add=" P[12]$", unit="kWh"
    )
    expected = loads()
    expected[200:250] = np.nan
    same(load(exports, "H"), hours(), expected)


def test_a_table_without_a_header_is_read_or_asked_about(bring: Callable[..., Exports]) -> None:
    lines = text(hours(), loads() / 100)
    for rows in (lines, [f"{number},{line}" for number, line in enumerate(lines)]):
        imported = bring("a.csv", rows, unit="kWh")
        same(load(imported), hours(), loads() / 100)
        assert "no header" in imported.report()[0]
    with naming(DataError, "'column 2', 'column 3' may measure different things"):
        bring("a.csv", text(hours(), loads(), loads(seed=1)), unit="kWh")
    commas = [line.replace(".", ",") for line in lines]
    with naming(DataError, "no header followed by lines with a date was found"):
        bring("a.csv", commas, unit="kWh")


def test_a_log_beside_exports_in_an_archive_is_left_alone(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("school.csv", "\n".join(["t,kWh", *text(hours(), loads())]))
        archive.writestr("download.log", "2023-03-01 00:00:00 INFO fetched school.csv\n")
    exports = read(tmp_path / "a.zip", timezone="UTC", stamp="end")
    same(load(exports, *exports.meters), hours(), loads())


@pytest.mark.parametrize("separator", [";", ","])
def test_a_line_with_a_date_is_no_header(bring: Callable[..., Exports], separator: str) -> None:
    lines = [f"A1{separator}2023/01/{day:02} 01:00{separator}1{separator}269" for day in (8, 9, 10)]
    with pytest.raises(DataError, match="no header followed") as refusal:
        bring("a.csv", lines)
    assert "data.meters.header" not in str(refusal.value)
    with pytest.raises(DataError, match="line 1 has a date, so it is no header"):
        bring("a.csv", lines, header=1)


def write_days(names: str, folder: Path, values: np.ndarray, header: str) -> None:
    """Files of days with ends of hours, 01:00 to 00:00, and no dates but those of their names."""
    for number, day in enumerate(pd.date_range("2020-02-01", periods=len(values) // 24)):
        rows = zip(hours(rows=24).strftime("%H:%M"), values[24 * number :][:24], strict=True)
        lines = [header, *(f"{clock},{value}" for clock, value in rows)]
        (folder / f"{day:{names}}.csv").write_text("\n".join(lines))


def test_days_in_files_with_dates_are_of_one_meter(here: Path, invoke: Callable[..., Any]) -> None:
    values = loads(24 * 15)
    write_days("home_%Y_%m_%d", here, values, "Time,kWh,Cost in Euro,")
    said = invoke("init", "meters", here, "--timezone", "UTC").out
    assert "the date of the file's name in all rows" in said
    assert "home: 360 readings" in said
    assert "differ in dates only and whose readings follow each other" in said
    data = Study.load(Path("meters.yaml")).data
    table = sources.source_of(data).load(data, "all")["home"]
    np.testing.assert_allclose(table["load"], values)
    assert table.index[0] == hours()[0]


def test_days_in_files_named_by_dates_are_of_one_meter(here: Path) -> None:
    """A register that is read at both midnights, as meterN writes it, beside production."""
    days, total = 15, loads().cumsum().round(3)
    (folder := here / "data" / "home").mkdir(parents=True)
    for day in range(days):
        clocks = [f"{hour % 24:02}:00" for hour in range(25)]
        rows = zip(clocks, total[24 * day : 24 * day + 25], total[::-1], strict=False)
        lines = [f"{clock},{count:.3f},{other:.3f}" for clock, count, other in rows]
        name = (pd.Timestamp("2020-02-01") + pd.Timedelta(days=day)).strftime("%Y%m%d.csv")
        (folder / name).write_text(
            "\n".join(["Time,Conso(kWh),Prod(kWh)", *lines]), encoding="utf-8"
        )
    imported = read(here / "data", timezone="UTC", cumulative=True)
    assert [*imported.meters] == ["home"]
    (meter,) = imported.meters.values()
    same(meter.load, hours(rows=24 * days), loads()[1 : 24 * days + 1])


def test_a_log_of_a_register_that_is_read_about_each_hour(bring: Callable[..., Exports]) -> None:
    """As FHEM writes it."""
    minutes = np.random.default_rng(0).integers(0, 300, ROWS) / 60
    stamps = hours() + pd.to_timedelta((minutes * 60).round(), unit="s")
    counts = 100 + 1.2 * (np.arange(ROWS) + minutes / 60)
    times = stamps.strftime("%Y-%m-%d_%H:%M:%S")
    lines = [f"{time} kWh {count:.3f}" for time, count in zip(times, counts, strict=True)]
    series = load(bring("a.log", lines))
    assert len(series) == ROWS - 2
    assert series.round(2).eq(1.2).all()


def test_a_dated_file_of_a_joined_study_is_of_its_meter(tmp_path: Path) -> None:
    values = loads(24 * 15)
    write_days("home_%Y_%m_%d", tmp_path, values, "Time,kWh")
    study_keys = recognise([tmp_path], Meters(timezone="UTC"))[1]["data"]["meters"]
    last_file = max(tmp_path.iterdir())
    tables, problems = read_files([last_file], Meters.model_validate(study_keys), by_file=False)
    assert not problems and [*tables] == ["home"]
    np.testing.assert_allclose(tables["home"]["load"], values[-24:])


def test_files_with_dates_are_meters_of_their_own_if_told_so(
    here: Path, invoke: Callable[..., Any]
) -> None:
    write_days("home_%Y_%m_%d", here, loads(48), "Time,kWh")
    said = invoke("init", "meters", here, "--timezone", "UTC", "--no-join-files").out
    assert "home_2020_02_01: 24 readings" in said and "home_2020_02_02: 24 readings" in said


def test_numbers_of_meters_that_are_like_dates_stay_in_their_names(tmp_path: Path) -> None:
    names = ["meter200101", "meter200102"]
    for seed, name in enumerate(names):
        lines = ["t,kWh", *text(hours(), loads(seed=seed))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    study_keys = recognise([tmp_path], Meters(timezone="UTC"))[1]["data"]["meters"]
    files = sorted(tmp_path.iterdir())
    tables, _ = read_files(files, Meters.model_validate(study_keys), by_file=False)
    assert [*tables] == names


def test_a_column_names_the_meter_of_files_with_dates(tmp_path: Path) -> None:
    for number, month in enumerate(("2020-02", "2020-03")):
        part = slice(480 * number, 480 * (number + 1))
        lines = ["t,north (kWh)", *text(hours()[part], loads()[part])]
        (tmp_path / f"data_{month}.csv").write_text("\n".join(lines))
    (series,) = read(tmp_path, timezone="UTC").meters.items()
    assert series[0] == "north" and len(series[1].load) == ROWS


@pytest.mark.parametrize(
    "name",
    ["home_%Y_%m", "home", "%Y%m%d_120000"],  # no day, no date, written before the last row
)
def test_times_of_day_without_a_certain_date_are_refused(name: str, tmp_path: Path) -> None:
    write_days(name, tmp_path, loads(24), "Time,kWh")
    with pytest.raises(DataError, match="no date was found"):
        read(tmp_path, timezone="UTC")


def test_times_of_day_over_midnight_are_refused(tmp_path: Path) -> None:
    lines = ["Time,kWh", *(f"{clock % 24}:00,1.{clock}" for clock in range(18, 40))]
    (tmp_path / "home_2020-02-01.csv").write_text("\n".join(lines))
    with pytest.raises(DataError, match="no date was found"):
        read(tmp_path, timezone="UTC")


# -- times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        *("%Y-%m-%dT%H:%M:%S", "%-m/%-d/%Y %-H:%M", "%d/%m/%Y %H:%M", "%d.%m.%Y %H:%M:%S"),
        *("%m/%d/%y %I:%M %p", "%Y%m%d%H", "%d-%b-%Y %H:%M", "%Y/%m/%d %H:%M"),
        *("%d%b%y:%H:%M:%S", "%Y-%m-%d %H:%MZ", "%d.%m.%Y %H:%M +00:00", "%b %d %Y %I:%M%p"),
        *('"%-m/%-d/%y, %-I:%M %p"', '"%d/%m/%Y, %H:%M:%S"'),
    ],
)
def test_formats_of_stamps_are_found_out(bring: Callable[..., Exports], form: str) -> None:
    lines = text(hours(), loads(), form=form)
    same(load(bring("a.csv", ["time,load", *lines])), hours(), loads())


def test_stamps_are_parsed_to_find_their_format_and_to_read_them(
    bring: Callable[..., Exports], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As text of Python, of which pandas would make Arrow's, and back, for each pattern."""
    kinds, parse = [], stamps._parse_times

    def parse_times(cells: pd.Series, form: str) -> pd.Series:
        kinds.extend([cells.dtype] * (len(cells) == ROWS))
        return parse(cells, form)

    monkeypatch.setattr(stamps, "_parse_times", parse_times)
    bring("a.csv", ["time,load", *text(hours("2021-02-01 01:00"), loads(), form="%d.%m.%Y %H:%M")])
    assert kinds == [object, object]


def test_stamps_of_whole_days_may_be_starts(bring: Callable[..., Exports], tmp_path: Path) -> None:
    lines = ["t,load", *text(hours("2020-02-01 00:00"), loads())]
    for keys, first in (({}, 1), ({"stamp": "end"}, 0), ({"stamp": "start"}, 1)):
        imported = bring("a.csv", lines, **keys)
        assert load(imported).index[0].hour == first
        assert any("data.meters.stamp" in line for line in imported.report()) == (not keys)


def test_padding_of_the_skipped_hour_is_no_reading(bring: Callable[..., Exports]) -> None:
    # Every day has 24 rows: the hour from 2 to 3 is padded in spring, and once there in autumn.
    wall = pd.date_range("2021-01-01", "2021-12-31", freq="h")
    values = loads(len(wall))
    skipped = wall == "2021-03-28 02:00"
    values[skipped] = 0
    lines = ["t,load", *text(wall, values)]
    imported = bring("a.csv", lines, timezone="Europe/Berlin", stamp="start")
    series = load(imported)
    done = imported.meters["a"].changes
    assert "padding of the hour that clocks skip dropped" in done and [*done.values()] == [1] * 4
    assert series.sum() == pytest.approx(values.sum())
    # 01:00 and 03:00 local time follow each other; after 02:00 summer time there is a gap.
    assert series["2021-03-28 01:00+00:00"] == values[int(skipped.argmax()) - 1]
    assert series["2021-03-28 02:00+00:00"] == values[int(skipped.argmax()) + 1]
    assert series[series.isna()].index == [pd.Timestamp("2021-10-31 02:00+00:00")]


def test_a_reading_in_the_skipped_hour_refutes_the_zone(bring: Callable[..., Exports]) -> None:
    """In a wide file all meters have the same stamps, so the problem is listed once."""
    lines = ["t,a,b", *text(hours("2021-03-01 01:00"), loads(), loads(seed=1))]
    with pytest.raises(DataError, match=r"^1 problem,.*\n.*Etc/GMT-1[^\n]*$"):
        bring("a.csv", lines, timezone="Europe/Berlin", stamp="start")


# -- readings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("minutes", "shortest"), [(1, 15), (5, 15), (10, 30), (20, 60)])
def test_short_intervals_are_summed(
    bring: Callable[..., Exports], minutes: int, shortest: int
) -> None:
    stamps = pd.date_range("2020-01-01", periods=24 * 60, freq=f"{minutes}min")
    power = loads(len(stamps))
    lines = ["t,load", *text(stamps, power)]
    for keys, length in (({}, shortest), ({"interval": 60}, 60)):
        exports = bring("a.csv", lines, unit="kW", stamp="start", **keys)
        energy = power.reshape(-1, length // minutes).mean(axis=1) * length / 60
        ends = pd.date_range("2020-01-01", periods=len(energy) + 1, freq=f"{length}min")[1:]
        same(load(exports), ends, energy)
        assert f"summed to intervals of {length} minutes: {len(energy)}" in exports.report()[-1]


def test_short_intervals_that_do_not_make_longer_ones_are_refused(
    bring: Callable[..., Exports],
) -> None:
    ends = pd.date_range("2020-01-01", periods=24 * 60, freq="10min")
    with naming(DataError, "are 10 minutes apart and do not make intervals of 15", "30 or 60"):
        bring("a.csv", ["t,load", *text(ends, loads(len(ends)))], unit="kW", interval=15)


@pytest.mark.parametrize("minutes", [25, 45])
def test_an_interval_that_does_not_divide_the_hour_has_a_remedy(
    bring: Callable[..., Exports], minutes: int
) -> None:
    ends = pd.date_range("2020-02-01", periods=99, freq=f"{minutes}min")
    remedy = "leave_out: [a], or export it with readings every 15, 30 or 60 minutes"
    with naming(DataError, f"are {minutes} minutes apart; ", remedy):
        bring("a.csv", ["t,load", *text(ends, loads(99))], unit="kWh", stamp="end")


def test_an_hour_with_a_missing_part_is_a_gap(bring: Callable[..., Exports]) -> None:
    stamps = pd.date_range("2020-01-01 00:15", periods=400, freq="15min")
    lines = text(stamps, loads(400))
    del lines[101]
    series = load(bring("a.csv", ["t,kWh", *lines], interval=60))
    assert list(series.index[series.isna()]) == [pd.Timestamp("2020-01-02 02:00+00:00")]


@pytest.mark.parametrize(("rule", "value"), [("first", 3.0), ("last", 5.0), ("mean", 4.0)])
def test_different_duplicates_need_a_rule(bring, rule, value):
    lines = text(hours(), loads())
    when = lines[30].partition(",")[0]
    lines[30:31] = [f"{when},3", f"{when},5"]
    lines.insert(10, lines[10])
    with naming(DataError, "line 34", "line 33", "07:00:00 (1 such time)", "first, last or mean"):
        bring("a.csv", ["t,load", *lines])
    imported = bring("a.csv", ["t,load", *lines], duplicates=rule)
    assert load(imported).iloc[30] == value
    assert imported.meters["a"].changes == {
        "equal duplicates dropped": 1,
        f"times with different readings ({rule} kept)": 1,
    }


def test_a_missing_reading_is_no_duplicate(bring: Callable[..., Exports]) -> None:
    """As where clocks go forward, in the last columns of a table with a row for each day."""
    lines = text(hours(), loads())
    lines.insert(30, lines[30].partition(",")[0] + ",")
    assert not bring("a.csv", ["t,load", *lines]).meters["a"].changes
    lines.insert(10, lines[10])
    changes = bring("a.csv", ["t,load", *lines]).meters["a"].changes
    assert changes == {"equal duplicates dropped": 1}


@pytest.mark.parametrize(("stamp", "first"), [("start", 0), ("end", 1)])
def test_the_days_of_a_meter_are_those_of_its_file(
    bring: Callable[..., Exports], stamp: str, first: int
) -> None:
    """Summer time at the beginning, a last hour that ends at midnight, and a gap."""
    zone = "Australia/Sydney"
    stamps = pd.date_range("2012-03-26", "2012-05-01", freq="h", tz=zone, inclusive="left")
    lines = text((stamps + pd.Timedelta(hours=first)).tz_localize(None), loads(len(stamps)))
    gap = next(i for i, line in enumerate(lines) if line.startswith("2012-03-28 10:00"))
    del lines[gap : gap + 2]
    meter = bring("a.csv", ["t,kWh", *lines], timezone=zone, stamp=stamp).meters["a"]
    assert "kWh, 2012-03-26 to 2012-04-30; " in meter.summary
    assert meter.summary.endswith(f"longest gap: 2 hours from 2012-03-28 {10 - first:02}:00")


def test_the_hour_that_clocks_repeat_waits_for_the_zone(tmp_path: Path) -> None:
    stamps = pd.date_range("2012-03-26", periods=ROWS, freq="h", tz="Australia/Sydney")
    lines = ["t,kWh", *text(stamps.tz_localize(None), loads())]
    (tmp_path / "a.csv").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(DataError) as error:
        read(tmp_path)
    assert "1 problem, " in str(error.value) and "no UTC offset" in str(error.value)
    assert load(read(tmp_path, timezone="Australia/Sydney")).notna().all()


def test_only_the_chosen_span_is_written(bring: Callable[..., Exports]) -> None:
    imported = bring(
        *("a.csv", ["t,load", *text(hours(), loads())]),
        **{"timezone": "Europe/Berlin", "since": "2020-02-03", "until": "2020-02-04T06:00"},
    )
    local = load(imported).tz_convert("Europe/Berlin").index
    assert local[0] == pd.Timestamp("2020-02-03 01:00", tz="Europe/Berlin")
    assert local[-1] == pd.Timestamp("2020-02-04 06:00", tz="Europe/Berlin")
    assert imported.meters["a"].changes["outside since and until"] == ROWS - 30


@pytest.mark.parametrize(("day", "first"), [("2020-03-29", "02:00"), ("2020-10-25", "01:00")])
def test_a_span_may_begin_and_end_when_clocks_change(tmp_path, bring, day: str, first: str) -> None:
    """Half past two does not exist in spring. In autumn it is there twice: both are in the span."""
    lines = text(hours(f"{day} 00:00", 24), loads(24), form="%Y-%m-%d %H:%MZ")
    for option, ends in (("since", (first, "23:00")), ("until", ("00:00", "01:00"))):
        zone = {"timezone": "Europe/Berlin", "stamp": "end", option: f"{day}T02:30"}
        index = load(bring("a.csv", ["t,load", *lines], **zone)).index
        assert (f"{index[0]:%H:%M}", f"{index[-1]:%H:%M}") == ends


def test_meters_may_have_zones_of_their_own(tmp_path: Path) -> None:
    for name in ("north-1", "north-2", "south"):
        lines = ["t,load", *text(hours(), loads())]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines), encoding="utf-8")
    zones = {"north*": "Europe/Berlin", "south": "Etc/GMT+5"}
    imported, study = recognise([tmp_path], Meters(timezones=zones))
    assert load(imported, "north-2").index[0].hour == 0
    assert load(imported, "south").index[0].hour == 6
    tables = tables_of(study)
    # The model sees each meter's own time of day, in standard time.
    assert all(table.index[0] == hours()[0] for table in tables.values())
    with pytest.raises(DataError, match=r"there is no meter 'west'"):
        read(tmp_path, timezones={"west": "UTC"})


def tables_of(study: dict[str, Any]) -> Mapping[str, pd.DataFrame]:
    """What a study reads."""
    data = Study.parse(study, "study.yaml").data
    return sources.source_of(data).load(data, "all")


def test_further_columns_become_inputs(tmp_path: Path) -> None:
    lines = text(hours(), loads(), np.arange(ROWS), 32.0 + np.arange(ROWS) % 18)
    lines[7] = lines[7].replace(",7,", ",-9999,")
    del lines[20:30]
    (tmp_path / "a.csv").write_text("\n".join(["t,load,GHI,Ta", *lines]))
    keys = {"columns": {"radiation": "GHI", "temperature": "Ta"}, "missing": ["-9999"]}
    keys |= {"units": {"radiation": "W/m²", "temperature": "°F"}, "timezone": "UTC"}
    _, study = recognise([tmp_path / "a.csv"], Meters.model_validate(keys))
    assert study["data"]["features"] == ["load", "radiation", "temperature"]
    assert study["data"]["meters"].items() >= keys.items()
    (table,) = tables_of(study).values()
    assert list(table) == study["data"]["features"]
    np.testing.assert_allclose(table["temperature"].iloc[:20], (np.arange(20) % 18) / 1.8)
    assert table["radiation"].iloc[7] == 6, "one missing value is filled"
    assert table["radiation"].iloc[20:30].isna().all()
    assert table["radiation"].iloc[30] == 30


def test_inputs_are_means_over_longer_intervals(tmp_path: Path) -> None:
    stamps = pd.date_range("2020-01-01 00:15", periods=400, freq="15min")
    lines = text(stamps, loads(400), np.arange(400) % 4)
    (tmp_path / "a.csv").write_text("\n".join(["t,kWh,people", *lines]), encoding="utf-8")
    keys = {"timezone": "UTC", "interval": 60, "columns": {"occupancy": "people"}}
    imported = read(tmp_path / "a.csv", **keys)
    np.testing.assert_array_equal(imported.meters["a"].inputs["occupancy"], 1.5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            "--timezone Moon --since 2017-13-01 --max-gap -1 --encoding hex --add (",
            ["--timezone: 'Moon'", "--since: '2017-13-01'", "--max-gap: ", "--encoding", "--add"],
        ),
        (
            "--columns temperature=y --columns weekday=x --units temperature=°R",
            ["--columns: 'weekday'", "'°R' is unknown"],
        ),
    ],
)
def test_options_that_cannot_be_followed_are_all_told(given, told, tmp_path, invoke):
    problems = invoke("init", "meters", tmp_path, *given.split(), status=2).err.splitlines()
    for words in told:
        assert sum(words in problem for problem in problems) == 1, (words, problems)
    assert list(tmp_path.iterdir()) == []


def test_times_that_are_the_same_in_all_rows_are_no_stamps(bring: Callable[..., Exports]) -> None:
    fields = text(hours("2020-02-01 00:00"), hours().strftime("%Y-%m-%d %H:%M"), loads())
    contract = "2019-01-01 00:00,2025-01-01 00:00"
    header = "contract.start,contract.end,start,end,kWh"
    imported = bring("a.csv", [header, *(f"{contract},{line}" for line in fields)])
    same(load(imported), hours(), loads())


def test_the_date_of_all_rows_beside_times_of_day_is_theirs(bring: Callable[..., Exports]) -> None:
    day, received = hours(rows=23), hours("2020-02-01 02:00", rows=23)
    fields = text(day, day.strftime("%H:%M"), loads(23), received, form="%Y-%m-%d")
    with naming(DataError, "the column of the time cannot be determined", "time_of_day"):
        bring("a.csv", ["Date,Time,kWh,arrival", *fields])


def test_the_meter_of_both_directions_is_no_feed_in(bring: Callable[..., Exports]) -> None:
    name = "Import/Export Meter- {} - Energy (kWh)"
    header = f"time,{name.format('Import')},{name.format('Export')}"
    imported = bring("a.csv", [header, *text(hours(), loads(), loads(seed=1))])
    (series,) = imported.meters.values()
    same(series.load, hours(), loads())


def test_loads_below_zero_by_rounding_are_zero(bring: Callable[..., Exports]) -> None:
    values = loads()
    values[[3, 8]] = -4e-13
    same(load(bring("a.csv", ["t,kWh", *text(hours(), values)])), hours(), values.clip(0))
    values[8] = -1e-6
    with naming(DataError, "1 negative value, first -1e-06"):
        bring("a.csv", ["t,kWh", *text(hours(), values)])


# -- problems ------------------------------------------------------------------------------------


def test_all_problems_of_all_files_are_told_and_nothing_is_written(bring, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    good = text(hours(), loads())
    (raw / "b.csv").write_text("\n".join(["t,load", *good[:20], "x,1kWh", *good[21:]]))
    (raw / "c.csv").write_text("no table")
    (raw / "e.csv").touch()
    (raw / "d.csv").write_text("\n".join(["t,load", *text(hours(), [1] * ROWS)]))
    with pytest.raises(DataError) as raised:
        bring("a.csv", ["t,load", *good])
    head, *problems = str(raised.value).splitlines()
    assert head == "5 problems, nothing was written"
    for message in (
        "b.csv: line 22: 'x' is not a time in the format ISO8601",
        "b.csv: line 22: load '1kWh' is not a number",
        "c.csv: no date was found in the first 300 lines",
        "e.csv: is empty",
        "d: all values are 1 kWh; data.meters.leave_out: [d]",
    ):
        assert sum(message in problem for problem in problems) == 1, (message, problems)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw"]


def test_numbered_meters_are_not_the_hours_of_a_day(bring: Callable[..., Exports]) -> None:
    columns = [loads(seed=number) for number in range(24)]
    header = ",".join(f"m{number}" for number in range(1, 25))
    imported = bring("a.csv", [f"t,{header}", *text(hours(), *columns)])
    same(load(imported, "m24"), hours(), columns[23])


def test_meters_are_chosen_by_name(bring: Callable[..., Exports]) -> None:
    lines = ["t,north_1,north_2,south", *text(hours(), loads(), loads(seed=1), ["0"] * ROWS)]
    with pytest.raises(DataError, match=r"data.meters.only: there is no meter 'west"):
        bring("a.csv", lines, only=["west*"])
    imported = bring("a.csv", lines, only=["north*"], leave_out=["*_2"])
    assert list(imported.meters) == ["north_1"]


def test_files_of_one_column_are_named_by_load(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        lines = text(hours(), loads(seed=seed), loads(seed=seed + 9))
        (tmp_path / f"{name}.csv").write_text("\n".join(["t,hall,gym", *lines]))
    raw = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with naming(DataError, "set data.meters.columns: {load: hall} if every file holds one meter"):
        read(*raw, timezone="UTC")
    imported = read(*raw, timezone="UTC", columns={"load": "hall"})
    same(load(imported, "b"), hours(), loads(seed=1))
    assert list(imported.meters) == ["a", "b"]


def test_different_intervals_need_the_option(bring: Callable[..., Exports], tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    stamps = pd.date_range("2020-02-01", periods=400, freq="15min")
    (tmp_path / "raw" / "b.csv").write_text("\n".join(["t,kWh", *text(stamps, loads(400))]))
    lines = ["t,kWh", *text(hours(), loads())]
    with pytest.raises(DataError, match=r"different intervals; set data.meters.interval: 60"):
        bring("a.csv", lines)
    assert {meter.minutes for meter in bring("a.csv", lines, interval=60).meters.values()} == {60}


# -- the guide and the command -------------------------------------------------------------------


def test_the_guide_shows_what_happens(here, capsys, invoke):
    section = GUIDE.read_text(encoding="utf-8").partition("## Other files")[2].partition("## ")[0]
    export, first, refused, second, printed = re.findall(r"```\n(.*?)```", section, re.S)
    write_export(Path("export.csv"), export)
    assert invoke(*shlex.split(first)[1:], status=2).err == refused
    *commands, check = second.splitlines()
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out == printed
    study = Study.load("meters.yaml")
    assert (study.name, study.data.clients) == ("meters", 2)
    assert (study.windows.look_back, study.windows.horizons) == (96, 96)
    assert "2 meters, load in kWh per 15 min" in invoke(*shlex.split(check)[1:]).out
    assert main(shlex.split(commands[0])[1:]) == 2, "a study is never replaced"
    assert "--name" in capsys.readouterr().err


def write_export(path: Path, beginning: str) -> None:
    """The file of which the guide shows the beginning: half a year of two meters."""
    utc = pd.date_range("2023-01-01 05:00", "2023-07-01 03:45", freq="15min", tz="UTC")
    day = np.arange(len(utc)) % 96
    office = 3 + day * 0.03 + (np.arange(len(utc)) % 7) * 0.01
    school = office[::-1] - 0.5
    school[12400:12402] = -9999
    local = utc.tz_convert("America/New_York").strftime("%-m/%-d/%Y %H:%M")
    rows = [
        f"{when};{a:.2f};{b:.2f}".replace(".", ",").replace("-9999,00", "-9999")
        for when, a, b in zip(local, office, school, strict=True)
    ]
    head = beginning.splitlines()[:3]
    path.write_text("\n".join([*head, *rows[::-1]]) + "\n", encoding="utf-8")
    assert path.read_text(encoding="utf-8").startswith(beginning)


def test_meters_with_few_readings_are_forecast_without_a_study(here, invoke):
    Path("short.csv").write_text("\n".join(["at,x", *text(hours(rows=200), loads(200))]))
    keys = ["--timezone", "UTC", "--stamp", "end"]
    said = invoke("init", "meters", "short.csv", *keys).out
    assert "plfl forecast short.csv --kind homes" in said
    Path("long.csv").write_text("\n".join(["at,y", *text(hours(rows=400), loads(400))]))
    said = invoke("init", "meters", "short.csv", "long.csv", *keys, "--name", "both").out
    assert "all meters have less than two weeks" not in said
    assert "x: takes no part, with less than two weeks of readings" in said


@pytest.mark.parametrize(
    ("header", "columns", "tried"),
    [
        ("begun,read,x", [hours("2020-02-01", 300), hours(rows=300), loads(300)], ["--columns"]),
        ("at,place,x,y", [hours(rows=300), ["a"] * 300, loads(300), loads(300, 1)], []),
        ("at,x", [hours(rows=100).strftime("%d/%m/%Y %H:%M"), loads(100)], ["--date-format"]),
        ("at,x", [hours(rows=300).append(hours(rows=9)), loads(309)], ["--duplicates"]),
        ("at,x", [hours(rows=300), [*loads(299), "gone"]], ["--missing"]),
    ],
)
def test_each_problem_has_an_option_that_works_as_it_is_printed(
    header, columns, tried, here, invoke
):
    rows = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    Path("a.csv").write_text("\n".join([header, *rows]))
    command = ["init", "meters", "a.csv"]
    said = ""
    for option in [*tried, "--timezone"]:
        said = invoke(*command, status=2).err
        command += shlex.split(re.findall(rf"{option}[ =](?:'[^']*'|[^\s;,]+)", said)[0])
    invoke(*command, *(["--stamp", "end"] if "--stamp" in said else []))
