"""Tables of classifiers, from records made by hand."""

import numpy as np
import pandas as pd
import pytest

from plfl_images.results import classification
from tests.helpers import classified

CELL = {"state": "d", "sharing": "all", "client_opt": "sgd", "server_opt": "fedavg"}


def summary(method: str, seed: int, errors: dict[int, float]) -> pd.DataFrame:
    """The rows of the models of one training with these errors at some rounds."""
    about = CELL | {"method": method, "seed": seed, "lr": 0.1}
    return classification.summarise(classified.records(about, errors, 0.15), "digits", 0.8)


def test_summary_of_a_cell() -> None:
    rows = summary("m", 0, {5: 0.5, 10: 0.3, 15: 0.15, 20: 0.1}).set_index("model")
    row = rows.loc["global"]
    assert row["accuracy"] == pytest.approx(0.9)
    assert rows["own_accuracy"].to_dict() == pytest.approx({"global": 0.9, "local": 0.85})
    assert row["accuracy_quarter"] == pytest.approx(0.5)
    assert row["accuracy_half"] == pytest.approx(0.7)
    assert row["accuracy_tail"] == pytest.approx(1 - np.mean([0.5, 0.3, 0.15, 0.1]))
    assert (row["round"], row["rounds_to_target"]) == (20, 15)
    assert row["bytes_to_target"] == 15 * 2 * 20
    assert row["bytes_up"] == 20 * 2 * 10


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (0.5, ["rounds_to_target", "bytes_to_target", "accuracy_quarter"]),
        (np.nan, ["accuracy", "accuracy_tail"]),
    ],
    ids=["target never reached", "diverged"],
)
def test_what_a_cell_does_not_have(error: float, lost: list[str]) -> None:
    row = summary("m", 0, {20: error}).set_index("model").loc["global"]
    assert row[lost].isna().all()


def test_standings_are_sorted_by_the_tail() -> None:
    final = {"low": [0.4, 0.5], "high": [0.1, 0.3]}
    rows = [
        summary(method, seed, {20: error})
        for method, errors in final.items()
        for seed, error in enumerate(errors)
    ]
    table = classification.standings(pd.concat(rows, ignore_index=True).query("model == 'global'"))
    assert table["method"].tolist() == ["high", "low"]
    assert table["accuracy_tail"].tolist() == pytest.approx([0.8, 0.55])
    assert table["accuracy_tail_std"][0] == pytest.approx(np.std([0.1, 0.3], ddof=1))
    assert table["reached"].tolist() == [1, 0]
    # Two seeds: Student's t is 12.7, so both intervals would extend beyond 0 and 1.
    assert table["low"].tolist() == [0, 0]
    assert table["high"].tolist() == [1, 1]
