"""Frozen tasks and their leaderboards: files that are valid, data that are those of the task."""

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml

import plfl
from benchmarks import leaderboard
from plfl.base.errors import ConfigError, DataError, PlflError, ResultsError
from plfl.baselines import send_open_sums
from plfl.cli.main import main
from plfl.config.baselines import Baselines
from plfl.data.windows import build
from plfl.outside.clients import examples
from plfl.outside.frozen import BenchmarkTask, open_task
from plfl.outside.leaderboard import (
    BOARD_COLUMNS,
    _check_data,
    append,
    exchanged_by,
    row_of,
    trials_of,
)
from plfl.results.collect import describe_clients
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.refusals import naming

ROOT = Path(__file__).resolve().parents[2]
TASKS = sorted((ROOT / "tasks").glob("*.yaml"))
BOARDS = sorted((ROOT / "leaderboard").glob("*.csv"))


def task_of(path: Path) -> BenchmarkTask:
    task = open_task(path)[1]
    assert task is not None
    return task


def test_tasks_are_valid() -> None:
    assert 0 < len(TASKS) <= 12
    for path in TASKS:
        task = task_of(path)
        assert task.name == path.stem
        assert task.clients == sum(
            map(task.data_study.data.clients_of, task.data_study.data.states)
        )


def test_a_task_is_found_by_its_name() -> None:
    assert open_task("sample")[1] == task_of(ROOT / "tasks" / "sample.yaml")
    with pytest.raises(PlflError, match="did you mean 'sample'"):
        open_task("sampel")


def test_a_folder_does_not_hide_the_task_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sample").mkdir()
    assert open_task("sample")[1] == task_of(ROOT / "tasks" / "sample.yaml")


