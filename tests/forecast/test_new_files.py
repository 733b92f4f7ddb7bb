"""New files are read as the study's own files were: `plfl init meters`, then `plfl forecast`."""

import io
import itertools
import logging
import re
import shutil
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
import yaml

from plfl.base.errors import DataError, Problem, ResultsError
from plfl.cli.meters import share_messages
from plfl.config.meters import Meters
from plfl.config.windows import Windows
from plfl.data.meters import read_files
from plfl.data.meters.file_contents import NO_READING
from plfl.data.sources import load_dataset
from plfl.deploy.forecasts import Forecasts
from plfl.first_study.meters import describe_tests, recognise, write
from plfl.forecast.backtest import backtest, pairs
from plfl.forecast.choice import Forecasters
from plfl.forecast.meter_files import MeterFiles
from plfl.forecast.misfits import describe_scale
from plfl.forecast.repeated_hour import place_lone
from plfl.forecast.study_forecasts import take_waiting
from plfl.pipeline.file_patterns import FilePatterns
from plfl.results.records import write_facts, write_table
from plfl.study import Study
from tests.helpers.kept_baselines import write_results, write_sums
from tests.helpers.refusals import naming
from tests.helpers.repository import ROOT

ZONE = "Europe/Berlin"
NAMES = ("attic", "barn")
HOMES = (*NAMES, "cellar")
DAY_FIRST = "%d/%m/%Y %H:%M"
FIRST, LAST = "2024-02-10", "2024-03-29"
"""The study's readings are between these days."""


def make_load(name: str, ends: pd.DatetimeIndex) -> np.ndarray:
    """Loads in kWh at instants: a daily cycle with noise, the same whenever it is asked for."""
    hours = ends.as_unit("s").asi8 // 3600
    noise = np.random.default_rng(len(name)).random(10_000)[hours % 10_000]
    return (1 + len(name) / 10 + np.sin(hours * np.pi / 12) * 0.8 + 0.2 * noise).round(4)


def make_hours(first: str, last: str, zone: str = ZONE) -> pd.DatetimeIndex:
    """The ends of the hours after the beginning of the first day, until that of the last one."""
    return pd.date_range(first, last, freq="h", tz=zone)[1:]


