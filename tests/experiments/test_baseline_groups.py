"""The baselines of groups of clients are those of all clients at once."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.baselines.ridge import Ridge
from plfl.data.dataset import Dataset
from plfl.experiments.baseline_groups import evaluate_in_groups
from plfl.experiments.baselines import evaluate
from plfl.interfaces.baseline import FittedBaseline
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.kept_baselines import FURTHER_BASELINES

FURTHER = [
    *FURTHER_BASELINES,
    {"name": "lightgbm_mean"},
    {"name": "combined_pooled", "of": ["naive_day", "lightgbm_pooled"]},
]


def study(**blocks: Any) -> Study:
    return tiny.study(baselines={"trees": 4, "further": FURTHER}, **blocks)


@pytest.mark.parametrize(
    "blocks", [{}, {"task": {"name": "quantiles"}}, {"task": {"conformal": "personal"}}]
)
def test_groups_give_the_results_of_all_clients(blocks: dict[str, Any]) -> None:
    own_study, data = study(**blocks), tiny.dataset()
    task, keys = own_study.task, own_study.baselines
    whole = evaluate("XX", data, keys.fit_settings, task, keys.further)
    found = evaluate_in_groups("XX", data, keys, task, threads=2, size=2)
    for name in ("scores", "forecasts", "errors"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(whole, name), check_exact=True)
    assert [*found.packed] == [*whole.packed]
    for path, array in whole.packed.items():
        np.testing.assert_array_equal(found.packed[path], array)


def test_a_baseline_that_fails_for_one_group_fails_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = Ridge.fit

    def fit(self: Ridge, dataset: Dataset, *others: Any) -> FittedBaseline:
        if "c" in dataset.clients:
            raise RuntimeError("broken")
        return fits(self, dataset, *others)

    monkeypatch.setattr(Ridge, "fit", fit)
    own_study, data = study(), tiny.dataset()
    results = evaluate_in_groups("XX", data, own_study.baselines, own_study.task, size=2)
    scores = results.scores.set_index("baseline")
    assert set(scores.loc["ridge", "failed"]) == {"RuntimeError: broken"}
    lacking = "RuntimeError: there are no forecasts of ridge"
    assert set(scores.loc["combined_received", "failed"]) == {lacking}
