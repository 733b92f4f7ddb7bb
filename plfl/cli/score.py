"""`plfl score`: scores of predictions made elsewhere, or of results, and leaderboards."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from plfl.base import shipped
from plfl.base.errors import DataError, PlflError, Problem
from plfl.base.files import write_text
from plfl.base.lazy import pandas as pd
from plfl.base.text import list_names, print_table
from plfl.cli.common import Commands, add_parser
from plfl.cli.results import find_results
from plfl.config.error_messages import flow
from plfl.outside.clients import datasets, examples
from plfl.outside.frozen import BenchmarkTask, open_task
from plfl.outside.leaderboard import BOARDS, append, check_row, read_board, rows_of
from plfl.outside.originals import missing_tables
from plfl.outside.score import score
from plfl.outside.submissions import LARGEST_BYTES, VERIFIED_TABLE, keep, note_verified, remove_kept
from plfl.results.dominance import deciding_clients
from plfl.results.overview import study_of
from plfl.study import Study

EXAMPLES = """
plfl score config/smoke.yaml predictions.parquet
plfl score config/smoke.yaml predictions.parquet --results results/smoke
plfl score sample predictions.parquet --submit --method Mine --trials 1 --bytes-up 0 --bytes-down 0
plfl score sample --results results/sample-week --submit
"""
MEANINGS = {
    "method": "name of the method in the leaderboard",
    "exchanged": "what clients exchange: nothing (the default if no bytes are sent), models (the "
    "default otherwise), sums or raw data",
    "used": "what the method read besides the arrays, such as `weather forecasts`",
    "command": "how to run the method again; of --results by default their study",
    "bytes-up": "bytes that a client sends in all its training, a mean over clients",
    "bytes-down": "bytes that a client receives in all its training",
    "trials": "choices of hyperparameters that were compared on validation",
}
"""What a submitter says of a method, by option."""


def add(commands: Commands) -> None:
    parser = add_parser(commands, "score", EXAMPLES, run)
    add_submission(parser)
    text = "add a row to a leaderboard; without predictions, one for each way of the results"
    parser.add_argument(
        "--submit", type=Path, nargs="?", const=Path(), metavar="FILE.csv", help=text
    )


def add_submission(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is scored, and what a submitter says of it."""
    text = "configuration of a study, file of a task, or name of a task that comes with plfl"
    parser.add_argument("study", type=Path, metavar="STUDY_OR_TASK", help=text)
    text = "table (.parquet or .csv) of forecasts; docs/benchmark.md lists its columns"
    parser.add_argument("predictions", type=Path, nargs="?", help=text)
    text = "results of the study: its cells are ranked, too, and its baselines not trained again"
    parser.add_argument("--results", type=find_results, help=text)
    parser.add_argument("--variant", default="", help="label of a variant of the study")
    for option, text in MEANINGS.items():
        number = option in ("bytes-up", "bytes-down", "trials")
        kind: Any = {"type": int, "metavar": "N"} if number else {"metavar": "TEXT"}
        parser.add_argument(f"--{option}", help=text, **kind)


def open_study(options: argparse.Namespace) -> tuple[Study, BenchmarkTask | None]:
    """The study that the options name, and its task if it is one. DataError: the data of the task
    have to be fetched first."""
    study, task = open_task(options.study)
    if task and (missing_paths := missing_tables(task)):
        remedy = f"`plfl data fetch {task.name}` makes it"
        raise DataError(
            *(Problem(path, "the file does not exist", remedy) for path in missing_paths)
        )
    return study.variant(options.variant) if options.variant else study, task


def run(options: argparse.Namespace, place: str = "score") -> None:
    """Print the scores, and add rows to the leaderboard. `place`: the command, for its errors."""
    study, task = open_study(options)
    if options.submit == Path() and not task:
        raise PlflError(
            Problem(
                place,
                "the study is no task with a leaderboard of its own",
                "name a file after `plfl score --submit`",
            )
        )
    if not (options.predictions or options.results):
        raise PlflError(
            Problem(place, "nothing is given to score", "name a file of predictions, or --results")
        )
    options_given = {
        name: getattr(options, name) for name in (key.replace("-", "_") for key in MEANINGS)
    }
    submission = {name: "" if value is None else value for name, value in options_given.items()}
    check_row(place, submission)
    if options.submit and options.predictions:
        required_keys = ["method", *["trials", "bytes_up", "bytes_down"] * (task is not None)]
        if missing_flags := [
            f"--{name.replace('_', '-')}" for name in required_keys if submission[name] == ""
        ]:
            raise PlflError(
                Problem(place, "the row is not complete", f"add {', '.join(missing_flags)}")
            )
    data = datasets(study) if options.predictions else examples(study)
    if task:
        task.check(data)
        submission["version"] = task.version
    make_rows = _score_predictions if options.predictions else _score_results
    metric = task.metric if task else ("mase" if study.task.forecasts else "error")
    rows = make_rows(study, data, options, submission, metric)
    if options.submit is None:
        return
    if task:
        rows = _keep_to_budget(rows, task, place)
    file = BOARDS / f"{study.name}.csv" if options.submit == Path() else options.submit
    earlier_digests = [*read_board(file)["predictions"]] if file.is_file() else []
    methods = append(rows, file, template=shipped.root() / file)
    if task and options.submit == Path():
        _keep(rows, options.predictions, task.name, file)
        remove_kept(file, earlier_digests)
    for row in rows:
        position = methods.index(row["method"]) + 1
        print(f"{file}: {row['method']} is row {position} of {len(methods)}, the best first")
        if not row["command"]:
            print(f"{file}: this row does not say how to run it again; add --command TEXT")


