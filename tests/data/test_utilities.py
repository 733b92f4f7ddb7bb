"""Exports as utilities write them go in at the first command, with the right energy, or are refused
in one line that says what to do."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.config.sections import Meters
from plfl.data.meters import quantities
from plfl.data.meters.exports import Exports
from plfl.pipeline.starter import recognise
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
    with naming(DataError, "a.csv/export/b.csv", "no date was found"):
        path.write_bytes(utilities.zipped(["a,b"], "b.csv"))
        read(path)
    with naming(DataError, "a.csv: is a zip archive of 'export/b.pdf'", "unpack"):
        path.write_bytes(utilities.zipped([], "b.pdf"))
        read(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"/>', "XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "entities"),
        ("<html><table><tr><td>1</td></tr></table></html>", "XML"),
        ("%PDF-1.4", "PDF"),
        ('{"readings": []}', "JSON"),
        ("100,NEM12,202301111534,MDP1,R\n200,6,E1,1,E1,N1,0,kWh,30,\n300,20230101,0.2", "line 3"),
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
        *(("kilowatt hours", "kWh"), ("Watt-hours", "Wh"), ("Leistung W", "W"), ("Main W", None)),
        *(("Price EUR/kWh", "EUR/kWh"), ("Energie / kWh", "kWh"), ("kWh/m2", "kWh/m2")),
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


@pytest.mark.parametrize("columns", ["numbers", "more numbers", "clocks"])
def test_rows_of_days_when_clocks_change(columns: str, tmp_path: Path) -> None:
    """Each day of a year has the readings that it has: 92, 96 or 100."""
    zone = "Europe/Berlin"
    times = pd.date_range("2022-03-01", "2022-11-30", freq="15min", tz=zone, inclusive="left")
    loads = pd.Series(np.random.default_rng(1).uniform(1, 2, len(times)).round(3), times)
    local = times.tz_localize(None)
    clocks = pd.date_range("2022-01-01", periods=96, freq="15min").strftime("%H:%M")
    days = {str(day): part for day, part in loads.groupby(local.date)}
    if columns == "clocks":
        loads = loads[~local.duplicated()]  # one of two equal hours has no column
        days = {str(day): part for day, part in loads.groupby(loads.index.tz_localize(None).date)}
        rows = {
            day: part.set_axis(part.index.strftime("%H:%M")).reindex(clocks)
            for day, part in days.items()
        }
    else:
        if columns == "numbers":
            days.pop("2022-10-30")
            loads = pd.concat(days.values())
        rows = {day: pd.Series(part.to_numpy()) for day, part in days.items()}
    table = pd.DataFrame(rows).T.rename_axis("Tag")
    if columns != "clocks":
        table.columns = [f"V{number + 1}" for number in table]
    table.iloc[::-1].to_csv(path := tmp_path / "a.csv")
    found = read(path, timezone=zone).meters["a"].load.dropna()
    ends = loads.index.tz_convert("UTC") + pd.Timedelta(minutes=15)
    np.testing.assert_array_equal(found.index, ends)
    np.testing.assert_array_equal(found, loads)


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


def test_columns_that_are_called_like_units_are_no_loads(tmp_path: Path) -> None:
    units = ["V", "m3", "A", "bar", "°C", "l", "Hz", "m³/h", "cos phi", "%"]
    labels = {"month": HOURS.month, "read status": HOURS.day % 2}
    others = dict.fromkeys(units, LOADS + 1)
    exports = read(write(tmp_path / "a.csv", kWh=LOADS, **others, **labels))
    assert list(exports.meters) == ["a"]
    assert "'V' (V), 'm3' (m3)" in exports.report()[0]
    names = ["A", "B", "m2", "m3", "U", "V"]
    meters = read(write(tmp_path / "a.csv", **dict.fromkeys(names, LOADS))).meters
    assert list(meters) == names
    names = ["home", "site", "actual", "day rate"]  # whole numbers of Wh
    energy = dict.fromkeys(names, (LOADS * 1000).astype(int))
    assert list(read(write(tmp_path / "a.csv", **energy), unit="Wh").meters) == names


@pytest.mark.parametrize("is_wide", [True, False])
def test_a_column_of_units_is_read_row_by_row(is_wide: bool, tmp_path: Path) -> None:
    is_wh = np.arange(len(HOURS)) % 3 > 0
    mixed = {"value": np.where(is_wh, LOADS * 1000, LOADS), "unit": np.where(is_wh, "Wh", "kWh")}
    path = write(tmp_path / "a.csv", **mixed)
    name = "a"
    if not is_wide:
        tables = [pd.read_csv(path).assign(meter="x")]
        rows = pd.read_csv(path).assign(value=LOADS)
        tables += [rows.assign(meter="y", unit="MW"), rows.assign(meter="z", unit="m3")]
        pd.concat(tables).sort_values("time").to_csv(path, index=False)
        exports = read(path)
        assert list(exports.meters) == ["x", "y"]
        assert "(m3)" in exports.report()[0]
        np.testing.assert_allclose(exports.meters["y"].load, LOADS * 1000)
        name = "x"
    np.testing.assert_allclose(read(path).meters[name].load, LOADS)
    with naming(DataError, "'unit' says ", "not kWh; remove data.meters.unit"):
        read(path, unit="kWh")


def test_a_column_of_units_must_be_complete(tmp_path: Path) -> None:
    units = np.where(np.arange(len(HOURS)) == 7, "", "Wh")
    path = write(tmp_path / "a.csv", value=LOADS, Einheit=units)
    with naming(DataError, "line 9: has no unit in 'Einheit'", "data.meters.unit: Wh"):
        read(path)
    assert read(path, unit="Wh").meters["a"].load.sum() == pytest.approx(LOADS.sum() / 1000)
    units = np.where(np.arange(len(HOURS)) % 2, "kW", "Wh")
    with naming(DataError, "line 2: has readings in Wh and kW; keep the rows"):
        read(write(tmp_path / "a.csv", value=LOADS, unit=units))


@pytest.mark.parametrize("column", ["apartment", "Wohnung", "unit_no", "dwelling id", "plot"])
@pytest.mark.parametrize("order", ["blocks", "turns", "some shared"])
def test_meters_in_a_column_of_any_name(order: str, column: str, tmp_path: Path) -> None:
    """Their rows are never merged without a word."""
    row = np.arange(len(HOURS))
    names = np.where(row % 2 if order == "turns" else row < 480, 101, 102)
    table = pd.DataFrame({"time": HOURS, column: names, "kWh": LOADS})
    if order == "some shared":
        table = pd.concat([table, table[400:480].assign(**{column: 102})])
    table.to_csv(path := tmp_path / "a.csv", index=False)
    keys: dict[str, Any] = {"interval": 60}
    if column == "plot":
        with naming(DataError, "'plot'", "data.meters.columns: {meter: plot}"):
            read(path, **keys)
        keys["columns"] = {"meter": "plot"}
    if order == "turns":
        with naming(DataError, "120 minutes apart"):
            read(path, **keys)
    else:
        assert sorted(read(path, **keys).meters) == ["101", "102"]


def test_columns_about_readings_name_no_meters(tmp_path: Path) -> None:
    flags = {"quality": np.where(np.arange(len(HOURS)) < 480, "A", "E"), "tariff": "x"}
    flags |= {"day": HOURS.strftime("%A"), "rate of": np.where(HOURS.hour < 7, "low", "high")}
    assert list(read(write(tmp_path / "a.csv", kWh=LOADS, **flags)).meters) == ["a"]
    blocks = {"project": np.where(np.arange(len(HOURS)) < 480, "A", "E")}
    path = write(tmp_path / "a.csv", kWh=LOADS, **blocks)
    with naming(DataError, "'project' has 2 values", "data.meters.columns: {load: kWh}"):
        read(path)
    np.testing.assert_array_equal(read(path, columns={"load": "kWh"}).meters["a"].load, LOADS)


@pytest.mark.parametrize(
    ("day", "night"),
    [
        *(("kWh day", "kWh night"), ("Verbrauch HT (kWh)", "Verbrauch NT (kWh)")),
        *(("Peak", "Off-peak"), ("Import T1 kWh", "Import T2 kWh"), ("kwh_day", "kwh_night")),
        *(("Heures pleines", "Heures creuses"), ("6123456789 E1", "6123456789 E2")),
    ],
)
def test_registers_of_one_meter_are_asked_about(day: str, night: str, tmp_path: Path) -> None:
    part = np.where(HOURS.hour < 7, LOADS, 0.0)
    path = write(tmp_path / "a.csv", **{day: LOADS - part, night: part})
    with naming(DataError, "seem to be registers of one meter") as caught:
        read(path)
    (expression,) = re.findall("data.meters.add: '(.+?)' to", str(caught.value))
    (meter,) = read(path, add=expression).meters.values()
    np.testing.assert_allclose(meter.load, LOADS)
    assert len(read(path, add="").meters) == 2


@pytest.mark.parametrize("names", [["T1", "T2"], ["hall day", "gym night"], ["high", "low"]])
def test_names_of_meters_are_not_those_of_registers(names: list[str], tmp_path: Path) -> None:
    assert list(read(write(tmp_path / "a.csv", **dict.fromkeys(names, LOADS))).meters) == names


@pytest.mark.parametrize(
    "names",
    [("Import kWh", "Export kWh"), ("1-0:1.8.0", "1-0:2.8.0"), ("6123456789 E1", "6123456789 B1")],
)
def test_what_is_fed_into_the_grid_is_no_load(names: tuple[str, str], tmp_path: Path) -> None:
    used, fed = names
    path = write(tmp_path / "a.csv", **{used: LOADS, fed: LOADS / 2})
    with naming(
        DataError, f"{fed!r}: seems to be what the meter fed into the grid", "leave_out: ["
    ):
        read(path)
    assert list(read(path, leave_out=[fed]).meters) == [used]


def test_registers_count_energy(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", **{"Stand kW": LOADS.cumsum()})
    with naming(DataError, "in kW, but registers count energy; set data.meters.unit: kWh"):
        read(path, cumulative=True)
    path = write(tmp_path / "a.csv", **{"Energy (kWh)": LOADS, "Power (kW)": LOADS * 2})
    with naming(DataError, "kW and kWh", "data.meters.columns: {load: Energy (kWh)}"):
        read(path)


def test_a_column_of_totals_is_no_meter(tmp_path: Path) -> None:
    parts = {"hall": LOADS, "gym": LOADS[::-1]}
    exports = read(write(tmp_path / "a.csv", **parts, Total=LOADS + LOADS[::-1]))
    assert list(exports.meters) == [*parts]
    assert "'Total' (the sum of the others)" in exports.report()[0]
    assert len(read(write(tmp_path / "a.csv", **parts, Total=LOADS)).meters) == 3
    rows = pd.DataFrame({"time": HOURS, **parts, "Total": LOADS}).melt("time", var_name="meter")
    rows.to_csv(tmp_path / "a.csv", index=False)
    with naming(DataError, "'Total': seems to be the sum", "data.meters.leave_out: [Total]"):
        read(tmp_path / "a.csv")
    assert len(read(tmp_path / "a.csv", leave_out=["Total"]).meters) == 2


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


@pytest.mark.parametrize(("encoding", "told"), [("utf-16", ""), ("cp1252", "'cp1252'")])
def test_encodings(encoding: str, told: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", **{"Zähler": LOADS})
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    if told:
        with naming(DataError, f"data.meters.encoding: {told}"):
            read(path)
    assert len(read(path, encoding=encoding).meters) == 1
    if not told:
        assert len(read(path).meters) == 1


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
def test_each_column_may_have_a_unit_of_its_own(head: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"time": HOURS, "hall": LOADS, "gym": LOADS * 1000})
    (path := tmp_path / "a.csv").write_text(f"{head}\n{table.to_csv(index=False, header=False)}")
    exports = read(path)
    assert list(exports.meters) == ["hall", "gym"]
    for meter in exports.meters.values():
        np.testing.assert_allclose(meter.load, LOADS)
        assert not meter.done
    assert exports.report()[0].endswith("units by column")
    np.testing.assert_allclose(read(path, only=["gym"]).meters["gym"].load, LOADS)


def test_each_column_may_have_a_unit_beside_it(tmp_path: Path) -> None:
    table = pd.DataFrame({"time": HOURS, "hall": LOADS, "u": "kWh", "gym": LOADS * 1000, "v": "Wh"})
    table.to_csv(path := tmp_path / "a.csv", index=False)
    for meter in read(path).meters.values():
        np.testing.assert_allclose(meter.load, LOADS)
    table.assign(v="kW").to_csv(path, index=False)
    with naming(DataError, "energy and power", "data.meters.only: [hall]"):
        read(path)
    with naming(DataError, "no column of loads", "data.meters.columns: {load: A}"):
        read(write(path, A=LOADS))


@pytest.mark.parametrize(
    "names", [["00", "15", "30", "45"], ["15 min", "30 min", "45 min", "60 min"], [":00", ":30"]]
)
def test_parts_of_hours_are_no_meters(names: list[str], tmp_path: Path) -> None:
    with naming(DataError, f"{names[0]!r}, {names[1]!r}", "parts of the hour"):
        read(write(tmp_path / "a.csv", **dict.fromkeys(names, LOADS)))


@pytest.mark.parametrize("is_sheet", [True, False])
def test_totals_are_left_out(is_sheet: bool, tmp_path: Path) -> None:
    """Those at the end, above the first reading, and of months."""
    rows = [[f"{time:%Y-%m-%d %H:%M}", load] for time, load in zip(HOURS, LOADS, strict=True)]
    rows[500:500] = [["Total January", 750.0], ["2023-01-31 Total", 750.0]]
    rows = [["Suma", 99.0], *rows, ["Moyenne", 1.5], ["", 1440.0]]
    table = pd.DataFrame(rows, columns=["time", "kWh"])
    path = tmp_path / ("a.xlsx" if is_sheet else "a.csv")
    table.to_excel(path, index=False) if is_sheet else table.to_csv(path, index=False)
    exports = read(path)
    np.testing.assert_array_equal(exports.meters["a"].load, LOADS)
    assert "4 " in exports.report()[0] and "totals" in exports.report()[0]


def test_a_row_of_units_may_have_brackets(tmp_path: Path) -> None:
    rows = [f"{time:%d.%m.%Y;%H:%M};{load}" for time, load in zip(HOURS, LOADS, strict=True)]
    head = ["date;time;hall", "[-];[-];[MWh]"]
    (tmp_path / "a.csv").write_text("\n".join([*head, *rows]))
    np.testing.assert_allclose(read(tmp_path / "a.csv").meters["hall"].load, LOADS * 1000)


@pytest.mark.parametrize(
    ("line", "kwh"),
    [
        *(("All values in Wh", 1e-3), ("Unit of measure: MW", 500), ("Values in kW;;", 0.5)),
        *(("Unite;W", 5e-4), ("-;[W]", 5e-4), ("Values of 7 days", 1), ("Readings in order", 1)),
        *(("Power (kW)", 0.5), ("Energy [Wh];", 1e-3), ("Messgröße;Leistung in kW", 0.5)),
        *(("Contract;6 kW", 1), ("Contract;6;kW", 1), ("Subscribed power (kW);6", 1)),
    ],
)
def test_the_unit_above_the_header(line: str, kwh: float, tmp_path: Path) -> None:
    stamps = pd.date_range("2023-01-01 00:30", periods=480, freq="30min")
    loads = np.random.default_rng(1).uniform(0.2, 0.5, len(stamps)).round(3)
    rows = [f"{stamp:%Y-%m-%d %H:%M};{load}" for stamp, load in zip(stamps, loads, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join([line, "time;value", *rows]))
    assert read(tmp_path / "a.csv").meters["a"].load.sum() == pytest.approx(kwh * loads.sum())
