"""Hyperparameter search: paths, equal budgets, and what is kept."""

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plfl.base.errors import ConfigError
from plfl.data.windows import build
from plfl.experiments.recorder import Recorder
from plfl.experiments.train import tables, train
from plfl.results.best import lowest
from plfl.results.records import MODELS, ModelKind
from plfl.study import Study, combinations
from plfl.study.combinations import Candidate
from tests.helpers import tiny
from tests.helpers.refusals import naming

LR, SERVER = {"client_opt.*.lr": [1e-3, 1e-2]}, {"server_opt.*.lr": [0.1, 1.0]}


def study(tuning: dict[str, Any], **grid: Any) -> Study:
    names = {"client_opt": ["sgd"], "server_opt": ["fedavg"], "refused": "skip"}
    return Study.parse({"grid": names | grid, "tuning": tuning}, "x")


def tried(study: Study) -> dict[tuple[str, str, str], list[str]]:
    return {
        (cell.sharing, cell.method, cell.client_opt): [
            candidate.text for candidate in study.plan.candidates(cell)
        ]
        for cell in study.cells
    }


def test_clients_without_mase_count_in_no_choice() -> None:
    """Of the two groups of clients that join, one has no MASE."""
    one = tiny.study(
        sharing={"unseen": {"join": "unseen", "turns": 2}},
        data={"clients": 4},
        windows={"scaling": "per_client"},
        federation={"rounds": 2, "local_steps": 8, "evaluate_every": 2},
        grid={"sharing": ["unseen"], "client_opt": ["adam"], "server_opt": ["fedavg"]},
        tuning={"search": {"client_opt.*.lr": [1e-6, 0.05]}},
    )
    readings = tiny.tables(4)
    for name in "ac":
        readings[name].iloc[300:360, 0] = 2.0  # the validation set
    (result,) = train(one, one.cells, build(readings, one.windows)).values()
    rows = result.records.query("split == 'validation' and round == 2")
    assert set(rows.loc[rows["mase"].isna(), "client"]) == {"a", "c"}
    assert set(rows["lr"]) == {0.05}
    assert result.models


def test_every_column_of_a_model_is_of_the_training_that_was_chosen_for_it() -> None:
    one = tiny.study()
    cell = one.cells[0]
    (candidate,) = one.plan.candidates(cell)
    trained: dict[ModelKind, tuple[Candidate, Recorder]] = {}
    for value, model in enumerate(MODELS):
        columns = [f"{name}{end}" for name in MODELS for end in ("", "_lower", "_5")]
        week = pd.DataFrame({"client": ["a"], **dict.fromkeys(columns, float(value))})
        scores = pd.DataFrame({"split": ["test"], "model": [model], "steps": [1.0]})
        trained[model] = candidate, Recorder(np.array(["a"]), np.ones(1), [scores], week)
    (row,) = tables(cell, trained, False, 1, 1.0).forecasts.to_dict("records")
    for value, model in enumerate(MODELS):
        assert [row[f"{model}{end}"] for end in ("", "_lower", "_5")] == [value] * 3


def test_any_hyperparameter_is_reached_by_its_path() -> None:
    search = {"method.fedprox.mu": [0.1, 1], "method.fedadc.beta_l": [0.6, 0.9]}
    found = tried(study({"search": search}, method=["fedprox", "fedadc"], sharing=["P1"]))
    assert found["P1", "fedprox", "sgd"] == ["method.fedprox.mu=0.1", "method.fedprox.mu=1"]
    assert found["P1", "fedadc", "sgd"] == ["method.fedadc.beta_l=0.6", "method.fedadc.beta_l=0.9"]


def test_a_path_with_a_name_replaces_the_one_of_all_algorithms() -> None:
    search = {"server_opt.*.lr": [0.1, 1], "server_opt.fedadam.lr": [0.01, 0.02]}
    one = study({"search": search}, server_opt=["fedavg", "fedadam"], sharing=["P1"])
    rates = {
        cell.server_opt: [candidate.text for candidate in one.plan.candidates(cell)]
        for cell in one.cells
    }
    assert rates == {
        "fedavg": ["server_opt.fedavg.lr=0.1", "server_opt.fedavg.lr=1"],
        "fedadam": ["server_opt.fedadam.lr=0.01", "server_opt.fedadam.lr=0.02"],
    }
    with naming(ConfigError, "fedadam-10 has 1", "fedavg-10 has 2"):
        uneven = {"server_opt.*.lr": [0.1, 1], "server_opt.fedadam.lr": [0.01]}
        study({"search": uneven}, server_opt=["fedavg", "fedadam"], sharing=["P1"])


