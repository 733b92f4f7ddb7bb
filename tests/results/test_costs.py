"""What a cell costs, by hand and in the summary of a study."""

import numpy as np
import pandas as pd
import pytest

from plfl.experiments.train import train
from plfl.results import collect
from plfl.results.collect import summarise
from plfl.results.records import CELL
from tests.helpers import tiny

AXES = dict(zip(CELL, ["CA", "P1", "fedopt", "sgd", "fedavg", 1], strict=True))


def table(present: dict[int, str], mase: dict[int, float], **train_columns: object) -> pd.DataFrame:
    """Records of one cell: who took part in each round, and the test MASE of evaluated rounds."""
    rows = [
        {"round": t, "client": c, "split": "train", "model": model, "bytes_down": 10}
        | {"bytes_up": 10, "loss": 1.0, "epochs": 0.5}
        | train_columns
        for model in ("local", "global")
        for t, clients in present.items()
        for c in clients
    ]
    rows += [
        {"round": t, "client": c, "split": "test", "model": model, "mase": level + extra}
        for t, level in mase.items()
        for c in "abc"
        for model, extra in (("local", 0.0), ("global", 0.5))
    ]
    return pd.DataFrame(rows).assign(**AXES)


def scores(records: pd.DataFrame) -> pd.DataFrame:
    test = records[records["split"] == "test"].groupby([*CELL, "model", "round"])["mase"].mean()
    return test.rename("mase_mean").reset_index()


@pytest.mark.parametrize(
    ("present", "staleness"),
    [
        # Rounds since each last took part: a 0 0 0 0, b 0 1 0 1, c 0 1 2 3.
        ({1: "abc", 2: "a", 3: "ab", 4: "a"}, 8 / 12),
        ({1: "abc", 2: "abc"}, 0),
        # c is only known from its scores: 1 2 3; nobody at all in round 2: a and b 0 1 0.
        ({1: "ab", 3: "ab"}, (6 + 1 + 1) / 9),
    ],
)
def test_staleness_is_the_age_of_what_the_server_has_heard(
    present: dict[int, str], staleness: float
) -> None:
    records = table(present, {max(present): 1.0})
    assert collect.costs(records)["staleness"].tolist() == [pytest.approx(staleness)] * 2


@pytest.mark.parametrize(("sent", "missing"), [(10, "bytes_up"), (0, "loss")])
def test_who_drops_out_has_not_taken_part(sent: int, missing: str) -> None:
    """Without a byte, or where nothing crosses without a loss."""
    records = table({1: "abc", 2: "abc"}, {2: 1.0}, bytes_up=sent)
    dropped = (records["round"] == 2) & (records["client"] == "b")
    records.loc[dropped, missing] = 0 if missing == "bytes_up" else np.nan
    assert collect.costs(records)["staleness"].tolist() == [pytest.approx(1 / 6)] * 2


def test_waiting_is_the_mean_over_participants_and_rounds() -> None:
    records = table({1: "ab", 2: "a"}, {2: 1.0}, seconds=3.0, round_seconds=5.0)
    records.loc[(records["round"] == 1) & (records["client"] == "b"), "seconds"] = 5.0
    first = records[(records["round"] == 1) & (records["client"] == "a")]
    records = pd.concat([records, first.assign(client="c", seconds=0.0, loss=np.nan)])
    for found in collect.costs(records).to_dict("records"):
        assert found["seconds"] == 10
        assert found["waiting"] == pytest.approx((2 + 0 + 2) / 3)


def test_epochs_are_summed_over_rounds_and_averaged_over_clients() -> None:
    # a: two rounds of half a pass; b: one; c, which is only scored: none.
    records = table({1: "ab", 2: "a"}, {2: 1.0})
    assert collect.costs(records)["epochs"].tolist() == [(1.0 + 0.5 + 0.0) / 3] * 2


def test_the_price_of_a_target_is_what_was_spent_until_it_was_reached() -> None:
    timed = {"seconds": 3.0, "round_seconds": 5.0}
    records = table({1: "abc", 2: "ab", 3: "a"}, {1: 1.2, 2: 0.9, 3: 0.4}, **timed)
    found = collect.costs_to_target(records, scores(records), 1.0).reset_index().set_index("model")
    assert found.loc["local", ["rounds_to_target", "bytes_to_target"]].tolist() == [2, 100]
    assert found.loc["local", "seconds_to_target"] == 10
    assert found.loc["global", ["rounds_to_target", "bytes_to_target"]].tolist() == [3, 120]
    assert collect.costs_to_target(records, scores(records), 0.1).isna().all(axis=None)


def test_a_round_without_participants_costs_nothing() -> None:
    records = table({1: "abc"}, {2: 0.9})
    found = collect.costs_to_target(records, scores(records), 1.0)
    assert found["bytes_to_target"].dropna().tolist() == [60]


def test_the_summary_of_a_study_tells_its_costs() -> None:
    simulation = {"availability": 0.5, "step_seconds": [1, 2, 3]}
    study = tiny.study(
        grid={"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P1", "P3"]},
        federation={"rounds": 6, "evaluate_every": 1, "simulation": simulation},
    )
    found = train(study, study.cells, tiny.dataset())
    records = pd.concat([result.records for result in found.values()], ignore_index=True)
    first = records[(records["split"] == "test") & (records["round"] == 3)]
    target = first.groupby(["sharing", "model"])["mase"].mean()["P1", "local"]
    table = summarise(records, "sample", target + 1e-9).set_index(["sharing", "model", "chosen"])
    row = table.loc["P1", "local", "last"]
    assert row["rounds_to_target"] <= 3
    spent = records.query("split == 'train' and sharing == 'P1' and model == 'local'")
    until = spent[spent["round"] <= row["rounds_to_target"]]
    assert row["bytes_to_target"] == until["bytes_down"].sum() + until["bytes_up"].sum() > 0
    assert row["staleness"] > 0
    assert row["waiting"] > 0
    assert table.loc["P3", "local", "last"]["bytes_down"] == 0
    assert table.loc["P3", "local", "last"]["staleness"] == row["staleness"]
    assert np.isfinite(table["staleness"]).all()
