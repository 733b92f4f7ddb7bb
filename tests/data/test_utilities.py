"""Exports as utilities write them go in at the first command, with the right energy, or are refused
in one line that says what to do."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.config.meters import Meters
from plfl.data.meters import cleaning, column_roles, numbers, quantities
from plfl.data.meters.exports import Exports
from plfl.first_study.meters import recognise
from tests.helpers import utilities
from tests.helpers.refusals import naming

HOURS = pd.date_range("2023-01-10 01:00", periods=24 * 40, freq="h")
LOADS = np.random.default_rng(0).uniform(1, 2, len(HOURS)).round(3)


def read(path: Path, **keys: Any) -> Exports:
    return recognise([path], Meters.model_validate({"timezone": "UTC", **keys}))[0]


def write(path: Path, **columns: Any) -> Path:
    """A table of hours with these columns."""
    pd.DataFrame({"time": HOURS.strftime("%Y-%m-%d %H:%M"), **columns}).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("form", utilities.FORMS)
def test_every_form_is_read(form: str, tmp_path: Path) -> None:
    *_, minutes, zone, keys = utilities.FORMS[form]
    (meter,) = read(utilities.write(tmp_path, form), timezone=zone, **keys).meters.values()
    ends = utilities.starts(minutes, zone).tz_convert("UTC") + pd.Timedelta(minutes=minutes)
    missing = len(ends) - len(meter.load)
    assert missing == ("cumulative" in keys)
    np.testing.assert_array_equal(meter.load.index, ends[missing:])
    # Registers have three decimals, and so do their differences.
    within = 2.1e-3 if missing else 1e-9
    np.testing.assert_allclose(meter.load, utilities.loads(minutes)[missing:], atol=within)


def test_archives_are_read(tmp_path: Path) -> None:
    (path := tmp_path / "a.csv").write_bytes(utilities.zipped(utilities.octopus()))
    exports = read(path)
    assert exports.meters["a"].load.sum() == pytest.approx(utilities.loads(30).sum())
    with naming(DataError, "a.csv/export/b.csv", "has a header and no reading yet"):
        path.write_bytes(utilities.zipped(["time,b"], "b.csv"))
        read(path)
    with naming(DataError, "a.csv: is a zip archive of 'export/b.pdf'", "unpack"):
        path.write_bytes(utilities.zipped([], "b.pdf"))
        read(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"/>', "XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a x="http://naesb.org/espi">&b;</a>', "entities"),
        ("<html><table><tr><td>1</td></tr></table></html>", "XML"),
        ("%PDF-1.4", "PDF"),
        ('{"readings": []}', "JSON"),
        ("100,NEM12,202301111534,MDP1,R\n200,6,E1,1,E1,N1,0,kWh,30,\n300,20230101,0.2", "line 3"),
        *(
            (
                f"100,NEM12,202301111534,MDP1,R\n200,6,E1,1,E1,N1,0,kWh,{n},\n300,20230101,1",
                "line 2",
            )
            for n in (0, 50, -30)
        ),
        ("time,load\n2024-01-01 00:15,1.5\n2024-01-01 00:15,1.5\n", "fewer than two readings"),
        (f"time,{','.join(map(str, range(40_000)))}\n", "40001 columns"),
    ],
)
def test_other_files_are_named(content: str, words: str, tmp_path: Path) -> None:
    (path := tmp_path / "a.csv").write_text(content)
    with naming(DataError, "a.csv", words) as caught:
        read(path)
    assert len(str(caught.value).splitlines()) == 2  # the first counts the problems


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *(("Valeur (en Kw)", "kW"), ("kw", "kW"), ("Usage_KW", "kW"), ("KWH", "kWh")),
        *(("Active energy Wh (A)", "Wh"), ("load [MWh]", "MWh"), ("Verbrauch in W", "W")),
        *(("kWh/h", "kW"), ("Wing W", None), ("A", None), ("m3", None)),
        *(("hall", None), ("WH-1", None)),
        *(("Outdoor temp [°C]", "°C"), ("Gas m3", "m3"), ("Voltage (V)", "V"), ("kVArh", "kVArh")),
        *(("usage (watts)", "W"), ("Watt", "W"), ("Demand (kilowatts)", "kW"), ("Watson", None)),
        ("load W", "W"),
        *(("kilowatt hours", "kWh"), ("Watt-hours", "Wh"), ("Main W", None)),
        *(("Price EUR/kWh", "EUR/kWh"), ("Energie / kWh", "kWh"), ("kWh/m2", "kWh/m2")),
        *(("cents_per_kwh", "cents per kwh"), ("Hinta (snt/kWh)", "snt/kWh"), ("OAT degF", "degF")),
    ],
)
def test_the_unit_in_a_name(name: str, unit: str | None) -> None:
    assert quantities.unit_of(name) == unit


def test_columns_that_are_no_loads_are_left_out(tmp_path: Path) -> None:
    others = {"out [°C]": LOADS, "Gas m3": LOADS, "EUR/kWh": LOADS, "V (V)": LOADS, "temp": LOADS}
    others |= dict.fromkeys(["Humidity %", "Voltage L1", "Temp_out", "PF", "battery_%"], LOADS)
    rows = {"Nr": np.arange(len(HOURS))[::-1], "": np.arange(len(HOURS)), "NOTES": ""}
    exports = read(write(tmp_path / "a.csv", **{"Main kWh": LOADS}, **others, **rows))
    assert list(exports.meters) == ["a"]
    np.testing.assert_array_equal(exports.meters["a"].load, LOADS)
    assert "'out [°C]' (°C)" in exports.report()[0]
    with naming(
        DataError, "no column of loads", "'Gas m3' (m3)", "data.meters.columns: {load: Gas m3}"
    ):
        read(write(tmp_path / "a.csv", **{"Gas m3": LOADS}))
    gas = read(write(tmp_path / "a.csv", **others), columns={"load": "Gas m3"})
    assert gas.meters["a"].load.sum() == pytest.approx(LOADS.sum())


def test_meters_beside_each_other_are_read_like_each_alone(tmp_path: Path) -> None:
    """Clocks skip an hour, whose rows are padding, and repeat one, which the file has once."""
    walls = pd.date_range("2023-03-01", "2023-11-20", freq="h")
    loads = np.random.default_rng(1).uniform(1, 2, (2, len(walls))).round(3)
    loads[:, walls == "2023-03-12 02:00"] = 0
    table = pd.DataFrame({"time": walls.strftime("%Y-%m-%d %H:%M"), "hall": loads[0]})
    table.assign(shop=loads[1]).to_csv(both := tmp_path / "both.csv", index=False)
    table.assign(hall=loads[1]).to_csv(alone := tmp_path / "alone.csv", index=False)
    keys = {"timezone": "America/New_York", "unit": "kWh", "stamp": "start"}
    (meter,) = read(alone, **keys).meters.values()
    pd.testing.assert_series_equal(read(both, **keys).meters["shop"].load, meter.load)


@pytest.mark.parametrize("stamp", ["start", "end"])
def test_meters_with_equal_gaps_are_read_like_each_alone(stamp: str, tmp_path: Path) -> None:
    """After, or before, gaps of a quarter one of them has their energy, and one is a register."""
    loads = np.random.default_rng(1).uniform(1, 2, (5, 960)).round(3)
    loads[2, 101::100] *= 5
    loads[3, 99::100] *= 5
    loads[4] = loads[4].cumsum()
    cells = np.where(np.arange(960) % 100 == 0, "Null", loads.astype(str))
    cells[:, -1] = ""
    quarters = pd.date_range("2023-01-10 00:15", periods=960, freq="15min")
    table = pd.DataFrame({"time": quarters, **dict(zip("abcde", cells, strict=True))})
    table.to_csv(wide := tmp_path / "wide.csv", index=False)
    keys = {"unit": "kWh", "stamp": stamp}
    with naming(DataError, "1 problem", ": e: the readings never decrease"):
        read(wide, **keys)
    table.drop(columns="e").to_csv(wide, index=False)
    meters = read(wide, **keys).meters
    for name in "abcd":
        table[["time", name]].to_csv(alone := tmp_path / f"{name}.csv", index=False)
        (meter,) = read(alone, **keys).meters.values()
        pd.testing.assert_series_equal(meters[name].load, meter.load)
        assert meters[name].changes == meter.changes
    doubtful = meters["d" if stamp == "start" else "c"]
    assert doubtful.changes["readings beside a gap that may hold its energy, left out"] == 9
    for name, meter in read(wide, **keys, drop_gap_sums=False).meters.items():
        assert meter.load.notna().sum() == table[name].ne("Null").sum() - 1


def test_thousands_of_meters_are_cleaned_once_for_each_form_of_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = np.random.default_rng(1).uniform(1, 2, (4, 2000)).round(3)
    cells = np.where(np.add.outer(range(4), range(2000)) % 5, loads.astype(str), "n/a")
    table = pd.DataFrame(cells).add_prefix("meter ")
    table.insert(0, "time", HOURS[:4])
    table.to_csv(path := tmp_path / "wide.csv", index=False)
    calls = Counter[str]()
    for module, name in ((cleaning, "clean"), (column_roles, "as_text"), (numbers, "as_text")):
        original = getattr(module, name)

        def count(*arguments: Any, name: str = name, original: Any = original) -> Any:
            calls[name] += 1
            return original(*arguments)

        monkeypatch.setattr(module, name, count)
    assert len(read(path, unit="kWh").meters) == 2000
    assert calls["clean"] == 5
    assert calls["as_text"] < 10


def test_the_index_of_a_table_is_no_meter(tmp_path: Path) -> None:
    table = pd.DataFrame({"time": HOURS, "kWh": LOADS})
    table.iloc[::-1].reset_index(drop=True).iloc[1:].to_parquet(tmp_path / "a.parquet")
    assert list(read(tmp_path / "a.parquet").meters) == ["a"]


@pytest.mark.parametrize("is_parquet", [True, False])
@pytest.mark.parametrize("overlap", [True, False])
def test_numbers_name_meters(overlap: bool, is_parquet: bool, tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"time": HOURS, "meter": np.repeat([7, 8], len(HOURS) // 2), "load": LOADS}
    )
    if overlap:
        table = pd.concat([table.assign(meter=7), table.assign(meter=8)]).sort_values("time")
    path = tmp_path / ("a.parquet" if is_parquet else "a.csv")
    table.to_parquet(path) if is_parquet else table.to_csv(path, index=False)
    assert list(read(path).meters) == ["7", "8"]


@pytest.mark.parametrize("kind", ["Int64", "float", "str"])
def test_rows_without_a_name_are_no_meter(kind: str, tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"time": HOURS, "meter": np.repeat([7, 8], len(HOURS) // 2), "load": LOADS}
    )
    table["meter"] = table["meter"].astype(kind)
    table.loc[959, "meter"] = None
    table.to_parquet(tmp_path / "a.parquet")
    with naming(DataError, "row 960", "no name in 'meter' (1 such row)"):
        read(tmp_path / "a.parquet")


def test_rows_of_days_when_clocks_change(tmp_path: Path) -> None:
    zone = "Europe/Berlin"
    times = pd.date_range("2022-03-01", "2022-11-30", freq="15min", tz=zone, inclusive="left")
    loads = pd.Series(np.random.default_rng(1).uniform(1, 2, len(times)).round(3), times)
    loads = loads[~times.tz_localize(None).duplicated()]  # one of two equal hours has no column
    local = pd.DatetimeIndex(loads.index).tz_localize(None)
    table = pd.Series(loads.to_numpy(), [local.date, local.strftime("%H:%M")]).unstack()
    table.rename_axis("Tag").iloc[::-1].to_csv(path := tmp_path / "a.csv")
    found = read(path, timezone=zone).meters["a"].load.dropna()
    ends = pd.DatetimeIndex(loads.index).tz_convert("UTC") + pd.Timedelta(minutes=15)
    np.testing.assert_array_equal(found.index, ends)
    np.testing.assert_array_equal(found, loads)


def test_numbered_columns_of_days_are_refused_in_one_line(tmp_path: Path) -> None:
    table = pd.DataFrame(LOADS.reshape(-1, 24), pd.date_range("2023-01-10", periods=40, name="Tag"))
    table.set_axis([f"V{number + 1}" for number in table], axis=1).to_csv(
        path := tmp_path / "a.csv"
    )
    with naming(DataError, "1 problem", "a day apart", "by times such as 00:00"):
        read(path)


@pytest.mark.parametrize("form", ["wide", "long"])
def test_registers_of_one_meter_are_added(form: str, tmp_path: Path) -> None:
    night = np.where(HOURS.hour < 7, LOADS, 0.0)
    table = pd.DataFrame({"time": HOURS, "hall T1": night, "hall T2": LOADS - night, "gym": LOADS})
    if form == "long":
        table = table.melt("time", var_name="meter", value_name="kWh").sort_values("time")
        table = table[~((table["meter"] == "hall T2") & (table["time"] == HOURS[9]))]
    else:
        table.loc[9, "hall T2"] = np.nan
    table.to_csv(path := tmp_path / "a.csv", index=False)
    exports = read(path, add=r" T\d$", only=["h*"])
    assert list(exports.meters) == ["hall"]
    expected = LOADS.copy()
    expected[9] = np.nan
    np.testing.assert_allclose(exports.meters["hall"].load, expected)


def test_of_many_problems_the_first_are_listed(tmp_path: Path) -> None:
    columns = {f"m{number}": 1.0 for number in range(80)}
    with naming(DataError, "80 problems", "m49: all values", "and 30 more problems") as caught:
        read(write(tmp_path / "a.csv", **columns))
    assert len(str(caught.value).splitlines()) == 52


def test_a_problem_that_many_files_share_is_told_once(tmp_path: Path) -> None:
    loads = LOADS.astype(object)
    loads[6] = "broken"
    for number in range(5):
        write(tmp_path / f"home{number}.csv", kWh=loads)
    write(tmp_path / "barn.csv", kWh=[*loads[1:], 0])
    with naming(DataError) as caught:
        read(tmp_path)
    count, other, shared = str(caught.value).splitlines()
    assert count.startswith("2 problems")
    assert other.startswith(f"{tmp_path / 'barn.csv'}: line 7: ")
    assert shared.startswith("5 meters (home0, home1, home2 …): line 8: ")


def test_columns_that_are_called_like_units_are_no_loads(tmp_path: Path) -> None:
    units = ["V", "m3", "A", "bar", "°C", "l", "Hz", "m³/h", "%"]
    labels = {"month": HOURS.month, "read status": HOURS.day % 2}
    others = dict.fromkeys(units, LOADS + 1)
    exports = read(write(tmp_path / "a.csv", kWh=LOADS, **others, **labels))
    assert list(exports.meters) == ["a"]
    assert "'V' (V), 'm3' (m3)" in exports.report()[0]
    names = ["A", "B", "m2", "m3", "U", "V"]
    meters = read(write(tmp_path / "a.csv", **dict.fromkeys(names, LOADS))).meters
    assert list(meters) == names
    names = ["home", "site", "flat"]  # whole numbers of Wh
    energy = dict.fromkeys(names, (LOADS * 1000).astype(int))
    assert list(read(write(tmp_path / "a.csv", **energy), unit="Wh").meters) == names


@pytest.mark.parametrize("column", ["Sensor", "Site", "Device", "Id", "Meter"])
def test_bare_units_name_no_meters_whatever_their_column_is_called(
    column: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.csv", **{column: "Wh", "Value": LOADS})
    (meter,) = read(path).meters.values()
    assert meter.load.sum() == pytest.approx(LOADS.sum() / 1000)
    units = np.where(np.arange(len(HOURS)) % 2 == 0, "kWh", "kVARh")
    path = write(tmp_path / "a.csv", **{column: units, "Value": LOADS})
    with naming(DataError, f"'{column}' says 'kVARh', and 'kWh' in other rows"):
        read(path)


def test_a_column_of_units_has_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", value=LOADS, Einheit="Wh")
    np.testing.assert_allclose(read(path).meters["a"].load, LOADS / 1000)
    (changed,) = (what for what in read(path, unit="kWh").meters["a"].changes)
    assert changed.startswith("readings in Wh by their header, but read as kWh")
    for other in ("kWh", "m3", ""):
        units = np.where(np.arange(len(HOURS)) == 7, other, "Wh")
        path = write(tmp_path / "a.csv", value=LOADS, Einheit=units)
        with naming(DataError, "line 9: 'Einheit' says", "'Wh' in other rows", "data.meters.unit"):
            read(path)
    assert read(path, unit="Wh").meters["a"].load.sum() == pytest.approx(LOADS.sum() / 1000)


@pytest.mark.parametrize("column", ["apartment", "dwelling id", "plot"])
@pytest.mark.parametrize("order", ["blocks", "turns"])
def test_meters_in_a_column_of_any_name(order: str, column: str, tmp_path: Path) -> None:
    """Their rows are never merged without a word."""
    row = np.arange(len(HOURS))
    names = np.where(row % 2 if order == "turns" else row < 480, 101, 102)
    table = pd.DataFrame({"time": HOURS, column: names, "kWh": LOADS})
    table.to_csv(path := tmp_path / "a.csv", index=False)
    keys: dict[str, Any] = {"interval": 60}
    if column == "plot":
        if order == "blocks":
            with naming(DataError, "'plot'", "data.meters.columns: {meter: plot}"):
                read(path, **keys)
        keys["columns"] = {"meter": "plot"}
    if order == "turns":
        with naming(DataError, "120 minutes apart"):
            read(path, **keys)
    else:
        assert sorted(read(path, **keys).meters) == ["101", "102"]


def test_columns_about_readings_name_no_meters(tmp_path: Path) -> None:
    flags = {"tariff": "x", "day": HOURS.strftime("%A")}
    flags |= {"rate of": np.where(HOURS.hour < 7, "low", "high")}
    assert list(read(write(tmp_path / "a.csv", kWh=LOADS, **flags)).meters) == ["a"]
    blocks = {"project": np.where(np.arange(len(HOURS)) < 480, "A", "E")}
    path = write(tmp_path / "a.csv", kWh=LOADS, **blocks)
    with naming(DataError, "'project' has 2 values", "data.meters.columns: {load: kWh}"):
        read(path)
    np.testing.assert_array_equal(read(path, columns={"load": "kWh"}).meters["a"].load, LOADS)


def test_registers_count_energy(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", **{"Stand kW": LOADS.cumsum()})
    with naming(DataError, "in kW, but registers count energy", "data.meters.unit: kWh"):
        read(path, cumulative=True)
    path = write(tmp_path / "a.csv", **{"Energy (kWh)": LOADS, "Power (kW)": LOADS * 2})
    with naming(DataError, "different things", "data.meters.columns: {load: Energy (kWh)}"):
        read(path)
    with naming(DataError, "kW and kWh", "data.meters.columns: {load: Energy (kWh)}"):
        read(path, only=["*"])


def test_a_column_of_totals_is_no_meter(tmp_path: Path) -> None:
    parts = {"hall": LOADS, "gym": LOADS[::-1]}
    exports = read(write(tmp_path / "a.csv", **parts, Total=LOADS + LOADS[::-1]))
    assert list(exports.meters) == [*parts]
    assert "'Total' (a total, by its name)" in exports.report()[0]


@pytest.mark.parametrize("names", [("van", "tot"), ("Von", "Bis"), ("start", "end")])
def test_starts_and_ends(names: tuple[str, str], tmp_path: Path) -> None:
    first, last = names
    start = HOURS - pd.Timedelta(hours=1)
    path = write(tmp_path / "a.csv", kWh=LOADS)
    table = pd.DataFrame({first: start, last: HOURS, "kWh": LOADS})
    table.to_csv(path, index=False)
    expected = HOURS.tz_localize("UTC")
    for keys in ({}, {"columns": {"timestamp": first}}, {"columns": {"timestamp": last}}):
        np.testing.assert_array_equal(read(path, **keys).meters["a"].load.index, expected)
    with naming(DataError, "starts of intervals; remove data.meters.stamp"):
        read(path, stamp="end")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_encodings(encoding: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", **{"Zähler": LOADS})
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    assert [*read(path, encoding=encoding).meters] == ["Zähler"]
    exports = read(path)
    assert [*exports.meters] == ["Zähler"]
    assert ("in cp1252" in exports.report()[0]) == (encoding == "cp1252")
    if encoding == "cp1252":
        with naming(DataError, "is not ascii text", "data.meters.encoding"):
            read(path, encoding="ascii")


def test_texts_written_as_formulas_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    times = (f"{stamp:%Y-%m-%d %H:%M}" for stamp in HOURS)
    rows = [f'"=""{time}""";="{load}"' for time, load in zip(times, LOADS, strict=True)]
    path.write_text("\n".join(["time;kWh", *rows]))
    np.testing.assert_array_equal(read(path).meters["a"].load, LOADS)


