"""Texts of LightGBM from elsewhere: what plfl makes is read, and anything else is refused."""

import re
import subprocess
import sys
from collections.abc import Callable

import lightgbm
import numpy as np
import pytest

from plfl.base.errors import DataError
from plfl.federated.lightgbm_text import check_model, load_booster
from plfl.federated.tree_growth import ClientWindows, bin_rows, grow
from tests.helpers.refusals import naming

DRAWS = np.random.default_rng(1)
X = DRAWS.standard_normal((500, 4))
Y = X[:, 0] + abs(X[:, 1])


def trained(y: np.ndarray = Y, trees: int = 3, leaves: int = 4, **parameters: object) -> str:
    settings = {"num_leaves": leaves, "num_threads": 1, "verbosity": -1, **parameters}
    booster = lightgbm.train(settings, lightgbm.Dataset(X, y), trees)
    text: str = booster.model_to_string()
    return text


TEXT = trained(objective="l1")
"""Three trees of four leaves on four inputs."""


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        trained(objective="quantile", alpha=0.1, leaves=31, trees=30),
        trained(objective="l1", use_quantized_grad=True, leaves=31),
        trained(np.ones(500), objective="l1"),
        trained(Y * 1e-300, objective="quantile"),
        trained(Y * 1e30, objective="regression", learning_rate=1.0),
        trained(objective="l1", bagging_fraction=0.8, bagging_freq=1, feature_fraction=0.8),
        grow([ClientWindows(X, Y)] * 2, bin_rows(X, 31), 15, 0.3).text,
        grow([ClientWindows(X, np.zeros(500))], bin_rows(X, 31), 15, 0.3).text,
    ],
    ids=["l1", "quantile", "quantized", "leaf", "tiny", "huge", "drawn", "grown", "grown leaf"],
)
def test_what_plfl_makes_is_read_as_it_is(text: str) -> None:
    expected = lightgbm.Booster(model_str=text).predict(X)
    np.testing.assert_array_equal(load_booster(text, "own").predict(X), expected)


def line(name: str, value: str, tree: int | None = None) -> Callable[[str], str]:
    """Another value of a line, of the model or of one of its trees, whose sizes are stated anew."""

    def change(text: str) -> str:
        head, *trees = text.split("Tree=")
        last, _, rest = trees[-1].partition("end of trees")
        parts = [head, *trees[:-1], last]
        place = 0 if tree is None else tree + 1
        parts[place], count = re.subn(
            rf"^{name}=.*$", f"{name}={value}", parts[place], flags=re.MULTILINE
        )
        assert count == 1
        if name != "tree_sizes":
            sizes = " ".join(str(len("Tree=" + part)) for part in parts[1:])
            parts[0] = re.sub("tree_sizes=.*", f"tree_sizes={sizes}", parts[0])
        return f"{'Tree='.join(parts)}end of trees{rest}"

    return change


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


IMPOSSIBLE = {
    "leaves, many": ("num_leaves", line("num_leaves", "100000", 1)),
    "leaves, far too many": ("num_leaves", line("num_leaves", "2147483647", 1)),
    "leaves, none": ("num_leaves", line("num_leaves", "0", 1)),
    "leaves, negative": ("num_leaves", line("num_leaves", "-3", 1)),
    "a child that does not exist": ("left_child", line("left_child", "1 -1 99", 0)),
    "a leaf that does not exist": ("left_child", line("left_child", "1 -1 -99", 0)),
    "a node that is its own child": ("left_child", line("left_child", "0 1 2", 0)),
    "a cycle": ("left_child", line("left_child", "1 0 -1", 0)),
    "a leaf twice": ("left_child", line("right_child", "2 -2 -2", 0)),
    "a child too few": ("left_child", line("left_child", "1 -1", 2)),
    "an input that does not exist": ("split_feature", line("split_feature", "0 4 1", 2)),
    "a negative input": ("split_feature", line("split_feature", "0 -1 1", 2)),
    "inputs": ("max_feature_idx", line("max_feature_idx", "")),
    "fewer inputs": ("feature_names", line("max_feature_idx", "2")),
    "categories": ("num_cat", line("num_cat", "1", 0)),
    "a categorical split": ("decision_type", line("decision_type", "2 1 2", 0)),
    "linear leaves": ("is_linear", line("is_linear", "1", 0)),
    "no number": ("threshold", line("threshold", "0.5 x 0.5", 0)),
    "not a number": ("leaf_value", line("leaf_value", "nan 0 0 0", 0)),
    "infinite": ("leaf_value", line("leaf_value", "1e308 1e400 0 0", 0)),
    "values too few": ("leaf_value", line("leaf_value", "0 0 0", 0)),
    "classes": ("num_class", line("num_class", "3")),
    "trees by iteration": ("num_tree_per_iteration", line("num_tree_per_iteration", "0")),
    "an objective of several outputs": (
        "objective",
        line("objective", "multiclass num_class:3"),
    ),
    "sizes too large": ("tree_sizes", line("tree_sizes", "400 400 99999999")),
    "sizes too small": ("tree_sizes", line("tree_sizes", "1 1 1")),
    "no line end": ("shrinkage", replaced("\nshrinkage=1\n", "\nshrinkage\n")),
    "twice": ("num_cat", replaced("num_leaves=4\n", "num_leaves=4\nnum_leaves=9\n")),
    "before the trees": ("before its trees", replaced("\n\nTree=0", "\nXTree=0")),
    "a parameter without a value": ("parameters", replaced("[boosting: gbdt]", "[boosting]")),
    "a parameter of another type": (
        "cannot be read",
        replaced("[learning_rate: 0.1]", "[learning_rate: x]"),
    ),
    "cut": ("tree 1", lambda text: text[: text.index("Tree=1") + 200]),
    "empty": ("first line", lambda text: ""),
    "other characters": ("feature_names", replaced("Column_0", "Spalte_ä")),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_is_impossible_is_refused(case: str) -> None:
    fact, change = IMPOSSIBLE[case]
    with naming(DataError, "trees_0", fact, "again"):
        load_booster(change(TEXT), "trees_0")


def test_a_text_is_refused_each_time() -> None:
    wrong = line("left_child", "1 0 -1", 0)(TEXT)
    for _ in range(2):
        with pytest.raises(DataError):
            check_model(wrong, "it")


def test_lightgbm_itself_does_not_survive_such_texts() -> None:
    """The reason for these checks, of which one is seen from outside."""
    program = "import lightgbm, sys; lightgbm.Booster(model_str=sys.stdin.read())"
    wrong = line("tree_sizes", "400 400 99999999")(TEXT)
    ended = subprocess.run([sys.executable, "-c", program], input=wrong.encode(), check=False)
    assert ended.returncode < 0
