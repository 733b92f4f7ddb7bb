"""Ranks follow the example of Demšar (2006); diverged methods rank last."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plfl.report.figures.ranks import ranking


def test_ranking_follows_demsar() -> None:
    # Table 6 of Demsar (2006): four variants of C4.5 on 14 data sets (AUC, higher is better).
    auc = [
        (0.763, 0.768, 0.771, 0.798), (0.599, 0.591, 0.590, 0.569), (0.954, 0.971, 0.968, 0.967),
        (0.628, 0.661, 0.654, 0.657), (0.882, 0.888, 0.886, 0.898), (0.936, 0.931, 0.916, 0.931),
        (0.661, 0.668, 0.609, 0.685), (0.583, 0.583, 0.563, 0.625), (0.775, 0.838, 0.866, 0.875),
        (1.000, 1.000, 1.000, 1.000), (0.940, 0.962, 0.965, 0.962), (0.619, 0.666, 0.614, 0.669),
        (0.972, 0.981, 0.9751, 0.975), (0.957, 0.978, 0.946, 0.970),
    ]  # fmt: skip
    found = ranking(-pd.DataFrame(auc, columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]))
    assert found.ranks.round(3).to_dict() == {
        "C4.5+m+cf": 1.964,
        "C4.5+m": 2.0,
        "C4.5+cf": 2.893,
        "C4.5": 3.143,
    }
    assert found.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), rel=1e-3)
    # His 0.026 is without the correction for ties.
    assert 0.01 < found.friedman < 0.026
    difference = found.ranks["C4.5"] - found.ranks["C4.5+m+cf"]
    assert (found.p.to_numpy()[3, 0] < 0.05) == (difference > found.critical_difference)


def test_ranking_of_diverged_and_of_single_methods() -> None:
    blocks = pd.DataFrame({"a": [np.nan] * 4, "b": [1.0, 2, 3, 4], "c": [2.0, 1, 4, 3]})
    assert ranking(blocks).ranks.to_dict() == {"b": 1.5, "c": 1.5, "a": 3}
    alone = ranking(blocks[["b"]])
    assert alone.ranks.to_dict() == {"b": 1}
    assert alone.friedman == 1


def test_the_test_of_friedman_is_that_of_scipy() -> None:
    scores = np.random.default_rng(1).normal(size=(14, 6)).round() + np.arange(6) // 2
    found = ranking(pd.DataFrame(scores))  # with ties
    assert found.friedman == pytest.approx(stats.friedmanchisquare(*scores.T).pvalue)
