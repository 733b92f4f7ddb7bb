"""Rows of leaderboards are scored again from their predictions, and what differs is refused."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import ResultsError
from plfl.base.files import sha256
from plfl.outside import submissions
from plfl.outside.clients import Datasets, datasets
from plfl.outside.frozen import BenchmarkTask, open_task
from plfl.outside.leaderboard import append, row_of
from plfl.outside.skill import standings
from plfl.outside.submissions import (
    digest_of_row,
    faults,
    find_kept,
    keep,
    note_verified,
    remove_kept,
)
from tests.helpers.refusals import naming

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def task() -> BenchmarkTask:
    found = open_task(ROOT / "tasks" / "sample.yaml")[1]
    assert found is not None
    return found


@pytest.fixture(scope="module")
def data(task: BenchmarkTask, tmp_path_factory: pytest.TempPathFactory) -> Datasets:
    folder = tmp_path_factory.mktemp("sample")
    sample_data = task.data_study.data.model_copy(update={"folder": folder})
    return datasets(task.data_study.model_copy(update={"data": sample_data}))


@pytest.fixture(scope="module")
def predictions(
    task: BenchmarkTask, data: Datasets, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The load of the last reading as a forecast."""
    ((_, dataset),) = data.items()
    tables = []
    for i, client in enumerate(dataset.clients.tolist()):
        starts = dataset.starts(i, "test")
        columns = {"client": client, "stamp": dataset.stamps[dataset.target_rows(starts)]}
        tables.append(pd.DataFrame(columns | {"forecast": dataset.persistence(starts)}))
    file = tmp_path_factory.mktemp("predictions") / "mine.parquet"
    pd.concat(tables).to_parquet(file)
    return file


@pytest.fixture
def board(task: BenchmarkTask, data: Datasets, predictions: Path, tmp_path: Path) -> Path:
    """A leaderboard with one row, and its predictions beside it."""
    scored = submissions.score(task.data_study, predictions, data=data, with_rivals=False)
    said = {"method": "mine", "version": task.version, "trials": 1, "exchanged": "nothing"}
    row = scored.submission(said | {"bytes_up": 0, "bytes_down": 0})
    file = tmp_path / "leaderboard" / "sample.csv"
    append([row], file)
    assert keep(predictions, file) is not None
    return file


def change(board: Path, **values: object) -> None:
    """Write other values into the first row."""
    rows = pd.read_csv(board, keep_default_na=False, dtype=str)
    for column, value in values.items():
        rows.loc[0, column] = str(value)
    rows.to_csv(board, index=False)


def test_the_persistence_of_the_sample_task_is_one(
    task: BenchmarkTask, data: Datasets, board: Path
) -> None:
    assert [*faults(task, board, data=data)] == []
    assert float(pd.read_csv(board)["score"][0]) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"score": 0.5, "low": 0.4}, ("score is 0.5", "its predictions have 1")),
        ({"wape": 0.01}, ("wape is 0.01",)),
        ({"high": 1.5}, ("high is 1.5",)),
        ({"seeds": 3}, ("seeds is 3",)),
        ({"seeds": 2}, ("has 2 seeds", "as many as the task, 3")),
        ({"version": 1}, ("is of version 1 of the task, which has version 2",)),
        ({"trials": 9}, ("9 trials exceed the budget of 3",)),
        ({"bytes_up": 99, "exchanged": "nothing"}, ("exchanged is 'nothing'",)),
        ({"predictions": "0" * 64}, ("no file of predictions", "verified.csv")),
        ({"score": "much"}, ("score is much",)),
    ],
)
def test_a_tampered_row_is_refused(
    task: BenchmarkTask, data: Datasets, board: Path, values: dict[str, Any], words: tuple[str, ...]
) -> None:
    change(board, **values)
    lines = [
        line
        for line in map(str, faults(task, board, data=data))
        if all(word in line for word in words)
    ]
    assert lines and lines[0].startswith(f"{board}: line 2: mine")


