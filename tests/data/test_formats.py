"""Every format of exports reads its samples rightly, and a format file of one's own works as the
page says."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.cli.main import main
from plfl.config.meters import Meters
from plfl.data import meters
from plfl.data.meters import read_files
from plfl.data.meters.exports import Exports
from plfl.data.meters.formats import nested_files, schema
from plfl.data.meters.formats.schema import FormatSample, shipped_formats
from plfl.first_study.meters import recognise
from plfl.study import Study
from tests.helpers.refusals import naming
from tests.helpers.repository import ROOT

PAGE = (ROOT / "docs" / "own-data.md").read_text(encoding="utf-8")

SAMPLES = [
    pytest.param(name, sample, id=f"{name}-{sample.file}")
    for name, form in shipped_formats().items()
    for sample in form.sample
]


def keys_for(sample: FormatSample) -> Meters:
    """The only option that a recognised file needs: the place, where its zone depends on it."""
    return Meters.model_validate({"timezone": sample.timezone} if sample.timezone else {})


@pytest.mark.parametrize(("name", "sample"), SAMPLES)
def test_a_sample_is_recognised_and_read_without_options(name: str, sample: FormatSample) -> None:
    path = schema.FORMATS_FOLDER / sample.file
    exports, study = recognise([path], keys_for(sample))
    assert exports.forms[path].name == name
    assert study["data"]["meters"]["format"] == name
    loads = {meter: series.load for meter, series in exports.meters.items()}
    expected = sample.kwh if isinstance(sample.kwh, dict) else dict.fromkeys(loads, sample.kwh)
    assert len(loads) == (len(sample.kwh) if isinstance(sample.kwh, dict) else 1)
    assert {meter: pytest.approx(load.sum()) for meter, load in loads.items()} == expected
    assert {series.minutes for series in exports.meters.values()} == {sample.minutes}
    assert min(load.index[0] for load in loads.values()) == pd.Timestamp(sample.first)
    assert max(map(len, loads.values())) == sample.rows
    assert sum(int(load.isna().sum()) for load in loads.values()) == sample.missing
    for what in sample.left_out:
        assert what in exports.forms[path].words.partition("left out: ")[2]


@pytest.mark.parametrize("name", shipped_formats())
def test_a_format_has_a_sample_and_a_document(name: str) -> None:
    form = shipped_formats()[name]
    assert form.sample
    assert form.document.startswith("https://")
    assert (
        len((schema.FORMATS_FOLDER / f"{name}.toml").read_text(encoding="utf-8").splitlines()) < 100
    )


def test_the_page_lists_every_format() -> None:
    listed = PAGE.partition("| format | exports |\n|---|---|\n")[2].partition("\n\n")[0]
    known = [f"| `{key}`: {form.name} | {form.about} |" for key, form in shipped_formats().items()]
    assert listed.splitlines() == known


def test_the_format_on_the_page_reads_its_export(here: Path) -> None:
    section = PAGE.partition("## Add a format in ten minutes")[2].partition("\n## ")[0]
    export, form, sample = re.findall(r"```(?:toml)?\n(.*?)```", section, re.S)
    hours = [f"A1;31.01.2023;{hour:02}:00;in;{250 + hour};8\n" for hour in range(1, 4)]
    Path("portal.sample.csv").write_text(export + "".join(hours), encoding="utf-8")
    Path("mine.toml").write_text(form + sample, encoding="utf-8")
    (told,) = schema.load_format("mine.toml").sample
    exports, study = recognise([Path("portal.sample.csv")], Meters(format="mine.toml"))
    (meter,) = exports.meters.values()
    assert meter.load.iloc[0] == told.kwh
    assert meter.load.index[0] == pd.Timestamp(told.first)
    (form,) = exports.forms.values()
    assert form.words.endswith("left out: money, feed-in (1 row)")
    assert study["data"]["meters"]["timezone"] == "Europe/Vienna"


def test_the_samples_of_a_format_are_compared_on_demand(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "formats", "octopus"]) == 0
    assert "all samples are read as the format expects" in capsys.readouterr().out
    form = (
        HEAD
        + """
    recognise.header = ["Time", "Load"]
    time = { column = "Time", marks = "end", zone = "UTC" }
    load = { columns = "Load", unit = "Wh" }
    [left_out]
    money = "Prise*"
    [[sample]]
    file = "mine.sample.csv"
    minutes = 60
    first = 2023-01-31T01:00:00Z
    rows = 2
    kwh = 0.7
    """
    )
    Path("mine.toml").write_text(form, encoding="utf-8")
    rows = "Time,Load,Price\n2023-01-31 01:00,250,8\n2023-01-31 02:00,350,8\n"
    Path("mine.sample.csv").write_text(rows, encoding="utf-8")
    assert main(["data", "formats", "mine.toml"]) == 2
    printed = capsys.readouterr()
    assert "left_out.money fits no column" in printed.out
    assert "mine.sample: 0.6 kWh" in printed.out
    assert "kwh of mine.sample: 0.6, but the format expects 0.7" in printed.err


def test_a_named_format_says_the_columns(tmp_path: Path) -> None:
    form = """
    recognise.header = ["Time", "Load"]
    time = { column = "Time", marks = "end", zone = "UTC" }
    load = { columns = "Load", unit = "Wh" }
    """
    with pytest.raises(DataError, match=r"data\.meters\.columns\.load: the format .* says it"):
        read(tmp_path, form, "Time,Load\n2023-01-31 01:00,250\n", columns={"load": "Load"})


# -- what a format file can say --------------------------------------------------------------------

HEAD = """
name = "Test"
about = "A test."
document = "https://example.org"
date = 2026-11-27
"""


def read(tmp_path: Path, form: str, content: str, **keys: object) -> Exports:
    """The content of an export in a format of one's own."""
    (tmp_path / "mine.toml").write_text(HEAD + form, encoding="utf-8")
    (path := tmp_path / "m.csv").write_text(content, encoding="utf-8")
    keys = {"timezone": "Europe/Berlin", **keys, "format": str(tmp_path / "mine.toml")}
    return recognise([path], Meters.model_validate(keys))[0]


