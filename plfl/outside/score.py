"""Scores of predictions that were made elsewhere, beside the baselines and the cells of a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.array_types import Floats as Floats
from plfl.base.errors import DataError, Problem
from plfl.base.files import sha256
from plfl.base.text import list_names
from plfl.config.baselines import BASELINE
from plfl.data.dataset import Dataset
from plfl.experiments import baselines
from plfl.interfaces.task import Task
from plfl.outside.clients import Datasets, datasets, name_of
from plfl.outside.leaderboard import fitting_variants, row_of
from plfl.results.best import best
from plfl.results.records import TABLE_DAMAGE
from plfl.results.scores import WeeklyScores, pool, select, weekly_shares
from plfl.results.tables import is_complete
from plfl.results.words import baseline_label
from plfl.study import Study
from plfl.tasks.metrics import DAILY_COLUMNS

SUBMISSION = "yours"


@dataclass(frozen=True)
class ScoredPredictions:
    """Predictions from elsewhere, scored on the test sets of a study."""

    table: pd.DataFrame
    """A row per forecaster, the best first: `rank`, `forecaster`, the `metric` with its interval
    `low`, `high`, `lead` (its score minus yours: positive where yours is better) with `lead_low`,
    `lead_high`, and the others of `mase`, `wape` and, of quantiles, `scaled_crps`. Means over
    clients and seeds."""
    clients: pd.DataFrame
    """A row per client: `mase`, `wape`, `scaled_crps`; means over seeds."""
    seeds: int
    metric: str
    """`mase` or `scaled_crps`, by which forecasters are ranked."""
    digest: str
    """SHA-256 of the file of predictions."""

    @property
    def own_row(self) -> pd.Series[Any]:
        """The row of the predictions."""
        return self.table[self.table["forecaster"] == SUBMISSION].iloc[0]

    def submission(self, submission: Mapping[str, Any]) -> dict[str, Any]:
        """One row of a leaderboard: what the submitter says, and the scores."""
        names = [name for name in ("low", "high", "wape", "scaled_crps") if name in self.own_row]
        scores = {name: float(self.own_row[name]) for name in names}
        scores["score"] = float(self.own_row[self.metric])
        return row_of(submission, **scores, seeds=self.seeds, predictions=self.digest)


def score(
    study: Study,
    file: Path,
    results: Path | None = None,
    data: Datasets | None = None,
    metric: str = "mase",
    with_rivals: bool = True,
) -> ScoredPredictions:
    """Score a Parquet or CSV file of predictions, with the columns of `Client.predictions`.

    Args:
        study: with no axes but `data.origins`.
        file: a row per client, seed (optional) and target of the test set. `made_at` is needed
            where windows have several targets.
        results: the study's results, whose cells and baselines are ranked, too. Without, the
            baselines are trained now.
        data: the study's `datasets`, if they are known.
        metric: `mase` or, of quantiles, `scaled_crps`.
        with_rivals: whether to rank baselines and cells, too, which takes much longer.

    Raises:
        DataError: a client, a stamp or a number is missing, or does not fit the study.
        ResultsError: the results are of other data.
    """
    data = data or datasets(study)
    submission = read_predictions(file, study)
    task = study.task
    seeds = sorted(submission["seed"].unique().tolist())
    expected = {
        (origin, name_of(study, state, client))
        for (origin, state), dataset in data.items()
        for client in dataset.clients.tolist()
    }
    _check_names(submission, expected, seeds, file)
    errors, rows = [], []
    by_client = dict(tuple(submission.groupby(["origin", "client", "seed"])))
    for (origin, state), dataset in data.items():
        for i, client in enumerate(dataset.clients.tolist()):
            for seed in seeds:
                name = name_of(study, state, client)
                place = f"{file}: {origin} {name}".replace(":  ", ": ")
                predictions = _predictions(by_client[origin, name, seed], dataset, i, task, place)
                keys = {"origin": origin, "state": state, "client": client, "seed": seed}
                errors.append(pd.DataFrame(keys | task.errors(dataset, i, predictions)))
                rows.append(keys | task.scores(dataset, i, "test", predictions))
    score_table = pd.DataFrame(rows)
    score_table["wape"] = score_table["mae"] / _loads(data, score_table)
    score_sets = {
        SUBMISSION: list(_score_sets(_select_metric(pd.concat(errors), metric), ["seed", "client"]))
    }
    other_rows, numbers = score_rivals(study, data, results, metric) if with_rivals else ({}, {})
    names = [name for name in ("mase", "wape", "scaled_crps") if name in score_table]
    numbers[SUBMISSION] = {name: float(score_table[name].mean()) for name in names}
    means = pd.DataFrame(numbers).T.drop(columns=metric)
    table = rank_forecasters(score_sets | other_rows, metric).join(means, on="forecaster")
    clients = score_table.groupby(["origin", "state", "client"], sort=False)[names].mean()
    return ScoredPredictions(table, clients.reset_index(), len(seeds), metric, sha256(file))


def _select_metric(errors: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Errors by day, with those of the metric as `error`."""
    return errors.assign(error=errors[DAILY_COLUMNS[metric]])