def export(folder: str, first: str, last: str, form: str = DAY_FIRST, factor: float = 1) -> None:
    """Write a file of each meter with local times."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    ends = make_hours(first, last)
    for name in NAMES:
        table = pd.DataFrame({"time": ends.strftime(form), "kWh": factor * make_load(name, ends)})
        table.to_csv(Path(folder, f"{name}.csv"), index=False)


@cache
def make_files(make: Callable[..., Path], *arguments: object) -> tuple[Path, dict[Path, bytes]]:
    """The results folder that a function makes, and all files beside its exports."""
    with TemporaryDirectory() as folder, chdir(folder):
        results = make(*arguments)
        paths = [path for path in Path().rglob("*.*") if "exports" not in path.parts]
        return results, {path: path.read_bytes() for path in paths if path.is_file()}


def copy_results(make: Callable[..., Path], *arguments: object) -> Path:
    """The results folder that a function makes once, and its other files, in the folder of this
    test."""
    results, files = make_files(make, *arguments)
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return results


def write_results_of(name: str, exports: str, blocks: Any = None, **keys: Any) -> Path:
    """The results folder of a study that `plfl init meters` wrote of a folder of exports; it keeps
    the naive forecast of a day before."""
    _, content = recognise([Path(exports)], Meters(**keys))
    write(Path(f"{name}.yaml"), content | {"baselines": {"trees": 2}} | (blocks or {}))
    return write_results(Study.load(f"{name}.yaml"), "naive_day")


def make_results(form: str) -> Path:
    """The results folder of a study of exports with stamps in a format."""
    export("exports", FIRST, LAST, form)
    return write_results_of("meters", "exports", timezone=ZONE)


def make_adjusted(conformal: str) -> Path:
    """The results folder of a study of intervals with this kind of widths."""
    export("exports", FIRST, LAST)
    task = {"conformal": conformal, "level": 0.8}
    return write_results_of("meters", "exports", {"task": task}, timezone=ZONE)


@pytest.fixture
def results() -> Path:
    return copy_results(make_results, DAY_FIRST)


def print_forecasts(invoke: Callable, *arguments: object, status: int = 0) -> pd.DataFrame:
    """What `plfl forecast` prints with the forecasts of a day before."""
    printed = invoke("forecast", *arguments, "--with", "naive_day", status=status)
    return pd.read_csv(io.StringIO(printed.out))


def select_meter(table: pd.DataFrame, name: str = "attic") -> pd.DataFrame:
    return table[table["client"] == name].reset_index(drop=True)


@pytest.mark.parametrize("form", [DAY_FIRST, "%m/%d/%Y %H:%M"])
def test_the_first_days_of_a_month_are_read_in_the_date_order_of_the_study(
    form: str, invoke: Callable
) -> None:
    results = copy_results(make_results, form)
    export("april", "2024-04-01", "2024-04-10", form)
    table = print_forecasts(invoke, results, "april")
    assert table.groupby("client").size().to_dict() == dict.fromkeys(NAMES, 24)
    ends = make_hours("2024-04-10", "2024-04-11")
    found = select_meter(table)
    assert pd.to_datetime(found["timestamp"]).tolist() == ends.tolist()
    day_before = make_load("attic", ends - pd.Timedelta(days=1))
    np.testing.assert_allclose(found["forecast"], day_before, rtol=1e-5)


@pytest.mark.parametrize("last", ["2024-04-02", "2024-04-10"])
def test_the_first_days_of_a_month_in_another_date_order_are_refused(
    last: str, results: Path, invoke: Callable
) -> None:
    other = "%m/%d/%Y %H:%M"
    export("april", "2024-04-01", last, other)
    refusal = invoke("forecast", results, "april/attic.csv", "--with", "naive_day", status=2).err
    (line,) = refusal.splitlines()
    assert "follow each other if day and month are exchanged" in line
    assert f"--date-format '{other}'" in line
    options = ("april", "--date-format", other)
    assert len(print_forecasts(invoke, results, *options)) == 2 * 24


def test_over_a_change_of_clocks_and_the_turn_of_a_month_times_are_local(
    results: Path, invoke: Callable
) -> None:
    export("march", "2024-03-20", "2024-03-31")
    found = select_meter(print_forecasts(invoke, results, "march"))
    stamps = found["timestamp"].tolist()
    assert stamps[:2] == ["2024-03-31 01:00:00+01:00", "2024-03-31 03:00:00+02:00"]
    assert stamps[-1] == "2024-04-01 01:00:00+02:00"
    assert set(found["timezone"]) == {ZONE}
    assert set(found["made_at"]) == {"2024-03-31 00:00:00+01:00"}


def test_an_option_says_how_other_files_are_written(results: Path, invoke: Callable) -> None:
    export("april", "2024-04-01", "2024-04-10", DAY_FIRST)
    expected = print_forecasts(invoke, results, "april")
    export("other", "2024-04-01", "2024-04-10", "%m-%d-%y %H.%M", factor=1000)
    options = ("--date-format", "%m-%d-%y %H.%M", "--read-as", "Wh")
    invoke("forecast", results, "other", "--with", "naive_day", status=2)
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, "other", *options), expected)
    invoke("forecast", results, "other", "--with", "naive_day", status=2)  # it was not asked to
    wrong = ("--date-format", "%Y", "--remember", "--with", "naive_day")
    invoke("forecast", results, "other", *wrong, status=2)
    assert not (results / "reading.yaml").exists()  # options that do not help are not remembered
    pd.testing.assert_frame_equal(
        print_forecasts(invoke, results, "other", *options, "--remember"), expected
    )
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, "other"), expected)
    keys = yaml.safe_load((results / "reading.yaml").read_text())
    assert keys == {"date_format": "%m-%d-%y %H.%M", "unit": "Wh"}


def mark_stamps(monkeypatch: pytest.MonkeyPatch, **marks: str) -> None:
    """Let the stamps of each state of the study mark this."""
    keys = {"timezone": ZONE, "interval": 60, "exports": ["e"], "date_format": DAY_FIRST}
    monkeypatch.setattr(MeterFiles, "_meter_keys", Meters.model_validate(keys | {"stamp": marks}))


@pytest.mark.parametrize("mark", ["end", "start"])
def test_stamps_mark_what_they_mark_in_the_state_of_the_meter(
    mark: str, results: Path, monkeypatch: pytest.MonkeyPatch, invoke: Callable
) -> None:
    export("april", "2024-04-01", "2024-04-10")
    other = {"end": "start", "start": "end"}[mark]
    mark_stamps(monkeypatch, all=mark, other=other)
    found = print_forecasts(invoke, results, "april")
    assert found.equals(print_forecasts(invoke, results, "april", "--read-stamp", mark))
    one = print_forecasts(invoke, results, "april/barn.csv", "--client", "barn")
    assert one.equals(found[found["client"] == "barn"].reset_index(drop=True))
    mark_stamps(monkeypatch, all=mark, other=mark)
    assert print_forecasts(invoke, results, "april").equals(found)


def test_meters_of_states_with_different_stamps_are_read_together(
    results: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    export("april", "2024-04-01", "2024-04-10")
    shutil.copy("april/barn.csv", "april/cellar.csv")
    table = pd.read_csv("april/barn.csv").drop(range(30, 60))
    table.to_csv("april/barn.csv", index=False)
    mark_stamps(monkeypatch, all="end", other="start")
    forecasters = Forecasters(results)
    vars(forecasters)["clients"] = {"attic": "all", "barn": "other"}
    readings, _, problems = forecasters.known_readings.read([Path("april")], keys={"only": []})
    assert [*readings] == ["attic", "barn"]
    assert readings["barn"].index[0] - readings["attic"].index[0] == pd.Timedelta(hours=1)
    (problem,) = problems
    assert problem.meter == "cellar" and "is of none of them" in str(problem)
    assert sum("barn" in line for line in caplog.messages) == 1


def test_a_study_whose_states_have_different_stamps_asks_what_they_mark(
    results: Path, monkeypatch: pytest.MonkeyPatch, invoke: Callable
) -> None:
    export("april", "2024-04-01", "2024-04-10")
    mark_stamps(monkeypatch, state0="end", state1="start")
    said = invoke("forecast", results, "april", "--with", "naive_day", status=2).err
    assert "attic: stamps mark the ends of intervals in some states" in said
    assert "--read-stamp end or --read-stamp start" in said
    marked = print_forecasts(invoke, results, "april", "--read-stamp", "end")
    mark_stamps(monkeypatch, state0="end", state1="end")
    assert print_forecasts(invoke, results, "april").equals(marked)


def test_stamps_of_another_zone_come_on_the_clock_of_the_study(
    results: Path, invoke: Callable
) -> None:
    export("april", "2024-04-01", "2024-04-10")
    expected = select_meter(print_forecasts(invoke, results, "april"))
    table = pd.read_csv("april/attic.csv")
    local = pd.to_datetime(table["time"], format=DAY_FIRST).dt.tz_localize(ZONE)
    table["time"] = local.dt.tz_convert("Asia/Tokyo").dt.strftime(DAY_FIRST)
    Path("tokyo").mkdir()
    table.to_csv("tokyo/attic.csv", index=False)
    found = print_forecasts(invoke, results, "tokyo", "--read-timezone", "Asia/Tokyo")
    pd.testing.assert_frame_equal(found, expected)


def test_sub_folders_are_read(results: Path, invoke: Callable) -> None:
    export("new", "2024-03-20", "2024-04-01")
    export("new/later", "2024-04-01", "2024-04-10")
    stamps = select_meter(print_forecasts(invoke, results, "new"))["timestamp"]
    assert stamps[0] == "2024-04-10 01:00:00+02:00"


def test_sub_folders_of_the_exports_of_a_study_are_named(caplog: pytest.LogCaptureFixture) -> None:
    export("exports", FIRST, LAST)
    export("exports/later", LAST, "2024-04-10")
    recognise([Path("exports")], Meters(timezone=ZONE))
    assert "exports: 1 sub-folder (later) not read; name" in caplog.text


def test_new_files_in_the_known_format_of_a_study() -> None:
    """A format says what registers are; nothing contradicts it."""
    sample = ROOT / "plfl/data/meters/formats/octopus.sample.csv"
    shutil.copy(sample, "home.csv")
    _, content = recognise([Path("home.csv")], Meters())
    found = content["data"]["meters"]
    assert found["format"] == "octopus" and "date_format" not in found
    tables, problems = read_files([Path("home.csv")], Meters.model_validate(found))
    assert not problems and [*tables] == ["home"]


def test_the_models_of_a_study_in_a_known_format_read_it(invoke: Callable) -> None:
    header = (
        "Consumption (kwh), Estimated Cost Inc. Tax (p), Standing Charge Inc. Tax (p), Start, End"
    )
    for folder, first, last in (("old", FIRST, LAST), ("new", LAST, "2024-04-10")):
        ends = pd.date_range(first, last, freq="30min", tz="Europe/London")[1:]
        loads = make_load("home", ends) / 2
        rows = [
            f"{load:.6f}, 2.71, 1.03, {(end - pd.Timedelta(minutes=30)).isoformat()}, "
            f"{end.isoformat()}"
            for load, end in zip(loads, ends, strict=True)
        ]
        Path(folder).mkdir()
        for name in NAMES:
            Path(folder, f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")
    results = write_results_of("octopus", "old")
    assert Study.load("octopus.yaml").data.meters.format == "octopus"
    found = select_meter(print_forecasts(invoke, results, "new"))
    assert found["made_at"].unique().tolist() == ["2024-04-10 00:00:00+01:00"]


def export_starts(folder: str, first: str, last: str) -> None:
    """The files of `export`, with the starts of intervals in a column that says so."""
    Path(folder).mkdir()
    ends = make_hours(first, last)
    starts = (ends - pd.Timedelta(hours=1)).strftime(DAY_FIRST)
    for name in NAMES:
        table = pd.DataFrame({"Start": starts, "kWh": make_load(name, ends)})
        table.to_csv(Path(folder, f"{name}.csv"), index=False)


def test_stamps_are_starts_where_the_column_says_so_as_in_the_study(
    results: Path, invoke: Callable
) -> None:
    export("april", "2024-03-20", "2024-04-10")
    expected = print_forecasts(invoke, results, "april")
    export_starts("old", FIRST, LAST), export_starts("new", "2024-03-20", "2024-04-10")
    found = print_forecasts(invoke, write_results_of("starts", "old", timezone=ZONE), "new")
    pd.testing.assert_frame_equal(found, expected)


def test_a_meter_that_is_younger_than_the_first_of_several_origins_is_left_out() -> None:
    export("exports", "2023-10-01", LAST)
    young = pd.read_csv("exports/barn.csv").tail(24 * 7 * 6)
    young.to_csv("exports/cellar.csv", index=False)
    exports, content = recognise([Path("exports")], Meters(timezone=ZONE), origins=3)
    assert content["data"]["meters"]["leave_out"] == ["cellar"]
    assert content["data"]["clients"] == 2
    assert "cellar is left out, for want of readings" in describe_tests(exports, content)
    write(Path("meters.yaml"), content)
    variant = next(iter(Study.load("meters.yaml").variants.values()))
    assert load_dataset(variant, "all").clients.tolist() == ["attic", "barn"]


def test_a_study_of_several_origins_forecasts_with_the_models_of_the_latest(
    invoke: Callable,
) -> None:
    export("exports", "2023-10-01", LAST), export("april", LAST, "2024-04-10")
    meters = Meters(timezone=ZONE)
    with naming(DataError, "--origins 5", "25 weeks of readings allow 4 origins", "--origins 4"):
        recognise([Path("exports")], meters, origins=5)
    _, content = recognise([Path("exports")], meters, origins=3)
    # 25 weeks: 8 before the first of three tests of 4 weeks, the last of which ends with them.
    assert content["data"]["origins"] == {"last": "2024-03-01", "count": 3, "step": 6}
    assert "split" not in content["windows"]
    assert content["sharing"]["new"] == {"join": "unseen", "history": 1, "turns": 2}
    write(Path("meters.yaml"), content | {"baselines": {"trees": 2}})
    study = Study.load("meters.yaml")
    assert study.plan.latest_variant == "origins=2024-03-01"
    files = FilePatterns(study).latest_files(["results/meters/{variant}/models/index.csv"])
    assert files == ["results/meters/origins=2024-03-01/models/index.csv"]
    write_results(study.variants["origins=2024-03-01"], "naive_day")
    about = {"study": study.description(), "variants": study.plan.places}
    write_facts(study.paths.results, None, {}, about)
    arguments = ("april", "--with", "naive_day")
    found = invoke("forecast", study.paths.results, *arguments).out
    latest = study.paths.results / "origins=2024-03-01"
    assert found == invoke("forecast", latest, *arguments).out
    assert select_meter(pd.read_csv(io.StringIO(found)))["made_at"][0].startswith("2024-04-10")


def test_a_study_with_further_axes_names_the_folders_of_its_variants(
    here: Path, invoke: Callable
) -> None:
    raw = {"name": "own", "grid": {"federation.participation": [0.5, 1.0]}}
    study = Study.parse(raw, "test")
    about = {"study": study.description(), "variants": study.plan.places}
    write_facts(study.paths.results, None, {}, about)
    for command in (["forecast"], ["backtest"], ["export", "--to", "programs"]):
        files = ["new.csv"] * (command[0] != "export")
        error = invoke(*command, study.paths.results, *files, status=2).err
        assert all(f"results/own/{label}" in error for label in study.variants)


def test_a_study_tests_in_three_seasons_if_all_meters_have_38_weeks(here: Path) -> None:
    """Eight weeks before the first test, 26 from it to the last, and four of test."""
    meters = Meters(timezone=ZONE)
    export("exports", "2023-09-08", "2024-06-01")  # in standard time the last day lacks an hour
    exports, content = recognise([Path("exports")], meters)
    dates = "2023-11-03, 2024-02-02 and 2024-05-03"
    assert f"tested at 3 times, on the 4 weeks from {dates};" in describe_tests(exports, content)
    study = Study.load(write(Path("meters.yaml"), content))
    assert len(study.variants) == 3
    for origin, variant in zip(study.data.origin_dates, study.variants.values(), strict=True):
        dataset = load_dataset(variant, "all")
        test = dataset.stamps[slice(*dataset.view.bounds[0, 2:])]
        assert test[0] == np.datetime64(origin) + np.timedelta64(1, "h")
        assert len(test) == 28 * 24
        assert np.ptp(dataset.with_view("new").view.bounds[0, [0, 2]]) == 7 * 24
    _, content = recognise([Path("exports")], meters, origins=1)
    assert "split" in content["windows"] and "origins" not in content["data"]
    one = Path("exports", f"{NAMES[0]}.csv")
    header, *rows = one.read_text().splitlines(keepends=True)
    one.write_text("".join([header, *rows[72:]]))
    exports, content = recognise([Path("exports")], meters)
    assert "split" in content["windows"] and "origins" not in content["data"]
    line = (
        "tested on the last 8 weeks; 3 times of the year need 38 weeks of readings of every meter, "
        "and here are 37 (attic has less)"
    )
    assert describe_tests(exports, content) == line


def test_a_study_in_a_known_format_says_the_date_order_that_the_format_leaves_open() -> None:
    form = """name = "Mine"