def test_trials_are_those_of_all_optimisers_among_which_one_is_chosen() -> None:
    optimisers = {"client_opt": ["adam", "sgd"], "server_opt": ["fedavg", "fedyogi"]}
    raw = {"name": "x", "grid": {"sharing": ["P1"]} | optimisers}
    study = Study.parse(raw | {"tuning": {"search": {"federation.rounds": [2, 8, 40]}}}, "x")
    candidates: list[Any] = [SimpleNamespace(combination=c.combination) for c in study.cells]
    of_state = candidates[: len(candidates) // len(study.data.states) // len(study.grid.seeds)]
    assert len({candidate.combination for candidate in of_state}) == len(of_state) == 4
    assert trials_of(study, of_state) == 12


FURTHER = [
    {"name": "lightgbm_federated", "turns": 2, "secure": True},
    {"name": "mean_received", "of": ["lightgbm_federated"]},
    {"name": "combined_received", "of": ["naive_week", "mean_received"]},
    {"name": "combined", "of": ["ridge", "naive_week"]},
    {"name": "combined_pooled", "of": ["lightgbm_federated", "lightgbm_pooled"]},
]


@pytest.mark.parametrize(
    ("name", "exchanged", "reveals"),
    [
        ("lightgbm_federated", "sums", True),
        ("mean_received", "sums", True),
        ("combined_received", "sums", True),  # through another one
        ("combined", "nothing", False),
        ("combined_pooled", "raw data", True),
        ("lightgbm_pooled", "raw data", False),
    ],
)
def test_what_baselines_exchange(name: str, exchanged: str, reveals: bool) -> None:
    masked = Baselines.model_validate({"further": FURTHER})
    assert exchanged_by(name, masked.find(name).crosses, masked) == exchanged
    assert not send_open_sums(masked.further)
    further = [FURTHER[0] | {"secure": False}, *FURTHER[1:]]
    open_sums = Baselines.model_validate({"further": further})
    assert exchanged_by(name, open_sums.find(name).crosses, open_sums) == exchanged
    assert (name in send_open_sums(open_sums.further)) == reveals


def test_trees_on_the_public_model_are_made_of_sums() -> None:
    further = [{"name": "lightgbm_on_public", "kind": "homes"}]
    baselines = Baselines.model_validate({"further": further})
    assert exchanged_by("lightgbm_on_public", "models", baselines) == "sums"


@cache
def board_of(file: Path) -> tuple[BenchmarkTask, pd.DataFrame]:
    """The task of a leaderboard, and its table as text."""
    task = task_of(ROOT / "tasks" / f"{file.stem}.yaml")
    return task, pd.read_csv(file, keep_default_na=False, dtype=str)


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_a_leaderboard_is_sorted_by_scores_within_their_intervals(file: Path) -> None:
    task, board = board_of(file)
    assert board["method"].is_unique
    numbers = board[["score", "low", "high"]].astype(float)
    assert numbers["score"].is_monotonic_increasing
    assert numbers["score"].between(numbers["low"], numbers["high"]).all()
    assert (numbers["score"] > 0).all()
    assert task.metric not in BOARD_COLUMNS or board[task.metric].equals(board["score"])


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_a_row_of_a_leaderboard_says_how_it_was_made(file: Path) -> None:
    task, board = board_of(file)
    assert task.digest is not None
    assert list(board) == BOARD_COLUMNS
    assert board["predictions"].str.fullmatch("[0-9a-f]{64}").all()
    assert set(board["version"]) == {str(task.version)}
    assert board["command"].ne("").all()
    assert set(board["seeds"]) <= {"1", str(len(task.seeds))}


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_a_row_of_a_leaderboard_sent_what_it_says_and_the_task_allows(file: Path) -> None:
    task, board = board_of(file)
    assert board["exchanged"].isin(["nothing", "models", "sums", "raw data"]).all()
    assert [task.exceeded_budget(row) for row in board.to_dict("records")] == [""] * len(board)
    sent = board.loc[board["exchanged"] == "nothing", ["bytes_up", "bytes_down"]]
    assert sent.isin(["0", ""]).all(axis=None)


def test_a_row_without_its_number_of_trials_exceeds_the_budget() -> None:
    row: dict[str, Any] = {"trials": "", "bytes_up": "0", "bytes_down": "0"}
    task = task_of(TASKS[0])
    assert "trials are unknown" in task.exceeded_budget(row)
    assert not task.exceeded_budget(row | {"trials": "1"})


def test_the_page_shows_the_leaderboards() -> None:
    assert leaderboard.page() == (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
    described = json.loads((ROOT / "leaderboard" / "croissant.json").read_text(encoding="utf-8"))
    assert leaderboard.croissant() == described


@pytest.mark.parametrize("name", ["sample", "label-skew"])
def test_data_are_those_of_the_task(name, here):
    task = task_of(ROOT / "tasks" / f"{name}.yaml")
    data = examples(task.data_study)
    task.check(data)
    with naming(DataError, f"not those of version {task.version}", f"{task.clients} clients"):
        task.model_copy(update={"seeds": [7], "digest": "0" * 64}).check(data)


def test_a_row_of_the_sample_task_can_be_made_again(here, invoke):
    tables = []
    for client in plfl.clients(ROOT / "tasks" / "sample.yaml"):
        name = client.covariates.index("lags_1")  # the same hour of the day before, relative
        tables.append(client.predictions(client.C_test[:, name]))
    pd.concat(tables).to_parquet("naive.parquet")
    said = ["--method", "naive", "--trials", "1", "--bytes-up", "0", "--bytes-down", "0"]
    assert main(["score", "sample", "naive.parquet", "--submit", *said]) == 0
    row = (board := pd.read_csv("leaderboard/sample.csv").set_index("method")).loc["naive"]
    kept = pd.read_csv(ROOT / "leaderboard" / "sample.csv").set_index("method")
    assert set(board.index) == {"naive", *kept.index}
    assert row["exchanged"] == "nothing"
    for name in ("score", "low", "high", "wape"):
        assert row[name] == pytest.approx(kept.loc["Seasonal naive (day)", name], rel=1e-4)
    whole = Path("leaderboard/sample.csv").read_text()
    more = [*said[:-1], "150001"]
    told = invoke("score", "sample", "naive.parquet", "--submit", *more, status=2).err
    assert "150,001 bytes exceed the budget" in told
    assert Path("leaderboard/sample.csv").read_text() == whole
    told = invoke("score", "sample", "naive.parquet", "--submit", "--method", "x", status=2).err
    assert "--trials, --bytes-up, --bytes-down" in told


def test_rows_of_results_over_the_budget_are_named(
    here: Path, invoke: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row: dict[str, Any] = dict.fromkeys(BOARD_COLUMNS, "")
    row |= {"exchanged": "nothing", "version": 1, "seeds": 1, "score": 1.0, "wape": 0.1}
    row |= {"bytes_up": 0, "bytes_down": 0}
    rows = [row | {"method": "within", "trials": 1}, row | {"method": "over", "trials": 99}]
    monkeypatch.setattr("plfl.cli.score.rows_of", lambda *_: rows)
    monkeypatch.setattr("plfl.cli.score.study_of", lambda *_: None)
    monkeypatch.setattr("plfl.cli.score.command_of", lambda *_: "make")
    command = ["leaderboard", "add", "sample", "--results", "results/sample-week"]
    printed = invoke(*command)
    assert "over is left out: 99 trials exceed the budget" in printed.err
    board = Path("leaderboard/sample.csv")
    methods = pd.read_csv(board)["method"].tolist()
    assert "within" in methods and "over" not in methods
    rows = rows[1:]
    content = board.read_bytes()
    assert "over: 99 trials exceed the budget" in invoke(*command, status=2).err
    assert board.read_bytes() == content


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("bytes_up", -5), ("bytes_down", "-1"), ("trials", -1), ("seeds", 0), ("wape", "nan")),
        *(("trials", "2.0"), ("trials", "1e1"), ("seeds", "1.5")),
        *(("score", -0.1), ("score", 0.95), ("high", "inf"), ("low", "much")),
        *(("exchanged", "model"), ("exchanged", "nothing")),
    ],
)
def test_a_row_that_cannot_be_true_is_not_added(
    tmp_path: Path, column: str, value: str | float
) -> None:
    row: dict[str, Any] = {"method": "mine", "version": 1, "score": 0.8, "low": 0.7, "high": 0.9}
    row |= {"bytes_up": 8, "bytes_down": 0, "exchanged": "models", "trials": 0, "seeds": 1}
    file = tmp_path / "board.csv"
    assert append([row], file) == ["mine"]
    before = file.read_text()
    with naming(PlflError, "mine: ", value):
        append([row | {column: value}], file)
    assert file.read_text() == before


