"""Scores and forecasts of the baselines of a state."""

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.baselines import catalogue
from plfl.baselines.features import raw_bytes
from plfl.baselines.fitting import fit
from plfl.baselines.linear import LinearBaseline
from plfl.baselines.ridge import Ridge
from plfl.experiments.baselines import evaluate
from plfl.interfaces.baseline import FitSettings
from plfl.results.records import BaselineTables
from plfl.tasks.forecast import Forecast
from plfl.tasks.quantiles import Quantiles
from tests.helpers import tiny
from tests.helpers.outside import dataset, series


@pytest.fixture(scope="module")
def found() -> BaselineTables:
    return evaluate("XX", dataset(), FitSettings(trees=20))


def test_every_baseline_client_and_evaluated_part_has_scores(found: BaselineTables) -> None:
    table = found.scores
    assert list(table["baseline"].unique()) == list(catalogue())
    assert (table.groupby(["state", "baseline", "split", "client"]).size() == 1).all()
    assert len(table) == len(catalogue()) * 2 * 2
    assert np.isfinite(table[["mae", "rmse", "mase"]]).all(axis=None)
    persistence = table[table["baseline"] == "persistence"]
    assert (persistence["mase"] == 1).all()


def test_a_study_with_covariates_has_a_baseline_on_it(found: BaselineTables) -> None:
    assert "lightgbm_covariates" not in set(found.scores["baseline"])
    covariates = [{"name": "lags"}, {"name": "level"}, {"name": "calendar"}]
    more = evaluate("XX", dataset(covariates=covariates), FitSettings(trees=20)).scores
    assert list(more["baseline"].unique()) == list(catalogue(covariates=True))
    means = more[more["split"] == "test"].groupby("baseline")["mase"].mean()
    # Its features are those of the baseline with lags, but in single precision.
    assert means["lightgbm_covariates"] == pytest.approx(means["lightgbm_lags"], abs=0.01)
    rest = more[more["baseline"] != "lightgbm_covariates"].reset_index(drop=True)
    pd.testing.assert_frame_equal(rest, found.scores, check_exact=True)


@pytest.mark.parametrize(
    "task", [None, Forecast(conformal="personal"), Quantiles(levels=(0.1, 0.5, 0.9))]
)
def test_a_baseline_that_raises_has_no_score_and_the_others_go_on(found, monkeypatch, task):
    def breaks(*_: object) -> object:
        raise RuntimeError("Check failed: right_count > 0\nat line 7")

    monkeypatch.setattr(LinearBaseline, "fit", breaks)
    table = evaluate("XX", dataset(), FitSettings(trees=20), task)
    broken = table.scores["baseline"] == "linear"
    told = "RuntimeError: Check failed: right_count > 0"
    assert (table.scores.loc[broken, "failed"] == told).all()
    assert table.scores.loc[broken, ["mae", "rmse", "mase"]].isna().all(axis=None)
    assert (table.scores.loc[~broken, "failed"] == "").all()
    assert table.forecasts.loc[table.forecasts["baseline"] == "linear", "forecast"].isna().all()
    if task is None:
        pd.testing.assert_frame_equal(
            table.scores[~broken], found.scores[found.scores["baseline"] != "linear"]
        )


def test_a_baseline_that_raises_adds_no_other_one(monkeypatch):
    def breaks(*_: object) -> object:
        raise RuntimeError("Check failed")

    monkeypatch.setattr(LinearBaseline, "fit", breaks)
    leave_out = [name for name in catalogue() if name not in ("linear", "naive_day")]
    for task in (None, Forecast(conformal="personal")):
        table = evaluate("XX", dataset(), FitSettings(), task, leave_out=leave_out)
        assert table.totals is not None and table.totals.forecasters == ["naive_day"]
        assert {path.partition("/")[0] for path in table.packed} <= {"naive_day"}
        assert table.scores["baseline"].unique().tolist() == ["naive_day", "linear"]


def test_what_the_user_can_correct_still_ends_the_baselines(monkeypatch):
    def refuses(*_: object) -> object:
        raise DataError("a.csv: is damaged")

    monkeypatch.setattr(LinearBaseline, "fit", refuses)
    with pytest.raises(DataError, match=r"a\.csv"):
        evaluate("XX", dataset(), FitSettings(trees=2), leave_out=[*catalogue()][8:])


def test_scores_are_errors_over_the_windows_of_a_part(found: BaselineTables) -> None:
    n = 40 * 96
    load = series(1)["load"].to_numpy()
    scores = found.scores.set_index(["baseline", "client", "split"])
    cuts = {"validation": (round(0.8 * n), round(0.9 * n)), "test": (round(0.9 * n), n)}
    for split, (begin, end) in cuts.items():
        rows = np.arange(begin + 15, end)
        errors = load[rows] - load[rows - 672]
        scale = np.abs(load[rows] - load[rows - 4]).mean()
        row = scores.loc["naive_week", "c1", split]
        assert row["mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-12)
        assert row["rmse"] == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-12)
        assert row["mase"] == pytest.approx(np.abs(errors).mean() / scale, rel=1e-12)


def test_the_first_week_of_the_test_part_is_kept(found: BaselineTables) -> None:
    data = dataset()
    week = found.forecasts.query("baseline == 'ridge' and client == 'c1'")
    assert list(week) == ["state", "baseline", "client", "stamp", "forecast"]
    assert week["forecast"].dtype == np.float32
    starts = data.starts(1, "test")[:672]
    assert len(starts) == 369  # four days less a window
    np.testing.assert_array_equal(week["stamp"], data.stamps[data.target_rows(starts)])
    wanted = fit(Ridge(), data, FitSettings(), {}).predict(1, starts)
    np.testing.assert_allclose(week["forecast"], wanted, rtol=1e-6)


def test_pooled_data_are_counted_in_bytes(found: BaselineTables) -> None:
    # Load and temperature of nine tenths of 3,840 rows, and the floor area once.
    by_hand = 4 * (2 * 3456 + 1)
    assert raw_bytes(dataset()) == [by_hand, by_hand]
    sent = found.scores.groupby("baseline")["bytes"].agg(["min", "max"])
    assert (sent.loc["lightgbm_pooled"] == by_hand).all()
    assert (sent.drop("lightgbm_pooled") == 0).all(axis=None)
    assert raw_bytes(dataset(history=1)) == [4 * (2 * 672 + 1)] * 2


def test_a_client_without_persistence_error_has_no_mase() -> None:
    table = evaluate("XX", tiny.dataset(flat="b")).scores
    lost = table[table["mase"].isna() & table["mae"].notna()]
    assert set(lost["client"]) == {"b"}
    assert set(lost["split"]) == {"test"}


def test_a_forecast_that_does_not_exist_has_no_score() -> None:
    table = evaluate("XX", tiny.dataset(rows=400)).scores.set_index("baseline")
    for name in ("naive_week", "naive_mean", "naive_weeks"):
        assert table.loc[name, ["mae", "rmse", "mase"]].isna().all(axis=None)
    others = table.drop(["naive_week", "naive_mean", "naive_weeks"])
    assert np.isfinite(others[["mae", "rmse", "mase"]]).all(axis=None)
