"""Scores against an independent implementation, and against the paper's definition."""

import numpy as np
import pandas as pd
import pytest
from utilsforecast import losses

from plfl.config.windows import Windows
from plfl.data.windows import build
from plfl.tasks import metrics as scores
from tests.helpers import tiny

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


@pytest.mark.parametrize("noise", [0, 1e-13, 1e-8, 4e-4])
@pytest.mark.parametrize("load", [1e-3, 1.0, 1e5])
def test_no_mase_where_persistence_is_as_good_as_the_meter(load: float, noise: float) -> None:
    truth = load * (1 + noise * np.array([1, -1, 1, 1]))
    assert np.isnan(scores.mase(truth, np.zeros(4), np.full(4, load)))
    assert np.isnan(scores.seasonal_mase(truth, np.zeros(4), truth, 1))
    assert scores.mase(truth, np.zeros(4), np.full(4, 1.002 * load)) == pytest.approx(500, rel=0.2)


def test_wape_is_the_share_of_absolute_errors_in_the_loads() -> None:
    assert scores.wape(np.array([1.0, 3.0]), np.array([2.0, 2.0])) == 0.5
    assert scores.wape(np.array([1.0, -3.0]), np.array([1.0, -1.0])) == 0.5, "fed into the grid"
    assert np.isnan(scores.wape(np.zeros(2), np.ones(2)))


def test_a_peak_is_off_by_its_size_and_its_hour() -> None:
    """Four rows of six hours a day; the second day lacks one, the third feeds into the grid."""
    day = np.array([0] * 4 + [1] * 3 + [2] * 4)
    truth = np.array([1, 4, 2, 1, 1, 5, 1, -1, -2, -3, -4.0])
    forecast = np.array([1, 1, 2, 3, 1, 5, 1, -1, -2, -3, -4.0])
    found = scores.daily_peaks(day, truth, forecast, 3, 4)
    np.testing.assert_array_equal(found["peak_error"], [0.25, np.nan, np.nan])
    np.testing.assert_array_equal(found["peak_hours"], [12, np.nan, np.nan])


def test_nrmse_is_a_share_of_the_mean_load() -> None:
    share = losses.rmse(FRAME, ["model"])["model"][0] / TRUTH.mean()
    assert scores.nrmse(TRUTH, FORECAST) == pytest.approx(share)
    for factor in (10, -1):
        assert scores.nrmse(factor * TRUTH, factor * FORECAST) == pytest.approx(share)
    assert np.isnan(scores.nrmse(np.array([1.0, -1.0]), np.zeros(2)))


@pytest.mark.parametrize("season", [1, 24])
def test_seasonal_mase_agrees_with_utilsforecast(season: int) -> None:
    training = random.gamma(2.0, 5.0, size=300)
    frame = pd.DataFrame({"unique_id": "a", "ds": range(300), "y": training})
    expected = losses.mase(FRAME.assign(ds=range(300, 500)), ["model"], season, frame)
    found = scores.seasonal_mase(TRUTH, FORECAST, training, season)
    assert found == pytest.approx(expected["model"][0])
    assert np.isnan(scores.seasonal_mase(TRUTH, FORECAST, np.tile(TRUTH[:season], 9), season))


def test_the_worst_tenth_of_the_clients() -> None:
    assert scores.worst_tenth(np.array([3.0, 1.0, 2.0])) == 3
    many = np.arange(30.0)
    assert scores.worst_tenth(np.append(many, np.nan)) == many[-3:].mean() == 28
    assert scores.worst_tenth(np.arange(36.0)) == 33.5, "3.6 are rounded to 4"
    assert np.isnan(scores.worst_tenth(np.array([np.nan])))


def test_ends_belong_to_their_interval() -> None:
    low, high = np.full(4, 1.0), np.full(4, 2.0)
    assert scores.coverage(np.array([0.9, 1.0, 2.0, 2.1]), low, high) == 0.5


def test_scores_of_a_split_are_of_its_own_rows() -> None:
    windows = Windows(look_ahead=2, horizons=2, split=(0.5, 0.2, 0.3))
    data = build(tiny.tables(rows=800), windows)
    # Half of the rows of client b, which come after those of a, are for training.
    load = data.load[800:1600]
    last = np.arange(560 + 11, 800 - 3)
    truth, forecast = np.stack([load[last + 2], load[last + 3]], 1), np.zeros((len(last), 2))
    found = scores.score_split(data, 1, "test", forecast)
    assert found["mae"] == pytest.approx(truth.mean())
    day = np.abs(load[96:400] - load[: 400 - 96]).mean()
    assert found["seasonal_mase"] == pytest.approx(truth.mean() / day)
    for h in (2, 3):
        assert found[f"mae_h{h}"] == pytest.approx(load[last + h].mean())
        persistence = np.abs(load[last + h] - load[last]).mean()
        assert found[f"mase_h{h}"] == pytest.approx(load[last + h].mean() / persistence)
