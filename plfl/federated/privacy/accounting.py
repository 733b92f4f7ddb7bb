"""ε of the rounds of a private federation: every valid bound, and the least of them.

ε compares two sets of clients, in one of two relations. If each client takes part independently of
the others, one client is *added or removed*, which moves the sum by at most the bound C. If a fixed
number of clients is drawn, one client is *replaced* by another, which moves the sum by up to 2 C.
The two ε cannot be compared.

Accountants other than the closed form are in the extra `privacy`: dp-accounting (Google) for
Poisson draws and draws of fixed size, and pld-accounting for allocation (Vitaly Feldman and Moshe
Shenfeld, ICML 2026, https://arxiv.org/abs/2602.17284).
"""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from plfl.base.rounding import drawn_of
from plfl.federated.privacy.gaussian import epsilon_of

Draw = Literal["all", "fixed", "poisson", "allocation"]
"""Who takes part in a round: everybody; a fixed number, drawn without replacement; each client with
a probability; or each client in a fixed number of the rounds."""
EXTRA = "pip install 'plfl[privacy]'"
"""The command that installs the accountants."""


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

    @property
    def relation(self) -> str:
        """Which two sets of clients ε compares."""
        return "replace one client" if self.draw == "fixed" else "add or remove one client"

    @property
    def per_client(self) -> int:
        """The most rounds in which any client can take part."""
        return drawn_of(self.count, self.share) if self.draw == "allocation" else self.count


@dataclass(frozen=True, order=True)
class Bound:
    """An upper bound of ε."""

    epsilon: float
    accountant: str


def bounds(rounds: Rounds, delta: float) -> list[Bound]:
    """The valid bounds at δ, the least first, from all accountants that are installed."""
    found = [_unamplified(rounds, delta)]
    if rounds.noise > 0 and has_accountant(rounds.draw):
        found += ACCOUNTANTS[rounds.draw](rounds, delta)
    return sorted(found)


def has_accountant(draw: Draw) -> bool:
    """Whether an accountant is installed that uses the amplification of privacy by random draws."""
    packages = {
        "fixed": "dp_accounting",
        "poisson": "dp_accounting",
        "allocation": "PLD_accounting",
    }
    return draw in packages and find_spec(packages[draw]) is not None


def _unamplified(rounds: Rounds, delta: float) -> Bound:
    """As if everybody knew who takes part when; exact where everybody always does."""
    sensitivity = 2 if rounds.draw == "fixed" else 1
    steps = sensitivity * math.sqrt(rounds.per_client)
    mu = steps / rounds.noise if rounds.noise else math.inf
    name = "Gaussian, exact" if rounds.draw == "all" else "Gaussian, as if the draws were known"
    return Bound(epsilon_of(mu, delta), name)


def _poisson(rounds: Rounds, delta: float) -> Iterator[Bound]:
    import dp_accounting as dp

    one = dp.PoissonSampledDpEvent(rounds.share, dp.GaussianDpEvent(rounds.noise))
    accountant = dp.pld.PLDAccountant().compose(dp.SelfComposedDpEvent(one, rounds.count))
    yield Bound(float(accountant.get_epsilon(delta)), "dp-accounting PLD")


def _fixed(rounds: Rounds, delta: float) -> Iterator[Bound]:
    import dp_accounting as dp

    drawn = drawn_of(rounds.clients, rounds.share)
    # The library counts noise in units of the sensitivity, which is 2 C here.
    noise = dp.GaussianDpEvent(rounds.noise / 2)
    one = dp.SampledWithoutReplacementDpEvent(rounds.clients, drawn, noise)
    accountant = dp.rdp.RdpAccountant(
        neighboring_relation=dp.NeighboringRelation.REPLACE_ONE
    ).compose(dp.SelfComposedDpEvent(one, rounds.count))
    yield Bound(float(accountant.get_epsilon(delta)), "dp-accounting RDP")


def _allocation(rounds: Rounds, delta: float) -> Iterator[Bound]:
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