def load(exports: Exports, name: str = "m") -> pd.Series:
    return exports.meters[name].load


def days(*counts: int) -> str:
    """Days around a change of clocks with so many hours, each of as many Wh as its number."""
    names = ",".join(f"H{number}" for number in range(1, 26))
    rows = []
    for day, count in enumerate(counts, 25):
        values = [str(number) if number <= count else "" for number in range(1, 26)]
        rows.append(f"2023-03-{day},{','.join(values)}\n")
    return f"Date,{names}\n{''.join(rows)}"


def test_intervals_of_a_day_can_be_those_that_elapsed(tmp_path: Path) -> None:
    form = """
    recognise.header = ["Date", "H1", "H25"]
    time = { column = "Date", of_day = "H*", marks = "start", minutes = 60, counts = "elapsed" }
    load.unit = "Wh"
    """
    found = load(read(tmp_path, form, days(24, 23, 24)))
    expected = [n / 1000 for count in (24, 23, 24) for n in range(1, count + 1)]
    np.testing.assert_allclose(found, expected)
    assert found.index[0] == pd.Timestamp("2023-03-25 00:00Z")
    assert found.index[-1] == pd.Timestamp("2023-03-27 22:00Z")


def test_intervals_of_a_day_can_be_numbered(tmp_path: Path) -> None:
    form = """
    recognise.header = ["Day", "Period"]
    time = { column = "Day", number = "Period", minutes = 30, marks = "start", zone = "Etc/GMT-10" }
    load = { columns = "kWh" }
    """
    rows = [f"3/01/2023,{number},{number / 10}\n" for number in range(1, 5)]
    rows += [f"13/01/2023,{number},{number}\n" for number in range(1, 3)]
    found = load(read(tmp_path, form, "Day,Period,kWh\n" + "".join(rows)))
    assert found.iloc[:4].tolist() == [0.1, 0.2, 0.3, 0.4]
    assert found.index[0] == pd.Timestamp("2023-01-02 14:30Z")
    assert found.index[-1] == pd.Timestamp("2023-01-12 15:00Z")


def test_columns_can_be_times(tmp_path: Path) -> None:
    form = """
    recognise.header = ["entity", "type", "2023-01-01T00:00:00+01:00"]
    time = { columns = "20*", marks = "start", zone = "offset" }
    meters.column = "entity"
    load.unit = "kWh"
    rows = [{ column = "type", use = "import", leave_out = { feed-in = "export" } }]
    """
    head = ",".join(f"2023-01-01T{hour:02}:00:00+01:00" for hour in range(4))
    rows = ["a,import,1,2,3,4", "b,import,5,6,7,8", "c,export,0,0,1,0"]
    exports = read(tmp_path, form, "\n".join([f"entity,type,{head}", *rows]))
    assert [*exports.meters] == ["a", "b"]
    assert load(exports, "b").tolist() == [5, 6, 7, 8]
    assert load(exports, "b").index[0] == pd.Timestamp("2023-01-01 00:00Z")