def test_tampered_predictions_are_refused(
    task: BenchmarkTask, data: Datasets, board: Path, predictions: Path
) -> None:
    (kept,) = (board.parent / "predictions" / "sample").glob("*")
    table = pd.read_parquet(predictions)
    table.assign(forecast=0.0).to_parquet(kept)
    (line,) = map(str, faults(task, board, data=data))
    assert "another digest than its name" in line


def test_a_missing_client_is_named(
    task: BenchmarkTask, data: Datasets, board: Path, predictions: Path, tmp_path: Path
) -> None:
    table = pd.read_parquet(predictions)
    first = table["client"].iloc[0]
    table[table["client"] != first].to_parquet(part := tmp_path / "part.parquet")
    kept = keep(part, board)
    assert kept is not None
    change(board, predictions=kept.stem)
    lines = [*map(str, faults(task, board, data=data))]
    assert any("has no predictions for" in line and str(first) in line for line in lines)
    assert any("belongs to no row" in line for line in lines)  # the file of before


def test_rows_without_predictions_are_those_that_are_listed(
    task: BenchmarkTask, data: Datasets, board: Path
) -> None:
    said = {"method": "=results", "version": 2, "trials": 1, "bytes_up": 0, "bytes_down": 0}
    row = row_of(said, score=2.0, low=1.9, high=2.1, seeds=1, predictions="1" * 64)
    append([row], board)
    assert any(
        "no file of predictions" in str(problem) for problem in faults(task, board, data=data)
    )
    note_verified([row], "sample", board)
    assert [*faults(task, board, data=data)] == []
    rows = pd.read_csv(board, keep_default_na=False, dtype=str)
    assert digest_of_row(rows.to_dict("records")[1]) == digest_of_row(row)
    rows.loc[1, "high"] = "2.2"
    rows.to_csv(board, index=False)
    assert any(
        "does not list the row as it is" in str(problem)
        for problem in faults(task, board, data=data)
    )


def test_equal_scores_are_two_rows(task: BenchmarkTask, data: Datasets, board: Path) -> None:
    row = pd.read_csv(board, keep_default_na=False, dtype=str).to_dict("records")[0]
    methods = append([{str(k): v for k, v in row.items()} | {"method": "twin"}], board)
    assert methods == ["mine", "twin"]
    assert [*faults(task, board, data=data)] == []


def test_predictions_that_are_too_large_are_scored_where_they_are(
    task: BenchmarkTask,
    data: Datasets,
    board: Path,
    predictions: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for file in (board.parent / "predictions" / "sample").glob("*"):
        file.unlink()
    monkeypatch.setattr(submissions, "LARGEST_BYTES", 100)
    assert keep(predictions, board) is None
    assert any(
        "no file of predictions" in str(problem) for problem in faults(task, board, data=data)
    )
    assert [*faults(task, board, predictions, data)] == []


def test_the_leaderboards_that_come_with_plfl_are_as_they_should_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: Datasets
) -> None:
    """Rows with predictions need the data of their task; those here are of the sample task."""
    for file in sorted((ROOT / "leaderboard").glob("*.csv")):
        task = open_task(ROOT / "tasks" / f"{file.stem}.yaml")[1]
        assert task is not None
        assert [*faults(task, file, data=data, has_data=task.name == "sample")] == []


def test_without_data_kept_predictions_are_compared_by_their_digest(
    board: Path, data: Datasets, task: BenchmarkTask, predictions: Path
) -> None:
    kept_file = keep(predictions, board)
    assert kept_file is not None
    assert [*faults(task, board, has_data=False)] == []
    kept_file.write_bytes(kept_file.read_bytes() + b" ")
    assert "another digest" in str(next(faults(task, board, has_data=False)))


