"""A trace says who takes part and how fast; a wrong one says where it is wrong."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import ConfigError, DataError
from plfl.federated import availability as trace
from tests.federated.test_clock import clock
from tests.helpers import tiny
from tests.helpers.interruption import resumed
from tests.helpers.refusals import naming

CSV = """client,round,available,step_seconds,down_mbit
a,3,0,,
a,1,,2.5,
b,2,false,1,8
b,4,TRUE,,
"""


def write(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_values_hold_until_the_next_one(tmp_path: Path) -> None:
    found = trace.read(write(tmp_path, CSV))
    assert found.by == "round"
    nan = np.nan
    told = {
        1: ([nan, nan, nan], [2.5, nan, nan], [nan, nan, nan]),
        2: ([nan, 0, nan], [2.5, 1, nan], [nan, 8, nan]),
        3: ([0, 0, nan], [2.5, 1, nan], [nan, 8, nan]),
        9: ([0, 1, nan], [2.5, 1, nan], [nan, 8, nan]),
    }
    for t, (available, step_seconds, down_mbit) in told.items():
        values = found.at(["a", "b", "c"], t)
        np.testing.assert_array_equal(values["available"], available)
        np.testing.assert_array_equal(values["step_seconds"], step_seconds)
        np.testing.assert_array_equal(values["down_mbit"], down_mbit)
        assert np.isnan(values["up_mbit"]).all()
    assert found.after(["a"], 1) == 3
    assert found.after(["a"], 3) is None
    assert found.after(["c"], 1) is None


def test_parquet_says_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, CSV)
    table = pd.read_csv(path).assign(available=pd.Series([False, None, False, True]))
    table.to_parquet(tmp_path / "trace.parquet")
    one, other = trace.read(path), trace.read(tmp_path / "trace.parquet")
    for t in range(1, 6):
        for name, values in one.at(["a", "b"], t).items():
            np.testing.assert_array_equal(values, other.at(["a", "b"], t)[name])


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, CSV)
    trace.read(path)
    write(tmp_path, "client,seconds,available\na,0,1\n")
    assert trace.read(path).by == "seconds"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("client,round,available\na,1,1\na,2,maybe\n", "line 3, column available: 'maybe'"),
        ("client,round,step_seconds\na,1,0\n", "line 2, column step_seconds: '0'"),
        ("client,round,up_mbit\na,1,fast\n", "line 2, column up_mbit: 'fast'"),
        ("client,round,available\na,0,1\n", "line 2, column round: '0'"),
        ("client,seconds,available\na,,1\n", "line 2, column seconds: nothing"),
        ("client,round,available\n,1,1\n", "line 2, column client: nothing"),
        ("client,round,available\na,1,1\na,1,0\n", "line 3: duplicate client 'a' at round 1"),
        ("round,available\n1,1\n", "no column 'client'"),
        ("client,available\na,1\n", "neither of the columns round and seconds"),
        ("client,round,seconds,available\na,1,1,1\n", "has round and seconds; give exactly one"),
        ("client,round\na,1\n", "no column of values"),
        ("client,round,availible\na,1,1\n", "did you mean 'available'"),
        ("", "cannot be read"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with naming(DataError, path.name, message):
        trace.read(path)


def test_the_trace_goes_before_the_distributions(tmp_path: Path) -> None:
    text = "client,round,available,step_seconds\nclient 0,2,0,3\nclient 1,1,1,\n"
    path = write(tmp_path, text)
    c = clock(3, trace=path, availability=1e-9, step_seconds=[1, 2, 4], down_mbit=8)
    assert c.available(1).tolist() == [False, True, False]
    assert c.step_seconds.tolist() == [1, 2, 4]
    assert c.available(2).tolist() == [False, True, False]
    assert c.step_seconds.tolist() == [3, 2, 4]
    assert c.down_seconds.tolist() == [1e-6] * 3
    assert not c.up_seconds.any()


def test_a_trace_by_seconds_waits_until_someone_can_be_reached(tmp_path: Path) -> None:
    text = "client,seconds,available\nclient 0,0,0\nclient 0,100,1\nclient 0,103,0\n"
    c = clock(1, trace=write(tmp_path, text), step_seconds=2)
    traffic = {kind: np.zeros(1, dtype=np.int64) for kind in ("bytes_down", "bytes_up")}
    nobody, everybody = np.array([], dtype=np.int64), np.array([0])
    assert not c.available(1).any()
    assert c.close_round(traffic, [nobody]).round == 100
    assert c.available(2).all()
    c.work(everybody, np.array([1.0]))
    assert c.close_round(traffic, [everybody]).round == 2
    assert c.available(3).all()
    c.work(everybody, np.array([1.0]))
    c.close_round(traffic, [everybody])
    assert c.now == 104
    assert not c.available(4).any()
    # Nothing changes any more.
    assert c.close_round(traffic, [nobody]).round == 0


def test_a_trace_of_others_or_of_a_time_that_never_passes_is_refused(tmp_path: Path) -> None:
    with naming(ConfigError, "client 0, client 1"):
        clock(2, trace=write(tmp_path, CSV))
    standing = write(tmp_path, "client,seconds,available\nclient 0,0,1\n", "standing.csv")
    with pytest.raises(ConfigError, match="in seconds, but nothing takes time"):
        clock(2, trace=standing)


def test_a_study_with_a_trace_goes_on_after_an_interruption(tmp_path: Path) -> None:
    text = "client,seconds,available,step_seconds\na,0,1,1\na,5,0,\na,9,1,\nb,0,1,2\nc,0,1,3\n"
    path = write(tmp_path, text)
    federation = {"rounds": 4, "simulation": {"trace": str(path)}}
    study = tiny.of_method("fedopt", grid={"client_opt": ["sgd"]}, federation=federation)
    (cell,) = study.cells
    # Rounds of four steps last 12 seconds, so a is there from the one that begins at 12 or at 24.
    for back, present in ((9, ["abc"] * 4), (20, ["abc", "bc", "abc", "abc"])):
        before = study.settings(cell)
        path.write_text(path.read_text().replace("a,9,1", f"a,{back},1"))
        assert (study.settings(cell) == before) == (back == 9), "another trace, other numbers"
        later = resumed(study, tiny.dataset(), tmp_path / str(back), after=3)
        trained = later[cell].records.query("split == 'train' and model == 'local'")
        assert trained.groupby("round")["client"].agg("".join).tolist() == present
        assert set(trained.groupby("round")["round_seconds"].first()) == {12}
