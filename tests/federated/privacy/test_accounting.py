"""ε against the tables of other accountants and closed forms."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr
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
    twice = Rounds(2, 5, repeated_releases=(2,) * 5)
    assert bounds(twice, 1e-3)[0].epsilon == pytest.approx(least(math.sqrt(2), 5, delta=1e-3))
    assert bounds(twice, 1e-3) == bounds(Rounds(2, 10), 1e-3)
    # Of two rounds in four that a client takes part in, the worst case are the repeated ones.
    some = Rounds(2, 4, 10, "allocation", 0.5, repeated_releases=(2, 3, 2))
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


def composed_epsilon(
    noise: NDArray[np.float64], shift: int, rounds: int, delta: float, step: float = 2e-4
) -> float:
    """ε of sums with additive noise on whole numbers, whose probabilities are given, if one client
    moves each by `shift`: the distribution of the privacy loss, composed by Fourier transform, as
    in Koskela et al., AISTATS 2020. Independent of the closed form."""
    first, second = np.pad(noise, (shift, 0)), np.pad(noise, (0, shift))
    both = (first > 1e-30) & (second > 1e-30)
    loss = np.log(first[both] / second[both])
    size = 1 << 19
    masses = np.zeros(size)
    np.add.at(masses, np.ceil(loss / step).astype(int) + size // 2, first[both])
    spectrum = np.fft.rfft(np.roll(masses, -(size // 2)))
    composed = np.roll(np.fft.irfft(spectrum**rounds, size), size // 2)
    losses = (np.arange(size) - size // 2) * step

    def excess(epsilon: float) -> float:
        above = losses > epsilon
        return float((composed[above] * -np.expm1(epsilon - losses[above])).sum()) - delta

    return float(brentq(excess, 0, losses[-1]))


@pytest.mark.parametrize(
    ("z", "rounds", "delta"), [(2.0, 1, 1e-3), (4.0, 10, 1e-3), (6.0, 40, 1e-5)]
)
def test_whole_numbers_of_many_clients_have_the_epsilon_of_their_sum(
    z: float, rounds: int, delta: float
) -> None:
    """Nine clients, each with noise that is rounded to a grid far coarser than that of
    `plfl.federated.secure.updates`."""
    shift, clients = 24, 9
    deviation = z * shift / math.sqrt(clients)
    width = int(9 * deviation * math.sqrt(clients))
    edges = np.arange(-width, width + 2) - 0.5
    single = np.diff(ndtr(edges / deviation))
    padded = 1 << (clients * len(single)).bit_length()
    together = np.fft.irfft(np.fft.rfft(single, padded) ** clients, padded)
    middle = clients * width
    noise = together[middle - width : middle + width + 1].clip(0)
    found = composed_epsilon(noise, shift, rounds, delta)
    assert found == pytest.approx(epsilon_of(math.sqrt(rounds) / z, delta), rel=0.01)