def test_columns_can_be_meters(tmp_path: Path) -> None:
    form = """
    recognise.header = ["Time", "* (kWhs)"]
    time = { column = "Time", marks = "start" }
    meters.by_column = true
    load = { columns = "* (kWhs)", unit = "kWh", missing = ["No CT"] }
    """
    mains = ["1", "2", "No CT", "4"]
    rows = [f"2023-01-01 0{hour}:00,{load},{hour},9" for hour, load in enumerate(mains)]
    exports = read(tmp_path, form, "\n".join(["Time,Mains_A (kWhs),Oven (kWhs),Volts", *rows]))
    assert [*exports.meters] == ["Mains_A", "Oven"]
    assert load(exports, "Mains_A").isna().tolist() == [False, False, True, False]
    assert load(exports, "Oven").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("circuit", "words"), [(",Oven (kWh)", "circuits"), ("", "")])
def test_columns_of_readings_are_not_left_out(tmp_path: Path, circuit: str, words: str) -> None:
    form = """
    recognise.header = ["Time", "Mains (kWh)"]
    time = { column = "Time", marks = "start" }
    load.columns = "Mains (kWh)"
    left_out.circuits = "* (kWh)"
    """
    rows = [f"2023-01-01 0{hour}:00,{hour},1" for hour in range(3)]
    content = "\n".join([f"Time,Mains (kWh){circuit}", *rows])
    exports = read(tmp_path, form, content if circuit else content.replace(",1\n", "\n")[:-2])
    assert exports.forms[tmp_path / "m.csv"].words.partition("left out: ")[2] == words


def test_totals_of_registers_have_factors(tmp_path: Path) -> None:
    form = """
    recognise.header = ["t", "day", "night"]
    time = { column = "t", marks = "end" }
    load = { columns = ["day", "night"], unit = "Wh", cumulative = true, factor_column = "factor" }
    """
    rows = [
        "2023-01-01 00:00,10,20,100",
        "2023-01-01 01:00,10,25,100",
        "2023-01-01 02:00,13,25,100",
    ]
    found = load(read(tmp_path, form, "\n".join(["t,day,night,factor", *rows])))
    assert found.tolist() == [0.5, 0.3]
    assert found.index[0] == pd.Timestamp("2023-01-01 00:00Z")


def test_spans_preambles_units_and_ends_of_tables(tmp_path: Path) -> None:
    form = """
    recognise = { begins = "^Portal", header = ["Period", "Value"] }
    table = { skip = 1, ends = "^Sent to the grid" }
    time = { column = "Period", span = " to ", marks = "start" }
    load = { columns = "Value", unit_pattern = "Unit;(k?Wh?)$" }
    """
    rows = [f"0{hour}.01.2023 00:00 to 0{hour}.01.2023 01:00;{hour},5" for hour in range(1, 3)]
    rows[1:1] = ["01.01.2023 01:00 to 01.01.2023 02:00;3,5", "13.01.2023 00:00 to 01:00;2,0"]
    head = ["Portal 1", "Unit;Wh", "Period;Value", "(local time);(see above)"]
    lines = [*head, *rows, "Sent to the grid", "01.01.2023 00:00 to 01:00;7,0"]
    found = load(read(tmp_path, form, "\n".join(lines))).dropna()
    assert found.sum() == pytest.approx(0.0095)
    assert found.iloc[0] == 0.0015


def test_a_workbook_has_numbers_and_dates_of_its_own(tmp_path: Path) -> None:
    form = """
    recognise.header = ["Beginn", "Wert"]
    time = { column = "Beginn", marks = "start", format = "%d.%m.%Y %H:%M" }
    meters.column = "id"
    load = { columns = "Wert", unit = "kWh", decimal = "," }
    """
    (tmp_path / "mine.toml").write_text(HEAD + form, encoding="utf-8")
    hours = pd.date_range("2023-01-01", periods=3, freq="h")
    table = pd.DataFrame({"id": ["one", None, None], "Beginn": hours, "Wert": [1.25, 2.5, 0.125]})
    table.to_excel(tmp_path / "m.xlsx", index=False)
    keys = Meters(timezone="UTC", format=str(tmp_path / "mine.toml"))
    assert load(recognise([tmp_path / "m.xlsx"], keys)[0]).tolist() == [1.25, 2.5, 0.125]


