"""Tables in no known format are understood by the words of `vocabulary.toml`, and by what their
readings say: files as spreadsheets, loggers and programs write them need no option."""

import json
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.config.meters import Meters
from plfl.data.meters import quantities, vocabulary
from plfl.data.meters.exports import Exports
from plfl.first_study.meters import recognise
from tests.helpers.refusals import naming

HOURS = pd.date_range("2024-03-20", periods=24 * 20, freq="h", tz="America/New_York")
LOADS = np.random.default_rng(0).uniform(1, 2, len(HOURS)).round(3)
LISTS = tomllib.loads(Path(vocabulary.__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def read(path: Path, zone: str = "America/New_York", **keys: Any) -> Exports:
    return recognise([path], Meters.model_validate({"timezone": zone, **keys}), kind="homes")[0]


def assert_read(exports: Exports, ends: pd.DatetimeIndex | None = None) -> None:
    """The lone meter has all loads, in intervals with these ends."""
    (meter,) = exports.meters.values()
    np.testing.assert_allclose(meter.load, LOADS, atol=2e-3)
    expected = HOURS + pd.Timedelta(hours=1) if ends is None else ends
    np.testing.assert_array_equal(meter.load.index, expected.tz_convert("UTC"))


@pytest.mark.parametrize("key", LISTS)
def test_a_list_has_no_word_twice(key: str) -> None:
    assert {*LISTS} == {field.name for field in fields(vocabulary.Words)}
    assert len({*LISTS[key]}) == len(LISTS[key])
    assert all(entry == entry.strip() for entry in LISTS[key])


def test_a_list_has_words_and_whole_names() -> None:
    entries = vocabulary.WordList(["from", "*Start*", "dew point"])
    assert all(entries.has_word_of(name) for name in ("From", "Interval Start", "dateFrom"))
    assert all(entries.has_word_of(name) for name in ("Dew Point", "restarted", "valid_from"))
    assert not any(entries.has_word_of(name) for name in ("fromage", "dew", "Sta rt", ""))


@pytest.mark.parametrize("day", ["{:%a} ", "{:%A}, ", ""])
def test_days_of_the_week_before_dates_are_read(day: str, tmp_path: Path) -> None:
    stamps = [f"{day.format(time)}{time:%d/%m/%Y %H:%M}" for time in HOURS]
    (path := tmp_path / "a.csv").write_text(
        "\n".join(["When;kWh", *(f"{s};{v}" for s, v in zip(stamps, LOADS, strict=True))])
    )
    assert_read(read(path))


def test_names_of_zones_are_those_of_the_place(tmp_path: Path) -> None:
    winter = pd.date_range("2024-10-25", periods=len(HOURS), freq="h", tz="America/New_York")
    table = pd.DataFrame({"t": [f"{time:%d-%b-%y %I:%M:%S %p %Z}" for time in winter]})
    assert {*table["t"].str[-3:]} == {"EDT", "EST"}
    table.assign(kWh=LOADS).to_csv(path := tmp_path / "a.csv", index=False)
    assert_read(read(path), winter + pd.Timedelta(hours=1))
    with naming(DataError, "line 2", "EDT' ends with the name", "data.meters.timezone"):
        read(path, "America/Chicago")


@pytest.mark.parametrize("is_register", [True, False])
def test_energy_is_read_beside_its_power(is_register: bool, tmp_path: Path) -> None:
    energy = 100 + np.cumsum(LOADS) if is_register else LOADS
    table = pd.DataFrame({"start": HOURS.tz_convert("UTC").strftime("%Y-%m-%d %H:%M+00:00")})
    table = table.assign(**{"Gesamtwirkleistung [W]": LOADS * 1000, "Bezug [kWh]": energy})
    table.to_csv(path := tmp_path / "a.csv", index=False)
    exports = read(path)
    (meter,) = exports.meters.values()
    assert meter.load.sum() == pytest.approx(LOADS[is_register:].sum())
    assert "'Gesamtwirkleistung [W]' (beside 'Bezug [kWh]')" in exports.report()[0]
    table["Gesamtwirkleistung [W]"] /= 2  # that of something else
    table.to_csv(path, index=False)
    with naming(DataError, "may measure different things", "{load: 'Bezug [kWh]'}"):
        read(path)


def hourly(**columns: Any) -> pd.DataFrame:
    """Hours with their starts, and these columns."""
    return pd.DataFrame({"start": HOURS.tz_convert("UTC").strftime("%Y-%m-%d %H:%M+00:00")}).assign(
        **columns
    )


REGISTER = 100 + np.cumsum(LOADS)


@pytest.mark.parametrize(
    ("columns", "left_out"),
    [
        ({"Usage": LOADS, "Reading (kWh)": REGISTER}, "'Reading (kWh)' (the register of 'Usage')"),
        ({"Use (kWh)": LOADS, "Stand (kWh)": REGISTER}, "'Stand (kWh)' (beside 'Use (kWh)')"),
        ({"Demand": LOADS, "Contract kW": 500}, "'Contract kW' (always 500)"),
        (
            {"Alpha kWh": LOADS * 0.75, "Beta kWh": LOADS * 0.25, "Sigma kWh": LOADS},
            "'Alpha kWh' (beside 'Sigma kWh'), 'Beta kWh' (beside 'Sigma kWh')",
        ),
    ],
)
def test_what_columns_are_to_each_other_says_the_load(
    columns: dict[str, Any], left_out: str, tmp_path: Path
) -> None:
    hourly(**columns).to_csv(path := tmp_path / "a.csv", index=False)
    exports = read(path, unit="kWh")
    assert_read(exports)
    assert left_out in exports.report()[0]


def test_what_only_seems_to_be_a_sum_is_asked_about(tmp_path: Path) -> None:
    table = hourly(**{"Alpha kWh": LOADS, "Beta kWh": LOADS[::-1], "Sigma kWh": 2 * LOADS})
    table.to_csv(path := tmp_path / "a.csv", index=False)
    with naming(DataError, "'Alpha kWh', 'Beta kWh', 'Sigma kWh' may measure different things"):
        read(path)


def test_registers_of_both_directions_are_asked_about(tmp_path: Path) -> None:
    hourly(E1=LOADS, B1=LOADS / 2).to_csv(path := tmp_path / "a.csv", index=False)
    with naming(DataError, "'E1', 'B1' may measure different things"):
        read(path, unit="kWh")


def test_tariffs_of_one_meter_are_asked_about_and_added(tmp_path: Path) -> None:
    is_day = HOURS.hour < 12
    rates = {"import_t1_kwh": LOADS * is_day, "import_t2_kwh": LOADS * ~is_day}
    exported = {"export_t1_kwh": LOADS / 2, "export_t2_kwh": LOADS / 3}
    hourly(**rates, **exported).to_csv(path := tmp_path / "a.csv", index=False)
    with naming(DataError, "'import_t1_kwh', 'import_t2_kwh'", "data.meters.add: "):
        read(path)
    exports = read(path, add="[ _-](t1|t2)(?=[ _-])")
    assert_read(exports)
    assert "'export_t1_kwh' (by its name)" in exports.report()[0]


def test_row_numbers_and_peaks_name_no_meters(tmp_path: Path) -> None:
    table = hourly(Feeder="Feeder 7", Energy_kWh=LOADS, Peak_kVA=LOADS * 1.1)
    both = pd.concat([table, table.assign(Feeder="Feeder 9")])
    both.assign(Sl_No=np.arange(len(both))).to_csv(path := tmp_path / "a.csv", index=False)
    assert [*read(path).meters] == ["Feeder 7", "Feeder 9"]


@pytest.mark.parametrize(
    ("header", "row", "end"),
    [
        ("Dato;Time;Forbruk kWh", "{0:%d.%m.%Y};{0:%H}-{1:%H};{2}", ""),
        ("Datum i vrijeme;kWh", "{0:%d.%m.%Y.} {0:%H:%M};{2}", ""),
        ("Account;Date;Time;kWh", "A1;{0:%m/%d/%Y};{0:%H:%M};{2}", "A1;03/20/2024;Total;999"),
        (
            "Billing Period;Date;Time;kWh",
            "{0:%m/01/%Y} - {0:%m/28/%Y};{0:%m/%d/%Y};{0:%H:%M};{2}",
            "",
        ),
    ],
    ids=["hours", "dots", "total", "billing period"],
)
def test_times_are_read_as_portals_write_them(
    header: str, row: str, end: str, tmp_path: Path
) -> None:
    steps = pd.Timedelta(hours=1)
    rows = [row.format(time, time + steps, load) for time, load in zip(HOURS, LOADS, strict=True)]
    (path := tmp_path / "a.csv").write_text("\n".join([header, *rows, end]))
    assert_read(read(path))


def test_registers_of_power_are_asked_about(tmp_path: Path) -> None:
    table = pd.DataFrame({"start": HOURS.strftime("%Y-%m-%d %H:%M"), "kW": np.cumsum(LOADS)})
    table.to_csv(path := tmp_path / "a.csv", index=False)
    assert any("never decrease" in str(problem) for problem in read_problems(path))


def read_problems(path: Path) -> list[str]:
    try:
        return [str(problem) for problem in read(path).problems]
    except DataError as error:
        return [str(error)]


@pytest.mark.parametrize(
    ("encoding", "header"),
    [
        *(("cp1250", "Časovna značka;Spotřeba [kWh]"), ("cp1251", "Дата;кВтч")),
        *(("cp1255", 'מועד תחילת הפעימה;צריכה בקוט"ש'), ("cp932", "日時;使用量(kWh)")),
        ("cp1252", "Début;Énergie (kWh)"),
    ],
)
def test_text_is_read_in_the_encoding_of_its_words(
    encoding: str, header: str, tmp_path: Path
) -> None:
    rows = [f"{time:%Y-%m-%d %H:%M};{load}" for time, load in zip(HOURS, LOADS, strict=True)]
    (path := tmp_path / "a.csv").write_bytes("\n".join([header, *rows]).encode(encoding))
    exports = read(path)
    assert_read(exports)
    assert f"in {encoding}" in exports.report()[0]


@pytest.mark.parametrize("shape", ["list", "block", "lists"])
def test_rows_in_json_are_a_table(shape: str, tmp_path: Path) -> None:
    rows = [
        {"timestamp": f"{time:%Y-%m-%d %H:%M}", "value": load}
        for time, load in zip(HOURS, LOADS, strict=True)
    ]
    content: Any = rows
    if shape == "block":
        content = {"unit": "kWh", "data": [{"readings": rows, "notes": [{"text": "a"}]}]}
    elif shape == "lists":
        content = {key: [row[key] for row in rows] for key in ("timestamp", "value")}
    (path := tmp_path / "a.json").write_text(json.dumps(content))
    exports = read(path)
    assert_read(exports)
    assert "JSON, rows in" in exports.report()[0]


@pytest.mark.parametrize(
    ("line", "is_stated"),
    [
        ("Verbrauch in kWh", True),
        ("Jednostka;kWh", True),
        ("Grenze;kW", False),
        ("Contract: 9 kW", False),
        ("Consumption [kWh];Power [kW]", False),
    ],
)
def test_a_line_above_the_header_may_state_the_unit(
    line: str, is_stated: bool, tmp_path: Path
) -> None:
    rows = [
        f"{time:%Y-%m-%d %H:%M};{load};{2 * load}" for time, load in zip(HOURS, LOADS, strict=True)
    ]
    path = tmp_path / "a.csv"
    path.write_text("\n".join([line, "Uhrzeit;Rathaus;Grundschule", *rows]), encoding="utf-8")
    if not is_stated:
        with naming(DataError, "stands above the header"):
            read(path)
        return
    sums = {name: meter.load.sum() for name, meter in read(path).meters.items()}
    assert sums == pytest.approx({"Rathaus": LOADS.sum(), "Grundschule": 2 * LOADS.sum()})


def test_a_header_may_have_a_date(tmp_path: Path) -> None:
    rows = [f"{time:%d.%m.%Y %H:%M};{load};" for time, load in zip(HOURS, LOADS, strict=True)]
    head = ["sep=;", "Datum/Zeit;Energie [kWh];13.05.2024 08-10 Uhr"]
    (path := tmp_path / "a.csv").write_text("\n".join([*head, *rows]))
    assert_read(read(path))


@pytest.mark.parametrize("names", [["Meter 1", "Meter 2"], ["Zähler 0815", "Zähler 4711"]])
def test_numbered_meters_are_meters(names: list[str], tmp_path: Path) -> None:
    table = pd.DataFrame({"t": HOURS.strftime("%Y-%m-%d %H:%M")} | dict.fromkeys(names, LOADS))
    table.to_csv(path := tmp_path / "a.csv", index=False)
    assert [*read(path, unit="kWh").meters] == names
    assert [*read(path, "UTC", unit="kWh").meters] == names


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("Rückspeisung (kW)", "kW"),
        ("invoeding stand dal", None),
        ("gas stand", None),
        ("Fjärrvärme (MWh)", "MWh"),
        ("Energia oddana", None),
        ("Q+ Prejeta jalova moč", None),
        ("Dogovorjena moč", None),
        ("Mesec", None),
        ("売電量(kWh)", "kWh"),
        ("発電電力量", None),
    ],
)
def test_feed_in_heat_reactive_energy_and_dates_are_no_loads(name: str, unit: str | None) -> None:
    assert quantities.unit_of(name) == unit
    assert quantities.why_not_load(name, unit) == "by its name"