def test_the_first_sheet_with_readings_is_read_and_others_are_named(tmp_path: Path) -> None:
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        pd.DataFrame({"about": ["hall", "gym"]}).to_excel(book, sheet_name="About", index=False)
        for sheet in ("May", "June"):
            table = pd.DataFrame({"time": HOURS, "kWh": LOADS})
            table.to_excel(book, sheet_name=sheet, index=False)
    exports = read(tmp_path / "a.xlsx")
    np.testing.assert_array_equal(exports.meters["a"].load, LOADS)
    assert "sheet 'May', not 'About', 'June'" in exports.report()[0]


@pytest.mark.parametrize("head", ["time,hall (kWh),gym (Wh)", "time,hall,gym\n-,kWh,Wh"])
def test_columns_in_several_units_are_refused(head: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"time": HOURS, "hall": LOADS, "gym": LOADS * 1000})
    (path := tmp_path / "a.csv").write_text(f"{head}\n{table.to_csv(index=False, header=False)}")
    hall = "hall (kWh)" if "hall (kWh)" in head else "hall"
    with naming(DataError, "readings in Wh and kWh", f"data.meters.columns: {{load: {hall}}}"):
        read(path)
    (meter,) = read(path, columns={"load": hall}).meters.values()
    np.testing.assert_allclose(meter.load, LOADS)