about = "mine"
document = "https://example.org"
date = 2024-01-01
recognise.header = ["When", "Used"]
time = { column = "When", marks = "end", zone = "place" }
load = { columns = "Used", unit = "kWh" }
"""
    Path("mine.toml").write_text(form)
    export("exports", FIRST, LAST), export("april", "2024-04-01", "2024-04-10")
    for file in [*Path("exports").iterdir(), *Path("april").iterdir()]:
        file.write_text(file.read_text().replace("time,kWh", "When,Used"))
    keys = Meters(timezone=ZONE, format="mine.toml")
    _, content = recognise([Path("exports")], keys)
    found: dict[str, Any] = content["data"]["meters"]
    assert found["date_format"] == DAY_FIRST
    study_keys = Meters.model_validate(found)
    tables, problems = read_files([Path("april/attic.csv")], study_keys)
    assert not problems
    (table,) = tables.values()
    np.testing.assert_allclose(
        table["load"], make_load("attic", make_hours("2024-04-01", "2024-04-10"))
    )


def test_of_several_files_only_those_of_a_client_are_taken_for_it() -> None:
    days = pd.date_range("2024-01-01 01:00", periods=48, freq="h")
    for name, stamps, factor in (
        *(("school", days, 1), ("town", days, 10)),
        *(("january", days[:24], 1), ("february", days[24:], 1)),
    ):
        load = factor * (1 + np.arange(len(stamps)) % 5)
        pd.DataFrame({"time": stamps, "load": load}).to_csv(f"{name}.csv", index=False)
    keys = Meters(timezone="UTC", unit="kWh", stamp="end", interval=60)
    school, town, *months = (
        Path(f"{name}.csv") for name in ("school", "town", "january", "february")
    )
    for by_file in (True, False):
        read = partial(read_files, meters=keys, client="school", by_file=by_file)
        tables, problems = read([school, town])
        assert not problems
        assert tables["school"]["load"].max() == 5
        tables, problems = read(months)  # none has the name: both are of this meter
        assert not problems
        assert len(tables["school"]) == 48
        tables, (problem,) = read([town, *months])
        assert not tables
        assert "differs from" in str(problem)
    school.write_text("time,load\n")  # it is there, so the other file is another meter's
    tables, (problem,) = read([school, town])
    assert not tables
    assert problem.kind == NO_READING
    with ZipFile("school.zip", "w") as archive:
        for month in months:
            archive.write(month)
    tables, problems = read([Path("school.zip")])  # a lone file is of the client as a whole
    assert not problems
    assert len(tables["school"]) == 48


def test_a_client_with_a_hyphen_is_no_meter_with_another_character(here: Path) -> None:
    days = pd.date_range("2024-01-01 01:00", periods=48, freq="h")
    for name in ("school-1", "school_1"):
        load = 1 + np.arange(48) % 5
        pd.DataFrame({"time": days, "load": load}).to_csv(f"{name}.csv", index=False)
    keys = Meters(timezone="UTC", unit="kWh", stamp="end", interval=60)
    paths = [Path("school-1.csv"), Path("school_1.csv")]
    for _ in range(2):
        tables, problems = read_files(paths, keys, "school-1")
        assert [*tables] == ["school-1"] and not problems
        paths[1].write_text(  # now it is damaged
            "time,load\n" + "2024-01-01 01:00,1\n2024-01-01 01:20,2\n" * 3
        )


def test_a_file_of_a_stranger_without_a_reading_is_not_of_all() -> None:
    """Where a file is that of a participant, the others are each of one meter, too."""
    no_reading, damaged = (
        Problem("", text, "", name, kind=kind)
        for name, text, kind in (("guest", NO_READING, NO_READING), ("barn", "is damaged", ""))
    )
    for has_strangers, names in ((True, []), (False, ["cellar"])):
        problems = [no_reading, damaged]
        found = take_waiting(problems, HOMES, ["attic"], None, has_strangers)
        assert (found, problems) == (names, [no_reading, damaged] if has_strangers else [damaged])


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (1000, r"about (9\d\d|1,0\d\d) times those"),
        (8, "its loads are about 8 times those that are known, the low ones as the high"),
        (0.001, r"about 1/(9\d\d|10\d\d) of those"),
        (4, "its loads are about 4 times those that are known"),
        (0.25, "its loads are about 1/4 of those that are known"),
    ],
)
def test_a_meter_on_another_scale_is_refused_and_the_others_are_forecast(
    factor: float, words: str, results: Path, invoke: Callable
) -> None:
    export("march", "2024-03-20", "2024-04-01")
    table = pd.read_csv("march/barn.csv")
    is_new = pd.to_datetime(table["time"], format=DAY_FIRST) > LAST
    table.loc[is_new, "kWh"] *= factor
    table.to_csv("march/barn.csv", index=False)
    printed = invoke("forecast", results, "march", "--with", "naive_day", status=3)
    assert set(pd.read_csv(io.StringIO(printed.out))["client"]) == {"attic"}
    (line,) = [line for line in printed.err.splitlines() if line.startswith("plfl: barn:")]
    assert re.search(words, line)


@pytest.mark.parametrize(("factor", "words"), [(2, "twice"), (0.5, "half of"), (1.5, "")])
def test_doubled_loads_are_forecast_and_told(
    factor: float, words: str, results: Path, invoke: Callable
) -> None:
    export("march", LAST, "2024-04-13", factor=factor)
    for command in ("forecast", "backtest"):
        printed = invoke(command, results, "march", "--with", "naive_day")
        told = f"2 meters (attic, barn): its new loads are about {words} those of the last"
        assert (told in printed.err) is bool(words)
        assert ("its new loads" in printed.err) is bool(words)


def test_doubled_loads_of_short_files_are_told_once(results: Path, invoke: Callable) -> None:
    days = ["2024-03-29", "2024-04-03", "2024-04-10", "2024-04-12", "2024-04-13", "2024-04-15"]
    told = []
    for first, last in itertools.pairwise(days):
        export("exports", first, last, factor=2)
        options = ("--with", "naive_day", "--keep-readings")
        error = invoke("forecast", results, "exports", *options).err
        told.append("since 2024-03-29 its loads are about twice those of the four" in error)
    assert told == [False, False, False, True, False]


def change_known_part(change: Callable[[pd.DataFrame], pd.Series]) -> None:
    """Write files of the days before and after the end of the study, in which those before it are
    changed in the file of one meter."""
    export("march", "2024-03-18", "2024-04-01")
    table = pd.read_csv("march/barn.csv")
    known_rows = 24 * 11
    table.loc[: known_rows - 1, "kWh"] = change(table[:known_rows])
    table.to_csv("march/barn.csv", index=False)


def shift_hours(table: pd.DataFrame) -> pd.Series:
    ends = make_hours("2024-03-18", "2024-03-29") - pd.Timedelta(hours=1)
    return pd.Series(make_load("barn", ends), table.index)


def read_other_meter(table: pd.DataFrame) -> pd.Series:
    """The loads of a meter with the same mean, but other habits."""
    return table["kWh"][::-1].reset_index(drop=True)


def replace_estimates(table: pd.DataFrame, share: float = 0.4, factor: float = 1.6) -> pd.Series:
    """Most readings as they were, and the last ones as they were measured later."""
    loads = table["kWh"].copy()
    loads[-int(share * len(loads)) :] *= factor
    return loads


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table["kWh"] * 20, "20 times those that are known of then; say their"),
        (
            lambda table: table["kWh"] / 2,
            "1/2 of those that are known of then; say their",
        ),
        (shift_hours, "are those that are known 1 hour earlier; correct the times, say their zone"),
        (read_other_meter, "are not those that are known of then, and the mean difference is"),
        (replace_estimates, ""),
        (partial(replace_estimates, share=0.9, factor=1.05), ""),
    ],
)
def test_readings_that_contradict_known_ones_are_refused_and_corrected_ones_are_taken(
    change: Callable, words: str, results: Path, invoke: Callable
) -> None:
    change_known_part(change)
    for command in ("forecast", "backtest"):
        arguments = (command, results, "march", "--with", "naive_day")
        printed = invoke(*arguments, status=3 if words else 0)
        told = [line for line in printed.err.splitlines() if line.startswith("plfl: barn:")]
        assert len(told) == bool(words)
        assert words in "".join(told) and ("--accept-misfits" in "".join(told)) is bool(words)
        clients = pd.read_csv(io.StringIO(printed.out))["client"]
        assert set(clients) == ({"attic"} if words else {*NAMES})
        if words:
            invoke(*arguments, "--accept-misfits")


def test_known_readings_in_another_unit_are_refused(results: Path, invoke: Callable) -> None:
    change_known_part(lambda table: table["kWh"] * 1000)
    printed = invoke("forecast", results, "march", "--with", "naive_day", status=3)
    assert "1,000 times those that are known of then; say their unit with --read-as" in printed.err


def test_a_day_of_estimates_that_are_replaced_is_taken(results: Path, invoke: Callable) -> None:
    """All readings that are known of then have changed, but they are few."""
    export("march", "2024-03-27", "2024-04-01")
    table = pd.read_csv("march/barn.csv")
    table.loc[: 24 * 2 - 1, "kWh"] = 1.1
    table.to_csv("march/barn.csv", index=False)
    assert len(print_forecasts(invoke, results, "march")) == 2 * 24


def test_a_home_whose_habits_changed_a_little_may_be_doubled() -> None:
    """Of two weeks of the ratios are 2.4, 2 and 1.8; winter alone may make the first and last 3
    and 1.5."""
    index = pd.date_range("2024-01-01", periods=24 * 42, freq="h")
    known = pd.Series(np.arange(24 * 42) % 10 + 1.0, index)
    new = pd.Series(np.arange(24 * 14) % 10 + 1.0, index[-1] + (index[1:337] - index[0]))
    for low, high, words in ((2.4, 1.8, "twice"), (3, 1.5, "")):
        factors = np.select([new <= 3, new >= 8], [low, high], 2)
        told = describe_scale(new * factors, known, known.index[-1])
        assert words in told and bool(told) is bool(words)
        week = (new * factors)[: 24 * 7]
        assert "about 2.5 times those" in describe_scale(3 * new, known, known.index[-1])
        short = describe_scale(week, known, known.index[-1])
        assert not short, "no doubt about less than two weeks"


def test_few_loads_after_a_long_gap_are_not_said_to_be_of_two_weeks() -> None:
    index = pd.date_range("2024-01-01", periods=24 * 70, freq="h")
    load = pd.Series(np.arange(len(index)) % 10 + 1.0, index)
    known, new = load[: 24 * 42], 2 * load[24 * 60 :]
    for hours in (24, 168, 192):
        assert not describe_scale(new[:hours], known, known.index[-1])


@pytest.mark.parametrize("factor", [2.0, 2.6, 0.3])
def test_loads_on_another_scale_are_doubted_once(factor: float) -> None:
    """Of loads that are kept, a day is added to those that are known at each call."""
    index = pd.date_range("2024-01-01", periods=24 * 70, freq="h")
    random = np.random.default_rng(0)
    load = pd.Series(random.gamma(4.0, 0.25, len(index)), index)
    end = index[24 * 42]
    load[index > end] *= factor
    told = [
        describe_scale(load[24 * day : 24 * (day + 1)], load[: 24 * day], end)
        for day in range(43, 60)
    ]
    assert sum(map(bool, told)) == 1


def test_loads_on_another_scale_are_taken_if_they_are_right(
    results: Path, invoke: Callable
) -> None:
    export("march", "2024-03-20", "2024-04-01")
    expected = print_forecasts(invoke, results, "march")
    export("large", LAST, "2024-04-01", factor=8)
    found = print_forecasts(invoke, results, "large", "--accept-misfits")
    np.testing.assert_allclose(found["forecast"], 8 * expected["forecast"], rtol=1e-3)


def test_a_fault_of_a_few_hours_is_refused_until_it_is_made_a_gap(
    results: Path, invoke: Callable
) -> None:
    export("march", "2024-03-20", "2024-04-01")
    table = pd.read_csv("march/barn.csv")
    table.loc[len(table) - 40, "kWh"] = 65535
    table.to_csv("march/barn.csv", index=False)
    printed = invoke("forecast", results, "march", "--with", "naive_day", status=3)
    assert "barn: 6.554e+04 kWh at 2024-03-30 08:00:00+01:00 is far above all loads" in printed.err
    assert len(print_forecasts(invoke, results, "march", "--max-jump", "20")) == 2 * 24


@pytest.mark.parametrize("hours", [1, 3])
def test_a_fault_in_a_small_file_is_found_among_the_known_readings(
    hours: int, results: Path, invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a night, most readings are far below the usual ones: they say nothing of a jump."""
    clock = pd.Timestamp("2024-03-29 01:00", tz="UTC")
    monkeypatch.setattr("plfl.forecast.known_readings.read_clock", lambda: clock)
    export("night", LAST, "2024-03-30")
    for name in NAMES:
        table = pd.read_csv(f"night/{name}.csv")[:hours]
        table.loc[hours - 1, "kWh"] = 65535
        table.to_csv(f"night/{name}.csv", index=False)
    assert "far above" in invoke("forecast", results, "night", *EMPTY, status=2).err
    options = ("night", *EMPTY, "--max-jump", "20", "--keep-readings")
    printed = invoke("forecast", results, *options)
    assert printed.err.count("1 reading made a gap") == 2
    made_at = pd.Timestamp(LAST, tz=ZONE) + (hours - 1) * pd.Timedelta(hours=1)
    assert {*pd.read_csv(io.StringIO(printed.out))["made_at"]} == {str(made_at)}
    if hours > 1:
        assert pd.read_parquet(results / "data/recent.parquet")["load"].max() < 10
    export("night", LAST, "2024-03-30")
    for name in NAMES:  # a rise that a median of these few readings takes for a jump
        table = pd.read_csv(f"night/{name}.csv")[:4].assign(kWh=[0.01, 0.01, 0.01, 2.0])
        table.to_csv(f"night/{name}.csv", index=False)
    assert "made a gap" not in invoke("forecast", results, *options).err


