"""Baselines that learn from others, against LightGBM as a stranger calls it."""

import dataclasses
from typing import Any

import lightgbm
import numpy as np
import pytest

from plfl.baselines.features import raw_bytes
from plfl.baselines.further.lightgbm_mean import LightgbmMean
from plfl.baselines.further.lightgbm_others import LightgbmOthers
from plfl.baselines.further.lightgbm_others_own import LightgbmOthersOwn
from plfl.baselines.trees import Boosting
from plfl.config.sections import Windows
from plfl.data.dataset import Dataset
from plfl.data.features import assemble
from plfl.data.windows import build
from tests.baselines.test_trees import pooled, regressor, relative, scale, trained
from tests.helpers.outside import FEATURES, Windowed, dataset, series

LATE, OTHERS = [0, 2], [1, 3]
"""Two turns of a federation of four clients."""
DAYS = 25
SETS = ("train", "validation")
pytestmark = pytest.mark.filterwarnings("ignore:The argument .eval_set.", "ignore:X does not have")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return dataset(clients=5, days=DAYS)


def outside(client: int) -> Windowed:
    return Windowed(series(client, DAYS, area=100.0 * (client + 1)))


def in_kwh(w: Windowed, changes: Any, rows: Any) -> Any:
    return w.last[rows] + scale(w) * changes


@pytest.fixture(scope="module")
def of_others() -> lightgbm.LGBMRegressor:
    return trained(*[pooled([outside(i) for i in OTHERS], split) for split in SETS])


def in_federations(data: Dataset) -> Dataset:
    """The fifth client is a federation of its own."""
    return dataclasses.replace(data, federation=np.array([0, 0, 0, 0, 1]))


def test_a_client_is_forecast_by_a_model_of_the_others_of_its_federation(
    data: Dataset, of_others: lightgbm.LGBMRegressor
) -> None:
    predict, sent = LightgbmOthers(turns=2).trained(in_federations(data), Boosting())
    for client in LATE:
        w = outside(client)
        rows = w.part("test")
        wanted = in_kwh(w, of_others.predict(relative(w).loc[rows].to_numpy()), rows)
        found = predict(client, data.starts(client, "test"))
        np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=0)
    assert np.isnan(predict(4, data.starts(4, "test"))).all()
    assert sent == raw_bytes(data)


def test_own_trees_continue_the_model_of_the_others(
    data: Dataset, of_others: lightgbm.LGBMRegressor
) -> None:
    predict, sent = LightgbmOthersOwn(turns=2).trained(in_federations(data), Boosting())
    for client in LATE:
        w = outside(client)
        x = relative(w)
        (a, y), (b, z) = (pooled([w], split) for split in SETS)
        start, start_too = (of_others.predict(part.to_numpy()) for part in (a, b))
        model = regressor().fit(
            a.to_numpy(),
            y,
            init_score=start,
            eval_set=[(b.to_numpy(), z)],
            eval_init_score=[start_too],
            eval_metric="l1",
            callbacks=[lightgbm.early_stopping(30, verbose=False)],
        )
        rows = w.part("test")
        read = x.loc[rows].to_numpy()
        wanted = in_kwh(w, of_others.predict(read) + model.predict(read), rows)
        found = predict(client, data.starts(client, "test"))
        np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=0)
    assert sent == raw_bytes(data)


def test_the_mean_is_that_of_the_better_half_of_the_others(data: Dataset) -> None:
    predict, sent = LightgbmMean().trained(in_federations(data), Boosting())
    models = [trained(*[pooled([outside(i)], split) for split in SETS]) for i in range(5)]
    w = outside(0)
    x, y = pooled([w], "train")
    week = x.index[-672:]
    errors = {i: np.abs(models[i].predict(x.loc[week]) - y[week]).mean() for i in (1, 2, 3)}
    best = sorted(errors, key=lambda i: errors[i])[:2]
    rows = w.part("test")
    read = relative(w).loc[rows].to_numpy()
    wanted = in_kwh(w, np.mean([models[i].predict(read) for i in best], axis=0), rows)
    found = predict(0, data.starts(0, "test"))
    np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=0)
    assert np.isnan(predict(4, data.starts(4, "test"))).all()
    for size, model in zip(sent, models, strict=True):  # settings are written, too
        assert size == pytest.approx(len(model.booster_.model_to_string()), rel=0.02)


@pytest.mark.parametrize("kind", [LightgbmOthers, LightgbmOthersOwn, LightgbmMean])
def test_no_forecast_reads_what_comes_later(kind: Any, data: Dataset) -> None:
    rng = np.random.default_rng(1)
    load, features = data.load.copy(), data.features.copy()
    for _, _, test, end in data.bounds.tolist():
        load[test:end] = rng.uniform(1, 9, end - test)
        features[test:end] = rng.uniform(0, 1, (end - test, features.shape[1]))
    other = dataclasses.replace(data, load=load, features=features)
    before, after = (kind().trained(d, Boosting(trees=5)).predict for d in (data, other))
    for client in range(5):
        starts = data.starts(client, "validation")
        np.testing.assert_array_equal(before(client, starts), after(client, starts))


def test_others_lend_all_that_they_know_and_train_again_on_what_was_held_out() -> None:
    names = ["c0", "c1"]
    tables = {n: assemble(outside(i).table, FEATURES) for i, n in enumerate(names)}
    data = build(tables, Windows(history=1), lends=True)
    end, held = round(0.9 * DAYS * 96), round(672 / 5)
    predict, sent = LightgbmOthers().trained(data, Boosting())

    def lender(first_left_out: int) -> Windowed:
        """The other client, whose training set has all rows before this one."""
        return dataclasses.replace(outside(1), held=round(0.8 * DAYS * 96) - first_left_out)

    w = lender(end - held)
    x, y = relative(w), (w.truth - w.last) / scale(w)
    first, later = np.arange(15, end - held), np.arange(end - held, end)
    trees = trained((x.loc[first], y[first]), (x.loc[later], y[later])).best_iteration_
    w = lender(end)
    x, y, every = relative(w), (w.truth - w.last) / scale(w), np.arange(15, end)
    model = regressor(n_estimators=trees).fit(x.loc[every].to_numpy(), y[every])
    own = dataclasses.replace(outside(0), first=end - 672)
    rows = own.part("test")
    wanted = in_kwh(own, model.predict(relative(own).loc[rows].to_numpy()), rows)
    found = predict(0, data.starts(0, "test"))
    np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=0)
    assert sent == [4 * (2 * end + 1)] * 2