def is_csv(file: Path) -> bool:
    """Whether predictions are written as CSV, by the name of their file; otherwise as Parquet."""
    return file.suffix.lower() == ".csv"


def read_predictions(file: Path, study: Study) -> pd.DataFrame:
    required_columns = ["client", "stamp", "forecast"] + ["made_at"] * (study.windows.horizons > 1)
    required_columns += ["origin"] * bool(study.plan.axes)
    required_columns += [f"forecast_{100 * level:g}" for level in study.task.quantile_levels]
    try:
        table = _read_csv(file) if is_csv(file) else pd.read_parquet(file)
    except FileNotFoundError:
        raise DataError(Problem(file, "the file does not exist", "check the path")) from None
    except TABLE_DAMAGE as error:
        raise DataError(
            Problem(file, f"cannot be read ({error})", "write Parquet or .csv")
        ) from None
    if missing_columns := [name for name in required_columns if name not in table]:
        raise DataError(
            Problem(
                file,
                f"has no column {', '.join(missing_columns)}",
                "add what docs/benchmark.md lists",
            )
        )
    if table.empty:
        raise DataError(
            Problem(file, "has no rows", "give a forecast for every window of the test set")
        )
    if "seed" in table and (missing_seeds := int(table["seed"].isna().sum())):
        text = f"{missing_seeds} rows have no seed"
        raise DataError(Problem(file, text, "give each one, or remove the column of a single seed"))
    origins = table["origin"].astype(str).str[:10] if study.plan.axes else ""
    table = table.assign(client=table["client"].astype(str), origin=origins)
    for column in ("stamp", "made_at"):
        if column in required_columns:
            try:
                table[column] = pd.to_datetime(table[column]).astype("datetime64[s]")
            except (ValueError, TypeError) as error:
                raise DataError(Problem(file, f"{column}: {error}", "write local times")) from None
    numbers = [name for name in required_columns if name.startswith("forecast")]
    try:
        table[numbers] = table[numbers].astype(float)
    except (ValueError, TypeError) as error:
        raise DataError(Problem(file, f"a forecast is no number ({error})", "correct it")) from None
    if not (finite := np.isfinite(table[numbers]).all(axis=1)).all():
        first = table[~finite].iloc[0]
        raise DataError(
            Problem(
                file,
                f"{(~finite).sum()} rows have a forecast that is missing or infinite, first "
                f"{first['client']} at {first['stamp']}",
                "give one for every window of the test set",
            )
        )
    return table if "seed" in table else table.assign(seed=0)


def _read_csv(file: Path) -> pd.DataFrame:
    """A table of predictions; clients have the names that are written, such as 007 and NA."""
    columns = pd.read_csv(file, nrows=0).columns.drop("client", errors="ignore")
    marks = {name: ["", "NA", "NaN", "nan", "NULL", "null", "None"] for name in columns}
    return pd.read_csv(file, dtype={"client": str}, keep_default_na=False, na_values=marks)