def test_a_negative_fault_is_made_a_gap_and_other_negative_loads_are_refused(
    results: Path, invoke: Callable
) -> None:
    export("march", LAST, "2024-04-05")
    expected = print_forecasts(invoke, results, "march")
    table = pd.read_csv("march/attic.csv")
    table.loc[30, "kWh"] = -9999
    table.to_csv("march/attic.csv", index=False)
    invoke("forecast", results, "march", *EMPTY, status=3)
    options = ("march", "--max-jump", "20", "--max-gap", "60")
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, *options), expected)
    file, *_ = (results / "models").glob("*.safetensors")
    invoke("forecast", file, "march/attic.csv", "--client", "attic", *options[1:])
    table.loc[31, "kWh"] = -0.5
    table.to_csv("march/attic.csv", index=False)
    printed = invoke("forecast", results, *options, "--with", "naive_day", status=3)
    assert "attic: 1 negative value, first -0.5; set --allow-negative, or correct" in printed.err
    invoke("forecast", file, "march/attic.csv", "--client", "attic", *options[1:], status=2)


@pytest.mark.parametrize(
    ("first", "last"), [("2026-04-01", "2026-04-10"), ("2022-03-01", "2022-03-20")]
)
def test_another_year_is_refused(first: str, last: str, results: Path, invoke: Callable) -> None:
    export("new", first, last)
    for command in ("forecast", "backtest"):
        printed = invoke(command, results, "new", "--with", "naive_day", status=2)
        assert printed.err.count("those that are known are from 2024-02-10 to 2024-03-29") == 2
    assert len(print_forecasts(invoke, results, "new", "--accept-misfits")) == 2 * 24


def test_a_gap_longer_than_the_look_back_is_told_once(results: Path, invoke: Callable) -> None:
    export("may", "2024-05-01", "2024-05-20")
    for command in ("forecast", "backtest"):
        printed = invoke(command, results, "may", "--with", "naive_day")
        assert printed.err.count("33 days without readings since those that are known") == 1
        assert "2 meters (attic, barn): 33 days" in printed.err
    export("march", "2024-03-20", "2024-04-01")
    assert "without readings" not in invoke("forecast", results, "march", "--with", "naive_day").err


def test_a_meter_that_stopped_is_told(results: Path, invoke: Callable) -> None:
    export("march", "2024-03-20", "2024-04-01")
    table = pd.read_csv("march/barn.csv")
    for hours, words in (
        (24, ""),
        (30, "barn: its readings end 30 hours before the latest"),
    ):
        table[:-hours].to_csv("march/barn.csv", index=False)
        printed = invoke("forecast", results, "march", "--with", "naive_day")
        assert words in printed.err and ("before the latest of all" in printed.err) is bool(words)


def test_a_backtest_scores_new_meters_beside_those_of_the_study(
    results: Path, invoke: Callable
) -> None:
    export("april", "2024-04-01", "2024-04-11")
    shutil.copy("april/barn.csv", "april/garage.csv")
    arguments = ("backtest", results, "april", "--with", "naive_day")
    printed = invoke(*arguments, status=3)
    assert "garage: did not take part" in printed.err and "`plfl backtest --new`" in printed.err
    assert "garage" not in printed.out
    table = pd.read_csv(io.StringIO(invoke(*arguments, "--new").out)).set_index("client")
    assert {*table.index} == {*NAMES, "garage"}
    assert table.loc["barn", "first"] < table.loc["garage", "first"] == "2024-04-09 01:00:00+02:00"
    assert {*table["last"]} == {"2024-04-11 00:00:00+02:00"}
    loads = make_load("barn", make_hours("2024-04-08", "2024-04-11"))
    assert table.loc["garage", "mae"] == pytest.approx(
        np.abs(loads[24:] - loads[:-24]).mean(), rel=0.02
    )
    alone = invoke(*arguments, "--new", "--client", "garage").out
    assert [*pd.read_csv(io.StringIO(alone))["client"]] == ["garage"]


def test_the_mase_of_the_test_is_one_ratio_and_no_mean_of_weeks(results: Path) -> None:
    export("april", LAST, "2024-04-11")
    forecasters = Forecasters(results)
    model = forecasters.any_model
    known = forecasters.known_readings.study_readings["attic"]
    table = pairs(model, "attic", known)
    table.loc[table.index < "2024-03-20", ["forecast"]] *= 1.5
    errors = table[["forecast", "last"]].sub(table["truth"], axis=0).abs().sum()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{backtest.__module__}.pairs", lambda *arguments, **options: table)
        row, past, *_ = backtest(
            forecasters,
            "attic",
            forecasters.known_readings.read([Path("april")])[1]["attic"],
            "naive_day",
        )
    assert len(past) == 2
    assert row["past_mase"] == pytest.approx(errors["forecast"] / errors["last"])
    assert row["past_mase"] != pytest.approx(past.mean(), rel=0.01)


def test_the_ends_of_a_backtest_are_local_times_with_offsets(
    results: Path, invoke: Callable
) -> None:
    export("spring", "2024-03-20", "2024-04-10")
    printed = invoke("backtest", results, "spring", "--with", "naive_day", "--sum")
    table = pd.read_csv(io.StringIO(printed.out))
    assert table["client"].tolist() == [*NAMES, "sum"]
    assert set(table["first"]) == {"2024-03-29 01:00:00+01:00"}
    assert set(table["last"]) == {"2024-04-10 00:00:00+02:00"}


def test_a_few_readings_that_rise_are_no_register(results: Path, invoke: Callable) -> None:
    export("night", "2024-03-29", "2024-03-30")
    for file in Path("night").iterdir():
        table = pd.read_csv(file)[:3].assign(kWh=[1.0, 1.1, 1.2])
        table.to_csv(file, index=False)
    assert len(print_forecasts(invoke, results, "night")) == 2 * 24
    assert "register" not in invoke("forecast", results, "night", "--with", "naive_day").err


def write_form(form: str, folder: str, first: str, last: str, rows: int | None = None) -> None:
    """Write the hours between two days in a form of files: those of each meter (None: all; 0: only
    the header)."""
    Path(folder).mkdir()
    if form == "esb_hdf":
        ends = pd.date_range(first, last, freq="30min", tz="Europe/Dublin")[1:][:rows]
        parts = {
            number: pd.DataFrame(
                {
                    "MPRN": number,
                    "Meter Serial Number": "000000000012345678",
                    "Read Value": 2 * make_load(name, ends),
                    "Read Type": "Active Import Interval (kW)",
                    "Read Date and End Time": ends.strftime("%d-%m-%Y %H:%M"),
                }
            )
            for number, name in enumerate(HOMES, 10_000_000_001)
        }
        pd.concat(parts).to_csv(f"{folder}/homes.csv", index=False)
        return
    ends = make_hours(first, last)[:rows]
    tables = {
        name: pd.DataFrame({"time": ends.strftime(DAY_FIRST), "kWh": make_load(name, ends)})
        for name in HOMES
    }
    if form == "files":
        for name, table in tables.items():
            table.to_csv(f"{folder}/{name}.csv", index=False)
    elif form == "long":
        table = pd.concat([table.assign(home=name) for name, table in tables.items()])
        table[["time", "home", "kWh"]].to_csv(f"{folder}/homes.csv", index=False)
    else:
        table = pd.concat([table.set_index("time")["kWh"] for table in tables.values()], axis=1)
        table.set_axis([*HOMES], axis=1).to_csv(f"{folder}/homes.csv", index_label="time")