@pytest.mark.parametrize("name", ["mine.pq", "mine.PARQUET", "mine.CSV"])
def test_predictions_are_found_whatever_their_name_ends_in(
    name: str, board: Path, data: Datasets, task: BenchmarkTask, predictions: Path, tmp_path: Path
) -> None:
    copied = tmp_path / name
    if name.endswith("CSV"):
        pd.read_parquet(predictions).to_csv(copied, index=False)
    else:
        shutil.copyfile(predictions, copied)
    kept_file = keep(copied, board)
    assert kept_file is not None and find_kept(board, kept_file.stem) == kept_file
    change(board, predictions=kept_file.stem)
    remove_kept(board, [sha256(predictions)])
    assert [*faults(task, board, data=data)] == []


def test_predictions_of_a_row_that_is_replaced_are_removed(
    board: Path, predictions: Path, tmp_path: Path
) -> None:
    (kept_file,) = (board.parent / "predictions" / "sample").glob("*")
    remove_kept(board, [kept_file.stem])
    assert kept_file.is_file()  # its row is still there
    other_file = kept_file.with_name("0" * 64 + ".csv")
    other_file.write_text("not of a row of before")
    change(board, predictions="1" * 64)
    remove_kept(board, [kept_file.stem])
    assert not kept_file.exists() and other_file.exists()


@pytest.mark.parametrize("command", ["check", "table"])
def test_a_board_with_other_columns_is_refused_in_words(
    command: str, here: Path, invoke: Callable
) -> None:
    board = Path("leaderboard/sample.csv")
    board.parent.mkdir(exist_ok=True)
    rows = pd.read_csv(ROOT / board, keep_default_na=False, dtype=str)
    rows.drop(columns="predictions").to_csv(board, index=False)
    told = invoke("leaderboard", command, "sample", status=2).err
    assert f"{board}: its columns are" in told


def test_added_from_the_command_and_checked(
    here: Path, predictions: Path, invoke: Callable
) -> None:
    said = ["--method", "last", "--trials", "1", "--bytes-up", "0", "--bytes-down", "0"]
    adding = ["leaderboard", "add", "sample"]
    printed = invoke(*adding, str(predictions), *said).out
    assert "this row does not say how to run it again; add --command" in printed
    folder = Path("leaderboard/predictions/sample")
    (first_file,) = folder.glob("*.parquet")
    table = pd.read_parquet(predictions)
    table.assign(forecast=1.01 * table["forecast"]).to_parquet("other.parquet")
    printed = invoke(*adding, "other.parquet", *said, "--command", "python mine.py").out
    assert "run it again" not in printed
    (kept_file,) = folder.glob("*.parquet")  # the row was replaced, and so is its file
    assert kept_file != first_file
    printed = invoke("leaderboard", "check", "sample").out
    assert "leaderboard/sample.csv: " in printed and "all as they should be" in printed
    change(Path("leaderboard/sample.csv"), score=0.001, low=0)
    told = invoke("leaderboard", "check", "sample", status=2).err
    assert "leaderboard/sample.csv: line 2" in told


def test_where_the_data_are_not_there_the_check_says_what_was_not_scored(
    here: Path, predictions: Path, invoke: Callable
) -> None:
    printed = invoke("leaderboard", "check", "campus-1-week").out
    assert "all as they should be" in printed
    assert "not scored again" in printed and "plfl data fetch campus-1-week" in printed
    assert "not scored again" not in invoke("leaderboard", "check", "home-quantiles").out
    for command in (
        ["leaderboard", "check", "campus-1-week", "--predictions", str(predictions)],
        ["score", "campus-1-week", str(predictions)],
        ["export", "clients", "campus-1-week", "--to", "arrays"],
    ):
        assert "plfl data fetch campus-1-week" in invoke(*command, status=2).err