def test_longer_intervals_beside_others_are_left_out(tmp_path: Path) -> None:
    form = """
    recognise.header = ["from", "to", "kWh"]
    time = { column = "from", end = "to", marks = "start" }
    load = { columns = "kWh" }
    """
    spans = {"00:00": "2023-03-27 00:00", "00:00 ": "2023-03-26 01:00"}
    spans |= {"01:00": "2023-03-26 03:00", "03:00": "2023-03-26 04:00"}  # clocks go forward
    rows = [f"2023-03-26 {begin.strip()},{end},{n}" for n, (begin, end) in enumerate(spans.items())]
    content = "\n".join(["from,to,kWh", *rows])
    exports = read(tmp_path, form, content)
    assert load(exports).tolist() == [1, 2, 3]
    assert "longer intervals of the same energy (1 row)" in exports.forms[tmp_path / "m.csv"].words
    with naming(DataError, "mine.toml", "time.end", "write marks = 'start'"):
        read(tmp_path, form.replace('"start"', '"end"'), content)


def test_a_file_may_have_no_header(tmp_path: Path) -> None:
    form = r"""
    recognise.begins = '^\d{10},\d+$'
    table.names = ["time", "value"]
    time = { column = "time", marks = "end", zone = "offset" }
    load = { columns = "value", unit = "Wh" }
    """
    found = load(read(tmp_path, form, "1672531200,5\n1672534800,6\n1672538400,7\n"))
    assert found.tolist() == [0.005, 0.006, 0.007]
    assert found.index[0] == pd.Timestamp("2023-01-01 00:00Z")


def test_json_has_rows_at_the_end_of_a_way(tmp_path: Path) -> None:
    form = """
    tree.rows = "homes.*.use"
    recognise.header = ["t", "v.kWh", "id"]
    time = { column = "t", marks = "start", zone = "offset" }
    meters.column = "id"
    load = { columns = "v.kWh", unit = "kWh" }
    """
    homes = [
        {
            "id": home,
            "use": [
                {"t": f"2023-01-01T0{hour}:00:00Z", "v": {"kWh": home * hour}} for hour in range(3)
            ],
        }
        for home in (1, 2)
    ]
    exports = read(tmp_path, form, json.dumps({"homes": homes, "version": 3}))
    assert [*exports.meters] == ["1", "2"]
    assert load(exports, "2").tolist() == [0, 2, 4]


XML_FORM = """
tree.rows = "Meter.*.S"
recognise.header = ["n", "V", "B.at"]
time = { column = "B.at", sequence = "n", minutes_column = "m", marks = "start", zone = "offset" }
meters.column = "id"
load = { columns = "V", unit_column = "V.unit" }
"""


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_xml_has_elements_and_attributes_in_a_sequence(names: list[str], tmp_path: Path) -> None:
    meters = [
        f'<x:Meter id="{name}"><x:B at="2023-03-25T23:30:00Z"/><x:m>30</x:m>'
        + "".join(f'<x:S n="{n}"><x:V unit="Wh">{n * factor}</x:V></x:S>' for n in (1, 2, 4))
        + "</x:Meter>"
        for factor, name in enumerate(names, 1)
    ]
    content = f'<?xml version="1.0"?><x:All xmlns:x="urn:x">{"".join(meters)}</x:All>'
    exports = read(tmp_path, XML_FORM, content)
    found = load(exports, "m" if len(names) == 1 else "b") * 1000 / len(names)
    assert found.index[0] == pd.Timestamp("2023-03-26 00:00Z")
    np.testing.assert_allclose(found, [1, 2, np.nan, 4])


