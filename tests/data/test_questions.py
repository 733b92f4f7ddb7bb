"""What a file in no known format does not say is asked, with what was seen and what to answer."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.base.keys import word_keys
from plfl.cli import init
from plfl.cli.main import main
from plfl.config.meters import Meters
from plfl.data.meters import cleaning
from plfl.data.meters.exports import Exports, read_exports
from plfl.data.meters.formats import schema
from plfl.first_study.meters import recognise
from plfl.public.models import MeterKind
from tests.helpers.refusals import naming

HOURS = pd.date_range("2023-01-02", periods=24 * 20, freq="h")
LOADS = np.random.default_rng(0).uniform(1, 2, len(HOURS)).round(3)
ROWS = np.arange(len(HOURS))


def read(path: Path, table: pd.DataFrame, kind: MeterKind | None = "homes", **keys: Any) -> Exports:
    table.to_csv(path / "a.csv", index=False)
    meters = Meters.model_validate({"timezone": "UTC", **keys})
    return recognise([path / "a.csv"], meters, kind=kind)[0]


def test_one_message_asks_all_and_has_the_command_that_goes_on(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.DataFrame({"when": HOURS + pd.Timedelta(hours=5), "alpha": LOADS * 50})
    table.assign(beta=LOADS * 60).to_csv("a.csv", index=False)
    assert main(["init", "meters", "a.csv", "--kind", "homes"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("plfl: 4 problems, nothing was written\n")
    for words in ("'alpha', 'beta'", "no UTC offset", "unit of 'alpha'", "the reading of 05:00"):
        assert words in told
    assert "--stamp start if it is of 05:00 to 06:00, or --stamp end if it is of 04:00" in told
    *_, advice, last_line = told.splitlines()
    assert advice == "to go on, change what is not so, replace PLACE, UNIT, STAMP, and run"
    command = shlex.split(last_line)
    assert command[:2] == ["plfl", "init"]
    assert "load=alpha" in command
    values = {"PLACE": "Europe/Berlin", "STAMP": "start", "UNIT": "Wh"}
    for name in ("UNIT", "STAMP"):  # none is guessed if the command is pasted as it is
        with pytest.raises(SystemExit):
            main([word if word == name else values.get(word, word) for word in command[1:]])
        assert f"invalid choice: {name!r}" in capsys.readouterr().err
    assert main([values.get(word, word) for word in command[1:]]) == 0


def test_a_short_register_is_asked_about_with_all_else(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.DataFrame({"when": HOURS, "kWh": 100 + LOADS.cumsum().round(3)}).iloc[:60]
    table.to_csv("a.csv", index=False)
    assert main(["init", "meters", "a.csv"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "plfl: 2 problems, nothing was written"
    assert told[-1] == "  plfl init meters a.csv --timezone PLACE --cumulative"
    assert main([*shlex.split(told[-1].replace("PLACE", "UTC"))[1:]]) == 0


def test_no_command_is_offered_that_other_files_refuse(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pd.DataFrame({"when": HOURS, "alpha": LOADS, "beta": LOADS}).to_csv("a.csv", index=False)
    pd.DataFrame({"when": HOURS, "kWh": LOADS}).to_csv("b.csv", index=False)
    assert main(["init", "meters", "a.csv", "b.csv", "--timezone", "UTC"]) == 2
    told = capsys.readouterr().err
    assert "--columns load=alpha or --columns load=beta" in told
    assert "to go on" not in told


def test_a_unit_that_other_files_state_otherwise_is_asked_for_in_the_header(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, column in (("a", "value"), ("b", "kWh")):
        pd.DataFrame({"when": HOURS, column: LOADS * 50}).to_csv(f"{name}.csv", index=False)
    assert main(["init", "meters", "a.csv", "b.csv", "--kind", "homes", "--timezone", "UTC"]) == 2
    told = capsys.readouterr().err
    assert "a.csv: nothing says the unit of 'value'; write it into the header: --unit is" in told
    assert "mean load:" in told and "--unit UNIT" not in told


@pytest.mark.parametrize(
    ("names", "is_asked"),
    [
        (["timestamp", "kwh"], False),
        (["t", "north (kWh)"], False),
        (["t", "value"], True),
        (["t", "kWh", "temperature"], True),
    ],
)
def test_nobody_is_asked_about_the_stamps_of_a_plain_table(
    tmp_path: Path, names: list[str], is_asked: bool
) -> None:
    stamps = HOURS + pd.Timedelta(hours=5)
    columns = [stamps, LOADS, np.arange(len(HOURS)) % 30]
    table = pd.DataFrame(dict(zip(names, columns, strict=False)))
    if is_asked:
        with naming(DataError, "whether the reading of 05:00 is that of the hour after", "stamp"):
            read(tmp_path, table)
        assert len(read(tmp_path, table, stamp="end").meters) == 1
    else:
        assert any("which nothing says" in line for line in read(tmp_path, table).report())


@pytest.mark.parametrize("end_after", [1, -1], ids=["start first", "end first"])
def test_two_columns_of_times_are_asked_about(tmp_path: Path, end_after: int) -> None:
    other = HOURS + pd.Timedelta(hours=end_after)
    table = pd.DataFrame({"one": HOURS, "two": other, "kWh": LOADS})
    start, end = ("one", "two") if end_after > 0 else ("two", "one")
    with naming(DataError, f"'{end}' is always 60 minutes after '{start}'", "seen", "2023-01-21"):
        read(tmp_path, table.iloc[:-3])
    for column in (start, end):
        (meter,) = read(tmp_path, table, columns={"timestamp": column}).meters.values()
        assert meter.load.index[0] == pd.Timestamp(max(HOURS[0], other[0]), tz="UTC")


def test_few_whole_numbers_are_asked_about(tmp_path: Path) -> None:
    table = pd.DataFrame({"t": HOURS, "dayofweek": HOURS.day_of_week, "energy": LOADS})
    table = table.assign(estimated=(np.arange(len(HOURS)) % 7 == 0).astype(int))
    with naming(DataError, "'dayofweek' (0 to 6), 'estimated' (0 to 1)", "['*']") as caught:
        read(tmp_path, table)
    assert str(caught.value).startswith("1 problem,")
    chosen = read(tmp_path, table, leave_out=["dayofweek", "estimated"])
    assert [*chosen.meters] == ["energy"]
    assert len(read(tmp_path, table, only=["*"], unit="kWh").meters) == 3


def test_few_whole_numbers_beside_a_unit_are_no_meters(tmp_path: Path) -> None:
    table = pd.DataFrame({"t": HOURS, "dayofweek": HOURS.day_of_week, "kWh": LOADS})
    exports = read(tmp_path, table)
    assert [meter.load.sum() for meter in exports.meters.values()] == [pytest.approx(LOADS.sum())]
    assert "'dayofweek' (no unit, beside 'kWh')" in exports.report()[0]
    assert len(read(tmp_path, table, only=["*"]).meters) == 2


def test_names_of_gas_money_and_feed_in_are_no_loads(tmp_path: Path) -> None:
    names = ["GasUsageKwh", "GasCostsWithTax", "Export kWh"]
    table = pd.DataFrame({"t": HOURS, "UsageKwh": LOADS, **dict.fromkeys(names, LOADS)})
    exports = read(tmp_path, table)
    assert [meter.load.sum() for meter in exports.meters.values()] == [pytest.approx(LOADS.sum())]
    (form,) = exports.forms.values()
    assert all(f"'{name}' (by its name)" in form.words for name in names)


@pytest.mark.parametrize(
    ("column", "names"),
    [("Direction", ["Delivered", "Received"]), ("Category", ["GC", "GG"]), ("what", ["in", "out"])],
)
def test_rows_of_parts_of_a_meter_are_asked_about(
    tmp_path: Path, column: str, names: list[str]
) -> None:
    tables = [pd.DataFrame({"from": HOURS, column: name, "kWh": LOADS}) for name in names]
    table = pd.concat(tables).sort_values("from", kind="stable")
    with naming(DataError, "parts of one meter", f"{{meter: {column}}}", f"only: [{names[0]}]"):
        read(tmp_path, table)
    columns = {"meter": column}
    assert [*read(tmp_path, table, columns=columns).meters] == names
    assert [*read(tmp_path, table, columns=columns, only=names[:1]).meters] == names[:1]
    table = table.rename(columns={column: "device"})
    assert [*read(tmp_path, table).meters] == names


@pytest.mark.parametrize(
    ("column", "value"), [("direction", "Export"), ("fuel", "Gas"), ("register", "2.8.0")]
)
def test_what_all_rows_call_no_consumption_is_refused(
    tmp_path: Path, column: str, value: str
) -> None:
    table = pd.DataFrame({"t": HOURS, column: value, "kWh": LOADS})
    with naming(DataError, "no readings of consumption", f"'{column}' is '{value}' in all rows"):
        read(tmp_path, table)
    assert len(read(tmp_path, table.assign(**{column: "Import"})).meters) == 1
    table = table.assign(**{column: "Export"})
    assert len(read(tmp_path, table, only=["*"]).meters) == 1


def test_marks_that_no_format_explains_are_told(tmp_path: Path) -> None:
    table = pd.DataFrame({"t": HOURS, "quality": "ok", "kWh": LOADS})
    assert "quality" not in read(tmp_path, table).report()[0]
    table.loc[:9, "quality"] = "fault"
    assert "read whatever 'quality' says: 'ok', 'fault'" in read(tmp_path, table).report()[0]


def test_factors_are_asked_about(tmp_path: Path) -> None:
    table = pd.DataFrame({"t": HOURS, "value": LOADS * 1000, "factor": 0.001})
    with naming(DataError, "'factor' is 0.001 in all rows", "data.meters.unit: Wh"):
        read(tmp_path, table)
    (meter,) = read(tmp_path, table, unit="Wh").meters.values()
    np.testing.assert_allclose(meter.load, LOADS)
    for factor in (1, 0.97):  # that of power
        assert len(read(tmp_path, table.assign(factor=factor), unit="Wh").meters) == 1
        assert len(read(tmp_path, table.assign(value=LOADS, factor=factor)).meters) == 1


@pytest.mark.parametrize(("name", "hours"), [("Hour Start", 1), ("Interval ending", 0), ("t", 1)])
def test_the_name_of_a_lone_column_says_what_it_marks(
    tmp_path: Path, name: str, hours: int
) -> None:
    table = pd.DataFrame({name: HOURS.strftime("%Y-%m-%dT%H:%M+00:00"), "kWh": LOADS})
    exports = read(tmp_path, table)
    (meter,) = exports.meters.values()
    assert meter.load.index[0] == pd.Timestamp("2023-01-02", tz="UTC") + pd.Timedelta(hours=hours)
    is_asked = any("should data.meters.stamp be end" in line for line in exports.report())
    assert is_asked == (name == "t")


@pytest.mark.parametrize(
    ("first", "shift", "asked"),
    [("2023-01-02 00:00", 1, "end"), ("2023-01-02 01:00", 0, ""), ("2023-01-02 05:00", 0, "start")],
)
@pytest.mark.parametrize("offset", ["", "Z"])
def test_whole_days_say_what_stamps_mark(
    tmp_path: Path, first: str, shift: int, asked: str, offset: str
) -> None:
    stamps = pd.date_range(first, periods=len(HOURS), freq="h")
    table = pd.DataFrame({"t": stamps.strftime(f"%Y-%m-%d %H:%M{offset}"), "kWh": LOADS})
    exports = read(tmp_path, table)
    (meter,) = exports.meters.values()
    assert meter.load.index[0] == stamps[0].tz_localize("UTC") + pd.Timedelta(hours=shift)
    (line,) = [line for line in exports.report() if "data.meters.stamp" in line] or [""]
    assert line.endswith(f"(should data.meters.stamp be {asked}?)" if asked else "")
    assert exports.settled_keys["stamp"] == ("start" if shift else "end")


@pytest.mark.parametrize(
    ("begin", "zone"),
    [
        ("2025-03-24", "Australia/Sydney"),
        ("2024-09-20", "Australia/Sydney"),
        ("2024-10-15", "Europe/London"),
        ("2024-03-15", "Europe/London"),
    ],
)
def test_whole_days_are_those_of_offsets_that_change(tmp_path: Path, begin: str, zone: str) -> None:
    hours = pd.date_range(begin, periods=30 * 24 + 1, freq="h", tz=zone)
    days = hours[hours.normalize() < (hours[0] + pd.DateOffset(days=25)).normalize()]
    stamps = [stamp.isoformat() for stamp in days]
    exports = read(tmp_path, pd.DataFrame({"t": stamps, "kWh": np.arange(len(days)) % 7 + 0.5}))
    assert exports.settled_keys["stamp"] == "start"


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S.%fZ"])
def test_local_times_with_a_z_are_told_and_can_be_read(tmp_path: Path, form: str) -> None:
    ends = (HOURS + pd.Timedelta(hours=1)).strftime(form)
    table = pd.DataFrame({"t": ends, "kWh": LOADS})
    exports = read(tmp_path, table, timezone="America/New_York")
    (line,) = [line for line in exports.report() if "spite of their Z" in line]
    assert line.endswith(f"set data.meters.date_format: {form!r}")
    (meter,) = exports.meters.values()
    assert meter.load.index[0] == pd.Timestamp("2023-01-02 01:00", tz="UTC")
    local_exports = read(tmp_path, table, timezone="America/New_York", date_format=form)
    (meter,) = local_exports.meters.values()
    assert meter.load.index[0] == pd.Timestamp("2023-01-02 01:00", tz="America/New_York")
    assert not any("spite" in line for line in local_exports.report())


def quarters(name: str, loads: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {"end": HOURS[0] + pd.to_timedelta(range(15, 15 * 401, 15), "m"), name: loads}
    )


@pytest.mark.parametrize(
    ("name", "scale", "units"),
    [
        ("value", 0.1, ["kWh", "kW"]),  # 0.6 or 0.15 kW
        ("consumption", 0.1, ["kWh"]),
        ("power", 0.1, ["kW"]),
        ("consumption", 100, ["Wh"]),
        ("power", 500, ["W"]),
        ("consumption", 5, ["kWh", "Wh"]),  # 30 kW or 30 W
        ("value", 1e9, ["kWh", "Wh"]),
    ],
)
def test_a_unit_that_nothing_says_is_the_only_possible_one_or_asked(
    tmp_path: Path, name: str, scale: float, units: list[str]
) -> None:
    loads = (LOADS[:400] * scale).round(4)
    table = quarters(name, loads)
    if len(units) > 1:
        keys = [f"data.meters.unit: {unit}" for unit in units]
        with naming(DataError, f"nothing says the unit of '{name}'", *keys, "every 15 minutes"):
            read(tmp_path, table)
        return
    exports = read(tmp_path, table)
    ((_, meter),) = exports.meters.items()
    kwh = read(tmp_path, table, unit=units[0]).meters["a"].load.sum()
    assert (meter.load.sum(), exports.settled_keys["unit"]) == (kwh, units[0])
    assert sum("nothing says the unit" in line for line in exports.report()) == 1


def test_another_unit_than_kwh_is_asked_about_if_it_may_be_a_building(tmp_path: Path) -> None:
    table = quarters("consumption", (LOADS[:400] * 100).round(4))  # 600 kW or 0.6 kW
    assert read(tmp_path, table).settled_keys["unit"] == "Wh"
    kinds: list[MeterKind | None] = ["buildings", None]
    for kind in kinds:
        with naming(DataError, "data.meters.unit: kWh", "data.meters.unit: Wh"):
            read(tmp_path, table, kind)
    small = quarters("consumption", LOADS[:400].round(4) * 0.1)
    assert read(tmp_path, small, None).settled_keys["unit"] == "kWh"


def test_registers_count_energy_in_a_possible_unit(tmp_path: Path) -> None:
    table = quarters("reading", (LOADS[:400] * 100).round().cumsum() + 1e6)
    for keys in ({}, {"cumulative": True}):
        exports = read(tmp_path, table, **keys)
        assert exports.settled_keys["unit"] == "Wh"
        assert exports.settled_keys.get("cumulative", True)
        assert exports.meters["a"].load.sum() == pytest.approx(LOADS[1:400].sum() / 10, rel=0.01)


def test_readings_that_never_decrease_for_days_are_totals(tmp_path: Path) -> None:
    table = pd.DataFrame({"t": HOURS, "kWh": 100 + LOADS.cumsum().round(3)})
    exports = read(tmp_path, table)
    (meter,) = exports.meters.values()
    np.testing.assert_allclose(meter.load, LOADS[1:])
    assert exports.settled_keys["cumulative"] is True
    assert any("never decrease: read as totals" in line for line in exports.report())
    for few in (table.iloc[:60], table.assign(hall=LOADS).rename(columns={"kWh": "gym"})):
        with naming(DataError, "never decrease", "data.meters.cumulative: true"):
            read(tmp_path, few, unit="kWh")


def test_the_name_of_a_file_may_state_the_unit(tmp_path: Path) -> None:
    quarters("value", LOADS[:400]).to_csv(
        path := tmp_path / "homes_quarterhourly_kwh.csv", index=False
    )
    exports = recognise([path], Meters(timezone="UTC"))[0]
    assert "unit" not in exports.settled_keys
    (meter,) = exports.meters.values()
    assert meter.load.sum() == pytest.approx(LOADS[:400].sum())


def test_an_hour_that_a_portal_fills_can_be_dropped(tmp_path: Path) -> None:
    table = pd.DataFrame({"t": HOURS + pd.Timedelta(days=75), "kWh": LOADS})
    with naming(DataError, "2023-03-26 02:00:00 does not exist", "data.meters.drop_skipped: true"):
        read(tmp_path, table, timezone="Europe/Berlin", stamp="start")
    (meter,) = read(
        tmp_path, table, timezone="Europe/Berlin", stamp="start", drop_skipped=True
    ).meters.values()
    filled = int(np.flatnonzero(table["t"] == "2023-03-26 02:00")[0])
    np.testing.assert_array_equal(meter.load, np.delete(LOADS, filled))
    assert meter.changes["readings of the hour that clocks skip dropped"] == 1


def test_registers_that_take_turns_are_added(tmp_path: Path) -> None:
    is_night = np.asarray(HOURS.hour < 7)
    low, high = (np.where(when, LOADS, np.nan) for when in (is_night, ~is_night))
    table = pd.DataFrame({"t": HOURS, "hall low": low, "hall high": high})
    (meter,) = read(tmp_path, table, add=" (low|high)$").meters.values()
    np.testing.assert_array_equal(meter.load, LOADS)


def test_registers_that_follow_each_other_are_added(tmp_path: Path) -> None:
    """A blank of one that has ended, or not yet begun, is zero; any other stays missing."""
    row = np.arange(len(HOURS))
    billed = np.where(row < 300, LOADS, np.nan)
    unbilled = np.where(row < 200, np.nan, np.where(row < 300, 0.0, LOADS))
    billed[250], unbilled[400], billed[-2:], unbilled[-1] = np.nan, np.nan, np.nan, np.nan
    table = pd.DataFrame({"t": HOURS, "use billed": billed, "use unbilled": unbilled})
    (meter,) = read(tmp_path, table, add=" (un)?billed$", unit="kWh").meters.values()
    expected = LOADS[:-1].copy()  # a blank at the end is no reading
    expected[[250, 400]] = np.nan
    np.testing.assert_array_equal(meter.load, expected)


def totals_in_turns(first_night: float = 4000) -> tuple[pd.Series, pd.Series, float]:
    """The totals of registers of days and nights, each known while it counts, and the kWh of both
    after the hour in which both have been read once."""
    is_day = np.asarray((HOURS.hour >= 7) & (HOURS.hour < 22))
    parts = [np.where(when, LOADS, 0.0) for when in (is_day, ~is_day)]
    day, night = (
        pd.Series(np.where(part > 0, start + part.cumsum(), np.nan))
        for start, part in zip((9000, first_night), parts, strict=True)
    )
    return day, night, LOADS[8:].sum()


@pytest.mark.parametrize("form", ["wide", "long"])
def test_totals_that_take_turns_are_asked_about_before_they_are_added(
    tmp_path: Path, form: str
) -> None:
    day, night, kwh = totals_in_turns()
    table = pd.DataFrame({"t": HOURS, "use T1": day, "use T2": night})
    if form == "long":
        table = table.melt("t", var_name="meter", value_name="kWh").sort_values("t", kind="stable")
    keys: dict[str, Any] = {"add": " T[12]$", "unit": "kWh"}
    with naming(DataError, "like totals, take turns", "data.meters.cumulative: true"):
        read(tmp_path, table, **keys)
    exports = read(tmp_path, table, **keys, cumulative=True)
    (meter,) = exports.meters.values()
    assert meter.load.sum() == pytest.approx(kwh)
    assert not any("nothing changed" in line for line in exports.report())


@pytest.mark.parametrize("first_night", [4000, 9010], ids=["apart", "overlapping"])
def test_one_column_of_registers_that_take_turns_twice_a_day_is_refused(
    tmp_path: Path, first_night: float
) -> None:
    day, night, _ = totals_in_turns(first_night)
    assert (night.max() > day.min()) == (first_night > 9000)
    with naming(DataError, "two registers in turns"):
        read(tmp_path, pd.DataFrame({"t": HOURS, "kWh": day.fillna(night)}))


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["use T1 (kWh)", "use T2 (kWh)"], "[ _-]*(T1|T2)$"),
        (["use T1", "use T2", "shop T1", "shop T2"], "[ _-]*(T1|T2)$"),
        (["Day", "Night"], "[ _-]*(Day|Night)$"),
        (["Dag verbruik", "Nacht verbruik"], "^(Dag|Nacht)[ _.-]*"),
        (["HP", "HC"], "[ _-]*(HP|HC)$"),
    ],
)
def test_registers_are_offered_to_be_added_and_then_are_no_question(
    tmp_path: Path, names: list[str], pattern: str
) -> None:
    table = pd.DataFrame({"t": HOURS, **dict.fromkeys(names, LOADS)})
    with naming(DataError, "may measure different things", f'data.meters.add: "{pattern}" if'):
        read(tmp_path, table, unit="kWh")
    with word_keys(init.word_as_option), naming(DataError, f"--add '{pattern}'"):
        read(tmp_path, table, unit="kWh")
    meters = read(tmp_path, table, unit="kWh", add=pattern).meters
    assert len(meters) == len(names) / 2
    for meter in meters.values():
        np.testing.assert_allclose(meter.load, 2 * LOADS)


def test_a_column_that_is_not_added_is_asked_about_by_the_names_of_meters(tmp_path: Path) -> None:
    table = pd.DataFrame({"t": HOURS, **dict.fromkeys(["use T1", "use T2", "net"], LOADS)})
    keys: dict[str, Any] = {"add": " T[12]$", "unit": "kWh"}
    with naming(DataError, "may measure different things", "data.meters.only: [use, net]"):
        read(tmp_path, table, **keys)
    assert [*read(tmp_path, table, **keys, only=["use"]).meters] == ["use"]


def test_a_pattern_of_registers_that_fits_no_name_is_refused(tmp_path: Path) -> None:
    table = pd.DataFrame({"t": HOURS, "el normal kWh": LOADS, "el low kWh": LOADS + 1})
    with naming(DataError, "data.meters.add: '(peak|valley)'", "'el normal kWh', 'el low kWh'"):
        read(tmp_path, table, add="(peak|valley)", only=["*"])
    (meter,) = read(tmp_path, table, add="(normal|low)").meters.values()
    assert meter.load.sum() == pytest.approx(2 * LOADS.sum() + len(LOADS))


def test_the_zone_that_is_told_is_the_one_that_is_used(tmp_path: Path) -> None:
    path = schema.FORMATS_FOLDER / "n3rgy.sample.csv"
    for zone, words in (("America/New_York", "daylight saving time"), ("UTC", "those of UTC")):
        exports = recognise([path], Meters.model_validate({"timezone": zone}))[0]
        (meter,) = exports.meters.values()
        assert meter.load.index[0] == pd.Timestamp("2023-06-01 00:30", tz=zone)
        form, times, *_ = exports.report()
        assert form.partition("zone: ")[2].startswith(f"{zone};") and words in times


def test_rows_of_registers_that_keys_join_or_leave_out_are_meters(tmp_path: Path) -> None:
    names = ["Afname Dag", "Afname Nacht", "Injectie Dag", "Injectie Nacht"]
    table = pd.DataFrame({"t": HOURS.repeat(4), "register": names * len(HOURS)})
    table["kWh"] = LOADS.repeat(4) * (1 - (np.arange(len(table)) % 4 // 2))
    with naming(DataError, "parts of one meter", "data.meters.add: "):
        read(tmp_path, table)
    with naming(DataError, "parts of one meter", "data.meters.only: [Afname]"):
        read(tmp_path, table, add=" (Dag|Nacht)$")
    keys: dict[str, Any] = {"add": " (Dag|Nacht)$", "leave_out": ["Injectie*"]}
    (meter,) = read(tmp_path, table, **keys).meters.values()
    np.testing.assert_allclose(meter.load, 2 * LOADS)


def test_of_the_ordinary_columns_of_a_file_only_the_first_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []
    searched: list[pd.Series] = []
    monkeypatch.setattr(cleaning, "longest_gap", lambda load, minutes: searched.append(load))

    def clean(name: str, *arguments: Any) -> cleaning.Meter:
        looked_at.append(name)
        return clean_one(name, *arguments)

    clean_one = cleaning.clean
    monkeypatch.setattr(cleaning, "clean", clean)
    table = pd.DataFrame({"t": HOURS, **{f"m{number}": LOADS + number for number in range(9)}})
    exports = read(tmp_path, table, unit="kWh", stamp="end")
    assert len(exports.meters) == 9
    assert looked_at == ["m0"]
    assert exports.report() and not searched  # for gaps, of which there are none


def test_sums_and_factors_are_no_nothing_changed(tmp_path: Path) -> None:
    table = pd.DataFrame({"t": HOURS, "hall T1": LOADS, "hall T2": LOADS, "gym": LOADS})
    exports = read(tmp_path, table, add=" T[12]$", unit="kWh", stamp="end")
    summaries = {name: meter.summary for name, meter in exports.meters.items()}
    assert summaries["gym"].endswith("; nothing changed")
    assert summaries["hall"].endswith(f"; sums of registers: {len(HOURS)}")
    (tmp_path / "f.toml").write_text(
        "name = 'f'\nabout = 'f'\ndocument = 'f'\ndate = 2024-01-01\n"
        "recognise.header = ['t', 'hall T1']\ntime = { column = 't', marks = 'end' }\n"
        "load = { columns = 'hall T1', unit = 'kWh', factor = 2 }\n"
    )
    (scaled,) = read(tmp_path, table, format=str(tmp_path / "f.toml")).meters.values()
    assert scaled.summary.endswith(f"; multiplied by a factor of the file: {len(HOURS)}")


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize(("column", "mark"), [("humidity", -9999), ("own", 999.9)])
def test_marks_of_missing_values_in_any_input_are_asked_about(
    tmp_path: Path, column: str, mark: float, count: int
) -> None:
    rows = np.arange(len(HOURS))
    table = pd.DataFrame({"t": HOURS, "kWh": LOADS, column: 40.0 + rows % 50})
    table.loc[7 : 6 + count, column] = mark
    columns = {"timestamp": "t", "load": "kWh", column: column}
    such = "(1 such value)" if count == 1 else "(40 such values)"
    far = f"line 9: {column} {mark} is far from all others, which are between 40 and 89 {such}"
    with naming(DataError, far, f"missing: [{mark}]"):
        read(tmp_path, table, columns=columns)
    (meter,) = read(tmp_path, table, columns=columns, missing=[mark]).meters.values()
    assert meter.inputs[column].max() == 89


@pytest.mark.parametrize("values", [np.arange(len(HOURS)) * 2.0, np.full(len(HOURS), 5.0)])
def test_ordinary_values_that_are_like_a_mark_are_read(tmp_path: Path, values: np.ndarray) -> None:
    values = np.where(np.arange(len(HOURS)) == 9, 999, values)
    table = pd.DataFrame({"t": HOURS, "kWh": LOADS, "own": values})
    columns = {"timestamp": "t", "load": "kWh", "own": "own"}
    (meter,) = read(tmp_path, table, columns=columns).meters.values()
    assert 999 in meter.inputs["own"].to_numpy()


def test_days_with_names_of_months(tmp_path: Path) -> None:
    columns = [f"{hour:02}:00 - {(hour + 1) % 24:02}:00" for hour in range(24)]
    table = pd.DataFrame(LOADS.reshape(-1, 24), columns=columns)
    table.insert(0, "DATE", HOURS[::24].strftime("%d/%b/%Y"))
    (meter,) = read(tmp_path, table).meters.values()
    np.testing.assert_array_equal(meter.load, LOADS)
    assert meter.load.index[0] == pd.Timestamp("2023-01-02 01:00", tz="UTC")


@pytest.mark.parametrize(
    ("columns", "left_out"),
    [
        ({"Kulutus (kWh)": LOADS, "Hinta (snt/kWh)": LOADS, "Sää": LOADS}, 2),
        ({"A+ [kWh]": LOADS, "-A [kWh]": LOADS, "2.8.0 Abgabe [kWh]": LOADS}, 2),
        ({"Energija A+": LOADS, "Energija R+": LOADS, "Energija A-": LOADS}, 2),
        ({"1-1:1.29.0 [kWh]": LOADS, "1-1:2.29.0 [kWh]": LOADS, "3.8.0 [kWh]": LOADS}, 2),
        ({"Hall kW": LOADS, "OAT degF": LOADS * 40}, 1),
        ({"table": 0, "_value": LOADS, "_measurement": "kWh"}, 1),
    ],
)
def test_columns_beside_those_with_a_unit_are_no_meters(
    tmp_path: Path, columns: dict[str, Any], left_out: int
) -> None:
    exports = read(tmp_path, pd.DataFrame({"start": HOURS, **columns}))
    (meter,), (form,) = exports.meters.values(), exports.forms.values()
    np.testing.assert_allclose(meter.load, LOADS)
    assert form.words.partition("no loads: ")[2].count("'") >= 2 * left_out


@pytest.mark.parametrize(
    "columns",
    [
        *(["Import (kWh)", "Net (kWh)"], ["kWh", "kWh.1"], ["Leistung", "Energie"]),
        *(["Energia pobrana", "Energia bilans"], ["Alpha (kWh)", "Beta (kWh)"]),
        *(["Haus-Netzbezug", "Haus-Einspeisung"], ["L1", "L2", "L3"], ["Grid L1", "Grid L2"]),
        *(["HT", "NT"], ["1.8.1", "1.8.2"], ["1.29.0", "A+"]),
        *(["Load", "Load of the car"], ["Import", "Direct usage"]),
    ],
)
def test_columns_that_may_measure_different_things_are_asked_about(
    tmp_path: Path, columns: list[str]
) -> None:
    table = pd.DataFrame({"start": HOURS} | dict.fromkeys(columns, LOADS))
    names = [column.partition(" (")[0] for column in columns]
    only = f"data.meters.only: [{', '.join(names)}]" if columns[0] == "Alpha (kWh)" else "only"
    with naming(DataError, "may measure different things", f"{{load: {columns[0]}}}", only):
        read(tmp_path, table, unit="kWh")
    (meter,) = read(tmp_path, table, unit="kWh", columns={"load": columns[0]}).meters.values()
    np.testing.assert_allclose(meter.load, LOADS)
    assert [*read(tmp_path, table, unit="kWh", only=names).meters] == names


@pytest.mark.parametrize(
    "names",
    [
        *(
            ["office", "school"],
            ["a", "b"],
            ["Building A", "Building B"],
            ["hall low", "hall high"],
        ),
        *(["E2", "H17"], ["north_shop", "north_bank"], ["MAC000002", "MAC000003"]),
    ],
)
def test_names_of_meters_are_not_asked_about(tmp_path: Path, names: list[str]) -> None:
    table = pd.DataFrame({"start": HOURS} | dict.fromkeys(names, LOADS))
    assert [*read(tmp_path, table, unit="kWh").meters] == names


@pytest.mark.parametrize("name", ["Load(kWh)", "Hausverbrauch [kWh]", "Total consumption (kWh)"])
def test_a_consumption_beside_its_parts_is_the_load(tmp_path: Path, name: str) -> None:
    names = ["Batterie Laden [kWh]", "Self consumption (kWh)", "Direkt verbraucht [kWh]"]
    names.append("Purchased Energy (kWh)")
    parts = dict.fromkeys(names, LOADS + 1)
    exports = read(tmp_path, pd.DataFrame({"start": HOURS, **parts, name: LOADS}))
    (meter,), (form,) = exports.meters.values(), exports.forms.values()
    np.testing.assert_allclose(meter.load, LOADS)
    told = f"read: {name!r}, no loads: 'Purchased Energy (kWh)' (beside {name!r})"
    assert told in form.words  # that of the grid first


@pytest.mark.parametrize(
    ("first", "last"),
    [("Från", "Till"), ("Algus", "Lõpp"), ("Fra_dato", "Til_dato"), ("Sākums", "Beigu laiks")],
)
def test_starts_and_ends_have_names_in_many_languages(
    tmp_path: Path, first: str, last: str
) -> None:
    table = pd.DataFrame({last: HOURS + pd.Timedelta(hours=1), first: HOURS, "kWh": LOADS})
    (meter,) = read(tmp_path, table).meters.values()
    assert meter.load.index[0] == pd.Timestamp("2023-01-02 01:00", tz="UTC")


@pytest.mark.parametrize("local", ["Europe/Berlin", "Asia/Kolkata"])
def test_of_the_same_times_in_two_zones_the_instants_are_read(tmp_path: Path, local: str) -> None:
    hours = HOURS.tz_localize("UTC")
    here = hours.tz_convert(local).strftime("%Y-%m-%d %H:%M")
    table = pd.DataFrame({"time": hours.astype("int64") // 10**9, "date and time": here})
    (meter,) = read(tmp_path, table.assign(kWh=LOADS), timezone=local, stamp="end").meters.values()
    assert list(meter.load.index) == list(hours)


@pytest.mark.parametrize(("first", "count"), [(0, 24), (1, 24), (1, 48), (1, 96)])
def test_numbered_intervals_beside_dates(tmp_path: Path, first: int, count: int) -> None:
    times = pd.date_range("2023-01-02", periods=20 * count, freq=f"{1440 // count}min")
    loads = np.random.default_rng(0).uniform(1, 2, len(times)).round(3)
    table = pd.DataFrame({"Datum": times.date, "Sat": np.arange(len(times)) % count + first})
    (meter,) = read(tmp_path, table.assign(kWh=loads)).meters.values()
    np.testing.assert_array_equal(meter.load, loads)
    assert meter.load.index[0] == times[1].tz_localize("UTC")


def test_units_may_stand_in_each_cell(tmp_path: Path) -> None:
    cells = [
        f"{load:g} kW" if row % 3 else f"{load * 1000:.0f} W" for row, load in enumerate(LOADS)
    ]
    (meter,) = read(tmp_path, pd.DataFrame({"Time": HOURS, "House": cells})).meters.values()
    np.testing.assert_allclose(meter.load, LOADS)
    mixed = pd.DataFrame({"Time": HOURS, "House": [*cells[:-1], "2 kWh"]})
    with naming(DataError, "line 481", "'House' is in kWh, and in W in other rows"):
        read(tmp_path, mixed)


@pytest.mark.parametrize("name", ["Timestamp (UTC)", "time_utc", "Time GMT"])
def test_a_header_may_say_that_times_are_in_utc(tmp_path: Path, name: str) -> None:
    table = pd.DataFrame({name: HOURS, "kWh": LOADS})
    exports = read(tmp_path, table, timezone="America/Denver", stamp="start")
    (meter,) = exports.meters.values()
    assert meter.load.index[0] == pd.Timestamp("2023-01-02 01:00", tz="UTC")
    assert meter.zone.key == "America/Denver"


def test_a_header_may_name_the_place_of_times(tmp_path: Path) -> None:
    table = pd.DataFrame({"Date/Time (America/Denver)": HOURS, "kWh": LOADS})
    (tmp_path / "a.csv").write_text(table.to_csv(index=False), encoding="utf-8")
    exports, study = recognise([tmp_path / "a.csv"], Meters(stamp="start"), kind="homes")
    assert exports.meters["a"].load.index[0] == pd.Timestamp("2023-01-02 08:00", tz="UTC")
    assert study["data"]["meters"]["timezone"] == "America/Denver"


def test_stamps_may_be_a_second_late(tmp_path: Path) -> None:
    """As those of programs that write at whole hours."""
    late = pd.to_timedelta(np.random.default_rng(1).integers(0, 100, len(HOURS)), unit="ms")
    counts = pd.DataFrame({"time": (HOURS + late).as_unit("ms").asi8, "kWh": LOADS.cumsum()})
    (meter,) = read(tmp_path, counts).meters.values()
    np.testing.assert_allclose(meter.load, LOADS[1:])
    assert meter.load.index[0] == HOURS[1].tz_localize("UTC")
    # Those of an hour that is too late are not all.
    late += pd.to_timedelta(np.where(np.arange(len(HOURS)) == 5, 60, 0), unit="s")
    table = pd.DataFrame({"time": HOURS + late, "kWh": LOADS})
    with naming(DataError, "off the grid of 60 minutes"):
        read(tmp_path, table, stamp="end")


def test_sums_of_days_are_refused_before_the_column_is_asked_for(tmp_path: Path) -> None:
    days = pd.date_range("2025-03-01", "2025-03-31", tz="America/Denver")
    table = {"Date time": [day.isoformat() for day in days], "Home (kWh)": LOADS[: len(days)]}
    table |= {"Vehicle (kWh)": LOADS[: len(days)] / 9, "From Grid (kWh)": LOADS[: len(days)] / 2}
    with naming(DataError, "1 problem", "a day apart", "every 15, 30 or 60 minutes"):
        read(tmp_path, pd.DataFrame(table))


def test_marks_of_readings_are_no_names_of_meters(tmp_path: Path) -> None:
    flags = np.where(np.arange(len(HOURS)) == 0, "{start}", "{}")
    table = pd.DataFrame({"Timestamp": HOURS, "Trend Flags": flags, "Value": LOADS})
    (meter,) = read(tmp_path, table, unit="kWh").meters.values()
    np.testing.assert_allclose(meter.load, LOADS)


def test_a_long_number_is_that_of_the_meter(tmp_path: Path) -> None:
    numbers = {"Målepunkt": "571313100000000001", "bldg_id": "460"}
    exports = read(tmp_path, pd.DataFrame({"from": HOURS, **numbers, "Mængde": LOADS, "u": "kWh"}))
    (form,) = exports.forms.values()
    assert [*exports.meters] == ["Mængde"]
    assert all(f"{name!r} (a number of the meter)" in form.words for name in numbers)


@pytest.mark.parametrize(("unit", "kwh"), [("kW", LOADS.sum() / 2), ("Wh", LOADS.sum() / 1000)])
def test_a_row_per_day_with_a_column_of_units_is_of_no_known_format(
    tmp_path: Path, unit: str, kwh: float
) -> None:
    clocks = pd.date_range("2023-01-01", periods=48, freq="30min").strftime("%H:%M")
    days = pd.DataFrame(LOADS.reshape(-1, 48), columns=clocks)
    days.insert(0, "Date", pd.date_range("2023-01-02", periods=len(days)).date)
    days.insert(1, "Unit", unit)
    for table in (days, days.assign(Total=days[clocks].sum(axis=1))):
        exports = read(tmp_path, table, timezone="Australia/Sydney")
        (meter,) = exports.meters.values()
        assert meter.load.sum() == pytest.approx(kwh)
        assert meter.load.index[0] == pd.Timestamp("2023-01-02 00:30", tz="Australia/Sydney")


def test_units_may_follow_the_times_of_a_day(tmp_path: Path) -> None:
    columns = [f"{hour % 12 or 12}:00 {'AP'[hour > 11]}M kWH" for hour in range(24)]
    table = pd.DataFrame(LOADS.reshape(-1, 24), columns=columns)
    table.insert(0, "Date", HOURS[::24].strftime("%m/%d/%Y"))
    (meter,) = read(tmp_path, table, kind=None).meters.values()
    np.testing.assert_array_equal(meter.load, LOADS)


def test_numbered_hours_are_columns_of_a_day(tmp_path: Path) -> None:
    columns = [f"HE{hour:02}" for hour in range(1, 25)]
    table = pd.DataFrame(LOADS.reshape(-1, 24), columns=columns)
    table.insert(0, "Date", HOURS[::24].strftime("%Y%m%d"))
    (meter,) = read(tmp_path, table).meters.values()
    np.testing.assert_array_equal(meter.load, LOADS)
    assert meter.load.index[0] == pd.Timestamp("2023-01-02 01:00", tz="UTC")


@pytest.mark.parametrize(
    ("form", "columns"), [("%H.%M", ["Data", "Ora"]), ("%d.%m.%Y %H.%M", ["Ora"])]
)
def test_points_may_separate_hours_and_minutes(
    tmp_path: Path, form: str, columns: list[str]
) -> None:
    table = pd.DataFrame({"Data": HOURS.strftime("%d.%m.%Y"), "Ora": HOURS.strftime(form)})
    (meter,) = read(tmp_path, table[columns].assign(kWh=LOADS), stamp="end").meters.values()
    assert list(meter.load.index) == list(HOURS.tz_localize("UTC"))


def test_a_stated_zone_that_is_not_that_of_the_header_is_refused(tmp_path: Path) -> None:
    table = pd.DataFrame({"Time (Europe/Oslo)": HOURS, "kWh": LOADS})
    with naming(DataError, "a.csv", "Europe/Oslo", "data.meters.timezone is America/New_York"):
        read(tmp_path, table, timezone="America/New_York", stamp="end")
    for zone in ("Europe/Oslo", "Europe/Berlin"):  # their clocks agree
        (meter,) = read(tmp_path, table, timezone=zone, stamp="end").meters.values()
        assert meter.load.index[0] == HOURS[0].tz_localize("Europe/Oslo")


def test_what_is_billed_and_what_is_not_yet_are_no_two_meters(here: Path) -> None:
    table = pd.DataFrame({"timestamp": HOURS, "Usage not yet billed": LOADS})
    table.loc[:200, "Usage not yet billed"] = 0.0
    with naming(DataError, "'Usage not yet billed', 'Usage already billed' may measure different"):
        read(here, table.assign(**{"Usage already billed": LOADS[::-1]}))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["Production (kWh)"], "generation: 'Production (kWh)'; export the consumption"),
        (["System Production (kWh)", "Grid feed-in"], "generation: 'System Production (kWh)'; ex"),
        (["Leistung WR1 [W]", "Ertrag [kWh]"], "'Ertrag [kWh]'; 'Leistung WR1 [W]' may be either"),
        (["Pac", "DaySum", "Pdc1", "Udc1", "Iac"], "generation: 'Pac', 'DaySum', 'Pdc1'; export"),
        (["Pac (W)", "DaySum (Wh)", "Pdc1 (W)"], "'Pac (W)', 'DaySum (Wh)', 'Pdc1 (W)'; export"),
        (["PV (kWh)", "Energy (kWh)"], "generation: 'PV (kWh)'; 'Energy (kWh)' may be either"),
        (["Solar (kWh)"], "generation: 'Solar (kWh)'; export the consumption"),
    ],
)
def test_generation_is_not_proposed_as_consumption(
    tmp_path: Path, columns: list[str], told: str
) -> None:
    table = pd.DataFrame({"time": HOURS, "INV": 1, **dict.fromkeys(columns, LOADS), "Error": 0})
    with naming(DataError, told, "data.meters.columns"):
        read(tmp_path, table, stamp="start")
    with pytest.raises(DataError) as found:
        recognise([tmp_path / "a.csv"], Meters(timezone="UTC", stamp="start"), command="plfl")
    assert "to go on" not in str(found.value)
    keys = {"columns": {"load": columns[0]}, "unit": "kWh", "stamp": "start"}
    (meter,) = read(tmp_path, table, **keys).meters.values()
    np.testing.assert_array_equal(meter.load, LOADS)


@pytest.mark.parametrize("column", ["Home", "Grid (kWh)", "production hall (kWh)", "PAC (kWh)"])
def test_what_may_be_consumption_is_read_beside_generation(tmp_path: Path, column: str) -> None:
    table = pd.DataFrame({"time": HOURS, column: LOADS, "Solar (kWh)": LOADS[::-1]})
    table = table.rename(columns={"Home": "Home (kWh)"})
    (meter,) = read(tmp_path, table, stamp="start").meters.values()
    np.testing.assert_array_equal(meter.load, LOADS)


@pytest.mark.parametrize(
    "columns",
    [
        ["Vertrag 4711", "Vertrag 4712"],
        ["rack_prod", "rack_test"],
        ["Solar Offices"],
        ["Yield Street", "High Street"],
        ["Pump.inverter", "Pump.mains"],
        ["Main feed in"],
    ],
)
def test_names_of_meters_with_words_of_generation_are_read(
    tmp_path: Path, columns: list[str]
) -> None:
    table = pd.DataFrame({"time": HOURS, **{f"{column} (kWh)": LOADS for column in columns}})
    assert len(read(tmp_path, table, stamp="start").meters) == len(columns)


@pytest.mark.parametrize(
    "columns", [["Energy", "PV"], ["Gesamt", "Produktion"], ["Solar"], ["Inverter"]]
)
def test_studies_that_exist_go_on_to_read_files_with_generation(
    tmp_path: Path, columns: list[str]
) -> None:
    loads = {f"{name} (kWh)": LOADS / number for number, name in enumerate(columns, 1)}
    pd.DataFrame({"time": HOURS, **loads}).to_csv(path := tmp_path / "a.csv", index=False)
    keys = Meters(timezone="UTC", stamp="start")
    (meter,) = read_exports([path], keys, None, is_settled=True).meters.values()
    np.testing.assert_array_equal(meter.load, LOADS)
    with naming(DataError, "has no consumption by the names of its columns, but generation"):
        recognise([path], keys)


def test_the_use_of_a_meter_is_told_from_its_production(tmp_path: Path) -> None:
    table = pd.DataFrame({"time": HOURS, "Conso(Wh)": LOADS * 1000, "Prod(Wh)": LOADS * 500})
    (meter,) = read(tmp_path, table, stamp="start").meters.values()
    np.testing.assert_allclose(meter.load, LOADS)


def test_a_column_of_offsets_names_no_meters(here: Path) -> None:
    table = pd.DataFrame({"UTC Offset (minutes)": 660, "timestamp": HOURS, "energy (kWh)": LOADS})
    table.loc[200:, "UTC Offset (minutes)"] = 600
    assert [*read(here, table).meters] == ["a"]


def test_columns_of_one_name_are_offered_together(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "Verbrauch (gem. Erzeugung) [KWH] a"
    header = f"t,{name},Anteil [KWH],{name},Anteil [KWH]\n"
    rows = pd.DataFrame({"t": HOURS, "a": LOADS, "b": LOADS / 4, "c": LOADS * 2, "d": LOADS / 3})
    Path("a.csv").write_text(header + rows.to_csv(index=False, header=False), encoding="utf-8")
    assert main(["init", "meters", "a.csv", "--timezone", "Europe/Vienna"]) == 2
    *_, last_line = capsys.readouterr().err.splitlines()
    command = shlex.split(last_line)
    names = [name, f"{name} (2)"]
    assert command[-4:] == ["--only", names[0], "--only", names[1]]
    assert main(command[1:]) == 0
    told = capsys.readouterr().out
    assert all(f"{name}: 480 readings" in told for name in names)


def test_of_series_in_lists_the_import_is_offered(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Prometheus has them: seconds and texts, beside a name that ends like a unit."""
    registers = {"roof_meter_export_wh": LOADS.cumsum() / 3, "roof_meter_import_wh": LOADS.cumsum()}
    series = [
        {
            "metric": {"__name__": name},
            "values": [
                [int(time.timestamp()), f"{1e6 + 1000 * value:.0f}"]
                for time, value in zip(HOURS, values, strict=True)
            ],
        }
        for name, values in registers.items()
    ]
    content = {"status": "success", "data": {"resultType": "matrix", "result": series}}
    Path("a.json").write_text(json.dumps(content), encoding="utf-8")
    assert main(["init", "meters", "a.json"]) == 2
    *_, last_line = capsys.readouterr().err.splitlines()
    command = shlex.split(last_line)
    assert command[-2:] == ["--only", "roof_meter_import_wh"]
    assert main(command[1:]) == 0
    assert f"479 readings, {LOADS[1:].sum():.0f} kWh" in capsys.readouterr().out