def _check_names(
    submission: pd.DataFrame, expected: set[tuple[str, str]], seeds: Sequence[int], file: Path
) -> None:
    def list_pairs(names: set[tuple[str, str]]) -> str:
        return list_names([" ".join(name).strip() for name in sorted(names)], 3)

    for seed in seeds:
        seed_rows = submission[submission["seed"] == seed]
        names = set(zip(seed_rows["origin"], seed_rows["client"], strict=True))
        if missing := expected - names:
            text = f"seed {seed} has no predictions for {list_pairs(missing)}"
            raise DataError(Problem(file, text, "add them"))
        if unknown := names - expected:
            raise DataError(
                Problem(file, f"{list_pairs(unknown)} are no clients of the study", "remove them")
            )


def _predictions(rows: pd.DataFrame, dataset: Dataset, i: int, task: Task, place: str) -> Floats:
    """The predictions of a client in the order and shape of its test windows."""
    starts = dataset.starts(i, "test")
    stamps = dataset.stamps[dataset.target_rows(starts)].reshape(len(starts), -1)
    origins = np.broadcast_to(
        dataset.stamps[dataset.persistence_rows(starts)][:, None], stamps.shape
    )
    index = pd.DataFrame({"made_at": origins.ravel(), "stamp": stamps.ravel()})
    keys = ["stamp"] if stamps.shape[1] == 1 else ["made_at", "stamp"]
    if (double := rows.duplicated(keys)).any():
        first = ", ".join(f"{key} {rows.loc[double, key].iloc[0]}" for key in keys)
        raise DataError(Problem(place, f"has two forecasts for {first}", "write one"))
    merged_rows = index[keys].merge(rows, on=keys, how="left", indicator=True)
    missing = int((merged_rows["_merge"] != "both").sum())
    if missing or len(rows) != len(index):
        raise DataError(
            Problem(
                place,
                f"{len(rows)} forecasts, of which {len(index) - missing} are at the stamps of "
                f"the test set, but it has {len(index)}, from {index['stamp'].iloc[0]} to "
                f"{index['stamp'].iloc[-1]}",
                "give one for each of its stamps, which are the ends of intervals (`stamp_test`)",
            )
        )
    if not task.quantile_levels:
        return merged_rows["forecast"].to_numpy(float).reshape(dataset.truth(starts).shape)
    columns = [f"forecast_{100 * level:g}" for level in task.quantile_levels]
    return np.sort(merged_rows[columns].to_numpy(float), axis=1).reshape(
        *stamps.shape, len(columns)
    )


def _loads(data: Datasets, rows: pd.DataFrame) -> Floats:
    """The mean absolute load in the test set of the client of each row."""
    means = {
        (*place, client): np.abs(dataset.truth(dataset.starts(i, "test"))).mean()
        for place, dataset in data.items()
        for i, client in enumerate(dataset.clients.tolist())
    }
    keys = rows[["origin", "state", "client"]].itertuples(index=False, name=None)
    return np.array([means[key] for key in keys])


def _score_sets(errors: pd.DataFrame, keys: list[str]) -> Iterator[WeeklyScores]:
    """The scores of each origin and state, given errors by day; its first key tells the seeds
    apart."""
    for (origin, state), state_errors in errors.groupby(["origin", "state"], sort=False):
        wide = weekly_shares(state_errors, state_errors["day"].unique(), keys)
        levels = [wide.index.get_level_values(key).unique() for key in keys]
        complete_weeks = wide.reindex(pd.MultiIndex.from_product(levels, names=keys)).to_numpy(
            float
        )
        shaped = complete_weeks.reshape(len(levels[0]), len(levels[1]), -1).swapaxes(0, 1)
        yield WeeklyScores(str(state), str(origin), tuple(map(str, levels[1])), shaped)