@pytest.mark.parametrize("is_sheet", [True, False])
def test_totals_at_the_end_are_left_out(is_sheet: bool, tmp_path: Path) -> None:
    rows = [[f"{time:%Y-%m-%d %H:%M}", load] for time, load in zip(HOURS, LOADS, strict=True)]
    table = pd.DataFrame([*rows, ["Moyenne", 1.5], ["", 1440.0]], columns=["time", "kWh"])
    path = tmp_path / ("a.xlsx" if is_sheet else "a.csv")
    table.to_excel(path, index=False) if is_sheet else table.to_csv(path, index=False)
    exports = read(path)
    np.testing.assert_array_equal(exports.meters["a"].load, LOADS)
    assert "2 lines without a date at the end left out" in exports.report()[0]
    table.loc[500, "time"] = "Total January"
    table.to_excel(path, index=False) if is_sheet else table.to_csv(path, index=False)
    with naming(DataError, "line 502: 'Total January' is not a time"):
        read(path)


def test_a_row_of_units_may_have_brackets(tmp_path: Path) -> None:
    rows = [f"{time:%d.%m.%Y;%H:%M};{load}" for time, load in zip(HOURS, LOADS, strict=True)]
    head = ["date;time;hall", "[-];[-];[MWh]"]
    (tmp_path / "a.csv").write_text("\n".join([*head, *rows]))
    np.testing.assert_allclose(read(tmp_path / "a.csv").meters["hall"].load, LOADS * 1000)


@pytest.mark.parametrize(
    ("line", "unit"),
    [
        *(("All values in Wh", "Wh"), ("Unit of measure: MW", "MW"), ("Unite;W", "W")),
        *(("-;[W]", "W"), ("Contract;6 kW", "kW"), ("Values of 7 days", None)),
    ],
)
def test_a_unit_above_the_header_is_asked_for(line: str, unit: str | None, tmp_path: Path) -> None:
    rows = [f"{stamp:%Y-%m-%d %H:%M};{load}" for stamp, load in zip(HOURS, LOADS, strict=True)]
    (path := tmp_path / "a.csv").write_text("\n".join([line, "time;value", *rows]))
    if unit:
        with naming(DataError, f"{unit} stands above the header", f"data.meters.unit: {unit}"):
            read(path)
    assert read(path, unit="kWh").meters["a"].load.sum() == pytest.approx(LOADS.sum())
