"""The tables of a study of classifiers: their summary, their standings, and paired comparisons.

The records have the columns that `plfl.results.records` describes, with other scores: `error`, the
fraction of wrong predictions on the held-out images, which all clients share; `own_error`, this
fraction with each class weighted by its share among the client's training images; `cross_entropy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from plfl.results.records import CELL, read_csv
from plfl.study import Study
from plfl_images.classify import Classify

TAIL_ROUNDS = 4
"""Number of evaluated rounds at the end whose mean is the final accuracy, because single rounds
scatter widely if few clients take part."""
STANDING_COLUMNS = [column for column in CELL if column != "seed"]
"""Columns that name a row of the standings: a cell without its seed."""
_TRAINING = [*CELL, "model"]


def target_of(study: Study) -> float:
    """The test accuracy whose costs a study of classifiers reports."""
    assert isinstance(study.task, Classify)
    return study.task.target


def curves(records: pd.DataFrame) -> pd.DataFrame:
    """Mean scores over clients, one row per cell, model, split and evaluated round.

    Columns: `accuracy`, `own_accuracy` and `cross_entropy`. A mean with a model whose outputs are
    not finite is NaN.
    """
    evaluated_records = records[records["split"] != "train"]
    groups = evaluated_records.groupby([*_TRAINING, "split", "round"], sort=False)
    means = groups[["error", "own_error", "cross_entropy"]].agg(_mean)
    curves = means.assign(accuracy=1 - means["error"], own_accuracy=1 - means["own_error"])
    return curves.drop(columns=["error", "own_error"]).reset_index()


def summarise(records: pd.DataFrame, source: str, target: float) -> pd.DataFrame:
    """One row per cell and model, with its test scores.

    Args:
        records: the records of some cells.
        source: the kind of data, `data.source`.
        target: the accuracy to reach.

    Returns:
        The cell and `model`; `round`, the last one; `accuracy`, `own_accuracy` and `cross_entropy`
        there; `accuracy_quarter` and `accuracy_half`, those of the evaluated rounds nearest to a
        quarter and half of all rounds; `accuracy_tail`, the mean of the last `TAIL_ROUNDS`
        evaluated rounds; `validation_accuracy` at the last round; `rounds_to_target` and
        `bytes_to_target`, both directions; `bytes_down`, `bytes_up`; the tuned hyperparameters.
    """
    by_round = curves(records)
    train = records[records["split"] == "train"]
    training_groups = dict(iter(train.groupby(_TRAINING, sort=False)))
    setting_columns = ["lr", "server_lr", "hyperparameters", "trials"]
    rows = []
    for key, table in by_round.groupby(_TRAINING, sort=False):
        train_rows = training_groups.get(key, train[:0])
        bytes_by_round = (
            (train_rows["bytes_down"] + train_rows["bytes_up"])
            .groupby(train_rows["round"])
            .sum()
            .cumsum()
        )
        test = table[table["split"] == "test"].set_index("round").sort_index()
        validation = table[table["split"] == "validation"].set_index("round")
        last = test.index[-1]
        reached = test.index[test["accuracy"] >= target]
        first = reached[0] if len(reached) else np.nan
        rows.append(
            dict(zip(_TRAINING, key, strict=True))
            | {"round": last}
            | test.loc[last, ["accuracy", "own_accuracy", "cross_entropy"]].to_dict()
            | {"accuracy_quarter": _near(test, last / 4), "accuracy_half": _near(test, last / 2)}
            | {"accuracy_tail": test["accuracy"].tail(TAIL_ROUNDS).mean(skipna=False)}
            | {"validation_accuracy": validation["accuracy"].get(last, np.nan)}
            | {
                "rounds_to_target": first,
                "bytes_to_target": bytes_by_round[bytes_by_round.index <= first].max(),
            }
            | {name: train_rows[name].sum() for name in ("bytes_down", "bytes_up")}
            | {
                name: train_rows[name].iloc[0]
                for name in setting_columns
                if name in train_rows and len(train_rows)
            }
        )
    return pd.DataFrame(rows).assign(data=source)


def read_summary(folder: Path) -> pd.DataFrame:
    """The summary in a results folder; see `summarise`.

    Raises:
        ResultsError: the file is missing or damaged.
    """
    texts = [*STANDING_COLUMNS, "model", "hyperparameters"]
    return read_csv(folder / "summary.csv", dict.fromkeys(texts, str))


def _mean(values: pd.Series[float]) -> float:
    """The mean; NaN if any value is NaN."""
    return float(values.mean(skipna=False))


def _near(test: pd.DataFrame, t: float) -> float:
    """Accuracy of the evaluated round nearest to `t`; NaN if only the last round was evaluated."""
    if len(test) == 1:
        return float("nan")
    return float(test["accuracy"].iloc[int(np.abs(test.index.to_numpy() - t).argmin())])


def standings(summary: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over seeds of the accuracies, best tail first.

    One row per row of the grid and model, with the columns `seeds` and, of every accuracy, its name
    and its name with `_std` (NaN for one seed); `low` and `high`, a 95 % interval of
    `accuracy_tail` over seeds (Student's t). With few seeds this interval could extend beyond
    possible accuracies, so it is cut off at 0 and 1.
    """
    scores = ["accuracy_quarter", "accuracy_half", "accuracy_tail", "own_accuracy"]
    groups = summary.groupby([*STANDING_COLUMNS, "model"], sort=False)
    means = groups[scores].agg(_mean)
    spreads = groups[scores].std().add_suffix("_std")
    about: dict[str, Any] = {
        "rounds_to_target": ("rounds_to_target", "median"),
        "reached": ("rounds_to_target", "count"),
        "bytes_to_target": ("bytes_to_target", "median"),
        "seeds": ("seed", "nunique"),
    }
    if "hyperparameters" in summary:
        about["hyperparameters"] = ("hyperparameters", "first")
    table = means.join(spreads).join(groups.agg(**about)).reset_index()
    half = (
        stats.t.ppf(0.975, table["seeds"] - 1) * table["accuracy_tail_std"] / table["seeds"] ** 0.5
    )
    low = (table["accuracy_tail"] - half).clip(lower=0)
    high = (table["accuracy_tail"] + half).clip(upper=1)
    table = table.assign(low=low, high=high)
    return table.sort_values("accuracy_tail", ascending=False, kind="stable", ignore_index=True)


