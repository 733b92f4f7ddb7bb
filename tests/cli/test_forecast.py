"""`plfl forecast` and `plfl run --models`: what is printed, and how mistakes end."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from plfl.base.errors import DataError
from plfl.cli import main as cli
from plfl.cli.meters import for_each_meter
from plfl.forecast.output import table_as_csv
from tests.helpers.projects import CELL


@pytest.fixture
def model(project: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["run", "my.yaml", CELL, "--models", "m.safetensors"]) == 0
    capsys.readouterr()
    return "m.safetensors"


def printed(invoke: Any, *arguments: str) -> pd.DataFrame:
    Path("printed.csv").write_text(invoke("forecast", *arguments).out)
    return pd.read_csv("printed.csv", parse_dates=["timestamp", "made_at"], index_col=0)


def test_the_next_hour_or_everything(model: str, invoke) -> None:
    last = pd.Timestamp(pd.read_csv("meters/a.csv")["timestamp"].iloc[-1], tz="UTC")
    following = printed(invoke, model, "meters/a.csv")
    assert list(following.index) == [last + pd.Timedelta(minutes=15 * i) for i in (1, 2, 3, 4)]
    whole = printed(invoke, model, "meters/a.csv", "--all")
    pd.testing.assert_frame_equal(whole[-4:], following)
    # Each client has a model of its own, and the server's is another one.
    others = [("--client", "b"), ("--model", "global")]
    for other in others:
        assert not printed(invoke, model, "meters/a.csv", *other).equals(following)


def test_midnights_have_a_time_too() -> None:
    stamps = pd.DatetimeIndex(["2018-12-01"])
    table = pd.DataFrame({"timestamp": stamps, "forecast": [1.5], "made_at": stamps})
    assert table_as_csv(table).splitlines()[1] == "2018-12-01 00:00:00,1.5,2018-12-01 00:00:00"


def test_a_register_is_no_load(model: str, caplog: pytest.LogCaptureFixture) -> None:
    register = pd.read_csv("meters/a.csv")
    register.assign(load=register["load"].cumsum() / 10).to_csv("register.csv", index=False)
    for file, warned in (("meters/a.csv", False), ("register.csv", True)):
        caplog.clear()
        assert cli.main(["forecast", model, file, "--client", "a"]) == (2 if warned else 0)
        assert ("hardly ever decreases" in caplog.text) == warned


def test_mistakes(model: str, invoke) -> None:
    mistakes = {
        (model, "meters/a.csv", "--save", "x"): "did not take part; add --new",
        (model, "none.csv"): "none.csv: the file does not exist",
        (model, "meters", "--with", "P2"): "--with: chooses among the forecasters of a results",
        (model, "meters", "--out", "x.txt"): "its format is unknown; name a file that ends in one",
        (model, "meters", "--timezone", "Europe/Pari"): "did you mean 'Europe/Paris'",
        ("my.yaml", "meters/a.csv"): "results/own: holds no study",
        ("none.safetensors", "meters/a.csv"): "none.safetensors: the file does not exist",
    }
    for arguments, message in mistakes.items():
        assert message in invoke("forecast", *arguments, status=2).err


def test_all_meters_of_a_folder_and_an_exit_status_for_those_that_fail(model, capsys, invoke):
    found = printed(invoke, model, "meters")
    assert found["client"].value_counts().to_dict() == {"a": 4, "b": 4, "c": 4}
    for client in "abc":
        alone = printed(invoke, model, f"meters/{client}.csv")
        pd.testing.assert_frame_equal(found[found["client"] == client], alone)
    Path("meters/d.csv").write_text(Path("meters/a.csv").read_text())
    assert cli.main(["forecast", model, "meters", "--out", "next.csv"]) == 3
    assert "client 'd' did not take part" in capsys.readouterr().err
    assert {*pd.read_csv("next.csv")["client"]} == {*"abc"}
    Path("meters/d.csv").write_text("no table")
    assert "meters/d.csv" in invoke("forecast", model, "meters", status=3).err


def test_a_file_in_two_parts_is_one_file(model: str, invoke) -> None:
    whole = printed(invoke, model, "meters/a.csv")
    table = pd.read_csv("meters/a.csv")
    for folder, rows in (("one", table[:900]), ("two", table[880:])):
        Path(folder).mkdir()
        rows.to_csv(f"{folder}/a.csv", index=False)
    pd.testing.assert_frame_equal(printed(invoke, model, "one/a.csv", "two/a.csv"), whole)


def test_units_zones_and_formats(model: str, invoke) -> None:
    plain = printed(invoke, model, "meters").reset_index()
    asked = ["--unit", "kW", "--timezone", "Europe/Berlin", "--stamp", "start"]
    read = {
        "n.csv": lambda file: pd.read_csv(file, parse_dates=["timestamp"]),
        "n.json": lambda file: pd.DataFrame(json.loads(Path(file).read_text())),
        "n.parquet": pd.read_parquet,
        "n.xlsx": pd.read_excel,
    }
    for file, reader in read.items():
        assert cli.main(["forecast", model, "meters", *asked, "--out", file]) == 0
        table = reader(file)
        np.testing.assert_allclose(table["forecast"], 4 * plain["forecast"], rtol=1e-5)
        assert {*table["unit"]} == {"kW"} and {*table["stamp"]} == {"start"}
        assert {*table["timezone"]} == {"Europe/Berlin"} and {*table["forecaster"]} == {"P2"}
        stamps = table["timestamp"]
        if file == "n.xlsx":  # the time that clocks show, an hour ahead of UTC in January
            assert {*table["utc_offset"]} in ({100}, {"+0100"})
            stamps = (stamps - pd.Timedelta(hours=1)).dt.tz_localize("UTC")
        begins = plain["timestamp"] - pd.Timedelta(minutes=15)
        assert [*pd.to_datetime(stamps, utc=True)] == [*begins]
    assert cli.main(["forecast", model, "meters", "--wide", "--out", "n.csv"]) == 0
    wide = pd.read_csv("n.csv")
    assert list(wide)[:2] == ["timestamp (end, UTC)", "a (kWh per 15 min, P2)"]
    for column, client in zip(list(wide)[1:], "abc", strict=True):
        own = plain[plain["client"] == client]["forecast"]
        np.testing.assert_allclose(wide[column], own, rtol=1e-5)


def test_a_file_in_kw_is_recognised(model: str, capsys, invoke) -> None:
    plain = printed(invoke, model, "meters/a.csv")
    table = pd.read_csv("meters/a.csv")
    table.assign(load=4 * table["load"]).to_csv("kw.csv", index=False)
    assert cli.main(["forecast", model, "kw.csv", "--client", "a"]) == 2
    assert "divide them by 4, or say so with --read-as kW" in capsys.readouterr().err
    again = printed(invoke, model, "kw.csv", "--client", "a", "--read-as", "kW")
    pd.testing.assert_frame_equal(again, plain)


def test_files_without_a_known_meter_are_refused_with_a_remedy() -> None:
    with pytest.raises(DataError, match="--client"):
        for_each_meter({}, [], lambda name, readings: None)


def test_new_meters_need_not_be_among_those_that_the_study_selects(project: Path, invoke) -> None:
    study = yaml.safe_load(Path("my.yaml").read_text())
    study["data"]["meters"] = {"exports": ["meters"], "only": ["a", "b", "c"]}
    Path("my.yaml").write_text(yaml.safe_dump(study))
    invoke("run", "my.yaml", CELL, "--models", "m.safetensors")
    shutil.copy("meters/a.csv", "d.csv")
    assert (
        "d: not among the study's meters"
        in invoke("forecast", "m.safetensors", "d.csv", "meters/b.csv").err
    )
    new_forecasts = printed(invoke, "m.safetensors", "d.csv", "--new")
    assert set(new_forecasts["client"]) == {"d"}


def test_a_meter_that_the_study_leaves_out_is_named_with_its_command(project: Path, invoke) -> None:
    shutil.copy("meters/a.csv", "meters/d.csv")
    study = yaml.safe_load(Path("my.yaml").read_text())
    study["data"]["meters"] = {"exports": ["meters"], "leave_out": ["d"]}
    Path("my.yaml").write_text(yaml.safe_dump(study))
    invoke("run", "my.yaml", CELL, "--models", "m.safetensors")
    assert (
        "d: left out by the study (`leave_out`); `plfl forecast m.safetensors meters/d.csv --new "
        "--client d` forecasts it as a new meter"
    ) in invoke("forecast", "m.safetensors", "meters", "--new").err
    named = printed(invoke, "m.safetensors", "meters/d.csv", "--new", "--client", "d")
    assert set(named["client"]) == {"d"}


def test_readings_in_longer_intervals_than_those_of_the_study(model: str, invoke) -> None:
    rows = pd.read_csv("meters/a.csv", index_col=0)
    rows[3::4].to_csv("a.csv")
    told = invoke("forecast", model, "a.csv", status=2).err
    assert "60 minutes apart and do not make intervals of 15" in told
    assert "--interval" not in told  # would be refused


def test_work_on_many_meters_shows_its_progress_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        tables = {"a": 1, "b": 2}
        assert for_each_meter(tables, [], lambda _, n: 2 * n, action="forecast") == {"a": 2, "b": 4}
        assert ("forecast:" in stream.getvalue()) == shown
