"""ε of the rounds of a private federation: every valid bound, and the least of them.

ε compares two sets of clients, in one of two relations. If each client takes part independently of
the others, one client is *added or removed*, which moves the sum by at most the bound C. If a fixed
number of clients is drawn, one client is *replaced* by another, which moves the sum by up to 2 C.
The two ε cannot be compared.

Accountants other than the closed form are in the extra `privacy`: dp-accounting (Google) for
Poisson draws and draws of fixed size, and pld-accounting for allocation (Vitaly Feldman and Moshe
Shenfeld, ICML 2026, https://arxiv.org/abs/2602.17284).

The closed form: T rounds with noise z, in each of which every client takes part, are together
exactly as private as telling N(0, 1) from N(μ, 1) by one sample, where μ = √T / z (Jinshuo Dong,
Aaron Roth and Weijie J. Su, "Gaussian Differential Privacy", JRSS B 84 (2022),
https://arxiv.org/abs/1905.02383, corollary 2.13). A round that is released r times, to the same
participants, counts as one release with noise z / √r.
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from plfl.base.lazy import dp_accounting as dp
from plfl.base.lazy import optimize, special
from plfl.base.rounding import count_participants

Draw = Literal["all", "fixed", "poisson", "allocation"]
"""Who takes part in a round: everybody; a fixed number, drawn without replacement; each client with
a probability; or each client in a fixed number of the rounds."""


@dataclass(frozen=True)
class Rounds:
    """The rounds to account for: in each, a sum of clipped updates with Gaussian noise."""

    noise: float
    """z: standard deviation of the noise on the sum of the updates, as a multiple of C."""
    count: int
    """Number of rounds T."""
    clients: int = 1
    """Number of clients N."""
    draw: Draw = "all"
    share: float = 1.0
    """Fraction of the clients in a round, on average."""
    repeated_releases: tuple[int, ...] = ()
    """How often each round was released that was released more than once, as after a restart."""

    @property
    def relation(self) -> str:
        """Which two sets of clients ε compares."""
        return "replace one client" if self.draw == "fixed" else "add or remove one client"

    @property
    def per_client(self) -> int:
        """The most rounds in which any client can take part."""
        return (
            count_participants(self.count, self.share) if self.draw == "allocation" else self.count
        )

    @property
    def most_releases(self) -> int:
        """The most releases in which any client can take part."""
        times = sorted(self.repeated_releases, reverse=True)[: self.per_client]
        return self.per_client - len(times) + sum(times)

    @property
    def noises(self) -> dict[float, int]:
        """The noise of each round as that of a single release, and the number of such rounds."""
        times = Counter(
            [*self.repeated_releases, *[1] * (self.count - len(self.repeated_releases))]
        )
        return {self.noise / math.sqrt(r): rounds for r, rounds in times.items() if rounds}


@dataclass(frozen=True, order=True)
class Bound:
    """An upper bound of ε."""

    epsilon: float
    accountant: str


def delta_of(epsilon: float, mu: float) -> float:
    """The smallest δ for which N(0, 1) and N(μ, 1) are (ε, δ)-indistinguishable."""
    shift = epsilon / mu
    return float(
        special.ndtr(mu / 2 - shift) - math.exp(epsilon + special.log_ndtr(-mu / 2 - shift))
    )


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest ε at this δ; infinite without noise (μ = ∞)."""
    if mu == math.inf:
        return math.inf
    if mu == 0 or delta_of(0, mu) <= delta:
        return 0.0
    high = 1.0
    while delta_of(high, mu) > delta:
        high *= 2
    return float(
        optimize.brentq(lambda epsilon: delta_of(epsilon, mu) - delta, 0, high, xtol=1e-12)
    )


def bounds(rounds: Rounds, delta: float) -> list[Bound]:
    """The valid bounds at δ, the least first, from all accountants that are installed."""
    bounds = [unamplified_bound(rounds, delta)]
    if rounds.noise > 0 and has_accountant(rounds.draw):
        bounds += ACCOUNTANTS[rounds.draw](rounds, delta)
    return sorted(bounds)


def has_accountant(draw: Draw) -> bool:
    """Whether an accountant is installed that uses the amplification of privacy by random draws."""
    package = "PLD_accounting" if draw == "allocation" else "dp_accounting"
    return draw in ACCOUNTANTS and find_spec(package) is not None


def unamplified_bound(rounds: Rounds, delta: float) -> Bound:
    """As if everybody knew who takes part when; exact where everybody always does."""
    sensitivity = 2 if rounds.draw == "fixed" else 1
    steps = sensitivity * math.sqrt(rounds.most_releases)
    mu = steps / rounds.noise if rounds.noise else math.inf
    name = "Gaussian, exact" if rounds.draw == "all" else "Gaussian, as if the draws were known"
    return Bound(epsilon_of(mu, delta), name)


def _poisson(rounds: Rounds, delta: float) -> Iterator[Bound]:
    accountant = dp.pld.PLDAccountant()
    for noise, count in rounds.noises.items():
        event = dp.PoissonSampledDpEvent(rounds.share, dp.GaussianDpEvent(noise))
        accountant.compose(dp.SelfComposedDpEvent(event, count))
    yield Bound(float(accountant.get_epsilon(delta)), "dp-accounting PLD")


def _fixed(rounds: Rounds, delta: float) -> Iterator[Bound]:
    participants = count_participants(rounds.clients, rounds.share)
    accountant = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    for noise, count in rounds.noises.items():
        # The library counts noise in units of the sensitivity, which is 2 C here.
        gaussian = dp.GaussianDpEvent(noise / 2)
        event = dp.SampledWithoutReplacementDpEvent(rounds.clients, participants, gaussian)
        accountant.compose(dp.SelfComposedDpEvent(event, count))
    yield Bound(float(accountant.get_epsilon(delta)), "dp-accounting RDP")


def _allocation(rounds: Rounds, delta: float) -> Iterator[Bound]:
    if rounds.repeated_releases:
        return  # the accountant knows only rounds with equal noise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)  # it is slower without numba
        from PLD_accounting import gaussian_allocation_epsilon_range

    upper, _ = gaussian_allocation_epsilon_range(
        delta=delta, sigma=rounds.noise, num_steps=rounds.count, num_selected=rounds.per_client
    )
    yield Bound(float(upper), "pld-accounting")


ACCOUNTANTS: dict[str, Callable[[Rounds, float], Iterator[Bound]]] = {
    "poisson": _poisson,
    "fixed": _fixed,
    "allocation": _allocation,
}
"""The accountants of draws that amplify privacy."""