FORMS = ("files", "wide", "long", "esb_hdf")
EMPTY = ("--with", "naive_day")


def make_results_of_form(form: str) -> Path:
    """The results folder of a study of files in a form, and two folders of new ones: `lone` has one
    reading of each meter after the study's, and `empty` only headers."""
    write_form(form, "exports", FIRST, LAST)
    write_form(form, "lone", LAST, "2024-04-10", rows=1)
    write_form(form, "empty", LAST, "2024-04-10", rows=0)
    only = {"only": [*HOMES]} if form == "wide" else {}
    return write_results_of("meters", "exports", timezone=ZONE, **only)


@pytest.mark.parametrize("form", FORMS)
def test_one_reading_of_each_meter_is_read_as_the_study_reads(form: str, invoke: Callable) -> None:
    results = copy_results(make_results_of_form, form)
    minutes = Study.load("meters.yaml").data.meters.interval
    day = 24 * 60 // minutes
    write_form(form, "whole", "2024-03-20", "2024-04-10", rows=day * 9 + 1)
    expected = print_forecasts(invoke, results, "whole")
    assert len(expected) == 3 * day
    first = pd.Timestamp(LAST, tz=ZONE) + pd.Timedelta(minutes=minutes)
    assert {*expected["made_at"]} == {str(first)}
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, "lone"), expected)


@pytest.mark.parametrize("form", FORMS)
def test_files_without_a_reading_yet_are_forecast_from_known_ones(
    form: str, invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = copy_results(make_results_of_form, form)
    write_form(form, "until", "2024-03-20", LAST)
    expected = print_forecasts(invoke, results, "until")
    for now, is_recent in (("2024-03-29 22:00", True), ("2024-03-29 23:00", False)):
        clock = pd.Timestamp(now, tz="UTC")
        monkeypatch.setattr("plfl.forecast.known_readings.read_clock", lambda clock=clock: clock)
        printed = invoke("forecast", results, "empty", *EMPTY, status=0 if is_recent else 2)
        told = [line for line in printed.err.splitlines() if "no reading yet" in line]
        assert len(told) == 3  # a line for each of three, and one for all of more
        assert ("would be for the past; give newer readings" in printed.err) is not is_recent
        if is_recent:
            pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(printed.out)), expected)
            for file in Path("empty").iterdir():
                file.write_text("")
            pd.testing.assert_frame_equal(print_forecasts(invoke, results, "empty"), expected)


def test_a_meter_that_a_file_of_all_lacks_is_named(invoke: Callable) -> None:
    results = copy_results(make_results_of_form, "long")
    write_form("long", "march", LAST, "2024-04-01")
    table = pd.read_csv("march/homes.csv")
    table[table["home"] != "barn"].to_csv("march/homes.csv", index=False)
    printed = invoke("forecast", results, "march", *EMPTY)
    assert "barn: not in these files\n" in printed.err
    assert "barn" not in printed.out
    told = invoke("forecast", results, "march", "--client", "attic", *EMPTY).err
    assert "not in these files" not in told