def test_a_sequence_needs_an_offset_and_a_length(tmp_path: Path) -> None:
    with naming(DataError, "mine.toml", "time.zone", "has an offset"):
        read(tmp_path, XML_FORM.replace('zone = "offset"', 'zone = "place"'), "<a/>")
    with naming(DataError, "mine.toml", "time.minutes_column", "how long"):
        read(tmp_path, XML_FORM.replace('minutes_column = "m", ', ""), "<a/>")


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ([["a", 1], ["b", 2]], [{"0": "a", "1": 1}, {"0": "b", "1": 2}]),
        ({"t": [1, 2], "v": [3, 4]}, [{"t": 1, "v": 3}, {"t": 2, "v": 4}]),
        ({"a": 1, "b": 2}, [{"key": "a", "value": 1}, {"key": "b", "value": 2}]),
        ({"a": {"v": 1}, "b": {"v": 2}}, [{"key": "a", "v": 1}, {"key": "b", "v": 2}]),
    ],
)
def test_rows_of_json_have_several_forms(content: object, rows: list[dict[str, object]]) -> None:
    assert nested_files.read(json.dumps(content).encode(), "").to_dict("records") == rows


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ('rows = [{ column = "way", use = "in" }]', ("line 3", "'both' in 'way' is unknown")),
        ('rows = [{ column = "way", leave_out = { x = "*" } }]', ("no readings of consum",)),
        ('load = { columns = "kWh", unit_pattern = "Unit (.*)" }', ("data.meters.unit",)),
        ('load.columns = "watts"', ("has no column 'watts' (load.columns of the format",)),
        ('quality = { column = "status" }', ("no column 'status' (quality.column of the format",)),
        ('quality = { column = "way", measured = "in" }', ("line 3", "mark 'both' is unknown")),
        ('recognise.header = ["a"]', ("not in the format", "line 1 has no 'a'", "'plain'")),
        ('time = { marks = "start" }', ("mine.toml", "time.column: name the column")),
        ('load.colums = "kWh"', ("mine.toml", "load.colums: unknown key", "columns")),
    ],
)
def test_what_does_not_fit_is_refused(form: str, words: tuple[str, ...], tmp_path: Path) -> None:
    blocks = {
        "recognise": 'recognise.header = ["t", "kWh"]',
        "time": 'time = { column = "t", marks = "start" }',
        "load": 'load.columns = "kWh"',
    }
    blocks[form.partition("=")[0].partition(".")[0].strip()] = form
    content = "t,way,kWh\n2023-01-01 00:00,in,1\n2023-01-01 01:00,both,2\n"
    with naming(DataError, *words):
        read(tmp_path, "\n".join(blocks.values()), content)


def test_keys_that_a_format_says_are_refused(tmp_path: Path) -> None:
    with naming(DataError, "data.meters.stamp", "remove", "plain"):
        recognise([schema.FORMATS_FOLDER / "nem12.sample.csv"], Meters(format="nem12", stamp="end"))
    with naming(DataError, "there is no format 'nem2'", "did you mean 'nem12'"):
        recognise([schema.FORMATS_FOLDER / "nem12.sample.csv"], Meters(format="nem2"))


def test_a_format_is_written_from_the_answers(here: Path, invoke: Callable[..., Any]) -> None:
    hours = pd.date_range("2023-01-12", periods=48, freq="h")
    rows = [f"{hour:%d/%m/%Y %H:%M};house;{hour.hour * 7 % 24 + 5},5" for hour in hours]
    Path("a.csv").write_text("\n".join(["moment;name;value", *rows]), encoding="utf-8")
    answers = "--timezone Europe/Vienna --stamp start --unit Wh --columns timestamp=moment"
    command = ("init", "meters", "a.csv", "--name", "first", *answers.split())
    invoke(*command, "--save-format", "mine.toml")
    invoke("init", "meters", "a.csv", "--name", "second", "--format", "mine.toml")
    first, second = (
        meters.read(Study.load(f"{name}.yaml").data, "all")["a"] for name in ("first", "second")
    )
    pd.testing.assert_frame_equal(first, second)
    assert first["load"].iloc[0] == 0.0055


def test_marks_of_quality_are_in_a_saved_format(here: Path, invoke: Callable[..., Any]) -> None:
    stamps = pd.date_range("2023-01-02", periods=400, freq="h").strftime("%Y-%m-%d %H:%M")
    table = pd.DataFrame({"start": stamps, "kWh": np.arange(400) % 7, "Status": "ok"})
    table.loc[5, "Status"] = "Estimated"
    table.to_csv("a.csv", index=False)
    invoke("init", "meters", "a.csv", "--timezone", "UTC", "--save-format", "mine.toml")
    quality = schema.parse(Path("mine.toml")).quality
    assert quality is not None
    assert (quality.column, quality.measured, quality.estimated) == (
        *(["Status"], ["ok"], ["Estimated"]),
    )
    table.assign(Status="fault").to_csv("b.csv", index=False)
    said = invoke("init", "meters", "b.csv", "--name", "b", "--format", "mine.toml", status=2).err
    assert "the mark 'fault' is unknown" in said


def test_the_sample_of_an_own_format_is_compared_when_it_is_used(
    here: Path, invoke: Callable[..., Any]
) -> None:
    stamps = pd.date_range("2023-01-02", periods=400, freq="h").strftime("%Y-%m-%d %H:%M")
    pd.DataFrame({"start": stamps, "kWh": np.arange(400) % 7}).to_csv("a.csv", index=False)
    invoke("init", "meters", "a.csv", "--timezone", "UTC", "--save-format", "mine.toml")
    sample = (
        "\n[[sample]]\nfile = 'a.csv'\nminutes = 60\nfirst = 2023-01-02T01:00:00Z\nrows = 400\n"
    )
    form = Path("mine.toml").read_text()
    Path("mine.toml").write_text(f"{form}{sample}kwh = 12\n")
    command = ("init", "meters", "a.csv", "--name", "b", "--format", "mine.toml")
    said = invoke(*command, status=2).err
    assert "mine.toml: its sample is read otherwise: kwh of a: 1197, but" in said
    Path("mine.toml").write_text(f"{form}{sample}kwh = 1197\n")
    invoke(*command)


