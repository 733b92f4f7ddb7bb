"""Naive forecasts against pandas, and where they do not exist."""

import dataclasses

import numpy as np
import pytest

from plfl.data.dataset import SPLITS
from plfl.experiments import baselines as evaluation
from tests.helpers.outside import Windowed, dataset, series

DAY, WEEK = 96, 672


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("persistence", [4]),
        ("naive_day", [DAY]),
        ("naive_week", [WEEK]),
        ("naive_mean", [DAY, WEEK]),
        ("naive_weeks", [WEEK, 2 * WEEK, 3 * WEEK, 4 * WEEK]),
    ],
)
def test_they_are_readings_of_the_past(name: str, rows: list[int]) -> None:
    data = dataset()
    predict = evaluation.FITS[name](data)
    for client in range(2):
        windowed = Windowed(series(client))
        wanted = sum(windowed.truth.shift(back) for back in rows) / len(rows)
        for split in SPLITS:
            found = predict(client, data.starts(client, split))
            np.testing.assert_allclose(found, wanted[windowed.part(split)], rtol=1e-14)


@pytest.mark.parametrize(("hours", "known"), [(24, True), (25, False)])
def test_what_lies_after_the_last_input_row_is_not_known(hours: int, known: bool) -> None:
    ahead = dataclasses.replace(dataset(), look_ahead=4 * hours)
    found = evaluation.FITS["naive_day"](ahead)(0, ahead.starts(0, "test"))
    assert np.isfinite(found).all() == known
    assert np.isnan(found).all() != known


def test_what_lies_before_the_first_row_of_a_client_is_not_known() -> None:
    data = dataset(days=20, history=1)
    week = evaluation.FITS["naive_week"](data)
    for client in range(2):  # before the first row of the second client lies the first client
        starts = data.starts(client, "train")
        found = week(client, starts)
        known = data.target_rows(starts) - WEEK >= data.bounds[client, 0]
        assert known.sum() == 0
        assert np.isnan(found).all()
        test = data.target_rows(data.starts(client, "test"))
        found = week(client, data.starts(client, "test"))
        np.testing.assert_array_equal(np.isfinite(found), test - WEEK >= data.bounds[client, 0])
        assert np.isfinite(found).all()