def test_the_values_are_set_on_the_algorithms() -> None:
    one = study({"search": LR | {"server_opt.fedavg.lr": [0.5]}}, sharing=["P1"])
    (cell, *_) = one.cells
    rates = [(c.client_opt.lr, c.server_opt.lr) for c in one.plan.candidates(cell)]
    assert rates == [(1e-3, 0.5), (1e-2, 0.5)]
    assert (
        one.hyperparameters.find_client_opt(cell.client_opt).lr
        == Study().hyperparameters.client_opt.sgd.lr
    )  # type: ignore[attr-defined]


def test_cells_without_a_server_have_a_search_of_their_own_and_as_many_trials() -> None:
    search = {"search": {"server_opt.*.lr": [0.1, 1]}, "alone": {"client_opt.*.lr": [0.1, 0.2]}}
    found = tried(study(search))
    assert found["P1", "fedopt", "sgd"] == ["server_opt.fedavg.lr=0.1", "server_opt.fedavg.lr=1"]
    assert found["P3", "fedopt", "sgd"] == ["client_opt.sgd.lr=0.1", "client_opt.sgd.lr=0.2"]
    # Without one of their own they have the client's part of the common one.
    common = tried(study({"search": LR}))["P3", "fedopt", "sgd"]
    assert common == ["client_opt.sgd.lr=0.001", "client_opt.sgd.lr=0.01"]


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"search": SERVER}, "(CA-P3-fedopt-sgd-fedavg-10 has 1, CA-P2-fedopt-sgd-fedavg-10 has 2"),
        ({"search": SERVER, "trials": 2}, "some cells have fewer than 2 combinations (CA-P3-fed"),
        ({"search": {"server_opt.*.rate": [1]}}, "'server_opt.*.rate' is not a hyperparameter"),
        ({"search": {"method.fedprox.mu": [1]}}, "'method.fedprox.mu' is not a hyperparameter"),
        ({"alone": {"server_opt.*.lr": [1]}}, "'server_opt.*.lr' has no effect without a server"),
        ({"search": {"client_opt.*.lr": [-1, 1]}}, "tuning.search.client_opt.*.lr: -1 is not all"),
        ({"search": {"client_opt.*.lr": [1, 1]}}, "search.client_opt.*.lr: duplicate '1'"),
    ],
)
def test_what_cannot_be_tried_is_refused(search: dict[str, Any], message: str) -> None:
    with naming(ConfigError, message):
        study(search)


def test_trials_make_budgets_equal() -> None:
    search = LR | {"method.fedprox.mu": [0.01, 0.1, 1]}
    found = tried(study({"search": search, "trials": 2}, method=["fedopt", "fedprox"]))
    assert {len(texts) for texts in found.values()} == {2}


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3).flatmap(
        lambda sizes: st.tuples(st.just(sizes), st.integers(1, int(np.prod(sizes))))
    )
)
def test_a_sample_has_no_combination_twice_and_spreads_over_every_axis(drawn):
    sizes, trials = drawn
    axes = [list(range(size)) for size in sizes]
    found = combinations.sample(axes, trials)
    assert len(found) == len(set(found)) == trials
    assert found == combinations.sample(axes, trials)
    assert set(found) <= set(itertools.product(*axes))
    if len(sizes) == 1:
        assert max(Counter(found).values()) == 1


def test_a_latin_hypercube_takes_each_value_as_often() -> None:
    found = combinations.sample([list(range(9)), list(range(3))], 9)
    first, second = (Counter(column) for column in zip(*found, strict=True))
    assert set(first.values()) == {1}
    assert set(second.values()) == {3}


def test_the_least_score_is_chosen_and_what_diverged_is_not() -> None:
    assert lowest({"a": np.inf, "b": 2.0, "c": 1.0, "d": np.nan, "e": 1.0}) == "c"
    assert lowest({"a": np.inf, "b": np.nan}) is None


def test_seeds_train_together_where_they_choose_together() -> None:
    tuned = study({"search": LR}, seeds=[1, 2, 3])
    one = tuned.cells[0]
    assert [cell.seed for cell in tuned.plan.with_all_seeds([one])] == [1, 2, 3]
    plain = study({}, seeds=[1, 2, 3])
    assert plain.plan.with_all_seeds(plain.cells[:1]) == plain.cells[:1]
    # So the other seeds are part of what fixes a cell's numbers.
    fewer = study({"search": LR}, seeds=[1, 2])
    assert tuned.plan.settings(one) != fewer.plan.settings(one)
    assert plain.plan.settings(one) == study({}, seeds=[1, 2]).plan.settings(one)
