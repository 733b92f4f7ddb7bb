"""Rows of leaderboards that anyone can check: their predictions are kept and scored again.

A row of predictions comes with its file, kept by its SHA-256 in `leaderboard/predictions/TASK`.
Rows without a file were made from the results of a study, or from a file that is too large to keep;
the table `leaderboard/predictions/verified.csv` has a digest of each such row, so that none of its
values can change unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.errors import Place, Problem, collect_problems
from plfl.base.files import atomic, sha256
from plfl.base.shipped import root
from plfl.base.spreadsheets import escape_formula, write_csv
from plfl.outside.clients import Datasets, datasets
from plfl.outside.frozen import BenchmarkTask
from plfl.outside.leaderboard import BOARD_COLUMNS, BOARDS, read_board, row_problems
from plfl.outside.score import is_csv, score

LARGEST_BYTES = 5_000_000
"""Bytes of the largest file of predictions that is kept."""
PREDICTIONS = "predictions"
"""Folder of the files of predictions, beside the leaderboards."""
PARQUET, CSV = ".parquet", ".csv"
"""The ends of their names."""
VERIFIED_TABLE = "predictions/verified.csv"
"""Table of the rows without a file of predictions, in the folder of the leaderboards."""
PREDICTION_SCORES = ("score", "low", "high", "wape", "scaled_crps", "seeds")
"""Columns that follow from the predictions."""
TOLERANCE = 2e-6
"""Largest difference of scores, which have six decimals in a row."""


def keep(file: Path, board: Path) -> Path | None:
    """Keep the predictions of a row beside its leaderboard; None if they are too large."""
    if file.stat().st_size > LARGEST_BYTES:
        return None
    kept_file = _kept_file(board, sha256(file), CSV if is_csv(file) else PARQUET)
    kept_file.parent.mkdir(parents=True, exist_ok=True)
    if not kept_file.exists():
        with atomic(kept_file) as temporary:
            shutil.copyfile(file, temporary)
    return kept_file


def remove_kept(board: Path, digests: Collection[str]) -> None:
    """Remove the predictions with these digests beside a leaderboard, if no row has them."""
    unused = {*digests} - {*read_board(board)["predictions"]}
    for kept_file in _folder(board).glob("*"):
        if kept_file.stem in unused:
            kept_file.unlink()


def note_verified(rows: Sequence[Mapping[str, Any]], task: str, board: Path) -> None:
    """List rows without a file of predictions in the table beside their leaderboard. Rows of these
    methods that were listed before leave."""
    file = board.parent / VERIFIED_TABLE
    file.parent.mkdir(parents=True, exist_ok=True)
    columns = ["task", "method", "row"]
    table = _read_verified(file)
    new = [(task, escape_formula(str(row["method"])), digest_of_row(row)) for row in rows]
    new_rows = pd.DataFrame(new, columns=columns)
    all_rows = pd.concat([table, new_rows]).drop_duplicates(["task", "method"], keep="last")
    write_csv(all_rows.sort_values(["task", "method"]), file)


def digest_of_row(row: Mapping[str, Any]) -> str:
    """SHA-256 of all values of a row, as a leaderboard has them."""
    values = [escape_formula(str(row[column])) for column in BOARD_COLUMNS]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def faults(
    task: BenchmarkTask,
    board: Path,
    file: Path | None = None,
    data: Datasets | None = None,
    has_data: bool = True,
) -> Iterator[Problem]:
    """What is wrong with the rows of a leaderboard; rows that have a file of predictions are scored
    again.

    `file`: predictions of a row that does not keep its own. `data`: of the task, which are fetched
    or read when a row is scored, if they are not given. `has_data`: whether they can be had; if
    not, of kept predictions only their digest is compared.

    Raises:
        PlflError: see `read_board`.
    """
    rows = read_board(board)
    if (double := rows["method"].duplicated()).any():
        yield Problem(board, f"has {rows['method'][double].iloc[0]!r} twice", "keep one row")
    if not rows["score"].map(_number).is_monotonic_increasing:
        yield Problem(board, "its rows are not in the order of their scores", "sort them")
    verified = set(_read_verified(board.parent / VERIFIED_TABLE).query("task == @task.name")["row"])
    given_files = {sha256(file): file} if file else {}
    for number, values in enumerate(rows.to_dict("records"), 2):
        row = {str(column): str(value) for column, value in values.items()}
        problems = [*row_problems(row)]
        if not problems:
            problems += _stated_problems(task, row)
            digest = str(row["predictions"])
            kept_file = given_files.get(digest) or find_kept(board, digest)
            if kept_file is not None and not has_data:
                problems += _digest_problems(row, kept_file)
            elif kept_file is not None:
                with collect_problems(problems):
                    if data is None:
                        data = datasets(task.data_study)
                        task.check(data)
                    problems += _score_problems(task, row, kept_file, data)
            elif digest_of_row(row) not in verified:
                text = (
                    f"has no file of predictions with the digest {digest[:12]}…, and "
                    f"{board.parent / VERIFIED_TABLE} does not list the row as it is"
                )
                problems.append(Problem("", text, "add it with `plfl leaderboard add`"))
        place = Place(board, f"line {number}: {row['method']}")
        yield from (problem.locate_in(place) for problem in problems)
    for kept_file in sorted(_folder(board).glob("*")):
        if kept_file.stem not in set(rows["predictions"]):
            yield Problem(kept_file, f"belongs to no row of {board}", "remove it")


def _stated_problems(task: BenchmarkTask, row: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with what a row says of its method."""
    if str(row["version"]) != str(task.version):
        text = f"is of version {row['version'] or '?'} of the task, which has version"
        yield Problem("", f"{text} {task.version}", "score it again")
    if row["seeds"] not in ("1", str(len(task.seeds))):
        text = f"has {row['seeds']} seeds, not one or as many as the task, {len(task.seeds)}"
        yield Problem("", text, "score it again")
    if exceeded := task.exceeded_budget(row):
        yield Problem("", exceeded)


