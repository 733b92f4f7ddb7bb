"""The kernel forecasts by LightGBM's trees to the bits of LightGBM itself."""

from typing import Any

import lightgbm
import numpy as np
import pytest

from plfl.training import tree_kernel
from plfl.training.tree_kernel import Floats, Forest

RANDOM = np.random.default_rng(1)


def rows(count: int, has_gaps: bool) -> Floats:
    """Rows of six features with zeros, values that LightGBM takes for zeros, and gaps."""
    x = RANDOM.normal(size=(count, 6))
    x[:, 5] = RANDOM.integers(0, 4, count)
    for value in (0.0, -1e-36, 1e-35, np.inf, *([np.nan] if has_gaps else [])):
        x[RANDOM.random(x.shape) < 0.03] = value
    return x


def grown(has_gaps: bool = False, trees: int = 20, **parameters: Any) -> lightgbm.Booster:
    """A model of random numbers."""
    x = rows(500, has_gaps)
    y = np.nan_to_num(x[:, 0], posinf=1) * (x[:, 1] > 0) + 3 * (x[:, 5] == 2)
    y += RANDOM.normal(size=len(x))
    if parameters.get("objective") in ("binary", "multiclass", "poisson"):
        y = (y > 0).astype(int)
    defaults = {"objective": "l1", "verbosity": -1, "num_leaves": 31, "min_child_samples": 3}
    data = lightgbm.Dataset(x, y, categorical_feature=parameters.pop("categories", []))
    return lightgbm.train(defaults | parameters, data, num_boost_round=trees)


def check(booster: lightgbm.Booster, is_known: bool = True) -> None:
    many = Forest(booster)
    assert (many.trees is not None) == is_known
    for count in (tree_kernel.FEWEST_ROWS, 1, 7, 64, 65, 500):
        x = rows(count, has_gaps=True)
        np.testing.assert_array_equal(many.predict(x), booster.predict(x))
    np.testing.assert_array_equal(many.predict(np.asfortranarray(x)), booster.predict(x))


@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"objective": "quantile", "alpha": 0.9},
        {"objective": "huber"},
        {"objective": "l2", "max_bin": 15, "num_leaves": 4},
        {"min_child_samples": 400},  # trees of one leaf
    ],
)
def test_forecasts_are_those_of_lightgbm(parameters: dict[str, Any], has_gaps: bool) -> None:
    check(grown(has_gaps, **parameters))


def test_early_stopping_and_files_change_nothing() -> None:
    booster = grown()
    booster.best_iteration = 7
    check(booster)
    check(lightgbm.Booster(model_str=booster.model_to_string()))


@pytest.mark.parametrize(
    "parameters",
    [
        {"objective": "binary"},
        {"objective": "multiclass", "num_class": 2},
        {"objective": "poisson"},
        {"objective": "l2", "reg_sqrt": True},
        {"objective": "l2", "linear_tree": True},
        {"zero_as_missing": True},
        {"categories": [5]},
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    ],
)
def test_what_the_kernel_does_not_know_is_left_to_lightgbm(parameters: dict[str, Any]) -> None:
    check(grown(**parameters), is_known=False)


def test_without_a_compiler_lightgbm_forecasts(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*_: str) -> None:
        raise tree_kernel.CompileError("there is no C++ compiler")

    monkeypatch.setattr(tree_kernel, "build_kernel", unavailable)
    tree_kernel.load_forest.cache_clear()
    assert tree_kernel.load_forest() is None
    check(grown())
    tree_kernel.load_forest.cache_clear()
    monkeypatch.undo()
    assert tree_kernel.load_forest() is not None