def score_rivals(
    study: Study, data: Datasets, results: Path | None, metric: str
) -> tuple[dict[str, list[WeeklyScores]], dict[str, dict[str, float]]]:
    """The baselines, and with `results` the best cells: sets of scores, and means."""
    score_sets: dict[str, list[WeeklyScores]] = {}
    rows, errors = [], []
    if results is None:
        for (origin, state), dataset in data.items():
            baseline_keys = study.baselines
            evaluated = baselines.evaluate(
                state,
                dataset,
                baseline_keys.fit_settings,
                study.task,
                baseline_keys.further,
                baseline_keys.leave_out,
            )
            rows.append(evaluated.scores.assign(origin=origin))
            errors.append(_select_metric(evaluated.errors, metric).assign(origin=origin))
    else:
        for variant in fitting_variants(results, study, data):
            tables = variant.tables
            origin = str(tables.study.data.origin_date) if study.plan.axes else ""
            rows.append(tables.baselines.assign(origin=origin))
            errors.append(tables.errors_of(BASELINE, metric).assign(origin=origin))
            for forecasters in variant.forecasters_by_score(metric)["local"].values():
                for scheme in tables.study.grid.sharing:
                    if best_cells := best(select(forecasters, sharing=scheme)):
                        score_set = replace(best_cells, origin=origin)
                        score_sets.setdefault(f"best {scheme}", []).append(score_set)
    score_table = pd.concat(rows)
    test = score_table[score_table["split"] == "test"]
    test = test.assign(wape=test["mae"] / _loads(data, test))
    names = [name for name in ("mase", "wape", "scaled_crps") if name in test]
    by_baseline = test.groupby("baseline")
    has_score = by_baseline["mae"].agg(is_complete).astype(bool)
    means = by_baseline[names].mean().where(has_score)
    for name, method_errors in pd.concat(errors).groupby("method", sort=False):
        score_sets[baseline_label(str(name))] = (
            list(_score_sets(method_errors, ["method", "client"])) if has_score[str(name)] else []
        )
    return score_sets, {baseline_label(str(n)): dict(row) for n, row in means.iterrows()}


def rank_forecasters(score_sets: dict[str, list[WeeklyScores]], metric: str) -> pd.DataFrame:
    """The rows of `ScoredPredictions.table`; forecasters without a score come last."""
    rows, own_parts = (
        [],
        {(score_set.origin, score_set.state): score_set for score_set in score_sets[SUBMISSION]},
    )
    for name, parts in score_sets.items():
        row: dict[str, Any] = {"forecaster": name}
        own_scores = pool(parts)
        by_place = {(score_set.origin, score_set.state): score_set for score_set in parts}
        if by_place.keys() == own_parts.keys() and own_scores.scored_differences:
            row[metric], (row["low"], row["high"]) = own_scores.effect, own_scores.interval
            if name != SUBMISSION:
                advantages = [
                    _advantage(score_set, by_place[place]) for place, score_set in own_parts.items()
                ]
                advantage = pool(advantages)
                row["lead"] = advantage.effect
                row["lead_low"], row["lead_high"] = advantage.interval
        rows.append(row)
    table = pd.DataFrame(rows, columns=["forecaster", metric, "low", "high", *ADVANTAGE_COLUMNS])
    table = table.sort_values(metric, kind="stable", ignore_index=True)
    table.insert(0, "rank", table[metric].rank(method="min").astype("Int64"))
    return table


ADVANTAGE_COLUMNS = ["lead", "lead_low", "lead_high"]


def _advantage(submission: WeeklyScores, rival: WeeklyScores) -> WeeklyScores:
    """How much higher the MASE of another set is. Seeds of different programs do not pair."""
    count = submission.weekly.shape[1]
    mean = rival.weekly.mean(axis=1, keepdims=True).repeat(count, axis=1)
    return submission.advantage_over(replace(rival, weekly=mean))
