"""ε against the tables of other accountants and closed forms."""

import math

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from plfl.federated.privacy.accounting import Rounds, bounds, delta_of, epsilon_of


def least(*args, delta, **kwargs):
    return bounds(Rounds(*args, **kwargs), delta)[0].epsilon


@pytest.mark.parametrize(
    ("z", "at_two", "at_three", "at_five"),
    [(0.5, 108.51, 118.20, 133.09), (1, 33.87, 38.73, 46.21), (4, 4.32, 5.59, 7.51)],
)
def test_forty_rounds_of_everybody(z, at_two, at_three, at_five):
    found = [least(z, 40, delta=delta) for delta in (1e-2, 1e-3, 1e-5)]
    assert found == pytest.approx([at_two, at_three, at_five], abs=0.006)


@pytest.mark.parametrize(("epsilon", "mu"), [(0.5, 0.7), (4.0, 1.5), (12.0, 2.5)])
def test_delta_by_integration(epsilon, mu):
    def excess(x):
        return max(0.0, norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x))

    start = epsilon / mu + mu / 2
    assert delta_of(epsilon, mu) == pytest.approx(quad(excess, start, start + 20)[0], rel=1e-6)
    assert epsilon_of(mu, delta_of(epsilon, mu)) == pytest.approx(epsilon, rel=1e-9)


def test_limits():
    assert least(3.0359, 40, delta=1e-3) == pytest.approx(8, abs=1e-3)
    assert least(0.0, 40, delta=1e-3) == math.inf
    assert least(1e9, 40, delta=1e-3) == 0
    # One of two clients known to be drawn: twice the sensitivity.
    half = Rounds(10, 40, 12, "fixed", 0.5)
    (known,) = (b for b in bounds(half, 1e-2) if b.accountant.startswith("Gaussian"))
    assert known.epsilon == pytest.approx(3.1840, abs=1e-4)
    assert half.relation != Rounds(10, 40, 12, "poisson", 0.5).relation


def test_draws_amplify():
    pytest.importorskip("dp_accounting")
    large = least(1, 5000, 28000, "poisson", 16 / 28000, delta=1e-5)
    assert large == pytest.approx(0.1802, abs=1e-4)
    fixed = bounds(Rounds(10, 40, 12, "fixed", 0.5), 1e-2)
    assert [b.epsilon for b in fixed] == pytest.approx([3.1840, 3.7982], abs=1e-4)
    # Poisson's ε would be wrong for a fixed number of clients.
    assert least(10, 40, 12, "poisson", 0.5, delta=1e-2) == pytest.approx(0.5009, abs=1e-4)


def test_a_repeated_round_is_one_with_less_noise():
    # Two releases of every round are as one with noise z / √2.
    twice = Rounds(2, 5, repeated=(2,) * 5)
    assert bounds(twice, 1e-3)[0].epsilon == pytest.approx(least(math.sqrt(2), 5, delta=1e-3))
    assert bounds(twice, 1e-3) == bounds(Rounds(2, 10), 1e-3)
    # Of two rounds in four that a client takes part in, the worst case are the repeated ones.
    some = Rounds(2, 4, 10, "allocation", 0.5, repeated=(2, 3, 2))
    assert some.most_releases == 5


@pytest.mark.parametrize(("releases", "epsilon"), [((), 1.57), ((2,), 1.98), ((4,), 3.88)])
def test_a_repeated_round_keeps_its_draw(releases, epsilon):
    """Counting it as a further round of the study would give 1.64 and 1.76."""
    pytest.importorskip("dp_accounting")
    found = least(1, 10, 1, "poisson", 0.1, releases, delta=1e-3)
    assert found == pytest.approx(epsilon, abs=0.01)


@pytest.mark.parametrize(
    ("z", "rounds", "delta", "epsilon"),
    [(10, 20, 1e-2, 0.505), (3.036, 40, 1e-3, 8.0), (3.036, 10, 1e-3, 1.49)],
)
def test_allocation(z, rounds, delta, epsilon):
    pytest.importorskip("PLD_accounting")
    found = least(z, 40, 12, "allocation", rounds / 40, delta=delta)
    assert found == pytest.approx(epsilon, abs=0.006)