def test_of_several_files_one_may_have_no_reading_yet(
    results: Path, invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    export("march", LAST, "2024-04-01")
    Path("march/barn.csv").write_text("time,kWh\n")
    clock = pd.Timestamp("2024-03-29 12:00", tz="UTC")
    monkeypatch.setattr("plfl.forecast.known_readings.read_clock", lambda: clock)
    made_at = print_forecasts(invoke, results, "march").groupby("client")["made_at"].first()
    assert made_at["barn"].startswith("2024-03-29") and made_at["attic"].startswith("2024-04-01")
    clock += pd.Timedelta(days=2)
    printed = invoke("forecast", results, "march", "--with", "naive_day", status=3)
    assert "plfl: barn: no reading yet" in printed.err
    assert printed.out.count("\n") == 1 + 24
    Path("march/barn.csv").write_text("")
    assert "barn: no reading yet" in invoke("forecast", results, "march", *EMPTY, status=3).err


def test_all_files_without_a_reading_have_the_reason_why_nothing_is_forecast(
    results: Path, invoke: Callable
) -> None:
    Path("april").mkdir()
    for name in (*NAMES, "annex"):
        Path(f"april/{name}.csv").write_text("time,kWh\n")
    told = invoke("forecast", results, "april", *EMPTY, status=2).err.splitlines()
    assert sum("would be for the past; give newer readings" in line for line in told) == len(NAMES)
    assert sum("annex.csv: has a header and no reading yet" in line for line in told) == 1


def make_results_of_quarters() -> Path:
    """The results folder of a study that sums quarter hours to hours, and a folder of new ones."""
    for folder, first, last in (("exports", FIRST, LAST), ("new", LAST, "2024-04-10")):
        Path(folder).mkdir()
        ends = pd.date_range(first, last, freq="15min", tz=ZONE)[1:]
        for name in NAMES:
            table = pd.DataFrame({"time": ends.strftime(DAY_FIRST), "kWh": make_load(name, ends)})
            table.to_csv(f"{folder}/{name}.csv", index=False)
    results = write_results_of("meters", "exports", timezone=ZONE, interval=60)
    assert Study.load("meters.yaml").data.meters.step == 15
    return results


def write_quarters_up_to_now(
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Path, dict[str, pd.DataFrame]]:
    """`make_results_of_quarters`, when the new files begin, and the tables of these files."""
    results = copy_results(make_results_of_quarters)
    clock = pd.Timestamp("2024-03-29", tz="UTC")
    monkeypatch.setattr("plfl.forecast.known_readings.read_clock", lambda: clock)
    return results, {name: pd.read_csv(f"new/{name}.csv") for name in NAMES}


def test_quarter_hours_that_a_study_sums_are_no_whole_hours(
    invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study says how long a lone reading is."""
    results, whole = write_quarters_up_to_now(monkeypatch)
    for rows, hours in ((1, 0), (4, 1), (7, 1)):
        for name, table in whole.items():
            table[:rows].to_csv(f"new/{name}.csv", index=False)
        printed = invoke("forecast", results, "new", *EMPTY)
        assert ("no reading yet" in printed.err) is (hours == 0)
        made_at = pd.read_csv(io.StringIO(printed.out))["made_at"].unique().tolist()
        assert made_at == [f"2024-03-29 0{hours}:00:00+01:00"]


def test_quarter_hours_of_several_files_make_whole_hours(
    invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, whole = write_quarters_up_to_now(monkeypatch)
    for name, table in whole.items():
        table[:13].to_csv(f"new/{name}.csv", index=False)
    expected = print_forecasts(invoke, results, "new")
    assert {*expected["made_at"]} == {"2024-03-29 03:00:00+01:00"}
    for begin, end in ((0, 6), (6, 9), (9, 10), (10, 11), (11, 12)):
        for name, table in whole.items():
            table[begin:end].to_csv(f"new/{name}.csv", index=False)
        table = print_forecasts(invoke, results, "new", "--keep-readings")
        assert {*table["made_at"]} == {f"2024-03-29 0{end // 4}:00:00+01:00"}
    pd.testing.assert_frame_equal(table, expected)


def test_a_lone_reading_is_as_long_as_the_others_of_its_meter(invoke: Callable) -> None:
    for folder, first, last in (("exports", FIRST, LAST), ("new", LAST, "2024-04-10")):
        export(folder, first, last)
        ends = pd.date_range(first, last, freq="15min", tz=ZONE)[1:]
        loads = make_load("attic", ends) / 4
        table = pd.DataFrame({"time": ends.strftime(DAY_FIRST), "kWh": loads})
        table.to_csv(f"{folder}/attic.csv", index=False)
    results = write_results_of("meters", "exports", timezone=ZONE, interval=60)
    steps = {"attic": 15, "barn": 60}
    assert Study.load("meters.yaml").data.meters.step == steps
    for file in Path("new").iterdir():
        pd.read_csv(file)[: 4 if file.stem == "attic" else 1].to_csv(file, index=False)
    table = print_forecasts(invoke, results, "new")
    assert {*table["client"]} == {*NAMES}
    assert {*table["made_at"]} == {"2024-03-29 01:00:00+01:00"}


def set_clock(monkeypatch: pytest.MonkeyPatch, time: str) -> None:
    """What time it is, in UTC."""
    clock = pd.Timestamp(time, tz="UTC")
    monkeypatch.setattr("plfl.forecast.known_readings.read_clock", lambda: clock)


def count_kept(results: Path) -> dict[str, int]:
    """The number of kept readings of each meter."""
    return pd.read_parquet(results / "data/recent.parquet")["client"].value_counts().to_dict()


def test_readings_of_any_length_are_kept(invoke: Callable) -> None:
    """Also if the study says that all are as short as the shortest ones, as older ones do."""
    for folder, first, last in (("exports", FIRST, LAST), ("new", LAST, "2024-04-10")):
        export(folder, first, last)
        Path(folder, "attic.csv").unlink()
        ends = pd.date_range(first, last, freq="15min", tz=ZONE)[1:]
        write_quarters(Path(folder, "House #1.csv"), "attic", ends)
    for step in ({}, {"step": 15}):
        _, content = recognise([Path("exports")], Meters(timezone=ZONE, interval=60))
        assert content["data"]["meters"]["step"] == {"House #1": 15, "barn": 60}
        content["data"]["meters"] |= step
        write(Path("meters.yaml"), content | {"baselines": {"trees": 2}})
        results = write_results(Study.load("meters.yaml"), "naive_day")
        Path("some").mkdir(exist_ok=True)
        for file in Path("new").iterdir():
            rows = 2 if file.stem == "barn" else 8
            pd.read_csv(file)[:rows].to_csv(Path("some", file.name), index=False)
        print_forecasts(invoke, results, "some", "--keep-readings")
        assert count_kept(results) == {"House -1": 8, "barn": 2}
        shutil.rmtree("results"), Path("meters.yaml").unlink()


def test_hours_and_quarters_of_a_meter_are_kept_together(invoke: Callable) -> None:
    results = copy_results(make_results_of_quarters)
    expected = print_forecasts(invoke, results, "new")
    for begin, end, is_summed in ((0, 480, False), (480, -4, True), (-4, None, False)):
        for name in NAMES:
            table = pd.read_csv(f"new/{name}.csv")[begin:end]
            if is_summed:
                table = pd.DataFrame(
                    {"time": table["time"][3::4], "kWh": table["kWh"].rolling(4).sum()[3::4]}
                )
            Path("part").mkdir(exist_ok=True)
            table.to_csv(f"part/{name}.csv", index=False)
        found = print_forecasts(invoke, results, "part", "--keep-readings")
    pd.testing.assert_frame_equal(found, expected)
    assert count_kept(results)["attic"] == 480 + len(pd.read_csv("new/attic.csv")[480:-4]) // 4 + 4


def test_kept_sums_of_an_older_plfl_are_read(
    invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = copy_results(make_results_of_quarters)
    expected = print_forecasts(invoke, results, "new")
    forecasters = Forecasters(results)
    _, tables, _ = forecasters.known_readings.read([Path("new")])
    rows = [table[:-5].reset_index().assign(client=name) for name, table in tables.items()]
    path = results / "data/recent.parquet"
    write_table(pd.concat(rows), path, forecasters.any_model.meter_files.form_of_readings)
    for name in NAMES:
        table = pd.read_csv(f"new/{name}.csv")
        table[-5 * 4 :].to_csv(f"new/{name}.csv", index=False)
    for _ in range(2):
        found = print_forecasts(invoke, results, "new", "--keep-readings")
        pd.testing.assert_frame_equal(found, expected)


def test_without_a_whole_interval_the_known_readings_are_forecast_and_the_new_ones_kept(
    invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = copy_results(make_results_of_quarters)
    whole = {name: pd.read_csv(f"new/{name}.csv") for name in NAMES}
    for time, rows, status in (("2024-03-29", [0, 1, 3], 0), ("2024-04-29", [0, 1], 2)):
        set_clock(monkeypatch, time)
        for name, table in whole.items():
            table.iloc[rows].to_csv(f"new/{name}.csv", index=False)
        options = ("new", "--with", "naive_day", "--keep-readings")
        printed = invoke("forecast", results, *options, status=status)
        assert printed.err.count("no reading yet") == len(NAMES)
        assert count_kept(results) == dict.fromkeys(NAMES, len(rows))
        (results / "data/recent.parquet").unlink()


def test_new_meters_are_forecast_without_the_readings_of_the_study(
    results: Path, invoke: Callable
) -> None:
    export("new", "2024-02-10", "2024-04-05")
    for file in Path("new").iterdir():
        file.rename(file.with_stem(f"new-{file.stem}"))
    expected = print_forecasts(invoke, results, "new", "--new")
    for file in (results / "data").glob("*.npz"):
        file.unlink()
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, "new", "--new"), expected)


def test_quarters_without_those_between_are_no_half_hours(
    invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = copy_results(make_results_of_quarters)
    set_clock(monkeypatch, "2024-03-29")
    whole = {name: pd.read_csv(f"new/{name}.csv") for name in NAMES}
    for rows, hours in (([0, 2], 0), ([1, 3], 1)):
        for name, table in whole.items():
            table.iloc[rows].to_csv(f"new/{name}.csv", index=False)
        table = print_forecasts(invoke, results, "new", "--keep-readings")
        assert {*table["made_at"]} == {f"2024-03-29 0{hours}:00:00+01:00"}
    assert count_kept(results) == dict.fromkeys(NAMES, 4)


def test_files_count_by_their_last_reading_not_by_their_last_row(invoke: Callable) -> None:
    results = copy_results(make_results, DAY_FIRST)
    export("new", LAST, "2024-04-05")
    expected = print_forecasts(invoke, results, "new")
    Path("new/early").mkdir()
    for name in NAMES:
        table = pd.read_csv(f"new/{name}.csv")
        is_later = table.index >= len(table) - 12
        early = table.assign(kWh=(1.3 * table["kWh"]).mask(is_later))
        early.to_csv(f"new/early/{name}.csv", index=False)
        table[:-6].to_csv(f"new/{name}.csv", index=False)
    found = print_forecasts(invoke, results, "new")
    assert {*found["made_at"]} == {"2024-04-04 18:00:00+02:00"}
    loads = select_meter(found).merge(select_meter(expected), on="timestamp")
    np.testing.assert_allclose(loads["forecast_x"][:6], loads["forecast_y"][:6])


def test_kept_readings_carry_forecasts_over_the_turn_of_a_month(
    results: Path, invoke: Callable
) -> None:
    export("whole", "2024-03-20", "2024-05-02")
    expected = print_forecasts(invoke, results, "whole")
    export("april", "2024-03-29", "2024-05-01")
    export("may", "2024-05-01", "2024-05-02")
    for file in Path("may").iterdir():  # a file of May has its first hours only
        pd.read_csv(file)[:3].to_csv(file, index=False)
    table = pd.read_csv("may/attic.csv")
    table.assign(kWh=table["kWh"][0]).to_csv("may/attic.csv", index=False)  # hours without change
    refused = invoke("forecast", results, "may", "--with", "naive_day", status=2).err
    assert "has 3 readings, but a forecast needs 24" in refused and "--keep-readings" in refused
    assert not (results / "data/recent.parquet").exists()
    print_forecasts(invoke, results, "april", "--keep-readings")
    table = print_forecasts(invoke, results, "may", "--keep-readings")
    assert select_meter(table)["made_at"].unique().tolist() == ["2024-05-01 03:00:00+02:00"]
    export("may", "2024-05-01", "2024-05-02")
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, "may"), expected)
    kept_clients = pd.read_parquet(results / "data/recent.parquet").groupby("client")["timestamp"]
    assert (kept_clients.max() - kept_clients.min() < pd.Timedelta(days=35)).all()
    (results / "data/recent.parquet").write_bytes(b"nothing")
    assert "is damaged; remove it" in invoke("forecast", results, "may", status=2).err


def test_adaptive_widths_follow_all_known_readings(
    invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = copy_results(make_adjusted, "adaptive")
    export("all", FIRST, "2024-05-20")
    export("spring", LAST, "2024-05-20"), export("days", "2024-05-18", "2024-05-20")
    expected = print_forecasts(invoke, results, "all")
    table = print_forecasts(invoke, results, "spring", "--keep-readings")
    pd.testing.assert_frame_equal(table, expected)
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, "days"), expected)
    choose = partial(Forecasters.choose, forecaster_name="naive_day")  # nothing here has a score
    monkeypatch.setattr(Forecasters, "choose", lambda *arguments: choose(*arguments))
    document = Forecasts(results, "attic", Path("days/attic.csv")).document()
    served, printed = pd.DataFrame(document["forecasts"]), select_meter(expected)
    assert pd.to_datetime(served["timestamp"]).tolist() == [*pd.to_datetime(printed["timestamp"])]
    for column in ("forecast", "forecast_lower", "forecast_upper"):
        np.testing.assert_allclose(served[column].astype(float), printed[column], rtol=1e-5)
    export("days", "2024-05-20", "2024-05-22", factor=100)
    with naming(DataError, "attic", "another unit"):
        Forecasts(results, "attic", Path("days/attic.csv")).document()


@pytest.mark.parametrize("widening", ["adaptive", "personal"])
def test_all_forecasts_are_those_of_single_calls_in_order(widening: str, invoke: Callable) -> None:
    results = copy_results(make_adjusted, widening)
    export("spring", LAST, "2024-04-08")
    found = print_forecasts(invoke, results, "spring", "--all")
    first_time = pd.Timestamp(LAST, tz=ZONE) + pd.Timedelta(hours=1)
    made_at = pd.to_datetime(found["made_at"], utc=True)
    assert made_at.min() == first_time  # none for readings that are not in the files
    whole = {name: pd.read_csv(f"spring/{name}.csv") for name in NAMES}
    for rows in (2, 30, 150, len(whole["attic"])):
        for name, table in whole.items():
            table[:rows].to_csv(f"spring/{name}.csv", index=False)
        single = print_forecasts(invoke, results, "spring", "--keep-readings")
        assert len(single) == 2 * 24
        same = found[found["made_at"].isin(set(single["made_at"]))].reset_index(drop=True)
        pd.testing.assert_frame_equal(same, single)


def test_readings_that_do_not_fit_are_refused_with_all_forecasts(
    results: Path, invoke: Callable
) -> None:
    export("large", LAST, "2024-04-10", factor=8)
    arguments = ("large", "--all", "--with", "naive_day")
    assert (
        "about 8 times those that are known"
        in invoke("forecast", results, *arguments, status=2).err
    )


def test_a_short_gap_before_new_readings_is_filled_like_one_among_them(
    results: Path, invoke: Callable
) -> None:
    export("whole", "2024-03-20", "2024-04-10")
    export("until", "2024-03-20", "2024-04-01"), export("later", "2024-04-01", "2024-04-10")
    for name in NAMES:
        for folder, row in (("whole", 12 * 24 - 1), ("later", 0)):  # 31 March has 23 hours
            table = pd.read_csv(f"{folder}/{name}.csv")
            assert table["time"][row] == "01/04/2024 01:00"
            table.drop(row).to_csv(f"{folder}/{name}.csv", index=False)
    for name in NAMES:  # too short for lags without earlier readings
        table = pd.read_csv(f"later/{name}.csv")
        table[:10].to_csv(f"later/{name}.csv", index=False)
        whole = pd.read_csv(f"whole/{name}.csv")
        whole[: 12 * 24 - 1 + 10].to_csv(f"whole/{name}.csv", index=False)
    expected = print_forecasts(invoke, results, "whole")
    print_forecasts(invoke, results, "until", "--keep-readings")
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, "later"), expected)


def test_known_readings_are_added_in_the_gaps_of_files(results: Path, invoke: Callable) -> None:
    """A file may have an old row, or begin with the month, of which the last hours were read."""
    export("april", LAST, "2024-04-10")
    expected = print_forecasts(invoke, results, "april")
    export("old", "2024-02-20", "2024-04-10"), export("split", LAST, "2024-04-10")
    export("until", LAST, "2024-04-09")
    for name in NAMES:
        pd.read_csv(f"april/{name}.csv")[:-5].to_csv(f"until/{name}.csv", index=False)
    known_rows = len(make_hours("2024-02-20", LAST))
    for name in NAMES:
        table = pd.read_csv(f"old/{name}.csv")
        table.drop(range(1, known_rows)).to_csv(f"old/{name}.csv", index=False)
        table = pd.read_csv(f"split/{name}.csv")
        table.drop(range(1, len(table) - 5)).to_csv(f"split/{name}.csv", index=False)
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, "old"), expected)
    print_forecasts(invoke, results, "until", "--keep-readings")
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, "split"), expected)


def test_short_gaps_between_kept_readings_are_filled(results: Path, invoke: Callable) -> None:
    export("whole", LAST, "2024-04-10")
    spans = {"first": (0, 100), "second": (101, 110), "third": (111, 113)}
    lost_rows = [100, 110]
    for name in NAMES:
        table = pd.read_csv(f"whole/{name}.csv")[:113]
        for folder, (begin, end) in spans.items():
            Path(folder).mkdir(exist_ok=True)
            table[begin:end].to_csv(f"{folder}/{name}.csv", index=False)
        table.drop(lost_rows).to_csv(f"whole/{name}.csv", index=False)
    expected = print_forecasts(invoke, results, "whole")
    for folder in ("first", "second"):
        print_forecasts(invoke, results, folder, "--keep-readings")
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, "third"), expected)


def test_known_readings_are_not_replaced_by_those_that_fill_gaps(
    results: Path, invoke: Callable
) -> None:
    """Later files may lack a reading that an earlier one had, whether it is kept or the study's."""
    export("whole", "2024-03-20", "2024-04-03"), export("lacking", "2024-03-20", "2024-04-03")
    expected = print_forecasts(invoke, results, "whole")
    for name in NAMES:  # three hours of the last day, and two of the study
        table = pd.read_csv(f"lacking/{name}.csv")
        lost_rows = [len(table) - 9, len(table) - 5, len(table) - 4, 24, 48]
        table.drop(lost_rows).to_csv(f"lacking/{name}.csv", index=False)
    options = ("lacking", "--keep-readings", "--max-gap", "120")
    filled = print_forecasts(invoke, results, *options[:1], *options[2:])
    assert (filled["forecast"] != expected["forecast"]).sum() == 2 * 3  # a day later
    print_forecasts(invoke, results, "whole", "--keep-readings")
    for _ in range(2):
        pd.testing.assert_frame_equal(print_forecasts(invoke, results, *options), expected)
    kept_readings = pd.read_parquet(results / "data/recent.parquet")
    attic = kept_readings[kept_readings["client"] == "attic"].set_index("timestamp")["load"]
    ends = attic.index.tz_localize("Etc/GMT-1")
    np.testing.assert_allclose(attic, make_load("attic", ends))


def test_kept_corrections_of_readings_of_the_study_count(results: Path, invoke: Callable) -> None:
    export("corrected", "2024-03-28", "2024-03-29"), export("hours", LAST, "2024-03-30")
    Path("both").mkdir()
    for name in NAMES:
        table = pd.read_csv(f"corrected/{name}.csv")
        table = table.assign(kWh=table["kWh"] * 1.2).drop(10)  # of one hour nothing new is known
        table.to_csv(f"corrected/{name}.csv", index=False)
        hours = pd.read_csv(f"hours/{name}.csv")[:3]
        hours.to_csv(f"hours/{name}.csv", index=False)
        pd.concat([table, hours]).to_csv(f"both/{name}.csv", index=False)
    uncorrected = print_forecasts(invoke, results, "hours")
    expected = print_forecasts(invoke, results, "both")
    assert (expected["forecast"] != uncorrected["forecast"]).sum() == 2 * (24 - 3 - 1)
    print_forecasts(invoke, results, "corrected", "--keep-readings")
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, "hours"), expected)


