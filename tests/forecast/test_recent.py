"""The last readings that a results folder keeps."""

import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from plfl.forecast import recent
from plfl.forecast.recent import keep_recent, read_recent


def make_hours(days: int) -> pd.DataFrame:
    hours = pd.date_range("2024-01-01 01:00", periods=24 * days, freq="h", name="timestamp")
    return pd.DataFrame({"load": 1.0}, hours)


def test_two_calls_at_once_keep_the_readings_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, is_writing, second_ends = recent.write_table, threading.Event(), threading.Event()

    def write_slowly(table: pd.DataFrame, path: Path) -> None:
        if not is_writing.is_set():
            is_writing.set()
            second_ends.wait(0.5)
        write(table, path)

    monkeypatch.setattr(recent, "write_table", write_slowly)
    first = threading.Thread(target=keep_recent, args=(tmp_path, {"a": make_hours(2)}))
    first.start()
    assert is_writing.wait(60)
    keep_recent(tmp_path, {"b": make_hours(2)})
    second_ends.set()
    first.join()
    assert {*read_recent(tmp_path)} == {"a", "b"}


@pytest.mark.parametrize(("reach", "days"), [(1, 35), (50, 50)])
def test_what_forecasters_read_is_kept(tmp_path: Path, reach: int, days: int) -> None:
    reach_of_all: Any = pd.Timedelta(days=reach)
    keep_recent(tmp_path, {"a": make_hours(60)}, reach_of_all)
    assert len(read_recent(tmp_path)["a"]) == 24 * days
