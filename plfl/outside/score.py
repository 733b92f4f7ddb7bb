"""Scores of predictions that were made elsewhere, beside the baselines and the cells of a study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import DataError, PlflError, ResultsError
from plfl.base.files import atomic, sha256
from plfl.base.text import some
from plfl.baselines import BASELINE
from plfl.baselines.further import Further
from plfl.baselines.trees import Boosting
from plfl.data.dataset import Dataset
from plfl.experiments import baselines
from plfl.outside.clients import datasets, name_of
from plfl.results.records import DAMAGE
from plfl.results.scores import Piece, best, pooled, scores, weekly
from plfl.results.tables import Tables, fitting
from plfl.results.words import baseline_label
from plfl.study import Study
from plfl.tasks import Task, metrics, task_of
from plfl.tasks.quantiles import Quantiles

Floats = NDArray[np.float64]
YOURS = "yours"


@dataclass(frozen=True)
class Scored:
    """Predictions from elsewhere, scored on the test sets of a study."""

    table: pd.DataFrame
    """A row per forecaster, the best first: `rank`, `forecaster`, `mase` with its interval `low`,
    `high`, `lead` (its MASE minus yours: positive where yours is better) with `lead_low`,
    `lead_high`, `wape` and, of quantiles, `scaled_crps`. Means over clients and seeds."""
    clients: pd.DataFrame
    """A row per client: `mase`, `wape`, `scaled_crps`; means over seeds."""
    seeds: int
    digest: str
    """SHA-256 of the file of predictions."""

    @property
    def yours(self) -> pd.Series[Any]:
        """The row of the predictions."""
        return self.table[self.table["forecaster"] == YOURS].iloc[0]

    def submission(self, **about: Any) -> dict[str, Any]:
        """One row of a leaderboard: what the submitter says, then the scores."""
        row = self.yours
        names = [name for name in ("mase", "low", "high", "wape", "scaled_crps") if name in row]
        numbers = {name: round(float(row[name]), 6) for name in names}
        return about | numbers | {"seeds": self.seeds, "predictions": self.digest}


def score(study: Study, file: Path, results: Path | None = None) -> Scored:
    """Score a Parquet or CSV file of predictions, with the columns of `Client.predictions`.

    Args:
        study: without variants.
        file: a row per client, seed (optional) and target of the test set. `made_at` is needed
            where windows have several targets.
        results: the study's results, whose cells and baselines are ranked, too. Without, the
            baselines are trained now.

    Raises:
        DataError: a client, a stamp or a number is missing, or does not fit the study.
        ResultsError: the results are of other data.
    """
    data = datasets(study)
    given = _read(file, study)
    task = task_of(study)
    seeds = sorted(given["seed"].unique().tolist())
    expected = {name_of(study, s, c) for s, d in data.items() for c in d.clients.tolist()}
    _check_names(given, expected, seeds, file)
    errors, rows = [], []
    by_client = dict(tuple(given.groupby(["client", "seed"])))
    for state, dataset in data.items():
        for i, client in enumerate(dataset.clients.tolist()):
            for seed in seeds:
                name = name_of(study, state, client)
                own = _predictions(by_client[name, seed], dataset, i, task, f"{file}: {name}")
                keys = {"state": state, "client": client, "seed": seed}
                errors.append(pd.DataFrame(keys | task.errors(dataset, i, own)))
                rows.append(keys | task.scores(dataset, i, "test", own))
    scored = pd.DataFrame(rows)
    scored["wape"] = scored["mae"] / _loads(data, scored)
    pieces = {YOURS: list(_pieces(pd.concat(errors), ["seed", "client"]))}
    others, numbers = _beside(study, data, results)
    means = [name for name in ("wape", "scaled_crps") if name in scored]
    numbers[YOURS] = {name: float(scored[name].mean()) for name in means}
    table = _ranked(pieces | others).join(pd.DataFrame(numbers).T, on="forecaster")
    clients = scored.groupby(["state", "client"], sort=False)[["mase", *means]].mean()
    return Scored(table, clients.reset_index(), len(seeds), sha256(file))


def _read(file: Path, study: Study) -> pd.DataFrame:
    try:
        read = pd.read_csv if file.suffix == ".csv" else pd.read_parquet
        found = read(file)
    except FileNotFoundError:
        raise DataError(f"{file}: the file does not exist") from None
    except DAMAGE as error:
        raise DataError(f"{file}: cannot be read ({error}); write Parquet or .csv") from None
    task = study.task
    needed = ["client", "stamp", "forecast"] + ["made_at"] * (study.windows.horizons > 1)
    if isinstance(task, Quantiles):
        needed += [f"forecast_{100 * level:g}" for level in task.levels]
    if lacking := [name for name in needed if name not in found]:
        raise DataError(f"{file}: has no column {', '.join(lacking)}; docs/benchmark.md lists them")
    found = found.assign(client=found["client"].astype(str))
    for column in ("stamp", "made_at"):
        if column in needed:
            try:
                found[column] = pd.to_datetime(found[column]).astype("datetime64[s]")
            except (ValueError, TypeError) as error:
                raise DataError(f"{file}: {column}: {error}; write local times") from None
    numbers = [name for name in needed if name.startswith("forecast")]
    try:
        found[numbers] = found[numbers].astype(float)
    except (ValueError, TypeError) as error:
        raise DataError(f"{file}: a forecast is no number ({error})") from None
    if not (finite := np.isfinite(found[numbers]).all(axis=1)).all():
        first = found[~finite].iloc[0]
        raise DataError(
            f"{file}: {(~finite).sum()} rows have a forecast that is missing or infinite, first "
            f"{first['client']} at {first['stamp']}; every window of the test set needs one"
        )
    return found if "seed" in found else found.assign(seed=0)


def _check_names(given: pd.DataFrame, expected: set[str], seeds: Sequence[int], file: Path) -> None:
    for seed in seeds:
        names = set(given.loc[given["seed"] == seed, "client"])
        if missing := sorted(expected - names):
            raise DataError(f"{file}: seed {seed} has no predictions for {some(missing, 3)}")
        if unknown := sorted(names - expected):
            raise DataError(f"{file}: {some(unknown, 3)} are no clients of the study")


def _predictions(own: pd.DataFrame, dataset: Dataset, i: int, task: Task, where: str) -> Floats:
    """The predictions of a client in the order and shape of its test windows."""
    starts = dataset.starts(i, "test")
    stamps = dataset.stamps[dataset.target_rows(starts)].reshape(len(starts), -1)
    made = np.broadcast_to(dataset.stamps[dataset.persistence_rows(starts)][:, None], stamps.shape)
    index = pd.DataFrame({"made_at": made.ravel(), "stamp": stamps.ravel()})
    keys = ["stamp"] if stamps.shape[1] == 1 else ["made_at", "stamp"]
    if own.duplicated(keys).any():
        raise DataError(f"{where}: has two forecasts for {own[own.duplicated(keys)].iloc[0][keys]}")
    whole = index[keys].merge(own, on=keys, how="left", indicator=True)
    missing = int((whole["_merge"] != "both").sum())
    if missing or len(own) != len(index):
        raise DataError(
            f"{where}: {len(own)} forecasts, of which {len(index) - missing} are at the stamps of "
            f"the test set, but it has {len(index)}, from {index['stamp'].iloc[0]} to "
            f"{index['stamp'].iloc[-1]}; stamps are the ends of intervals (`stamp_test`)"
        )
    if not isinstance(task, Quantiles):
        return whole["forecast"].to_numpy(float).reshape(dataset.truth(starts).shape)
    columns = [f"forecast_{100 * level:g}" for level in task.levels]
    return np.sort(whole[columns].to_numpy(float), axis=1).reshape(*stamps.shape, len(columns))


def _loads(data: dict[str, Dataset], rows: pd.DataFrame) -> Floats:
    """The mean absolute load in the test set of the client of each row."""
    means = {
        (state, client): np.abs(dataset.truth(dataset.starts(i, "test"))).mean()
        for state, dataset in data.items()
        for i, client in enumerate(dataset.clients.tolist())
    }
    return np.array([means[key] for key in zip(rows["state"], rows["client"], strict=True)])


def _pieces(errors: pd.DataFrame, keys: list[str]) -> Iterator[Piece]:
    """The piece of each state, given errors by day; its first key tells the seeds apart."""
    for state, here in errors.groupby("state", sort=False):
        wide = weekly(here, here["day"].unique(), keys)
        levels = [wide.index.get_level_values(key).unique() for key in keys]
        whole = wide.reindex(pd.MultiIndex.from_product(levels, names=keys)).to_numpy(float)
        shaped = whole.reshape(len(levels[0]), len(levels[1]), -1).swapaxes(0, 1)
        yield Piece(str(state), "", tuple(map(str, levels[1])), shaped)


def _beside(
    study: Study, data: dict[str, Dataset], results: Path | None
) -> tuple[dict[str, list[Piece]], dict[str, dict[str, float]]]:
    """The baselines, and with `results` the best cell of each sharing scheme: pieces and scores."""
    pieces: dict[str, list[Piece]] = {}
    if results is None:
        of_states = [
            baselines.evaluate(
                state,
                dataset,
                Boosting.of(study.baselines),
                task_of(study),
                [one for one in study.baselines.further if isinstance(one, Further)],
                study.baselines.leave_out,
            )
            for state, dataset in data.items()
        ]
        rows = pd.concat([one.scores for one in of_states])
        errors = pd.concat([one.errors for one in of_states])
    else:
        tables = Tables(results)
        with fitting(results):
            rows, errors = tables.baselines, tables.errors_of(BASELINE)
            _check_data(tables, data, results)
            for of_state in scores(tables, "local").values():
                for scheme in study.grid.sharing:
                    if chosen := best(of_state.those(sharing=scheme)):
                        pieces.setdefault(f"best {scheme}", []).append(chosen)
    for name, own in errors.groupby("method", sort=False):
        pieces[baseline_label(str(name))] = list(_pieces(own, ["method", "client"]))
    test = rows[rows["split"] == "test"]
    test = test.assign(wape=test["mae"] / _loads(data, test))
    means = test.groupby("baseline")[[n for n in ("wape", "scaled_crps") if n in test]].mean()
    return pieces, {baseline_label(str(n)): dict(row) for n, row in means.iterrows()}


def _check_data(tables: Tables, data: dict[str, Dataset], results: Path) -> None:
    kept = tables.clients.set_index(["state", "client"])["persistence_mae_test"]
    for state, dataset in data.items():
        for i, client in enumerate(dataset.clients.tolist()):
            starts = dataset.starts(i, "test")
            error = metrics.mae(dataset.truth(starts), dataset.persistence(starts))
            if not np.isclose(kept.get((state, client), np.nan), error, rtol=1e-5):
                raise ResultsError(
                    f"{results}: was made from other data: the error of persistence of {client} "
                    "differs; run the study again, or score without its results"
                )


def _ranked(pieces: dict[str, list[Piece]]) -> pd.DataFrame:
    """The rows of `Scored.table`; forecasters without a score come last."""
    rows, yours = [], pieces[YOURS]
    for name, own in pieces.items():
        row: dict[str, Any] = {"forecaster": name}
        alone = pooled([name], own)
        if len(own) == len(yours) and alone.scored:
            row["mase"], (row["low"], row["high"]) = alone.effect, alone.interval
            if name != YOURS:
                lead = pooled([YOURS, name], [_lead(a, b) for a, b in zip(yours, own, strict=True)])
                row["lead"], (row["lead_low"], row["lead_high"]) = lead.effect, lead.interval
        rows.append(row)
    table = pd.DataFrame(rows, columns=["forecaster", "mase", "low", "high", *_LEAD])
    table = table.sort_values("mase", kind="stable", ignore_index=True)
    table.insert(0, "rank", table["mase"].rank(method="min").astype("Int64"))
    return table


_LEAD = ["lead", "lead_low", "lead_high"]


def _lead(yours: Piece, other: Piece) -> Piece:
    """How much higher the MASE of another piece is. Seeds of different programs do not pair."""
    count = yours.weekly.shape[1]
    mean = other.weekly.mean(axis=1, keepdims=True).repeat(count, axis=1)
    return yours.lead(replace(other, weekly=mean))


def append(row: dict[str, Any], file: Path) -> None:
    """Append a row to a leaderboard, which is begun if there is none.

    Raises:
        PlflError: the file has other columns.
    """
    board = pd.DataFrame([row])
    if file.exists():
        before = pd.read_csv(file, keep_default_na=False, dtype=str)
        if list(before) != list(board):
            raise PlflError(f"{file}: its columns are {list(before)}, but the row's {list(board)}")
        board = pd.concat([before, board.astype(str)])
    with atomic(file) as temporary:
        board.to_csv(temporary, index=False)