def test_days_and_volts_are_neither_loads_nor_names_of_meters(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"day": HOURS.day, "hour": HOURS.hour, "date": HOURS, "VMIN": 118, "value": LOADS}
    )
    (meter,) = read(tmp_path, table.assign(unit="kWh", VMIN=LOADS * 100)).meters.values()
    assert meter.load.sum() == pytest.approx(LOADS.sum())


def test_the_register_that_never_starts_again_is_proposed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    total = pd.Series(LOADS.cumsum().round(3), HOURS)
    columns = {"ConsumptionOfDay": total - total.groupby(total.index.date).transform("first")}
    columns |= {"ConsumptionLastReading": 500 + total, "signal": -LOADS.round(1)}
    (table := pd.DataFrame(columns)).to_csv("a.csv", index_label="time")
    assert table["ConsumptionOfDay"].diff().lt(0).sum() == 19
    assert main(["init", "meters", "a.csv", "--timezone", "Europe/Vienna"]) == 2
    *_, last_line = capsys.readouterr().err.splitlines()
    assert "load=ConsumptionLastReading" in last_line


def test_parts_of_meters_that_rows_name_are_only_joined(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hours = pd.DataFrame({"time": [*HOURS] * 2, "kWh": [*LOADS, *LOADS[::-1]]})
    table = hours.assign(meter=np.repeat(["A1", "A2"], len(HOURS)))
    table[table["time"] < HOURS[240]].to_csv("a.csv", index=False)
    table[table["time"] >= HOURS[240]].to_csv("b.csv", index=False)
    assert main(["init", "meters", "a.csv", "b.csv", "--timezone", "Europe/Vienna"]) == 2
    told = capsys.readouterr().err
    assert "load=kWh" not in told
    assert main(shlex.split(told.splitlines()[-1])[1:]) == 0
    assert "A2: 480 readings" in capsys.readouterr().out


def test_of_columns_that_take_turns_the_sum_is_proposed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    is_night = (HOURS.hour < 8).tolist()
    rows = [
        {"startDate": f"{time}", name: {"consumption": load, "cost": load / 3}, other: None}
        for time, load, night in zip(HOURS, LOADS, is_night, strict=True)
        for name, other in [("offPeak", "onPeak") if night else ("onPeak", "offPeak")]
    ]
    for day in range(2):
        part = json.dumps(rows[day * 240 : (day + 1) * 240])
        Path(f"use_{day}.json").write_text(part, encoding="utf-8")
    command = ["plfl", "init", "meters", ".", "--timezone", "UTC"]
    assert main(command[1:]) == 2
    told = capsys.readouterr().err
    assert "adds them, as each row has one of them" in told
    command = shlex.split(told.splitlines()[-1].replace("UNIT", "kWh"))
    assert command[-2:] == ["^(off|on)", "--join-files"]
    assert main(command[1:]) == 0
    assert f"480 readings, {LOADS.sum():.0f} kWh" in capsys.readouterr().out


@pytest.mark.parametrize("is_second", [ROWS >= 200, ROWS % 2 == 1])
def test_meters_that_take_turns_are_no_registers(tmp_path: Path, is_second: np.ndarray) -> None:
    """One follows the other, or one is read at the hour and the other between."""
    stamps = pd.date_range(HOURS[0], periods=len(HOURS), freq="30min")
    parts = {"Building A": ~is_second, "Building B": is_second}
    parts = {name: np.where(has_reading, LOADS, np.nan) for name, has_reading in parts.items()}
    exports = read(tmp_path, pd.DataFrame({"t": stamps, **parts}), unit="kWh", stamp="end")
    for name, values in parts.items():
        load = exports.meters[name].load
        np.testing.assert_array_equal(load.dropna(), values[~np.isnan(values)])


def test_a_column_without_readings_has_no_unit_to_ask_about(tmp_path: Path) -> None:
    texts = np.where(np.arange(len(HOURS)) < 1, "1.5", "NA")
    table = pd.DataFrame({"when": HOURS, "A1": texts, "A2": LOADS * 50, "A3": LOADS * 60})
    with naming(DataError, "nothing says the unit of 'A2' and of 1 more"):
        read(tmp_path, table, None)


def write_days(folder: Path, name: str, readings: np.ndarray) -> None:
    """A file in a folder for each day, as JSON in no known format, the last one of a single row."""
    for day in range(0, len(readings), 24):
        rows = [
            {"val": round(float(value), 3), "ts": int(hour.timestamp() * 1000), "ack": 1}
            for hour, value in zip(HOURS[day:], readings[day : day + 24], strict=False)
        ]
        (folder / f"{HOURS[day]:%Y%m%d}").mkdir(exist_ok=True)
        (folder / f"{HOURS[day]:%Y%m%d}" / f"{name}.json").write_text(json.dumps(rows))


def test_files_of_days_are_joined_and_powers_beside_registers_left_out(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_days(here, "total", 1000 + LOADS[:193].cumsum())
    write_days(here, "power", LOADS[:193] * 1000 - 1100)
    folders = sorted(map(str, here.iterdir()))
    assert main(["init", "meters", ".", "--timezone", "UTC"]) == 2
    assert "; name its sub-folders: *" in capsys.readouterr().err
    assert main(["init", "meters", *folders, "--timezone", "UTC"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("plfl: 6 problems")
    assert "8 files (" in told
    assert "no register, as its readings often decrease" in told
    command = shlex.split(told.splitlines()[-1].replace("UNIT", "kWh"))
    assert {"--join-files", "load=val", "--cumulative"} <= {*command}
    assert command[-2:] == ["--leave-out", "power"]
    assert main(command[1:]) == 0
    assert f"total: 192 readings, {LOADS[1:193].sum():.0f} kWh" in capsys.readouterr().out


def test_a_register_that_is_reset_each_hour_is_one(tmp_path: Path) -> None:
    times = pd.date_range("2023-01-02", periods=4 * 96, freq="15min")
    totals = LOADS[: len(times)].reshape(-1, 4).cumsum(axis=1).ravel()
    exports = read(
        tmp_path, pd.DataFrame({"when": times, "a": totals}), cumulative=True, unit="kWh"
    )
    assert len(exports.meters) == 1


def test_equal_questions_of_many_files_are_one_line(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in range(5):
        table = pd.DataFrame({"t": HOURS + pd.Timedelta(days=20 * part), "alpha": LOADS + part})
        table.assign(beta=LOADS * 2).to_csv(f"part {part} of five.csv", index=False)
    assert main(["init", "meters", ".", "--timezone", "UTC", "--unit", "kWh"]) == 2
    told = capsys.readouterr().err
    assert told.count("'alpha', 'beta' may measure different things") == 1
    assert "5 meters (part 0 of five, part 1 of five, part 2 of five …); of part 0 of five:" in told


def test_many_different_negative_readings_are_no_marks(tmp_path: Path) -> None:
    table = pd.DataFrame({"when": HOURS, "Grid kWh": np.where(HOURS.hour == 12, -LOADS, LOADS)})
    with naming(DataError, "20 negative values", "allow_negative: true if they are what is fed in"):
        read(tmp_path, table)
    table["Grid kWh"] = np.where(HOURS.hour == 12, -1, LOADS)
    with naming(DataError, "data.meters.missing: [-1]"):
        read(tmp_path, table)


def test_a_register_beside_more_loads_is_left_out(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.DataFrame({"when": HOURS, "A1": LOADS, "A2": LOADS[::-1], "A3": LOADS.cumsum()})
    table.to_csv("a.csv", index=False)
    options = ["--timezone", "UTC", "--unit", "kWh"]
    assert main(["init", "meters", "a.csv", *options]) == 2
    command = shlex.split(capsys.readouterr().err.splitlines()[-1])
    assert command[-2:] == ["--leave-out", "A3"]
    assert main(command[1:]) == 0


def test_one_line_asks_about_the_registers_of_many_meters(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registers = {f"A{number}": (LOADS * number).cumsum() for number in range(1, 6)}
    pd.DataFrame({"when": HOURS[:60]} | {name: r[:60] for name, r in registers.items()}).to_csv(
        "a.csv", index=False
    )
    assert main(["init", "meters", "a.csv", "--timezone", "UTC", "--unit", "kWh"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("plfl: 1 problem")
    assert "5 meters (A1, A2, A3 …): line 2: A1: the readings never decrease" in told
