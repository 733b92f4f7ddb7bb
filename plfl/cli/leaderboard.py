"""`plfl leaderboard`: rows of frozen tasks, whose predictions anyone can score again."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from plfl.base.errors import DataError, PlflError, Problem, collect_problems
from plfl.base.lazy import pandas as pd
from plfl.base.shipped import root
from plfl.base.text import capitalise, count_in_words, print_table
from plfl.cli.commands import COMMANDS
from plfl.cli.common import Commands, add_parser
from plfl.cli.score import add_submission, run
from plfl.outside.frozen import BenchmarkTask, open_task
from plfl.outside.leaderboard import BOARDS, read_board
from plfl.outside.originals import missing_tables
from plfl.outside.skill import YESTERDAY, standings
from plfl.outside.submissions import faults, find_kept

ADD = """
plfl leaderboard add sample predictions.parquet --method Mine --trials 1 --bytes-up 0 --bytes-down 0
plfl leaderboard add sample --results results/sample-week
"""
CHECK_EXAMPLES = """
plfl leaderboard check
plfl leaderboard check sample
plfl leaderboard check building-day-ahead --predictions large.parquet
"""
TABLE_EXAMPLES = """
plfl leaderboard table
plfl leaderboard table building-1-week building-4-weeks
"""


def add(commands: Commands) -> None:
    about = COMMANDS["leaderboard"]
    parser = commands.add_parser("leaderboard", help=about, description=f"{capitalise(about)}.")
    commands_of_boards = parser.add_subparsers(required=True, metavar="COMMAND")
    about = "score predictions, add their row, and keep them beside it"
    adding = add_parser(commands_of_boards, "add", ADD, run_add, about=about)
    add_submission(adding)
    about = "score the predictions of all rows again, and refuse what differs"
    checking = add_parser(commands_of_boards, "check", CHECK_EXAMPLES, run_check, about=about)
    text = "name of a task; default: all that have a leaderboard"
    checking.add_argument("tasks", nargs="*", metavar="TASK", help=text)
    text = "of one task: predictions of a row that are too large to be kept"
    checking.add_argument("--predictions", type=Path, metavar="FILE", help=text)
    about = "methods over all tasks: skill relative to yesterday's load, and rate of wins"
    table = add_parser(commands_of_boards, "table", TABLE_EXAMPLES, run_table, about=about)
    text = "name of a task; default: all whose leaderboard has the baseline"
    table.add_argument("tasks", nargs="*", metavar="TASK", help=text)
    text = "method that has the skill 0; default: yesterday's load"
    table.add_argument("--baseline", metavar="METHOD", help=text)


def run_add(options: argparse.Namespace) -> None:
    """Print the scores, add the row and keep the predictions."""
    options.submit = Path()
    run(options, "leaderboard add")


def run_check(options: argparse.Namespace) -> None:
    """Print a line for each leaderboard; DataError: rows are wrong, with a line for each."""
    if options.predictions is not None and len(options.tasks) != 1:
        raise PlflError(Problem("leaderboard check", "--predictions is of one task", "name one"))
    problems: list[Problem] = []
    for task, board in _boards(options.tasks):
        has_data = not missing_tables(task)
        if options.predictions is not None and not has_data:
            remedy = f"`plfl data fetch {task.name}` makes them"
            raise DataError(Problem(task.name, "its data are not there", remedy))
        with collect_problems(problems):
            problems += _check_board(task, board, options.predictions, has_data)
    if problems:
        raise DataError(*problems)


def _check_board(
    task: BenchmarkTask, board: Path, predictions: Path | None, has_data: bool
) -> list[Problem]:
    """Print a line for a leaderboard; return what is wrong with its rows."""
    digests = read_board(board)["predictions"]
    row_faults = [*faults(task, board, predictions, has_data=has_data)]
    rows = count_in_words(len(digests), "row")
    print(f"{board}: {rows}, {'all as they should be' if not row_faults else 'see below'}")
    kept_count = sum(find_kept(board, digest) is not None for digest in digests)
    if kept_count and not has_data:
        print(
            f"  {count_in_words(kept_count, 'row')} with predictions not scored again, but "
            f"compared by digest: `plfl data fetch {task.name}` makes the data, which are not there"
        )
    return row_faults


def run_table(options: argparse.Namespace) -> None:
    """Print the standings over tasks."""
    baseline = options.baseline or YESTERDAY
    boards = {task.name: read_board(board) for task, board in _boards(options.tasks)}
    if not options.tasks:
        boards = {name: board for name, board in boards.items() if baseline in set(board["method"])}
    table = standings(boards, baseline)
    all_methods = pd.concat(board["method"] for board in boards.values()).drop_duplicates()
    left_out = all_methods[~all_methods.isin(table["method"])].tolist()
    print(
        f"Methods with a row in each of {', '.join(boards)}.\nskill: 1 minus the geometric mean of "
        f"the errors over those of {baseline!r}; win_rate: share of pairs of a task and another "
        "method with the lower error, a tie is half"
    )
    print(print_table(table))
    if left_out:
        print(
            f"{count_in_words(len(left_out), 'method')} with rows in only some of these tasks: not "
            "compared; name tasks that have them, as in `plfl leaderboard table sample`. They are "
            f"{'; '.join(left_out)}"
        )


def _boards(names: list[str]) -> Iterator[tuple[BenchmarkTask, Path]]:
    """The tasks of these names, or all, with their leaderboards: those of this folder, or else
    those that come with plfl. PlflError: a task has none."""
    folder = BOARDS if BOARDS.is_dir() else root() / BOARDS
    for name in names or sorted(file.stem for file in folder.glob("*.csv")):
        _, task = open_task(name)
        file = folder / f"{name}.csv"
        if task is None or not file.is_file():
            raise PlflError(Problem(name, f"is no task with a leaderboard in {folder}"))
        yield task, file