HOUR = pd.Timedelta(hours=1)
AUTUMN = pd.date_range("2024-10-26 23:00", periods=5, freq="h", tz="UTC").tz_convert(ZONE)
"""Hours of which two end, and two begin, at 02:00 local time."""


def write_hour(end: pd.Timestamp, mark: str, factor: float = 1) -> None:
    """Write files of the single hour with this end."""
    Path("new").mkdir(exist_ok=True)
    stamp = end - HOUR if mark == "Start" else end
    for name in NAMES:
        load = factor * make_load(name, pd.DatetimeIndex([end]))
        table = pd.DataFrame({mark: [stamp.strftime(DAY_FIRST)], "kWh": load})
        table.to_csv(f"new/{name}.csv", index=False)


@pytest.mark.parametrize("mark", ["End", "Start"])
def test_of_the_hour_that_clocks_repeat_a_lone_reading_is_the_one_that_is_not_known(
    mark: str, invoke: Callable
) -> None:
    export("exports", "2024-09-10", "2024-10-27")
    for file in Path("exports").iterdir():
        table = pd.read_csv(file)
        ends = make_hours("2024-09-10", "2024-10-27")
        stamps = ends - HOUR if mark == "Start" else ends
        table = table.assign(time=stamps.strftime(DAY_FIRST)).rename(columns={"time": mark})
        table.to_csv(file, index=False)
    results = write_results_of("autumn", "exports", timezone=ZONE)
    arguments = (results, "new", "--keep-readings")
    for end in AUTUMN:
        write_hour(end, mark)
        for _ in range(2):  # a file may not have changed since the last call
            table = print_forecasts(invoke, *arguments)
            assert {*table["made_at"]} == {str(end)}
    kept_readings = pd.read_parquet(results / "data/recent.parquet")
    attic = kept_readings[kept_readings["client"] == "attic"].set_index("timestamp")["load"]
    assert [*attic.index] == [*AUTUMN.tz_convert("Etc/GMT-1").tz_localize(None)]
    np.testing.assert_allclose(attic, make_load("attic", AUTUMN))


def test_a_half_hour_of_the_second_time_may_have_the_load_of_the_first() -> None:
    """Homes use the same at night, so times tell which it is."""
    lone = pd.Timestamp("2024-10-27 02:30")  # as of the first time, in standard time
    readings = pd.DataFrame({"load": [0.1]}, pd.DatetimeIndex([lone]))
    readings.attrs = {"lone": [lone], "minutes": 30}
    for known_last, hours in (("02:00", 0), ("02:30", 0), ("03:00", 1), ("03:30", 1)):
        stamps = pd.date_range("2024-10-26", f"2024-10-27 {known_last}", freq="30min")
        placed = place_lone(readings, pd.Series(0.1, stamps))
        assert placed.index == [lone + hours * HOUR]


def test_an_older_file_that_ends_in_the_repeated_hour_stays_as_it_is() -> None:
    """It has the reading just before, which the second hour would follow only after the first."""
    stamps = pd.date_range("2024-10-26", "2024-10-27 03:00", freq="30min")
    readings = pd.DataFrame({"load": 0.1}, stamps[:-1])
    readings.attrs = {"lone": [pd.Timestamp("2024-10-27 02:30")], "minutes": 30}
    placed = place_lone(readings, pd.Series(0.1, stamps))
    assert [*placed.index] == [*stamps[:-1]]


def make_results_of_autumn() -> Path:
    """The results folder of a study of quarter hours, which ends with the day before clocks go
    back."""
    ends = pd.date_range("2024-09-10", "2024-10-27", freq="15min", tz=ZONE)[1:]
    for name in NAMES:
        write_quarters(Path("exports", f"{name}.csv"), name, ends)
    return write_results_of("autumn", "exports", timezone=ZONE, interval=60)


