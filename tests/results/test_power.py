"""What is recommended decides as often as it says."""

import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plfl.config.study import Study
from plfl.results.power import POWER, Spread, advice, notes, undecidable
from plfl.results.statistics import ALPHA, Comparison, Part
from tests.helpers import tiny

PARTS = {"clients": Part(12, 4e-4, 11), "weeks": Part(5, 1e-4, 4), "seeds": Part(3, 1e-4, 2)}


def test_parts_shrink_with_their_levels() -> None:
    more = Spread(PARTS).at({"clients": 24, "seeds": 5}).parts
    assert more["clients"] == (24, pytest.approx(2e-4), pytest.approx(23))
    assert more["weeks"] == PARTS["weeks"]
    assert more["seeds"] == (5, pytest.approx(6e-5), pytest.approx(4))


def test_the_recommended_number_decides_with_the_stated_probability() -> None:
    rng, effect, sizes = np.random.default_rng(1), 0.04, {"clients": 20, "weeks": 8, "seeds": 4}
    deviations = {"clients": 0.1, "weeks": 0.03, "seeds": 0.01}

    def study(clients: int) -> Comparison:
        shape = {"clients": (clients, 1, 1), "seeds": (1, 4, 1), "weeks": (1, 1, 8)}
        parts = [rng.normal(0, deviations[name], shape[name]) for name in shape]
        return Comparison((), {"CA": (effect + sum(parts)) / 8})

    levels = {name: Part(n, deviations[name] ** 2 / n, n - 1) for name, n in sizes.items()}
    found = re.search(r"client[s]? \((\d+) in all\)", advice(effect, Spread(levels), ALPHA))
    assert found
    decided = np.mean([study(int(found[1])).p < ALPHA for _ in range(600)])
    assert decided == pytest.approx(POWER, abs=0.06)


def test_only_what_helps_is_recommended() -> None:
    by_seeds = {**PARTS, "clients": Part(12, 0.0, 11), "seeds": Part(3, 4e-3, 2)}
    said = advice(0.1, Spread(by_seeds), ALPHA)
    assert "more seeds" in said and "client" not in said
    assert advice(1e-6, Spread(PARTS), ALPHA) == (
        "Even ten times as many clients and weeks and seeds would not decide it."
    )


def test_where_a_factor_is_unknown_it_comes_first() -> None:
    lacking = {**PARTS, "seeds": Part(1, 0.0, 0.0), "weeks": Part(1, 0.0, 0.0)}
    assert advice(0.1, Spread(lacking), ALPHA) == (
        "Run at least 4 weeks of test (windows.split or data.origins) and 3 seeds (grid.seeds)."
    )


def test_a_study_that_can_decide_nothing_says_so_before_it_runs() -> None:
    def study(clients: int, seeds: list[int]) -> Study:
        data = {"source": "sample", "clients": clients}
        return Study.parse({"data": data, "grid": {"seeds": seeds}}, "small")

    assert undecidable(study(30, [1, 2])) == ""
    # Student's t with 3 · (2 − 1) degrees of freedom, for six clients of three states.
    assert f"{stats.t.ppf(0.975, 3) / 6**0.5:.1f} times" in undecidable(study(2, [1, 2]))
    assert "one seed and one client" in undecidable(study(1, [4]))
    assert "3 seeds (grid.seeds)" in undecidable(study(2, [4]))


@pytest.mark.parametrize(("further", "said"), [([], True), ([{"turns": 2}], False)], ids=str)
def test_late_clients_need_a_baseline_with_the_same_readings(further: Any, said: bool) -> None:
    listed = [{"name": "lightgbm_others"} | one for one in further]
    study = tiny.study(
        sharing={"P1": ["*"], "late": {"join": "late", "turns": 2}},
        grid={"sharing": ["P1", "late"], "seeds": [1, 2]},
        data={"clients": 40},
        windows={"history": 1, "scaling": "per_client"},
        baselines={"further": listed},
    )
    assert ["lightgbm_others, turns: 2" in note for note in notes(study)] == [True] * said