def summarise_baselines(baselines: pd.DataFrame) -> pd.DataFrame:
    """Mean test accuracies of each baseline over clients, with their spread over seeds."""
    test = baselines[baselines["split"] == "test"]
    per_seed = test.groupby(["baseline", "seed"], sort=False)[["error", "own_error"]].mean()
    accuracies = 1 - per_seed.groupby("baseline", sort=False).mean()
    spread = per_seed.groupby("baseline", sort=False).std()
    return pd.DataFrame(
        {
            "baseline": accuracies.index,
            "accuracy": accuracies["error"].to_numpy(),
            "accuracy_std": spread["error"].to_numpy(),
            "own_accuracy": accuracies["own_error"].to_numpy(),
            "own_accuracy_std": spread["own_error"].to_numpy(),
        }
    )


def rows_of(table: pd.DataFrame) -> list[dict[str, str]]:
    """Values on `STANDING_COLUMNS` of the rows of the grid, in the order of the study."""
    return [
        {str(axis): str(value) for axis, value in row.items()}
        for row in table[STANDING_COLUMNS].drop_duplicates().to_dict("records")
    ]


def select_row(table: pd.DataFrame, row: Mapping[str, str]) -> pd.DataFrame:
    """The part of a table that belongs to a row of the grid."""
    return table[(table[list(row)] == list(row.values())).all(axis=1)]