def command_of(study: Study) -> str:
    """How to run a study again: the command for a ready-made one, and otherwise also its keys."""
    ready_made = shipped.studies().get(study.name)
    if ready_made is not None and Study.load(ready_made) == study:
        return f"plfl study {ready_made.relative_to(shipped.root())}"
    keys = study.model_dump(mode="json", exclude_defaults=True)
    return f"plfl study {Path(study.name).name}.yaml, with the keys {flow(keys)}"


def _keep_to_budget(
    rows: list[dict[str, Any]], task: BenchmarkTask, place: str
) -> list[dict[str, Any]]:
    """The rows that keep to the budget of a task; a line for each of the others says what it
    exceeds. PlflError: none is left."""
    reasons = [task.exceeded_budget(row) for row in rows]
    if all(reasons):
        problems = [f"{row['method']}: {reason}" for row, reason in zip(rows, reasons, strict=True)]
        raise PlflError(
            *(Problem(place, f"{task.name}: {text}", "no row is added") for text in problems)
        )
    for row, reason in zip(rows, reasons, strict=True):
        if reason:
            print(f"{task.name}: {row['method']} is left out: {reason}", file=sys.stderr)
    return [row for row, reason in zip(rows, reasons, strict=True) if not reason]


def _keep(rows: list[dict[str, Any]], predictions: Path | None, task: str, board: Path) -> None:
    """Keep the predictions of a row of a task, or list rows that have none."""
    template, verified = (
        shipped.root() / board.parent / VERIFIED_TABLE,
        board.parent / VERIFIED_TABLE,
    )
    if not verified.is_file() and template.is_file():
        verified.parent.mkdir(parents=True, exist_ok=True)
        write_text(verified, template.read_text(encoding="utf-8"))
    if predictions is None:
        note_verified(rows, task, board)
    elif kept_file := keep(predictions, board):
        print(f"{kept_file}: the predictions, which `plfl leaderboard check` scores again")
    else:
        note_verified(rows, task, board)
        print(
            f"{predictions}: more than {LARGEST_BYTES:,} bytes are not kept beside the "
            "leaderboard; keep the file where others find it, so that they can score it again with "
            f"`plfl leaderboard check {task} --predictions FILE`"
        )


def _score_predictions(
    study: Study, data: Any, options: argparse.Namespace, submission: dict[str, Any], metric: str
) -> list[dict[str, Any]]:
    """Print the scores of predictions; return their row."""
    is_silent = submission["bytes_up"] == submission["bytes_down"] == 0
    submission["exchanged"] = submission["exchanged"] or ("nothing" if is_silent else "models")
    scored_predictions = score(study, options.predictions, options.results, data, metric)
    name = metric.replace("_", " ").replace("mase", "MASE").replace("crps", "CRPS")
    print(
        f"Test set, means over clients and seeds. {name} with its interval of 95 % over clients, "
        f"weeks and seeds;\nlead: by how much your {name} is lower."
    )
    print(print_table(scored_predictions.table))
    print("\nYour predictions by client")
    print(print_table(scored_predictions.clients))
    if names := deciding_clients(scored_predictions.clients.set_index("client")[metric]):
        print(
            f"\n{list_names(names, 3)}: few clients decide your mean; the median over clients is "
            f"{scored_predictions.clients[metric].median():.4f}"
        )
    place = f"rank {scored_predictions.own_row['rank']} of {len(scored_predictions.table)}"
    print(f"\n{place}: {name} {scored_predictions.own_row[metric]:.4f}")
    return [scored_predictions.submission(submission)]


def _score_results(
    study: Study, data: Any, options: argparse.Namespace, submission: dict[str, Any], metric: str
) -> list[dict[str, Any]]:
    """Print the scores of results; return a row for each way of forecasting."""
    stated_keys = {name: submission.get(name, "") for name in ("version", "used", "command")}
    stated_keys["command"] = stated_keys["command"] or command_of(study_of(options.results))
    rows = [row | stated_keys for row in rows_of(options.results, study, data, metric)]
    if options.method:
        rows = [row | {"method": f"{options.method}: {row['method']}"} for row in rows]
    table = pd.DataFrame(rows).sort_values("score", ignore_index=True)
    print(
        print_table(
            table[["method", "score", "low", "high", "exchanged", "bytes_up", "bytes_down"]]
        )
    )
    return rows
