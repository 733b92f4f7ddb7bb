"""Tables of classifiers, from records made by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl_images.results import classification
from plfl_images.results.variants import over_seeds

CELL = {"state": "d", "sharing": "all", "client_opt": "sgd", "server_opt": "fedavg"}


def records(method: str, seed: int, errors: dict[int, float]) -> pd.DataFrame:
    """Two clients that send ten bytes each way in every round, with these errors at some rounds."""
    about = CELL | {"method": method, "seed": seed, "model": "global", "lr": 0.1}
    rows: list[dict[str, Any]] = [
        {"round": t, "client": c, "split": "train", "bytes_down": 10, "bytes_up": 10}
        for t in range(1, 21)
        for c in "ab"
    ]
    for t, error in errors.items():
        for split in ("validation", "test"):
            for client, change in (("a", 0.0), ("b", 0.1)):
                scores = {"error": error, "own_error": error + change, "cross_entropy": 1.0}
                rows.append({"round": t, "client": client, "split": split} | scores)
    return pd.DataFrame([about | row for row in rows])


def test_summary_of_a_cell() -> None:
    errors = {5: 0.5, 10: 0.3, 15: 0.15, 20: 0.1}
    (row,) = classification.summarise(records("m", 0, errors), "digits", 0.8).to_dict("records")
    assert row["accuracy"] == pytest.approx(0.9)
    assert row["own_accuracy"] == pytest.approx(0.85)
    assert row["accuracy_quarter"] == pytest.approx(0.5)
    assert row["accuracy_half"] == pytest.approx(0.7)
    assert row["accuracy_tail"] == pytest.approx(1 - np.mean([0.5, 0.3, 0.15, 0.1]))
    assert (row["round"], row["rounds_to_target"]) == (20, 15)
    assert row["bytes_to_target"] == 15 * 2 * 20
    assert row["bytes_up"] == 20 * 2 * 10


def test_a_target_that_is_never_reached() -> None:
    (row,) = classification.summarise(records("m", 0, {20: 0.5}), "digits", 0.8).to_dict("records")
    assert np.isnan(row["rounds_to_target"])
    assert np.isnan(row["bytes_to_target"])
    assert np.isnan(row["accuracy_quarter"])


def test_a_diverged_model_has_no_accuracy() -> None:
    (row,) = classification.summarise(records("m", 0, {20: np.nan}), "d", 0.8).to_dict("records")
    assert np.isnan(row["accuracy"])
    assert np.isnan(row["accuracy_tail"])


def summary(**final: list[float]) -> pd.DataFrame:
    """Summaries of methods with these errors in the last round, one per seed."""
    parts = [
        classification.summarise(records(method, seed, {20: error}), "digits", 0.8)
        for method, errors in final.items()
        for seed, error in enumerate(errors)
    ]
    return pd.concat(parts, ignore_index=True)


def test_standings_are_sorted_by_the_tail() -> None:
    table = classification.standings(summary(low=[0.4, 0.5], high=[0.1, 0.3]))
    assert table["method"].tolist() == ["high", "low"]
    assert table["accuracy_tail"].tolist() == pytest.approx([0.8, 0.55])
    assert table["accuracy_tail_std"][0] == pytest.approx(np.std([0.1, 0.3], ddof=1))
    assert table["reached"].tolist() == [1, 0]
    # Two seeds: Student's t is 12.7, so both intervals would extend beyond 0 and 1.
    assert table["low"].tolist() == [0, 0]
    assert table["high"].tolist() == [1, 1]


def test_paired_differences() -> None:
    found = over_seeds("", pd.Series([0.2, 0.21, 0.19, np.nan]))
    assert found.parts["seeds"].levels == 3
    assert found.effect == pytest.approx(0.2)
    # By hand: the standard error is 0.01 / √3, and Student's t with two degrees of freedom 4.303.
    assert found.interval[1] - found.effect == pytest.approx(4.303 * 0.01 / 3**0.5, rel=1e-3)
    assert found.p < 0.05