@pytest.mark.parametrize(
    "name", ["Bezug (kW)", "afname stand dal", "El fastighet (kWh)", "使用量", "買電量"]
)
def test_consumption_may_be_a_load(name: str) -> None:
    assert quantities.why_not_load(name, quantities.unit_of(name)) is None


def test_dutch_registers_can_be_added() -> None:
    pattern = quantities.registers_among(["afname stand dal", "afname stand normaal"])
    assert pattern == "[ _-]*(dal|normaal)$"


@pytest.mark.parametrize(
    ("consumption", "other"),
    [("CP - energia pobrana", "CO - energia oddana"), ("'+A'", "'-A'"), ("Consumption", "Gas")],
)
def test_rows_that_measure_something_else_by_their_words_are_left_out(
    consumption: str, other: str, tmp_path: Path
) -> None:
    table = hourly(Kind=consumption, kWh=LOADS)
    table = pd.concat([table, table.assign(Kind=other, kWh=LOADS / 2)]).sort_values("start")
    table.to_csv(path := tmp_path / "a.csv", index=False)
    exports = read(path)
    assert_read(exports)
    assert f"left out: rows whose 'Kind' is {other!r}" in exports.report()[0]
    assert [*read(path, columns={"meter": "Kind"}).meters] == [
        name.strip("'") for name in (consumption, other)
    ]


