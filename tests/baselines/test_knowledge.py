"""What a baseline may know: nothing after a forecast's origin, and no part but its own."""

import dataclasses

import numpy as np
import pytest

from plfl.baselines import catalogue
from plfl.baselines.features import raw_bytes
from plfl.baselines.fitting import fit, total_sent
from plfl.baselines.lightgbm_federated import LightgbmFederated
from plfl.baselines.lightgbm_mean import LightgbmMean
from plfl.baselines.lightgbm_others import LightgbmOthers
from plfl.baselines.trees import train
from plfl.config.windows import Windows
from plfl.data.dataset import Dataset, Split
from plfl.data.features import assemble
from plfl.data.windows import build
from plfl.interfaces.baseline import Baseline, FitSettings, FittedBaseline
from tests.helpers.outside import FEATURES, dataset, series

STANDARD = catalogue(covariates=True)
TRAINED = [name for name, baseline in STANDARD.items() if baseline.needs_training]
OTHERS: dict[str, Baseline] = {
    baseline.name: baseline
    for baseline in (LightgbmOthers(), LightgbmMean(), LightgbmFederated(turns=4))
}
"""Baselines that learn from others; benchmarks/outside.py has their forecasts without plfl."""


def fitted_to(data: Dataset, name: str, few: int = 5) -> FittedBaseline:
    """A baseline without members; `few`: the trees of those that learn from others."""
    trees = few if name in OTHERS else 20
    return fit((STANDARD | OTHERS)[name], data, FitSettings(trees=trees), {})


def changed(data: Dataset, first: int, end: int) -> Dataset:
    """The dataset with other readings in rows `first` to `end`."""
    rng = np.random.default_rng(1)
    load, features = data.load.copy(), data.features.copy()
    load[first:end] = rng.uniform(1, 9, end - first)
    features[first:end] = rng.uniform(0, 1, (end - first, features.shape[1]))
    return dataclasses.replace(data, load=load, features=features)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return dataset(days=40)


