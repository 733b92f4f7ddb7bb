"""Boosters in few bytes are the same boosters."""

import lightgbm
import numpy as np
import pytest

from plfl.public.packing import LEAF_STEP, pack, unpack

ROWS = np.random.default_rng(0).normal(size=(3000, 6)).astype(np.float32)
ROWS[::5, 2] = np.nan
MARKS = np.array([3, 2**63], np.uint64)


def grown(trees: int, columns: int, leaves: int = 12) -> lightgbm.Booster:
    rows = ROWS[:, :columns]
    target = np.nan_to_num(rows[:, 2]) * rows[:, 0] + np.isnan(rows[:, 2])
    settings = {"objective": "l1", "num_leaves": leaves, "max_bin": 31, "verbosity": -1}
    return lightgbm.train(settings, lightgbm.Dataset(rows, target), trees)


@pytest.mark.parametrize("columns", [3, 6])
def test_forecasts_stay_the_same(columns: int) -> None:
    trees = 20
    first, other = grown(trees, columns), grown(trees, 9 - columns, leaves=4)
    boosters = {"a": first.model_to_string(), "b": other.model_to_string()}
    texts, _ = unpack(pack(boosters, MARKS))
    restored = lightgbm.Booster(model_str=texts["a"])
    rows = ROWS[:, :columns]
    difference = np.abs(restored.predict(rows) - first.predict(rows))
    assert difference.max() <= trees * LEAF_STEP / 2 + 1e-6
    assert np.ptp(first.predict(rows)) > 100 * trees * LEAF_STEP  # what is compared differs by row


def test_a_tree_without_a_split_is_a_constant() -> None:
    rows = ROWS[:50]
    settings = {"objective": "l1", "min_data_in_leaf": 100, "verbosity": -1}
    booster = lightgbm.train(settings, lightgbm.Dataset(rows, np.full(50, 0.25)), 2)
    texts, marks = unpack(pack({"a": booster.model_to_string()}, MARKS))
    np.testing.assert_array_equal(marks, MARKS)
    np.testing.assert_allclose(
        lightgbm.Booster(model_str=texts["a"]).predict(rows), 0.25, atol=LEAF_STEP
    )


def test_it_is_much_shorter() -> None:
    text = grown(20, 6).model_to_string()
    assert len(pack({"a": text}, MARKS)) < len(text) / 10
