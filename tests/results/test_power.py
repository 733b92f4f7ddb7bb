"""The number of seeds or clients that is recomcorrected decides as often as it says."""

import numpy as np
import pytest
from scipy import stats

from plfl.results.power import POWER, Spread, advice, power
from plfl.results.scores import Array
from plfl.results.statistics import Comparison, sign_flips

LEVEL = 0.01


def table(
    rng: np.random.Generator, clients: Array, seeds: int, effect: float, luck: float, noise: float
) -> Array:
    """Differences (clients, seeds) of a known effect and known spread."""
    of_seeds = rng.normal(0, luck, (1, seeds))
    return effect + clients[:, None] + of_seeds + rng.normal(0, noise, (len(clients), seeds))


def is_significant(differences: Array) -> bool:
    comparison = Comparison(("a", "b"), {"CA": differences})
    (alone,), _ = sign_flips([comparison], draws=1999, seeds=True)
    return bool(max(alone, comparison.trainings()) < LEVEL)


def test_parts_of_the_variance_are_those_it_was_made_of() -> None:
    rng = np.random.default_rng(1)
    drawn = [table(rng, rng.normal(0, 0.3, 20), 6, 1.0, 0.2, 0.5) for _ in range(400)]
    parts = [Comparison(("a", "b"), {"CA": one}).variance_parts for one in drawn]
    expected = [0.3**2 / 20, 0.2**2 / 6, 0.5**2 / 120]
    assert np.mean(parts, axis=0) == pytest.approx(expected, rel=0.15)


def test_parts_add_up_to_what_the_tests_see() -> None:
    rng = np.random.default_rng(2)
    differences = {
        s: table(rng, rng.normal(0, 1, n), 3, 1, 1, 1) for s, n in (("CA", 5), ("NY", 9))
    }
    comparison = Comparison(("a", "b"), differences)
    by_clients, by_seeds, by_both = comparison.variance_parts
    assert by_seeds + by_both == pytest.approx(comparison.seed_variance[0])
    means = np.concatenate(comparison.clients())
    assert by_clients + by_both == pytest.approx(stats.sem(means) ** 2)
    nothing_else = Comparison(("a", "b"), {"CA": np.array([[1.0, -1], [-1, 1]])})
    assert nothing_else.variance_parts == (0, 0, 0), "no estimate is negative"


def test_a_larger_study_has_this_spread() -> None:
    """Twice the seeds and four times the clients, in two states."""
    now = Spread(10, 4, 0.1, 0.2, 0.3, 2 * 3.0, 5, 1.5)
    assert now.at(8, 40) == Spread(40, 8, 0.1 / 4, 0.2 / 2, 0.3 / 8, 2 * 7.0, 5, 2 * 1.5)


def test_power_without_luck_is_that_of_the_t_test() -> None:
    """With many clients drawn anew, against the noncentral t distribution."""
    clients, effect = 60, 0.45
    spread = Spread(clients, 3, 1 / clients, 0.0, 0.0, 2.0)
    critical = stats.t.isf(LEVEL / 2, clients - 1)
    expected = stats.nct.sf(critical, clients - 1, effect * np.sqrt(clients))
    found = power(effect, spread, LEVEL, same_clients=False)
    assert found == pytest.approx(expected, abs=0.04)


def test_power_over_seeds_is_that_of_the_t_test() -> None:
    spread = Spread(1000, 5, 0.0, 0.04, 0.0, 4.0)
    expected = stats.nct.sf(stats.t.isf(LEVEL / 2, 4), 4, 1.2 / 0.2)
    assert power(1.2, spread, LEVEL, same_clients=True) == pytest.approx(expected, abs=0.02)


SEEDS = Spread(12, 4, 0.06**2 / 12, 0.06**2 / 4, 0.05**2 / 48, 3.0)
CLIENTS = Spread(10, 6, 0.15**2 / 10, 0.02**2 / 6, 0.05**2 / 60, 5.0)


def test_as_many_seeds_as_recomcorrected_decide() -> None:
    said = advice(0.1, SEEDS, LEVEL)
    assert "about 7 more seeds (11 in all)" in said
    assert "more clients alone would not" in said
    rng = np.random.default_rng(3)
    clients = stats.zscore(rng.normal(size=12), ddof=1) * 0.06
    decided = [is_significant(table(rng, clients, 11, 0.1, 0.06, 0.05)) for _ in range(150)]
    assert np.mean(decided) == pytest.approx(POWER, abs=0.1)


def test_as_many_clients_as_recomcorrected_decide() -> None:
    said = advice(0.1, CLIENTS, LEVEL)
    assert "about 24 more clients (34 in all)" in said
    assert "more seeds alone would not" in said
    rng = np.random.default_rng(4)
    decided = [
        is_significant(table(rng, rng.normal(0, 0.15, 34), 6, 0.1, 0.02, 0.05)) for _ in range(150)
    ]
    assert np.mean(decided) == pytest.approx(POWER, abs=0.1)


def test_what_no_number_decides_is_said() -> None:
    assert advice(1e-4, SEEDS, LEVEL) == (
        "Even 50 seeds would not decide it: the effect is too small."
    )
    assert advice(0.1, None, LEVEL) == "Run at least 3 seeds (grid.seeds)."


def test_seeds_and_clients_may_be_needed_together() -> None:
    said = advice(0.1, Spread(12, 3, 0.05**2 / 12, 0.1**2 / 3, 0.05**2 / 36, 2.0), 0.0025)
    assert "together; neither would alone" in said


def test_few_clients_cannot_be_helped_by_seeds() -> None:
    """Of 6 clients the least p value of all flips is 1/32."""
    clear = Spread(6, 3, 1e-6, 1e-6, 1e-6, 2.0)
    assert power(1.0, clear, 0.03, same_clients=True) == 0
    assert power(1.0, clear, 0.04, same_clients=True) > POWER
    assert "more seeds alone would not" in advice(1.0, clear, 0.03)


def test_looking_at_more_comparisons_needs_more() -> None:
    many = Spread(**{**vars(SEEDS), "comparisons": 20})
    assert power(0.1, many, LEVEL, same_clients=True) < power(0.1, SEEDS, LEVEL, same_clients=True)