@pytest.mark.parametrize("name", STANDARD)
@pytest.mark.parametrize("ahead", [4, 98])  # of 98, a day's lag and those around it are not known
def test_a_forecast_uses_nothing_after_its_origin(name: str, ahead: int) -> None:
    data = dataset(days=40, look_ahead=ahead)
    read = dataclasses.replace(data)
    predict = fitted_to(read, name).predict
    for client in range(2):
        starts = data.starts(client, "test")
        wanted = predict(client, starts)
        for i in (0, len(starts) // 2, len(starts) - 1):
            origin = int(data.persistence_rows(starts[i]))
            exchange(read, changed(data, origin + 1, len(data.load)))
            found = predict(client, starts)[i]
            np.testing.assert_allclose(found, wanted[i], rtol=1e-12)  # products of matrices round
            exchange(read, changed(data, 0, origin + 1))
            assert np.isnan(found) or predict(client, starts)[i] != pytest.approx(found, rel=1e-9)
        exchange(read, data)


def exchange(read: Dataset, other: Dataset) -> None:
    """Let whoever holds the dataset read the numbers of another one."""
    for field in ("load", "features"):
        object.__setattr__(read, field, getattr(other, field))


@pytest.mark.parametrize("name", [*TRAINED, *OTHERS])
def test_training_does_not_see_the_test_part(name: str, data: Dataset) -> None:
    _compare(name, data, data.view.bounds[:, 2], data.view.bounds[:, 3], "validation")


@pytest.mark.parametrize("name", ["linear", "ridge", "ridge_lags"])
def test_linear_models_do_not_see_the_validation_part(name: str, data: Dataset) -> None:
    _compare(name, data, data.view.bounds[:, 1], data.view.bounds[:, 3], "train")


def _compare(name: str, data: Dataset, first, end, split: Split) -> None:
    """Other readings from `first` to `end` of each client leave the forecasts of `split` alone."""
    other = data
    for client in range(len(data.clients)):
        other = changed(other, int(first[client]), int(end[client]))
    before, after = fitted_to(data, name), fitted_to(other, name)
    for client in range(len(data.clients)):
        starts = data.starts(client, split)
        np.testing.assert_array_equal(before.predict(client, starts), after.predict(client, starts))


@pytest.mark.parametrize(("hours", "known"), [(24, True), (25, False)])
def test_what_lies_after_the_last_input_row_is_not_known(hours: int, known: bool) -> None:
    ahead = dataclasses.replace(dataset(), look_ahead=4 * hours)
    found = fitted_to(ahead, "naive_day").predict(0, ahead.starts(0, "test"))
    assert np.isfinite(found).all() == known
    assert np.isnan(found).all() != known


def test_what_lies_before_the_first_row_of_a_client_is_not_known() -> None:
    data = dataset(days=20, history=1)
    week = fitted_to(data, "naive_week").predict
    for client in range(2):  # before the first row of the second client lies the first client
        starts = data.starts(client, "train")
        found = week(client, starts)
        known = data.target_rows(starts) - 672 >= data.view.bounds[client, 0]
        assert known.sum() == 0
        assert np.isnan(found).all()
        test = data.target_rows(data.starts(client, "test"))
        found = week(client, data.starts(client, "test"))
        np.testing.assert_array_equal(np.isfinite(found), test - 672 >= data.view.bounds[client, 0])
        assert np.isfinite(found).all()


@pytest.mark.parametrize("name", [*OTHERS, "lightgbm_pooled"])
def test_others_are_those_of_the_own_federation(name: str) -> None:
    data = dataclasses.replace(dataset(clients=3, days=25), federation_numbers=np.array([0, 0, 1]))
    other = changed(data, *data.view.bounds[2, [0, 3]].tolist())
    predict, again = (fitted_to(one, name).predict for one in (data, other))
    for client in range(2):
        starts = data.starts(client, "test")
        assert np.isfinite(predict(client, starts)).all()
        np.testing.assert_array_equal(predict(client, starts), again(client, starts))
    alone = predict(2, data.starts(2, "test"))
    assert np.isnan(alone).all() == (name in OTHERS)


def test_the_better_half_of_quantiles_has_the_least_pinball_loss() -> None:
    data, levels = dataset(clients=4, days=25), (0.1, 0.5, 0.9)
    settings = FitSettings(trees=5, levels=levels)
    forecast = fit(LightgbmMean(), data, settings, {}).predict
    starts, test = data.starts(0, "train")[-672:], data.starts(0, "test")
    others = [train(data.select(np.array([k])), data, settings).predict for k in (1, 2, 3)]
    losses = []
    for other in others:
        over = data.truth(starts)[:, None] - other(0, starts)[:, 0]
        losses.append(np.where(over > 0, over * levels, over * (np.array(levels) - 1)).mean())
    best = [others[k](0, test) for k in np.argsort(losses)[:2]]
    np.testing.assert_allclose(forecast(0, test), np.mean(best, axis=0))


@pytest.mark.parametrize("name", OTHERS)
def test_what_others_send_is_counted(name: str) -> None:
    data = dataset(clients=3, days=25)
    sent, sent_by_more_trees = (total_sent(fitted_to(data, name, trees), 3) for trees in (5, 10))
    if name in ("lightgbm_mean", "lightgbm_federated"):
        np.testing.assert_allclose(np.array(sent_by_more_trees) / sent, 2, atol=0.3)  # of trees
    else:
        assert sent == sent_by_more_trees == raw_bytes(data)


def test_those_who_lend_send_all_that_they_know() -> None:
    tables = {name: assemble(series(i, 25), FEATURES) for i, name in enumerate("ab")}
    data = build(tables, Windows(history=1))
    sent = total_sent(fitted_to(data, "lightgbm_others"), 2)
    assert sent == [4 * (2 * round(0.9 * 25 * 96) + 1)] * 2