@pytest.mark.parametrize("size", [1, 3, 4])
def test_quarters_of_the_hour_that_clocks_repeat_are_placed_by_their_order(
    size: int, invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last ones of the first hour and the first ones of the second may be in one file."""
    results = copy_results(make_results_of_autumn)
    ends = pd.date_range("2024-10-27", "2024-10-27 03:30", freq="15min", tz=ZONE)[1:]
    for begin in (0, *range(6, len(ends), size)):
        for name in NAMES:
            part = ends[begin : begin + size if begin else 6]
            write_quarters(Path("new", f"{name}.csv"), name, part)
        clock = ends[begin].tz_convert("UTC")
        monkeypatch.setattr("plfl.forecast.known_readings.read_clock", lambda clock=clock: clock)
        print_forecasts(invoke, results, "new", "--keep-readings")
    kept_readings = pd.read_parquet(results / "data/recent.parquet")
    attic = kept_readings[kept_readings["client"] == "attic"].set_index("timestamp")["load"]
    assert [*attic.index] == [*ends.tz_convert("Etc/GMT-1").tz_localize(None)]
    np.testing.assert_allclose(attic, make_quarters("attic", ends))


def make_quarters(name: str, ends: pd.DatetimeIndex) -> np.ndarray:
    """Loads in kWh of quarter hours, each of which differs from the others."""
    return (make_load(name, ends) * (1 + ends.minute / 100)).round(4)


def write_quarters(file: Path, name: str, ends: pd.DatetimeIndex) -> None:
    """Write a file of quarter hours with local times."""
    file.parent.mkdir(exist_ok=True)
    table = pd.DataFrame({"time": ends.strftime(DAY_FIRST), "kWh": make_quarters(name, ends)})
    table.to_csv(file, index=False)


def test_of_a_portal_that_writes_the_repeated_hour_once_other_readings_are_taken(
    invoke: Callable,
) -> None:
    """They may be rounded or corrected; in another unit they are refused as all others."""

    def export_once(folder: str, first: str, last: str) -> None:
        export(folder, first, last)
        for file in Path(folder).iterdir():
            pd.read_csv(file).drop_duplicates("time").to_csv(file, index=False)

    export_once("exports", "2024-09-01", "2024-11-03")
    results = write_results_of("meters", "exports", timezone=ZONE)
    export_once("new", "2024-10-20", "2024-11-10")
    expected = print_forecasts(invoke, results, "new")
    whole = {file: pd.read_csv(file) for file in Path("new").iterdir()}
    for file, table in whole.items():
        table.assign(kWh=table["kWh"].round(2)).to_csv(file, index=False)
    assert len(print_forecasts(invoke, results, "new")) == len(expected)
    for file, table in whole.items():
        is_day = table["time"].str.startswith("27/10/2024")
        table.assign(kWh=table["kWh"] * (1 + 0.2 * is_day)).to_csv(file, index=False)
    pd.testing.assert_frame_equal(print_forecasts(invoke, results, "new"), expected)
    for file, table in whole.items():
        table.assign(kWh=1000 * table["kWh"]).to_csv(file, index=False)
    printed = invoke("forecast", results, "new", "--with", "naive_day", status=2)
    assert "1,000 times those that are known of then; say their unit" in printed.err


def test_readings_without_a_forecast_are_kept_too(results: Path, invoke: Callable) -> None:
    """After a gap that is longer than a forecast looks back, files of some hours add up."""
    arguments = ("--with", "naive_day", "--keep-readings")
    hours = len(make_hours("2024-04-05", "2024-04-08"))
    export("whole", "2024-04-05", "2024-04-08")
    Path("new").mkdir()
    whole = {name: pd.read_csv(f"whole/{name}.csv") for name in NAMES}
    for begin, status in ((hours - 28, 2), (hours - 18, 2), (hours - 8, 0)):
        for name, table in whole.items():
            table[begin : begin + 8 + 2 * (status > 0)].to_csv(f"new/{name}.csv", index=False)
        printed = invoke("forecast", results, "new", *arguments, status=status)
    pd.testing.assert_frame_equal(
        pd.read_csv(io.StringIO(printed.out)), print_forecasts(invoke, results, "whole")
    )


@pytest.mark.parametrize("change", [{"interval": 30}, {"timezone": "Europe/London"}])
def test_kept_readings_of_another_form_are_refused(
    change: dict[str, Any], results: Path, invoke: Callable
) -> None:
    export("april", LAST, "2024-04-08")
    print_forecasts(invoke, results, "april", "--keep-readings")
    forecasters = Forecasters(results)
    assert {*forecasters.known_readings.recent_readings} == {*NAMES}
    model = forecasters.any_model
    data = model.study.data
    meters = data.meters.model_copy(update=change)
    data = data.model_copy(update={"meters": meters, "resample": 60})
    other_study = model.study.model_copy(update={"data": data})
    other = Forecasters(results)
    (file,) = vars(forecasters)["_models"]
    vars(other)["_models"] = {file: replace(model, study=other_study)}
    with naming(ResultsError, "recent.parquet", "another interval, time zone or columns"):
        _ = other.known_readings.recent_readings


def test_a_backtest_reads_the_kept_readings_before_its_files(
    results: Path, invoke: Callable
) -> None:
    export("april", LAST, "2024-04-08"), export("later", "2024-04-08", "2024-04-10")
    refused = invoke("backtest", results, "later", "--with", "naive_day", status=2).err
    assert "a forecast reads the 170 readings before it" in refused
    print_forecasts(invoke, results, "april", "--keep-readings")
    table = pd.read_csv(
        io.StringIO(invoke("backtest", results, "later", "--with", "naive_day").out)
    )
    assert (table["first"] == "2024-04-08 01:00:00+02:00").all()
    # Each load but the first ones is forecast 24 times.
    assert (table["forecasts"] == 48 * 24).all()


def test_what_was_said_is_not_repeated_at_each_call(results: Path, invoke: Callable) -> None:
    export("april", LAST, "2024-04-08")
    table = pd.read_csv("april/barn.csv")
    table.loc[len(table) - 5, "kWh"] = 4
    table.drop(index=len(table) - 9).to_csv("april/barn.csv", index=False)
    command = ("forecast", results, "april", "--with", "naive_day", "--keep-readings")
    for calls in range(3):
        told = invoke(*command).err
        assert ("barn: 1 of " in told and "outside the range" in told) == (calls == 0)
        assert ("1 missing reading in 1 gap" in told) == (calls == 0)
        assert ("naive_day, chosen with --with" in told) == (calls == 0)


def test_readings_are_kept_of_the_next_forecasts_only(results: Path, invoke: Callable) -> None:
    export("april", "2024-03-29", "2024-04-10")
    printed = invoke("forecast", results, "april", "--keep-readings", "--all", status=2)
    assert printed.err.startswith("plfl: --keep-readings: only with a results folder")


def test_meters_that_took_part_are_not_new(results: Path, invoke: Callable) -> None:
    """They are forecast as without `--new`: a file of a few hours is enough, and only their
    readings are kept."""
    export("april", LAST, "2024-04-10")
    expected = print_forecasts(invoke, results, "april")
    shutil.copy("april/barn.csv", "april/dairy.csv")
    without_new = invoke("forecast", results, "april", "--with", "naive_day", status=3)
    assert "dairy: did not take part" in without_new.err
    for name in NAMES:
        pd.read_csv(f"april/{name}.csv")[-3:].to_csv(f"april/{name}.csv", index=False)
    export("until", LAST, "2024-04-10")
    print_forecasts(invoke, results, "until", "--keep-readings")
    arguments = ("forecast", results, "april", "--new", "--with", "naive_day")
    printed = invoke(*arguments, "--keep-readings")
    line = "2 meters (attic, barn): took part in the study, so they are not new"
    assert line in printed.err
    table = pd.read_csv(io.StringIO(printed.out))
    is_new = table["client"] == "dairy"
    pd.testing.assert_frame_equal(table[~is_new].reset_index(drop=True), expected)
    truth = table.loc[table["client"] == "barn", "forecast"].tolist()
    assert table.loc[is_new, "forecast"].tolist() == truth  # yesterday's load of the same readings
    kept_readings = pd.read_parquet(results / "data/recent.parquet")
    assert {*kept_readings["client"]} == {*NAMES}
    shutil.copy("april/barn.csv", "april/dairy.csv")  # three hours of a new meter
    refused = invoke(*arguments, "--client", "dairy", status=2).err
    assert "dairy: has 3 readings, but a forecast needs 24 in a row" in refused
    assert "add earlier ones" in refused and "--keep-readings" not in refused
    refused = invoke(*arguments, "--client", "barn", "--save", "barn.safetensors", status=2)
    assert "--save: keeps the model of a new meter, but barn took part" in refused.err


def test_what_many_files_share_is_told_once(results: Path, invoke: Callable) -> None:
    export("april", "2024-04-01", "2024-04-10", "%Y.%m.%d %H:%M")
    for name in ("dairy", "edge"):
        shutil.copy("april/attic.csv", f"april/{name}.csv")
    error = invoke("forecast", results, "april", "--with", "naive_day", status=2).err
    assert error.startswith("plfl: 4 meters (attic, barn, dairy …): line 2: '2024.04.01 01:00'")
    assert error.count("\n") == 1 and "--date-format" in error


def test_what_is_said_about_many_meters_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with share_messages() as say:
        for number, name in enumerate("abcdef"):
            problem = Problem(name, f"{number} gaps", meter=name, kind="gaps")
            logging.getLogger("plfl.forecast").warning("%s", problem)
            say(name, "P2, chosen with --with")
        say("b", "P1, chosen with --with")
        for name in "abcdef":
            logging.getLogger("plfl.data.meters").warning("%s: not read", f"folder {name}")
    assert capsys.readouterr().err.splitlines() == [
        "6 meters (a, b, c …); of a: 0 gaps",
        "6 meters (a, b, c …): P2, chosen with --with",
        "b: P1, chosen with --with",
        *(f"folder {name}: not read" for name in "abcdef"),
    ]


@pytest.mark.parametrize(
    ("windows", "minutes", "words"),
    [
        (
            {"look_back": 96, "look_ahead": 1, "horizons": 96},
            15,
            "reads the last 24 h and is of the next 24 h",
        ),
        (
            {"look_back": 96, "look_ahead": 1, "horizons": 96},
            60,
            "reads the last 96 h and is of the next 96 h",
        ),
        ({"look_back": 12, "look_ahead": 4}, 15, "reads the last 3 h and is of the load 1 h ahead"),
        (
            {"look_back": 12, "look_ahead": 3, "horizons": 2},
            30,
            "reads the last 6 h and is of 1.5 h to 2 h ahead",
        ),
    ],
)
def test_what_another_interval_does_is_said(windows: dict, minutes: int, words: str) -> None:
    assert words in Windows(**windows).describe_times(minutes)


def test_the_sum_of_the_meters_has_forecasts_and_errors(results: Path, invoke: Callable) -> None:
    export("march", "2024-03-20", "2024-04-01")
    found = print_forecasts(invoke, results, "march", "--sum")
    by_client = found.pivot(index="timestamp", columns="client", values="forecast")
    np.testing.assert_allclose(by_client["sum"], by_client[[*NAMES]].sum(axis=1), rtol=1e-3)
    printed = invoke("backtest", results, "march", "--with", "naive_day", "--sum")
    errors = pd.read_csv(io.StringIO(printed.out)).set_index("client")
    assert errors.loc["sum", "forecaster"] == "sum of the meters"
    assert errors.loc["sum", "mae"] <= errors.loc[[*NAMES], "mae"].sum() + 1e-3
    assert errors["peak_hours"].between(0, 23).all()
    assert "2 meters: on average wrong by" in printed.err
    assert "Do not add" not in printed.err


def test_a_sum_that_is_worse_than_a_day_before_is_warned_of(
    results: Path, invoke: Callable
) -> None:
    export("march", "2024-03-20", "2024-04-01")
    arguments = ("forecast", results, "march", "--with", "naive_day")
    assert "Do not add" not in invoke(*arguments, "--sum").err
    write_sums(results, forecaster="naive_day")
    told = invoke(*arguments, "--sum").err
    assert "sum: Do not add these forecasts: of the sum they were wrong by 19" in told
    assert "Do not add" not in invoke(*arguments).err


def test_hours_that_end_at_other_minutes_are_refused(results: Path, invoke: Callable) -> None:
    export("april", LAST, "2024-04-10")
    arguments = ("--with", "naive_day", "--read-timezone", "Asia/Kolkata")
    told = invoke("forecast", results, "april", *arguments, status=2).err
    assert "its intervals end at" in told and "--read-timezone" in told
