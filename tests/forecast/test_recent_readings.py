"""The last readings that a results folder keeps."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from plfl.forecast import recent_readings
from plfl.forecast.recent_readings import keep_recent, read_recent
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.kept_baselines import write_results


def make_hours(days: int) -> pd.DataFrame:
    hours = pd.date_range("2024-01-01 01:00", periods=24 * days, freq="h", name="timestamp")
    table = pd.DataFrame({"load": 1.0}, hours)
    table.attrs["minutes"] = 60
    return table


def test_two_calls_at_once_keep_the_readings_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = recent_readings.write_table
    is_writing, second_ends = threading.Event(), threading.Event()

    def write_slowly(table: pd.DataFrame, path: Path, form: str) -> None:
        if not is_writing.is_set():
            is_writing.set()
            second_ends.wait(0.5)
        write(table, path, form)

    monkeypatch.setattr(recent_readings, "write_table", write_slowly)
    first = threading.Thread(target=keep_recent, args=(tmp_path, {"a": make_hours(2)}))
    first.start()
    assert is_writing.wait(60)
    keep_recent(tmp_path, {"b": make_hours(2)})
    second_ends.set()
    first.join()
    assert {*read_recent(tmp_path)} == {"a", "b"}


def test_without_new_readings_nothing_is_kept(tmp_path: Path) -> None:
    keep_recent(tmp_path, {})
    assert read_recent(tmp_path) == {}
    keep_recent(tmp_path, {"a": make_hours(2)})
    keep_recent(tmp_path, {})
    assert {*read_recent(tmp_path)} == {"a"}


@pytest.mark.parametrize(("reach", "days"), [(1, 35), (50, 50)])
def test_what_forecasters_read_is_kept(tmp_path: Path, reach: int, days: int) -> None:
    reach_of_all: Any = pd.Timedelta(days=reach)
    keep_recent(tmp_path, {"a": make_hours(60)}, reach_of_all)
    assert len(read_recent(tmp_path)["a"]) == 24 * days


def export(folder: str, first: int, end: int, shift: str = "0h") -> None:
    """Write some of two weeks of quarter hours of three meters, with stamps that are shifted."""
    Path(folder).mkdir()
    for name, table in tiny.tables(3, 96 * 14).items():
        rows = table[["load"]][first:end]
        rows.index += pd.Timedelta(shift)
        rows.to_csv(Path(folder, f"{name}.csv"), index_label="timestamp")


def make_results() -> Path:
    """The results folder of a study of hours from files of quarter hours."""
    export("meters", 0, 96 * 12)
    layout = {"timezone": "Etc/GMT+5"}
    data = {"source": "meters", "states": ["XX"], "clients": 3, "resample": 60, "meters": layout}
    windows = {"look_back": 3, "look_ahead": 1, "horizons": 24}
    raw = {"name": "hours", "data": data | {"features": ["load"]}, "windows": windows}
    return write_results(Study.parse(raw, "test"), "naive_day")


def test_an_hour_at_the_border_of_two_files_is_whole(invoke: Callable) -> None:
    results, border = make_results(), 96 * 12 + 4 * 10 + 2
    export("whole", 96 * 12, 96 * 13)
    export("until", 96 * 12, border), export("later", border, 96 * 13)
    expected = invoke("forecast", results, "whole", "--with", "naive_day").out
    assert expected.count("\n") == 1 + 3 * 24
    invoke("forecast", results, "until", "--with", "naive_day", "--keep-readings")
    assert invoke("forecast", results, "later", "--with", "naive_day").out == expected
    export("india", 96 * 12, 96 * 13, "10h30min")
    arguments = ("--with", "naive_day", "--read-timezone", "Asia/Kolkata")
    assert invoke("forecast", results, "india", *arguments).out == expected


def test_a_file_without_a_whole_interval_is_named(invoke: Callable) -> None:
    results = make_results()
    export("new", 96 * 12, 96 * 13)
    table = pd.read_csv("new/b.csv")
    table[:3].to_csv("new/b.csv", index=False)
    printed = invoke("forecast", results, "new", "--with", "naive_day", status=3)
    assert "plfl: b: no reading yet" in printed.err
    assert printed.out.count("\n") == 1 + 2 * 24