def test_a_row_that_is_not_complete_is_refused_in_the_words_of_its_command(
    here: Path, predictions: Path, invoke: Callable
) -> None:
    told = invoke("leaderboard", "add", "sample", str(predictions), "--method", "x", status=2).err
    assert told.strip() == (
        "plfl: leaderboard add: the row is not complete; add --trials, --bytes-up, --bytes-down"
    )


def boards(**scores: dict[str, float]) -> dict[str, pd.DataFrame]:
    return {
        task: pd.DataFrame({"method": [*errors], "score": [*map(str, errors.values())]})
        for task, errors in scores.items()
    }


def test_skill_and_wins_by_hand() -> None:
    tables = boards(
        a={"day": 1.0, "good": 0.5, "tied": 1.0, "elsewhere": 0.1},
        b={"day": 2.0, "good": 1.0, "tied": 4.0},
        c={"day": 4.0, "good": 4.0, "tied": 1.0},
    )
    table = standings(tables, "day").set_index("method")
    assert [*table.index] == ["good", "tied", "day"]
    np.testing.assert_allclose(
        table["skill"], [1 - (0.5 * 0.5 * 1) ** (1 / 3), 1 - (1 * 2 * 0.25) ** (1 / 3), 0]
    )
    # Pairs of a task and another method: good wins 2, 2, 0.5; tied 0.5, 0, 2; day 0.5, 1, 0.5.
    np.testing.assert_allclose(table["win_rate"], [4.5 / 6, 2.5 / 6, 2 / 6])
    assert (table["tasks"] == 3).all()
    # No task decides alone.
    tables = boards(a={"day": 1.0, "lucky": 1e-9})
    assert standings(tables, "day")["skill"].max() == pytest.approx(0.99)


def test_a_table_needs_the_baseline() -> None:
    tables = boards(a={"day": 1.0}, b={"other": 1.0})
    with naming(ResultsError, "b", "'day'", "--baseline"):
        standings(tables, "day")
    with naming(ResultsError, "no leaderboard"):
        standings({}, "day")


def test_methods_without_a_row_in_every_task_are_named(here: Path, invoke: Callable) -> None:
    said = invoke("leaderboard", "table", "sample", "campus-1-week").out
    listed, _, left_out = said.partition(" methods with rows in only some of these tasks")
    tables = [pd.read_csv(ROOT / "leaderboard" / f"{n}.csv") for n in ("sample", "campus-1-week")]
    first, second = (set(table["method"]) for table in tables)
    assert first ^ second and first & second
    assert listed.endswith(f"\n{len(first ^ second)}")
    assert left_out.partition("sample`. They are ")[2].strip().split("; ") == [
        name
        for name in dict.fromkeys([*tables[0]["method"], *tables[1]["method"]])
        if name in first ^ second
    ]


def test_skill_and_wins_are_those_of_fev() -> None:
    fev = pytest.importorskip("fev", reason="fev is not installed: pip install fev")
    from fev.analysis import TASK_DEF_COLUMNS

    rng = np.random.default_rng(0)
    errors = pd.DataFrame(rng.uniform(0.5, 2, (4, 5)), index=[*"abcd"], columns=[*"vwxyz"])
    definition = dict.fromkeys(TASK_DEF_COLUMNS, "1") | {"quantile_levels": []}
    summaries = [
        {**definition, "dataset_path": task, "model_name": method, "test_error": error}
        | {"training_time_s": 0.0, "inference_time_s": 0.0, "fev_version": fev.__version__}
        | {"trained_on_this_dataset": False, "num_forecasts": 1}
        for method, row in errors.iterrows()
        for task, error in row.items()
    ]
    found = fev.leaderboard(summaries, baseline_model="a")
    own = standings(boards(**errors.to_dict()), "a").set_index("method")
    np.testing.assert_allclose(found["skill_score"].reindex(own.index), own["skill"], atol=1e-9)
    np.testing.assert_allclose(found["win_rate"].reindex(own.index), own["win_rate"], atol=1e-9)