def test_accumulated_reads_are_refused_by_their_own_name(tmp_path: Path) -> None:
    lines = ["100,NEM13,202401010000,MDA1,RET1", "250,NMI1,11,1,11,1,METER1,I,,100,20231001,A"]
    (path := tmp_path / "a.csv").write_text("\n".join([*lines, "900"]))
    with naming(DataError, "a.csv: is NEM13 (line 2)", "months apart", "(NEM12)") as caught:
        recognise([path], Meters())
    assert "damaged" not in str(caught.value)


@pytest.mark.parametrize("second", [0, 34])
def test_messages_of_a_device_need_no_whole_minutes(tmp_path: Path, second: int) -> None:
    sample = (schema.FORMATS_FOLDER / "tasmota.sample.jsonl").read_text(encoding="utf-8")
    first = json.loads(sample.splitlines()[0])
    start = pd.Timestamp("2024-10-01 00:00") + pd.Timedelta(seconds=second)
    messages = []
    for number in range(288 * 15):
        first["Time"] = (start + pd.Timedelta(minutes=5 * number)).isoformat()
        first["ENERGY"]["Total"] = round(100 + 0.02 * number + 0.01 * (number // 288 % 2), 3)
        messages.append(json.dumps(first))
    (path := tmp_path / "plug.txt").write_text("\n".join(messages))
    (meter,) = recognise([path], Meters(timezone="Europe/Berlin"))[0].meters.values()
    assert meter.minutes == 15
    assert meter.load.iloc[:90].sum() == pytest.approx(90 * 0.06)
    assert meter.load.between(0.049, 0.071).all()


def test_rows_of_unknown_xml_are_asked_about(tmp_path: Path) -> None:
    entries = "".join(
        f"<x:LogEntry><x:Timestamp>{at:%Y-%m-%dT%H:%M}Z</x:Timestamp>"
        f"<x:Energy>{200 + 10 * at.hour}</x:Energy></x:LogEntry>"
        for at in pd.date_range("2024-01-01", periods=48 * 20, freq="30min")
    )
    text = f"<x:Response xmlns:x='urn:x'><x:Id>7</x:Id><x:Log>{entries}</x:Log></x:Response>"
    (path := tmp_path / "profile.xml").write_text(text)
    with naming(DataError, "the unit of 'Energy'", "200, 200, 430", "every 30 minutes"):
        recognise([path], Meters())
    (meter,) = recognise([path], Meters(unit="Wh"))[0].meters.values()
    assert meter.load.sum() == pytest.approx(20 * 2 * sum(0.2 + 0.01 * h for h in range(24)))


def test_an_entry_of_json_that_is_no_row_is_none(tmp_path: Path) -> None:
    stamps = pd.date_range("2024-01-01", periods=400, freq="h")
    rows = [{"time": str(at), "kWh": 1 + at.hour / 8} for at in stamps]
    (path := tmp_path / "a.json").write_text(json.dumps({"readings": [*rows[:9], None, *rows[9:]]}))
    (meter,) = recognise([path], Meters(timezone="UTC", stamp="end"))[0].meters.values()
    assert len(meter.load) == len(rows)


def test_lines_of_json_that_is_too_deep_are_refused(tmp_path: Path) -> None:
    (path := tmp_path / "a.json").write_text('{"a": 1}\n{"a": ' + "[" * 200_000)
    with naming(DataError, "a.json: is JSON in no known format"):
        recognise([path], Meters(timezone="UTC"))


def test_lines_of_json_are_a_table(tmp_path: Path) -> None:
    stamps = pd.date_range("2024-01-01", periods=400, freq="h")
    lines = [json.dumps({"at": str(at), "used kWh": 1 + at.hour / 8}) for at in stamps]
    (path := tmp_path / "a.json").write_text("\n".join(lines))
    (meter,) = recognise([path], Meters(timezone="UTC", stamp="end"))[0].meters.values()
    assert meter.load.sum() == pytest.approx(sum(1 + at.hour / 8 for at in stamps))


def test_files_whose_rows_name_the_same_meter_are_parts_of_it(here: Path) -> None:
    sample = schema.FORMATS_FOLDER / "fronius_archive.sample.json"
    text = sample.read_text(encoding="utf-8")
    for name, time in (("a", "T00:00"), ("b", "T12:00")):
        Path(f"{name}.json").write_text(text.replace("-04T00:00", f"-04{time}"), encoding="utf-8")
    paths, keys = [Path("a.json"), Path("b.json")], Meters(timezone="Europe/Vienna")
    exports, study = recognise(paths, keys)
    assert [*exports.meters] == ["meter:16501544"]
    assert study["data"]["meters"]["join_files"]
    assert exports.meters["meter:16501544"].load.sum() == pytest.approx(0.4)
    apart = recognise(paths, keys.model_copy(update={"join_files": False}))[0]
    assert [*apart.meters] == ["a", "b"]
    text = text.replace("meter:16501544", "meter:2")
    Path("b.json").write_text(text, encoding="utf-8")
    assert [*recognise(paths, keys)[0].meters] == ["a", "b"]


STATISTICS = "statistic_id,unit,start,delta\n"


def statistics(**sensors: float | None) -> str:
    """Two days of hours of the sensors, each the same of its load."""
    hours = pd.date_range("2024-01-26", periods=48, freq="h")
    return STATISTICS + "".join(
        f"sensor.{name},{'kWh' if value else 'm³'},{hour:%d.%m.%Y %H:%M},"
        f"{(value or 0) + hour.hour}\n"
        for name, value in sensors.items()
        for hour in hours
    )


def test_sensors_of_the_same_name_are_those_of_several_homes(here: Path) -> None:
    text = statistics(grid=0.5)
    Path("smith.csv").write_text(text)
    Path("jones.csv").write_text(text.replace(".01.2024", ".02.2024"))
    paths = [Path("smith.csv"), Path("jones.csv")]
    exports, study = recognise(paths, Meters(timezone="Europe/Berlin"))
    assert [*exports.meters] == ["smith", "jones"]
    assert "join_files" not in study["data"]["meters"]


def test_a_lone_meter_has_the_name_in_its_rows_if_another_file_has_it(here: Path) -> None:
    text = statistics(bb=0.5)
    Path("p1.csv").write_text(text + statistics(a=1.5).removeprefix(STATISTICS))
    Path("p2.csv").write_text(text.replace(".01.2024", ".02.2024"))
    Path("north.csv").write_text(statistics(grid=2.5))
    form = (schema.FORMATS_FOLDER / "home_assistant_deltas.toml").read_text(encoding="utf-8")
    form = form.partition("[[sample]]")[0]
    Path("home.toml").write_text(form, encoding="utf-8")
    Path("mine.toml").write_text(form.replace("is_unique = false", ""), encoding="utf-8")
    paths = [Path("p1.csv"), Path("p2.csv"), Path("north.csv")]
    keys = Meters(timezone="Europe/Berlin", join_files=True, format="mine.toml")
    homes, _ = recognise(paths, keys.model_copy(update={"format": "home.toml"}))
    assert [*homes.meters] == ["sensor.bb", "sensor.a", "p2", "north"]
    exports, study = recognise(paths, keys)
    assert [*exports.meters] == ["sensor.bb", "sensor.a", "north"]
    assert exports.meters["sensor.bb"].load.count() == 2 * 48
    keys = Meters.model_validate(study["data"]["meters"] | {"leave_out": []})
    last_known = {"north": pd.Timestamp("2024-01-27")}
    tables, _ = read_files(paths[2:], keys, by_file=False, last_known=last_known)
    assert [*tables] == ["north"]
    tables, _ = read_files(paths[1:2], keys, by_file=False, last_known=last_known)
    assert [*tables] == ["sensor.bb"]


def test_statistics_of_export_are_left_out_beside_those_of_import(tmp_path: Path) -> None:
    path, keys = tmp_path / "a.csv", Meters(timezone="Europe/Berlin")
    path.write_text(statistics(p1_energy_import=0.5, p1_energy_export=0.25, heat_pump=1.5))
    exports, _ = recognise([path], keys)
    assert {*exports.meters} == {"sensor.p1_energy_import", "sensor.heat_pump"}
    assert "left out: feed-in and production (48 rows)" in exports.report()[0]
    path.write_text(statistics(production_hall=0.5, export_office=0.25))
    assert len(recognise([path], keys)[0].meters) == 2


def test_registers_in_rows_of_a_known_format_are_added(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(statistics(import_tariff_1=0.5, import_tariff_2=0.25, gas=None))
    keys = Meters(timezone="Europe/Berlin", add="_tariff_[12]$")
    exports, _ = recognise([path], keys)
    (meter,) = exports.meters.values()
    assert meter.load.sum() == pytest.approx(2 * (2 * sum(range(24)) + 24 * 0.75))


def test_a_file_of_feed_in_is_left_out_beside_one_of_consumption(here: Path) -> None:
    days = pd.date_range("2026-04-01 00:15", periods=96, freq="15min")
    for sign in "+-":
        rows = [f"{day:%d.%m.%Y %H:%M:%S};{day.minute / 10};OK" for day in days]
        lines = "\n".join([f"Datum;{sign}A/000001 [kW];Status", *rows])
        Path(f"{sign}A.csv").write_text(lines.replace(".0;", ",0;").replace(".5;", ",5;"))
    exports, study = recognise([here], Meters())
    assert {*exports.meters} == {"+A"}
    assert study["data"]["clients"] == 1
    words = "-A.csv has no readings of consumption (only feed-in) and is left out"
    assert any(f"assumed: {here / words}" == line for line in exports.report())
    with naming(DataError, "-A.csv: has no readings of consumption (only feed-in)"):
        recognise([here / "-A.csv"], Meters())


@pytest.mark.parametrize(("factor", "rows"), [(1, 4), (3, 3)])
def test_a_register_beside_loads_fills_rows_without_one(
    tmp_path: Path, factor: int, rows: int
) -> None:
    form = """
    recognise.header = ["Time", "Load"]
    time = { column = "Time", marks = "end" }
    load = { columns = "Load", register_column = "Count", unit = "kWh" }
    """
    lines = ["Time,Load,Count"]
    counts = [10, 11.5, 12.25, 14.25, 15.25]
    for hour, (value, count) in enumerate(zip(["", 1.5, "", 2, 1], counts, strict=True), 1):
        lines.append(f"2023-01-31 0{hour}:00,{value},{factor * count}")
    series = load(read(tmp_path, form, "\n".join(lines)))
    assert series.count() == rows
    assert series.sum() == 4.5 + 0.75 * (rows == 4)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"SeriesType": "Detail"}}',
        '[{"SeriesType": "Detail"}]',
        '{"Body": {"Data": [{"SeriesType": "Detail"}]}}',
        '{"EnergyReal_WAC_Plus_Absolute": {"Values": {"0": 1}}}',
    ],
)
def test_other_files_that_look_like_a_format_are_refused(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "a.json").write_text(text, encoding="utf-8")
    with naming(DataError, "a.json: is Fronius", "damaged: parts of such files are missing"):
        recognise([path], Meters(timezone="Europe/Vienna"))