def test_a_leaderboard_with_a_row_that_cannot_be_true_is_named(tmp_path: Path) -> None:
    rows = [row_of({"method": name, "bytes_up": 3}, score=1.0) for name in ("a", "b")]
    append(rows, file := tmp_path / "board.csv")
    file.write_text(file.read_text().replace("b,,1.0,,,,,3", "b,,1.0,,,,,-3"))
    with naming(PlflError, file, "line 3: bytes_up is -3"):
        append([row_of({"method": "c"}, score=1.0)], file)


@pytest.mark.parametrize("option", ["--bytes-up", "--bytes-down", "--trials"])
def test_a_submission_with_a_negative_number_is_refused_before_it_is_scored(
    here: Path, invoke, option: str
) -> None:
    command = ["score", "sample", "no.parquet", "--submit", "--method", "mine", option, "-5"]
    assert f"{option[2:].replace('-', '_')} is -5" in invoke(*command, status=2).err


def test_results_with_a_nearly_constant_load_are_of_their_data() -> None:
    tables = tiny.tables()
    tables["b"]["load"] = 2 + 1e-4 * tables["b"]["load"]
    data = build(tables, tiny.study().windows)
    clients = describe_clients("XX", data)
    results: Any = SimpleNamespace(tables=SimpleNamespace(clients=clients, folder="results"))
    assert clients["persistence_mae_test"].tolist()[1] == 0
    _check_data(results, "XX", data)
    with naming(ResultsError, "was made from other data: the error of persistence of b differs"):
        _check_data(results, "XX", tiny.dataset())


def test_what_is_no_task_is_refused(tmp_path: Path) -> None:
    raw: dict[str, Any] = yaml.safe_load((ROOT / "tasks" / "sample.yaml").read_text())
    path = tmp_path / "mine.yaml"
    for change, words in (
        ({"digest": "12"}, ["digest"]),
        ({"metrics": "mase"}, ["metrics", "unknown key"]),
        ({"study": raw["study"] | {"windows": {"look_back": 0}}}, ["sample: study", "look_back"]),
    ):
        path.write_text(yaml.safe_dump(raw | change))
        with naming(ConfigError, *words):
            open_task(path)
    rows = [{"method": str(k), "version": k, "score": k} for k in (1, 2)]
    assert append(rows[:1], tmp_path / "new.csv") == ["1"]
    assert append(rows[1:], tmp_path / "new.csv") == ["2"]  # scores of versions do not compare
    with naming(PlflError, "its columns are ['other']"):
        (tmp_path / "board.csv").write_text("other\n1\n")
        append([], tmp_path / "board.csv")
