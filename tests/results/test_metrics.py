"""Scores against an independent implementation, and against the paper's definition."""

import numpy as np
import pandas as pd
import pytest
from utilsforecast import losses

from plfl.results import metrics as scores

random = np.random.default_rng(3)
TRUTH, FORECAST, PERSISTENCE = random.gamma(2.0, 5.0, size=(3, 200))
FRAME = pd.DataFrame({"unique_id": "a", "y": TRUTH, "model": FORECAST, "persistence": PERSISTENCE})


def test_mae_and_rmse_agree_with_utilsforecast() -> None:
    assert scores.mae(TRUTH, FORECAST) == pytest.approx(losses.mae(FRAME, ["model"])["model"][0])
    assert scores.rmse(TRUTH, FORECAST) == pytest.approx(losses.rmse(FRAME, ["model"])["model"][0])


def test_mase_is_the_ratio_of_sums_of_errors() -> None:
    errors = losses.mae(FRAME, ["model", "persistence"])
    expected = errors["model"][0] / errors["persistence"][0]
    assert scores.mase(TRUTH, FORECAST, PERSISTENCE) == pytest.approx(expected)
    assert scores.mase(TRUTH, PERSISTENCE, PERSISTENCE) == 1


def test_no_mase_where_persistence_makes_no_error() -> None:
    assert np.isnan(scores.mase(np.ones(3), np.zeros(3), np.ones(3)))
