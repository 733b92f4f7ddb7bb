"""Combinations of baselines, and bagged ones."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plfl.baselines import rivals
from plfl.baselines.combined import Combined, best_weights
from plfl.baselines.combined_pooled import CombinedPooled
from plfl.baselines.combined_received import CombinedReceived
from plfl.baselines.fitting import fit, total_sent
from plfl.baselines.lightgbm_bagged import LightgbmBagged
from plfl.baselines.lightgbm_federated import LightgbmFederated
from plfl.baselines.lightgbm_others import LightgbmOthers
from plfl.baselines.lightgbm_stacked import LightgbmStacked
from plfl.baselines.linear import LinearBaseline
from plfl.baselines.ridge import Ridge
from plfl.config.baselines import Baselines
from plfl.data.dataset import Dataset
from plfl.experiments.baselines import evaluate
from plfl.interfaces.baseline import Baseline, FitSettings, FittedBaseline, Floats, Starts
from plfl.tasks.quantiles import Quantiles
from tests.helpers.outside import dataset

FEW = FitSettings(trees=5)


def loss(truth: Floats, forecasts: Floats, levels: Floats, weights: Floats) -> float:
    """Mean pinball loss of forecasts (K, W, H, Q) with these weights."""
    over = truth - np.tensordot(weights, forecasts, 1)
    return float(np.maximum(levels * over, (levels - 1) * over).mean())


@pytest.mark.parametrize("levels", [(0.5,), (0.1, 0.5, 0.9)])
@pytest.mark.parametrize("seed", range(2))
def test_weights_are_those_of_a_search_of_all(levels: tuple[float, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.gamma(2.0, 3.0, (60, 2, 1))
    errors = rng.normal(0, [[[[1.0]]], [[[1.5]]], [[[3.0]]]], (3, 60, 2, len(levels)))
    forecasts, asked = truth + errors, np.array(levels)
    found = best_weights(truth, forecasts, asked)
    grid = [(a, b, 1 - a - b) for a, b in product(np.linspace(0, 1, 101), repeat=2) if a + b <= 1]
    best = min(loss(truth, forecasts, asked, np.array(weights)) for weights in grid)
    assert best - 5e-3 < loss(truth, forecasts, asked, found) <= best + 1e-9


@given(st.integers(1, 5), st.integers(0, 30), st.integers(0, 2**32 - 1), st.booleans())
def test_weights_are_shares(count: int, windows: int, seed: int, lacks: bool) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(windows, 1, 1))
    forecasts = np.concatenate([rng.normal(size=(count, windows, 1, 1)), truth[None]])
    if lacks and windows:
        forecasts[0, -1] = np.nan
    weights = best_weights(truth, forecasts, np.array([0.5]))
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    if windows > count:
        assert weights[-1] == pytest.approx(1, abs=1e-9)  # its forecasts are the truth
        assert not lacks or weights[0] == 0


def members_of(data: Dataset) -> dict[str, FittedBaseline]:
    return {"ridge": fit(Ridge(), data, FEW, {}), "linear": fit(LinearBaseline(), data, FEW, {})}


def test_a_combination_of_one_equals_it() -> None:
    data = dataset(days=20)
    members = members_of(data)
    combined = fit(Combined(of=["ridge"]), data, FEW, members)
    for split in ("train", "validation", "test"):
        starts = data.starts(1, split)
        wanted = members["ridge"].predict(1, starts)
        np.testing.assert_array_equal(combined.predict(1, starts), wanted)


def test_each_half_of_validation_has_the_weights_of_the_other() -> None:
    data = dataset(days=20)
    members = members_of(data)
    predict = fit(Combined(of=["ridge", "linear"]), data, FEW, members).predict
    starts = data.starts(0, "validation")
    half = len(starts) // 2
    forecasts = np.array([one.predict(0, starts) for one in members.values()])[..., None, None]
    truth = data.truth(starts).reshape(-1, 1, 1)
    parts = (slice(None, half), slice(half, None))
    for part, other in (parts, parts[::-1]):
        weights = best_weights(truth[other], forecasts[:, other], np.array([0.5]))
        wanted = weights @ forecasts[:, part, 0, 0]
        np.testing.assert_allclose(predict(0, starts[part]), wanted, rtol=1e-12)
    test = data.starts(0, "test")
    weights = best_weights(truth, forecasts, np.array([0.5]))
    wanted = weights @ [one.predict(0, test) for one in members.values()]
    np.testing.assert_allclose(predict(0, test), wanted, rtol=1e-12)


@pytest.mark.parametrize("task", [None, Quantiles(levels=(0.1, 0.5, 0.9))])
def test_combinations_have_rows_and_their_members_bytes(task: Quantiles | None) -> None:
    names = ["lightgbm_bagged", "combined", "combined_pooled"]
    further = [
        LightgbmBagged(models=2),
        Combined(of=["ridge", "lightgbm_bagged"]),
        CombinedPooled(of=["ridge", "lightgbm_pooled"]),
    ]
    table = evaluate("XX", dataset(days=20), FEW, task, further).scores
    assert np.isfinite(table.loc[table["baseline"].isin(names), "mase"]).all()
    sent = table.groupby("baseline")["bytes"].max()
    assert sent["combined"] == 0
    assert sent["combined_pooled"] == sent["lightgbm_pooled"] > 0


@pytest.mark.parametrize("horizons", [1, 2])
def test_stacked_trees_read_the_forecasts_of_their_target(horizons: int) -> None:
    data = dataset(days=20, horizons=horizons)
    noise = np.random.default_rng(1).normal(0, 0.01, (len(data.load), horizons))

    class Near(FittedBaseline):
        def __init__(self, sizes: list[int]):
            self.sent_bytes = {"lightgbm_federated": sizes}

        def predict(self, client: int, starts: Starts) -> Floats:
            return data.truth(starts) + noise[starts].reshape(data.truth(starts).shape)

    received = {"lightgbm_federated": Near([7, 9])}
    settings = FitSettings(trees=40)
    alone = fit(LightgbmBagged(models=2), data, settings, {})
    stacked = fit(LightgbmStacked(models=2, of=["lightgbm_federated"]), data, settings, received)
    assert (total_sent(stacked, 2), total_sent(alone, 2)) == ([7, 9], [0, 0])
    for client in range(2):
        starts = data.starts(client, "test")
        error, own_error = (
            np.abs(data.truth(starts) - predict(client, starts)).mean(axis=0)
            for predict in (stacked.predict, alone.predict)
        )
        assert (error < own_error / 2).all()


def test_messages_that_two_members_need_are_counted_once() -> None:
    further = [
        LightgbmFederated(turns=2),
        LightgbmStacked(models=2, of=["lightgbm_federated"]),
        CombinedReceived(of=["ridge", "lightgbm_federated", "lightgbm_stacked"]),
        LightgbmOthers(turns=2),
        CombinedPooled(of=["lightgbm_pooled", "lightgbm_others"]),
    ]
    table = evaluate("XX", dataset(days=20), FEW, None, further).scores
    sent = table.groupby("baseline")["bytes"].max()
    assert sent["combined_received"] == sent["lightgbm_stacked"] == sent["lightgbm_federated"] > 0
    assert sent["combined_pooled"] == sent["lightgbm_others"] == sent["lightgbm_pooled"]  # raw data


def test_without_the_forecasts_of_a_member_there_is_no_combination(monkeypatch):
    def breaks(*_: object) -> FittedBaseline:
        raise RuntimeError("broken")

    monkeypatch.setattr(Ridge, "fit", breaks)
    further = [Combined(of=["ridge", "linear"])]
    table = evaluate("XX", dataset(days=20), FEW, None, further).scores
    row = table[table["baseline"] == "combined"]
    assert set(row["failed"]) == {"RuntimeError: there are no forecasts of ridge"}


def test_weights_and_bags_do_not_depend_on_the_test_set() -> None:
    data = dataset(days=20)
    load = data.load.copy()
    for first, end in data.view.bounds[:, 2:]:
        load[first:end] = np.random.default_rng(1).uniform(1, 9, end - first)
    further = [LightgbmBagged(models=2), Combined(of=["lightgbm_bagged", "naive_day"])]
    tables = [
        evaluate("XX", one, FEW, None, further).scores.query("split == 'validation'")
        for one in (data, replace(data, load=load))
    ]
    pd.testing.assert_frame_equal(*tables)


class Truth(FittedBaseline):
    """The loads themselves."""

    def __init__(self, data: Dataset):
        self.data = data

    def predict(self, client: int, starts: Starts) -> Floats:
        return self.data.truth(starts)


class Knowing(Baseline):
    """A baseline that was trained on the series elsewhere."""

    name = "knowing"
    about = "Forecasts the truth."

    @property
    def has_seen_the_data(self) -> bool:
        return True

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> FittedBaseline:
        return Truth(dataset)


def test_every_row_says_whether_the_baseline_knew_the_data() -> None:
    further = [Knowing(), LightgbmBagged(models=2)]
    table = evaluate("XX", dataset(days=20), FEW, None, further).scores
    seen = table.groupby("baseline")["trained_on_this_dataset"].all()
    assert seen[seen].index.tolist() == ["knowing"]
    assert {"lightgbm_bagged", "ridge"} <= {*rivals(further)} and "knowing" not in rivals(further)


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ([{"name": "combined", "of": ["lightgbm_pooled"]}], "which needs raw data"),
        (
            [
                {"name": "lightgbm_federated"},
                {"name": "lightgbm_stacked", "of": ["lightgbm_federated"]},
            ],
            "with `turns`",
        ),
        ([{"name": "combined", "of": ["rigde"]}], "did you mean 'ridge'"),
        ([{"name": "combined", "of": ["ridge_lags"]}], "not a baseline before it"),
        ([{"name": "combined", "of": ["lightgbm_bagged"]}, {"name": "lightgbm_bagged"}], "before"),
        ([Knowing(), {"name": "combined", "of": ["knowing"]}], "trained on these data"),
    ],
)
def test_what_a_combination_cannot_use_is_refused(further, message):
    with pytest.raises(ValueError, match=message):
        Baselines.model_validate({"further": further, "leave_out": ["ridge_lags"]})
