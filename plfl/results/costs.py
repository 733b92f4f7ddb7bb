"""The costs of a cell: bytes, epochs, simulated time, and staleness of the clients."""

from __future__ import annotations

import pandas as pd

from plfl.results.records import CELL


def totals(records: pd.DataFrame) -> pd.DataFrame:
    """The costs of each training over all rounds, indexed by cell and model.

    Returns:
        - `bytes_down`, `bytes_up`: over all clients;
        - `epochs`: passes over its training windows that a client makes, mean over clients;
        - `staleness`: rounds since a client last took part, mean over clients and rounds; 0 if all
          take part in every round. A client that drops out of a round does not take part in it;
        - `seconds`: duration of all rounds that have participants;
        - `waiting`: seconds per round that a participant waits for the others, on average. The last
          two are present only if time is simulated.
    """
    train = records[records["split"] == "train"]
    found = train.groupby(_TRAINING)[["bytes_down", "bytes_up"]].sum()
    clients = records.groupby(_TRAINING)["client"].nunique()
    found["epochs"] = train.groupby(_TRAINING)["epochs"].sum() / clients
    found["staleness"] = _staleness(records)
    if "round_seconds" in records:
        there = train[train["loss"].notna()]
        waiting = (there["round_seconds"] - there["seconds"]).groupby(
            [there[axis] for axis in _TRAINING]
        )
        seconds = _of_rounds(train).groupby(_TRAINING).sum()
        found = found.assign(seconds=seconds, waiting=waiting.mean())
    return found


def _staleness(records: pd.DataFrame) -> pd.Series[float]:
    """Rounds since a client last took part, mean over clients and rounds, of each training."""
    training = records["split"] == "train"
    sent = training & (records["bytes_up"] > 0)
    any_sent = sent.groupby([records[axis] for axis in _TRAINING]).transform("any")
    heard = sent.where(any_sent, training & records["loss"].notna())
    there = records.loc[heard, [*_ROUND, "client"]].drop_duplicates().sort_values("round")
    of_client = there.groupby([*_TRAINING, "client"])["round"]
    last, of_training = of_client.max(), records.groupby(_TRAINING)
    rounds, clients = of_training["round"].max(), of_training["client"].nunique()
    end = rounds.reindex(last.droplevel("client").index).to_numpy() + 1
    waited = _waits(of_client.diff().fillna(there["round"]))
    total = waited.groupby([there[axis] for axis in _TRAINING]).sum()
    total += _waits(end - last).groupby(_TRAINING).sum()
    total = total.reindex(rounds.index, fill_value=0)
    absent = clients.sub(last.groupby(_TRAINING).size(), fill_value=0)
    total += absent * _waits(rounds + 1)
    return total / (rounds * clients)


def _waits(apart: pd.Series[float]) -> pd.Series[float]:
    """1 + 2 + … + (d − 1): the staleness that a client adds between two of its rounds, d apart."""
    return apart * (apart - 1) / 2


def _of_rounds(train: pd.DataFrame) -> pd.Series[float]:
    """Duration of each round in seconds, by training and round."""
    rounds: pd.Series[float] = train.groupby(_ROUND)["round_seconds"].first()
    return rounds


def to_target(records: pd.DataFrame, test: pd.DataFrame, target: float) -> pd.DataFrame:
    """The costs of each training until its test MASE reaches the target, by cell and model.

    `test`: test scores over clients: the cell, `model`, `round` and `mase_mean`.

    Returns:
        `rounds_to_target`, `bytes_to_target` (all clients, both directions) and, if time is
        simulated, `seconds_to_target`; NaN if no evaluated round reaches the target.
    """
    train = records[records["split"] == "train"]
    sent = (train["bytes_down"] + train["bytes_up"]).groupby([train[a] for a in _ROUND]).sum()
    spent = sent.rename("bytes_to_target").to_frame()
    if "round_seconds" in records:
        spent["seconds_to_target"] = _of_rounds(train)
    spent = spent.groupby(_TRAINING).cumsum()
    reached = test[test["mase_mean"] <= target].groupby(_TRAINING)["round"].min()
    first = reached.rename("rounds_to_target").reset_index()
    # A round without participants has no rows: the costs so far are those of the previous round.
    sorted_by = "rounds_to_target"
    prices = pd.merge_asof(
        first.sort_values(sorted_by),
        spent.reset_index().sort_values("round"),
        left_on=sorted_by,
        right_on="round",
        by=_TRAINING,
    ).drop(columns="round")
    every = pd.MultiIndex.from_frame(test[_TRAINING].drop_duplicates())
    return prices.set_index(_TRAINING).reindex(every)


_TRAINING = [*CELL, "model"]
_ROUND = [*_TRAINING, "round"]