def test_rows_that_may_be_consumption_are_asked_about(tmp_path: Path) -> None:
    kinds = ["Import T1", "Import T2", "Export"]
    pd.concat([hourly(Kind=kind, kWh=LOADS) for kind in kinds]).sort_values("start").to_csv(
        path := tmp_path / "a.csv", index=False
    )
    with naming(DataError, "'Kind' has 'Import T1', 'Import T2', 'Export'"):
        read(path)


def test_a_name_of_a_load_says_nothing_else() -> None:
    names = ["Consumption", "CP - energia pobrana", "+A", "1-0:1.8.0", "Feed in", "Export", "CP"]
    assert [name for name in names if quantities.is_name_of_load(name)] == names[:4]


def test_questions_have_the_letters_of_the_file(tmp_path: Path) -> None:
    columns = {"使用電力量(ロス後)": LOADS, "使用電力量(ロス前)": LOADS * 0.9}
    hourly(**columns).to_csv(path := tmp_path / "a.csv", index=False)
    with naming(DataError, "{load: 使用電力量(ロス後)} or", "{load: 使用電力量(ロス前)};"):
        read(path, unit="kWh")


def test_power_beside_the_energy_of_the_same_place_is_left_out(tmp_path: Path) -> None:
    columns = {"Halle - Energie [kWh]": LOADS, "Kita - Energie [kWh]": 2 * LOADS}
    hourly(**columns, **{"Halle - Leistung [kW]": LOADS}).to_csv(
        path := tmp_path / "a.csv", index=False
    )
    exports = read(path)
    assert [*exports.meters] == ["Halle - Energie", "Kita - Energie"]
    assert (
        "'Halle - Leistung [kW]' (the power beside 'Halle - Energie [kWh]')"
        in (exports.report()[0])
    )


@pytest.mark.parametrize(("zone", "extra"), [("Europe/Warsaw", "2A"), ("Europe/London", "2a")])
def test_a_row_per_day_may_have_a_column_for_the_repeated_hour(
    zone: str, extra: str, tmp_path: Path
) -> None:
    days = pd.date_range("2025-10-24", periods=6).strftime("%d-%m-%Y")
    loads = [*map(str, LOADS[:24])]
    rows = [
        ";".join([day, *loads[:2], "99" if day == "26-10-2025" else "", *loads[2:]]) for day in days
    ]
    header = ";".join(["Data", "1", "2", extra, *map(str, range(3, 25))])
    (path := tmp_path / "a.csv").write_text("\n".join([header, *rows]))
    (meter,) = read(path, zone, unit="kWh").meters.values()
    assert meter.load.notna().all()
    assert len(meter.load) == 6 * 24 + 1
    repeated = meter.load.index[meter.load == 99]
    expected = {"Europe/Warsaw": "2025-10-26 01:00", "Europe/London": "2025-10-26 02:00"}
    assert [*repeated] == [pd.Timestamp(expected[zone], tz="UTC")]