def test_blocks_may_be_empty(tmp_path: Path) -> None:
    keys, folder = Meters(timezone="Europe/Vienna"), schema.FORMATS_FOLDER
    archive = json.loads((folder / "fronius_archive.sample.json").read_text(encoding="utf-8"))
    for block in archive["Body"]["Data"].values():
        block["Data"]["Current_AC_Phase_1"] = {"Unit": "A", "Values": None}
    (path := tmp_path / "a.json").write_text(json.dumps(archive), encoding="utf-8")
    (meter,) = recognise([path], keys)[0].meters.values()
    assert meter.load.sum() == pytest.approx(0.2)
    text = (folder / "stark_df2.sample.txt").read_text(encoding="utf-8")
    (path := tmp_path / "b.df2").write_text(text.replace("#F2\n", "#F2\n#\n"), encoding="utf-8")
    assert len(recognise([path], keys)[0].meters) == 2


def test_packets_and_telegrams_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    quarters = " ".join(f'E{number}="1"' for number in range(1, 97))
    texts = {
        "a.log": "/ISK5\\2\n\n1-0:1.8.1(000100.000*kWh)\n!\n0-0:1.0.0(231029024500)\n",
        "b.df2": "#F2\n#O 1\n#S 1\n27/07/05,00:30\n",
        "c.xml": '<FlussoMisure CodFlusso="PDO"><DatiPod><Pod>IT1</Pod><MeseAnno>03/2026</MeseAnno>'
        f"<Ea {quarters}>29</Ea></DatiPod></FlussoMisure>",
    }
    for (name, text), words in zip(
        texts.items(), ("no date", "line 4 has 2 fields", "on which clocks change"), strict=True
    ):
        (path := tmp_path / name).write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=words):
            recognise([path], Meters(timezone="Europe/Rome"))
