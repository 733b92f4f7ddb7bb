"""AutoETS and MSTL against statsforecast, called as its authors do."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from plfl.baselines.further import Further
from plfl.baselines.further.auto_ets import AutoEts
from plfl.baselines.further.mstl import Mstl
from plfl.baselines.trees import Boosting
from plfl.data.dataset import Dataset
from tests.helpers.outside import dataset

models = pytest.importorskip("statsforecast.models", reason="needs the package statsforecast")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return dataset(clients=2, days=25, minutes=60, horizons=2)


def whole(kind: type[Further]) -> Any:
    """The model as the package offers it, with all that the training set allows."""
    if kind is AutoEts:
        return models.AutoETS(season_length=24)
    return models.MSTL([24, 168], trend_forecaster=models.AutoETS(model="ZZN"))


@pytest.mark.parametrize("kind", [AutoEts, Mstl])
def test_at_the_end_of_training_it_is_the_packages_own_forecast(
    kind: type[Further], data: Dataset
) -> None:
    predict = kind().trained(data, Boosting()).predict
    for client in range(2):
        first, end = data.bounds[client, :2].tolist()
        ahead = data.look_ahead + 1
        wanted = whole(kind).fit(data.load[first:end]).predict(h=ahead)["mean"][-2:]
        found = predict(client, np.array([end - data.look_back]))
        np.testing.assert_allclose(found, wanted[None], rtol=1e-6)


@pytest.mark.parametrize("kind", [AutoEts, Mstl])
def test_later_forecasts_know_the_loads_until_then_and_no_others(
    kind: type[Further], data: Dataset
) -> None:
    starts = data.starts(0, "test")[[3]]
    now = int(starts[0]) + data.look_back
    found = kind().trained(data, Boosting()).predict(0, starts)
    for row, changes in ((now - 1, True), (now, False)):
        load = data.load.copy()
        load[row:] *= 1.1
        other = replace(data, load=load)
        assert (kind().trained(other, Boosting()).predict(0, starts) != found).all() == changes


def test_short_histories_have_the_seasons_that_fit_in() -> None:
    short = dataset(clients=1, days=10, minutes=60)  # eight days of training
    starts = short.starts(0, "test")
    daily, none = (Mstl().seasons(short.load[:n], 24, n + 24) for n in (100, 40))
    assert daily.std() > 0 and np.allclose(daily[-24:], daily[-48:-24])
    assert not none.any()
    assert np.isfinite(Mstl().trained(short, Boosting()).predict(0, starts)).all()
