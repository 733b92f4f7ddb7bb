"""What is made of the forecasts of a model or a baseline."""

import numpy as np
import pandas as pd

from plfl.data.dataset import EVALUATED_SPLITS, Dataset
from plfl.experiments.evaluated_forecasts import EvaluatedForecasts, PredictionsBySplit
from plfl.tasks.forecast import Forecast
from plfl.tasks.loads import first_week
from tests.helpers import tiny

TASK = Forecast(conformal="personal", level=0.8)


def predict_persistence(dataset: Dataset, test_factor: float = 1.0) -> list[PredictionsBySplit]:
    factors = {"validation": 1.0, "test": test_factor}
    return [
        {s: factors[s] * dataset.persistence(dataset.starts(i, s)) for s in EVALUATED_SPLITS}
        for i in range(len(dataset.clients))
    ]


def test_widths_come_from_the_validation_set_alone() -> None:
    dataset = tiny.dataset()
    forecasts, others = (
        EvaluatedForecasts.with_widths(dataset, TASK, predict_persistence(dataset, factor))
        for factor in (1.0, 3.0)
    )
    assert forecasts.widths is not None and others.widths is not None
    assert len(forecasts.widths) == len(dataset.clients) and (forecasts.widths > 0).all()
    np.testing.assert_array_equal(forecasts.widths, others.widths)
    pairs = zip(forecasts.scores("test"), others.scores("test"), strict=True)
    assert all(own["mae"] < other["mae"] for (_, own), (_, other) in pairs)


def test_the_week_shows_the_forecasts_that_are_scored() -> None:
    dataset = tiny.dataset()
    one = EvaluatedForecasts.with_widths(dataset, TASK, predict_persistence(dataset))
    weeks = EvaluatedForecasts.join_weeks({"one": one, "other": one})
    assert weeks["client"].unique().tolist() == dataset.clients.tolist()
    for i, client in enumerate(dataset.clients):
        starts = first_week(dataset, i)
        is_shown = np.isin(dataset.starts(i, "test"), starts)
        table = dataset, i, starts, {"one": one.predictions[i]["test"][is_shown]}
        week = weeks[weeks["client"] == client]
        expected = TASK.week_table(*table)
        pd.testing.assert_frame_equal(week[[*expected]], expected)
        assert (week["one"] == week["other"]).all()
