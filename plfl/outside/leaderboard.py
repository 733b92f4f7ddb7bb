"""Leaderboards of frozen tasks: CSV files with a row for each method."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.errors import Place, PlflError, Problem, ResultsError
from plfl.base.spreadsheets import escape_formula, write_csv
from plfl.baselines import send_sums
from plfl.config.baselines import BASELINE, Baselines
from plfl.config.error_messages import list_allowed
from plfl.data.dataset import Dataset
from plfl.data.examples import Examples
from plfl.experiments.scoring import scoring_of
from plfl.results.best import best
from plfl.results.overview import study_of
from plfl.results.records import TABLE_DAMAGE, read_table
from plfl.results.scores import ForecasterScores, WeeklyScores, pool, select
from plfl.results.selection import scheme_method_pairs
from plfl.results.variants import Variant
from plfl.results.words import baseline_label, method_label
from plfl.study import Study

BOARDS = Path("leaderboard")
"""Folder of the leaderboards, beside that of the tasks."""
BOARD_COLUMNS = [
    *("method", "version", "score", "low", "high", "wape", "scaled_crps", "bytes_up", "bytes_down"),
    *("exchanged", "used", "trials", "seeds", "command", "predictions"),
]
"""Columns of a leaderboard (docs/leaderboard.md)."""
LEAST_VALUES = {
    **dict.fromkeys(("score", "wape", "scaled_crps", "bytes_up", "bytes_down", "trials"), 0.0),
    **{"low": -np.inf, "high": -np.inf, "seeds": 1.0},
}
"""The least possible value of each column of numbers."""
WHOLE_NUMBERS = ("trials", "seeds")
"""Columns of numbers that are written without a point or an exponent."""
EXCHANGED = ("nothing", "models", "sums", "raw data")
"""What clients can exchange."""


def check_row(place: Place | str, row: Mapping[str, Any]) -> None:
    """Refuse a row in some place that cannot be true, with a PlflError; see `row_problems`."""
    if problems := list(row_problems(row)):
        raise PlflError(*(problem.locate_in(place) for problem in problems))


def row_problems(row: Mapping[str, Any]) -> Iterator[Problem]:
    """Why a row cannot be true: a value is no number or below `LEAST_VALUES`; the score is outside
    of its interval; what was exchanged is unknown, or nothing but some bytes. Values that are
    missing or empty may be."""
    numbers: dict[str, float] = {}
    for column in [column for column in LEAST_VALUES if row.get(column, "") != ""]:
        try:
            numbers[column] = float(row[column])
        except ValueError:
            numbers[column] = np.nan
        if not LEAST_VALUES[column] <= numbers[column] < np.inf:
            lowest = "" if LEAST_VALUES[column] < 0 else f" from {LEAST_VALUES[column]:g} on"
            yield Problem("", f"{column} is {row[column]}", f"write a number{lowest}")
            return
        if column in WHOLE_NUMBERS and not str(row[column]).isdecimal():
            yield Problem("", f"{column} is {row[column]}", "write a whole number, such as 3")
            return
    ends = [numbers[column] for column in ("low", "score", "high") if column in numbers]
    if ends != sorted(ends):
        text = f"outside of its interval, {row.get('low', '')} to {row.get('high', '')}"
        yield Problem("", f"the score {row['score']} is {text}", "correct the row")
    exchanged_data = row.get("exchanged", "")
    if exchanged_data and exchanged_data not in EXCHANGED:
        remedy = list_allowed(str(exchanged_data), EXCHANGED)
        yield Problem("", f"exchanged is {exchanged_data!r}", remedy)
    if exchanged_data == "nothing" and (numbers.get("bytes_up") or numbers.get("bytes_down")):
        text = (
            f"exchanged is 'nothing', but bytes_up is {row.get('bytes_up') or 0} and bytes_down is "
            f"{row.get('bytes_down') or 0}"
        )
        yield Problem("", text, "correct one of them")


def read_board(file: Path) -> pd.DataFrame:
    """The rows of a leaderboard, as text.

    Raises:
        PlflError: the file cannot be read, or has other columns.
    """
    try:
        board = pd.read_csv(file, keep_default_na=False, dtype=str)
    except TABLE_DAMAGE as error:
        raise PlflError(Problem(file, f"cannot be read ({error})", "restore the file")) from None
    if list(board) != BOARD_COLUMNS:
        text = f"its columns are {list(board)}, but those of a leaderboard are {BOARD_COLUMNS}"
        raise PlflError(Problem(file, text))
    return board


def append(
    rows: Sequence[Mapping[str, Any]], file: Path, template: Path | None = None
) -> list[str]:
    """Add rows to a leaderboard; return its methods, the best first. A row replaces an older one of
    the same method, and those of other versions of the task leave. A file that does not exist
    begins with the rows of `template`, if that exists.

    Raises:
        PlflError: the file has other columns, or a row that cannot be true (see `check_row`).
    """
    for row in rows:
        check_row(str(row["method"]), row)
    board = pd.DataFrame(rows, columns=BOARD_COLUMNS).astype(str)
    if (older := template if template and not file.exists() else file).is_file():
        earlier_rows = read_board(older)
        for number, values in enumerate(earlier_rows.to_dict("records"), 2):
            check_row(
                Place(older, f"line {number}"), {str(k): value for k, value in values.items()}
            )
        comparable = earlier_rows["version"].isin(board["version"]) | (not len(board))
        board = pd.concat([earlier_rows[comparable], board])
    # Names in a file begin with no formula, see `escape_formula`.
    board = board[~board["method"].map(escape_formula).duplicated(keep="last")]
    board = board.sort_values("score", key=pd.to_numeric, kind="stable")
    write_csv(board, file)
    return board["method"].tolist()


def row_of(submission: Mapping[str, Any], **scores: Any) -> dict[str, Any]:
    """A row of a leaderboard; what is not given is empty, and numbers have six decimals."""
    row = dict.fromkeys(BOARD_COLUMNS, "") | dict(submission) | scores
    return {k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()}


def rows_of(
    results: Path, study: Study, data: Mapping[tuple[str, str], Examples], metric: str = ""
) -> Iterator[dict[str, Any]]:
    """Rows of a leaderboard for the cells and baselines in the results of a study on the same data.

    For each state and origin, the optimisers with the lowest validation error stand for a sharing
    scheme, method and model; `trials` are those of all among which they are chosen. What diverged
    has no row. `predictions` is the SHA-256 of the weekly
    errors. `metric`: see `Variant.forecasters_by_score`.

    Raises:
        ResultsError: the results have no variant with the windows, task and clients of `study`.
    """
    variants = fitting_variants(results, study, data)
    first_study = variants[0].tables.study
    for sharing, method in scheme_method_pairs(variants[0].tables.study):
        trains_alone = first_study.plan.schemes.shares_nothing(sharing)
        models = "raw data" if first_study.plan.schemes.joins(sharing) == "raw" else "models"
        for model in variants[0].models(sharing, method):
            submission: dict[str, Any] = {"exchanged": "nothing" if trains_alone else models}
            submission["method"] = f"{sharing}, {method_label(method)}, {model} model"
            score_sets, summaries, trial_count = [], [], 0
            for variant in variants:
                for scores in variant.forecasters_by_score(metric)[model].values():
                    forecasters = select(scores, sharing=sharing, method=method)
                    trial_count = max(trial_count, trials_of(first_study, forecasters))
                    if best_cells := best(forecasters):
                        score_sets.append(best_cells)
                        summaries.append(variant.summary_rows(model, best_cells.name))
            if len(score_sets) == len(variants) * len(first_study.data.states):
                submission["seeds"] = len(score_sets[0].seeds)
                submission["trials"] = trial_count
                has_common_tests = variants[0].shares_tests
                partners = (
                    first_study.data.clients_of(first_study.data.states[0])
                    if has_common_tests
                    else 0
                )
                yield _row(submission, score_sets, summaries, partners)
    yield from _baseline_entries(variants, metric)


def trials_of(study: Study, forecasters: Sequence[ForecasterScores]) -> int:
    """How many settings are compared on validation if the best of some cells of a study, each with
    its own trials, is chosen there."""
    return sum(
        study.plan.combinations.count_trials(forecaster.combination) for forecaster in forecasters
    )


def _baseline_entries(variants: Sequence[Variant], metric: str) -> Iterator[dict[str, Any]]:
    submission: dict[str, Any] = {"seeds": 1, "trials": 1}
    if variants[0].shares_tests:  # classifiers
        table = read_table(variants[0].tables.folder / "baselines.parquet")
        table = table[table["split"] == "test"]
        for name, rows in table.groupby("baseline", sort=False):
            by_seed = 100 * rows.groupby("seed")["error"].mean().to_numpy()
            score_set = WeeklyScores(str(rows["state"].iloc[0]), "", ("",), by_seed[None, :, None])
            about = {"method": name, "seeds": len(by_seed), "exchanged": rows["crosses"].iloc[0]}
            no_bytes = pd.DataFrame({"bytes_up": [np.nan], "bytes_down": [np.nan]})
            yield _row(submission | about, [score_set], [no_bytes], 1)
        return
    baselines = variants[0].tables.study.baselines
    settings = baselines.fit_settings
    trial_count = len(settings.leaves) * len(settings.learning_rate)
    for name in dict.fromkeys(variants[0].tables.baselines["baseline"]):
        score_sets, means = [], []
        for variant in variants:
            for state, scores in variant.forecasters_by_score(metric)["local"].items():
                score_sets += select(scores, sharing=BASELINE, method=name)
                means.append(variant.tables.baseline_scores.loc[[(state, name)]])
        if not np.isfinite([table["mase_mean"].to_numpy() for table in means]).all():
            continue  # it cannot forecast every window
        exchanged_data = exchanged_by(name, means[0]["crosses"].iloc[0], baselines)
        about = {"method": baseline_label(name), "exchanged": exchanged_data}
        down = (
            0 if exchanged_data in ("nothing", "raw data") else np.nan
        )  # received bytes: not counted
        has_trees = any(member.count_trees() for member in baselines.find_with_members(name))
        about |= {"trials": trial_count} if has_trees else {}
        tables = [t.rename(columns={"bytes": "bytes_up"}).assign(bytes_down=down) for t in means]
        row = _row(submission | about, score_sets, tables, 0)
        yield row | {metric: row["score"]} if metric in BOARD_COLUMNS else row


def exchanged_by(name: str, crosses: str, baselines: Baselines) -> str:
    """What clients exchange for a baseline of a study, one of `EXCHANGED`, given what its class
    says that crosses: for trees that they grow together, sums."""
    return "sums" if crosses == "models" and name in send_sums(baselines.further) else crosses


def fitting_variants(
    results: Path, study: Study, data: Mapping[tuple[str, str], Examples]
) -> list[Variant]:
    """The variants of results that are about the data of a study: one for each of its origins.

    Raises:
        ResultsError: there are none, more than these, or they were made from other data.
    """
    overall_study = study_of(results)
    variants = [
        variant
        for variant in scoring_of(overall_study).variants(overall_study, results)
        if _data_of(variant.tables.study) == _data_of(study)
        and set(variant.tables.study.data.origin_dates) <= set(study.data.origin_dates)
    ]
    if len(variants) != len(study.variants):
        raise ResultsError(
            Problem(
                results,
                f"has {len(variants)} variants with the windows, the task, the states and the "
                f"origins of {study.name}, which has {len(study.variants)}",
                "name the results of a study on its data, with no other axes than these",
            )
        )
    for variant in variants:
        origin = str(variant.tables.study.data.origin_date) if study.plan.axes else ""
        for state in study.data.states:
            if isinstance(examples := data[origin, state], Dataset):
                _check_data(variant, state, examples)
    return variants


def _check_data(variant: Variant, state: str, dataset: Dataset) -> None:
    """Check that persistence has the error in the results that it has on a dataset."""
    table = variant.tables.clients
    own_errors = table[table["state"] == state].set_index("client")["persistence_mae_test"]
    for i, client in enumerate(dataset.clients.tolist()):
        error = dataset.naive_errors(i, "test").persistence
        if not np.isclose(own_errors.get(client, np.nan), error, rtol=1e-5):
            raise ResultsError(
                Problem(
                    variant.tables.folder,
                    f"was made from other data: the error of persistence of {client} differs",
                    "run the study again, or score without its results",
                )
            )


def _data_of(study: Study) -> list[Any]:
    """What determines the data of a study at an origin, wherever its files are."""
    sections = study.data.model_dump(exclude={"folder", "origins", "meters"}), study.windows
    return [*sections, study.task.settings]


def _row(
    submission: Mapping[str, Any],
    score_sets: Sequence[WeeklyScores],
    summaries: Sequence[pd.DataFrame],
    partners: int,
) -> dict[str, Any]:
    """A row, given the sets of scores and rows of summaries of each state and origin. `partners`:
    the number of clients, if they share one test set; otherwise 0."""
    has_common_tests = partners > 0
    pooled_scores = pool(score_sets, has_common_tests=has_common_tests)
    points = 100 if has_common_tests else 1
    (low, high), weekly = (
        pooled_scores.interval,
        [np.round(score_set.weekly, 9) for score_set in score_sets],
    )
    counts = [partners or len(score_set.clients) for score_set in score_sets]
    scores: dict[str, Any] = {"low": low / points, "high": high / points}
    for column in ("wape", "scaled_crps"):
        if all(f"{column}_mean" in table for table in summaries):
            means = [table[f"{column}_mean"].mean() for table in summaries]
            scores[column] = float(np.average(means, weights=counts))
    for way in ("bytes_up", "bytes_down"):
        sent_bytes = sum(table[way].mean() for table in summaries) / sum(counts)
        scores[way] = "" if np.isnan(sent_bytes) else round(sent_bytes)
    digest = hashlib.sha256(b"".join(table.tobytes() for table in weekly)).hexdigest()
    return row_of(submission, score=pooled_scores.effect / points, predictions=digest, **scores)