def _digest_problems(row: Mapping[str, str], file: Path) -> Iterator[Problem]:
    if sha256(file) != row["predictions"]:
        text = "its content has another digest than its name"
        yield Problem(file, text, "add the row again")


def _score_problems(
    task: BenchmarkTask, row: Mapping[str, str], file: Path, data: Datasets
) -> Iterator[Problem]:
    """How a row differs from the scores of its file of predictions."""
    if file.stat().st_size > LARGEST_BYTES and file.stem == row["predictions"]:
        text = f"has {file.stat().st_size:,} bytes, more than the {LARGEST_BYTES:,} of a kept file"
        yield Problem(file, text, "remove it")
    if digest_problems := [*_digest_problems(row, file)]:
        yield from digest_problems
        return
    submission = score(task.data_study, file, data=data, metric=task.metric, with_rivals=False)
    scores = submission.submission({})
    for column in PREDICTION_SCORES:
        stated_score, recomputed = _number(row[column]), _number(scores[column])
        if (
            not (np.isnan(stated_score) and np.isnan(recomputed))
            and not abs(stated_score - recomputed) <= TOLERANCE
        ):
            text = f"but its predictions have {recomputed:.6g}"
            yield Problem("", f"{column} is {row[column] or 'empty'}, {text}")


def _kept_file(board: Path, digest: str, suffix: str) -> Path:
    return _folder(board) / f"{digest}{suffix}"


def _folder(board: Path) -> Path:
    """The files of predictions of a leaderboard."""
    return board.parent / PREDICTIONS / board.stem


def find_kept(board: Path, digest: str) -> Path | None:
    """The predictions of a row, beside its leaderboard or among those that come with plfl."""
    boards = (board, root() / BOARDS / board.name)
    possible_files = (
        _kept_file(place, digest, suffix) for place in boards for suffix in (PARQUET, CSV)
    )
    return next(filter(Path.is_file, possible_files), None)


def _read_verified(file: Path) -> pd.DataFrame:
    if not file.is_file():
        return pd.DataFrame(columns=["task", "method", "row"], dtype=str)
    return pd.read_csv(file, keep_default_na=False, dtype=str)


def _number(value: object) -> float:
    """A value of a row; NaN if it is empty."""
    try:
        return float(str(value))
    except ValueError:
        return np.nan
