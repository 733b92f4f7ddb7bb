"""What a cell costs: bytes, simulated time, and how long the server does without a client."""

import numpy as np
import pandas as pd

from plfl.results.records import CELL


def totals(records: pd.DataFrame) -> pd.DataFrame:
    """What all rounds of each cell took together, indexed by the cell.

    Args:
        records: the records of some cells.

    Returns:
        - `bytes_down`, `bytes_up`: over all clients;
        - `staleness`: rounds since a client last took part, mean over clients and rounds; 0 where
          all take part in every round. One that dropped out of a round did not take part;
        - `seconds`: of all rounds that anybody took part in, and `waiting`: of them, what a
          participant waited for others in a round, on average; both only if time was simulated.
    """
    train = records[records["split"] == "train"]
    found = train.groupby(CELL)[["bytes_down", "bytes_up"]].sum()
    found = found.join(records.groupby(CELL)[_HEARD].apply(_staleness).rename("staleness"))
    if "round_seconds" in records:
        there = train[train["loss"].notna()]
        waiting = (there["round_seconds"] - there["seconds"]).groupby([there[a] for a in CELL])
        found = found.assign(seconds=_of_rounds(train).groupby(CELL).sum(), waiting=waiting.mean())
    return found


_HEARD = ["round", "client", "split", "loss", "bytes_up"]


def _staleness(cell: pd.DataFrame) -> float:
    train = cell[cell["split"] == "train"]
    sent = train["bytes_up"] > 0
    train = train[sent if sent.any() else train["loss"].notna()]
    rounds = np.arange(1, cell["round"].max() + 1)
    took_part = pd.crosstab(train["round"], train["client"]) > 0
    took_part = took_part.reindex(index=rounds, columns=cell["client"].unique(), fill_value=False)
    last = np.maximum.accumulate(took_part.to_numpy() * rounds[:, None])
    return float((rounds[:, None] - last).mean())


def _of_rounds(train: pd.DataFrame) -> "pd.Series[float]":
    """Seconds of each round, by cell and round."""
    rounds: pd.Series[float] = train.groupby([*CELL, "round"])["round_seconds"].first()
    return rounds


def to_target(records: pd.DataFrame, test: pd.DataFrame, target: float) -> pd.DataFrame:
    """What it took each model until its test MASE was at the target, indexed by cell and model.

    Args:
        records: the records of some cells.
        test: test scores over clients: the cell, `model`, `round` and `mase_mean`.
        target: the MASE to reach.

    Returns:
        `rounds_to_target`, `bytes_to_target` over all clients and in both directions, and, if time
        was simulated, `seconds_to_target`; NaN where no evaluated round reached it.
    """
    train = records[records["split"] == "train"]
    sent = (train["bytes_down"] + train["bytes_up"]).groupby([train[a] for a in _ROUND]).sum()
    spent = sent.rename("bytes_to_target").to_frame()
    if "round_seconds" in records:
        spent["seconds_to_target"] = _of_rounds(train)
    spent = spent.groupby(CELL).cumsum()
    reached = test[test["mase_mean"] <= target].groupby([*CELL, "model"])["round"].min()
    first = reached.rename("rounds_to_target").reset_index()
    # A round without participants has no rows: what was spent until then is that of the one before.
    sorted_by = "rounds_to_target"
    prices = pd.merge_asof(
        first.sort_values(sorted_by),
        spent.reset_index().sort_values("round"),
        left_on=sorted_by,
        right_on="round",
        by=CELL,
    ).drop(columns="round")
    every = pd.MultiIndex.from_frame(test[[*CELL, "model"]].drop_duplicates())
    return prices.set_index([*CELL, "model"]).reindex(every)


_ROUND = [*CELL, "round"]
