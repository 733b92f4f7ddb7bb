"""Auditing: canary clients, whose presence the trained parameters may betray.

A canary uploads C times a vector of its own, in every round in which it takes part. A coin decides
whether it takes part at all. After the last round its score is the change of the server's
parameters along its vector. Canaries with the highest scores are guessed to be in, those with the
lowest to be out; if more guesses are right than ε allows, the implementation is wrong.

Sources: Thomas Steinke, Milad Nasr and Matthew Jagielski, "Privacy Auditing with One (1) Training
Run", NeurIPS 2023, https://arxiv.org/abs/2305.08846, theorem 5.2; the estimate: Galen Andrew, Peter
Kairouz, Sewoong Oh, Alina Oprea, H. Brendan McMahan and Vinith M. Suriyakumar, "One-shot Empirical
Privacy Estimation for Federated Learning", ICLR 2024, https://arxiv.org/abs/2302.03098.

Deviations: the vectors are orthonormal instead of independent, so that canaries do not hide each
other. The estimate compares the canaries inside with those outside, and assumes the spread of those
outside for both.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, idct
from scipy.optimize import brentq
from scipy.special import bdtr, bdtrc

from plfl.base.errors import PlflError
from plfl.federated.participation import Selection
from plfl.federated.privacy.gaussian import epsilon_of
from plfl.training.batches import stream

Numbers = NDArray[np.float64]
LEVEL = 0.05
"""Probability with which the lower bound may exceed the true ε."""
DELTA = 1e-5
"""Largest δ of an audit. The bound loses 2 m δ with m canaries, so δ has to be much smaller than
1/m; ε is accounted at the same δ."""
GUESSED = 0.1
"""Fraction of the canaries that are guessed. It is fixed, since choosing it after looking at the
scores would not be sound."""


class Canaries:
    """The canaries of a federation, drawn like its clients. `width`: number d of shared parameters.

    Raises:
        PlflError: there are more canaries than parameters, or clients are not drawn independently.
    """

    def __init__(self, count: int, width: int, selection: Selection):
        if not 2 <= count <= width:
            raise PlflError(
                f"{count} canaries: their vectors are orthonormal, so between 2 and {width:,}, the "
                "number of shared parameters, can be told apart; choose another number"
            )
        if selection.share < 1 and selection.rule.takes_part is None:
            raise PlflError(
                "canaries are drawn each for itself, but federation.selection draws clients "
                "together; set it to poisson or allocation, or federation.participation to 1"
            )
        random = stream(selection.seed, "/canaries", 0)
        self._signs = random.choice([-1.0, 1.0], width)
        self._places = random.permutation(width)[:count]
        self.is_in = random.random(count) < 0.5
        """Which canaries take part."""
        self._selection = Selection(
            selection.seed,
            [f"/canary/{i}" for i in range(count)],
            selection.share,
            selection.rule,
            rounds=selection.rounds,
        )

    def __len__(self) -> int:
        return len(self.is_in)

    def sent(self, t: int) -> tuple[Numbers, int]:
        """The sum (d,) of the vectors of the canaries in round `t`, and their number."""
        present = self._selection.draw(t)
        present = present[self.is_in[present]]
        marked = np.zeros(len(self._signs))
        marked[self._places[present]] = 1
        return self._signs * idct(marked, norm="ortho"), len(present)

    def scores(self, change: Numbers) -> Numbers:
        """The inner product of each canary's vector with a change (d,) of the parameters."""
        found: Numbers = dct(self._signs * change, norm="ortho")[self._places]
        return found


@dataclass(frozen=True)
class Verdict:
    """What an audit found."""

    epsilon: float
    """The accounted ε."""
    bound: float
    """A lower bound of the true ε, wrong with a probability of at most `LEVEL`."""
    estimate: float
    """An estimate of ε, without confidence."""
    delta: float
    right: int
    guesses: int
    canaries: int

    @property
    def holds(self) -> bool:
        """Whether the audited lower bound is below the accounted ε."""
        return self.bound <= self.epsilon


def verdict(scores: Numbers, is_in: NDArray[np.bool_], epsilon: float, delta: float) -> Verdict:
    """Compare the accounted ε at δ with what the `scores` of the canaries betray."""
    half = max(1, round(GUESSED * len(scores) / 2))
    order = np.argsort(scores)
    right = int(is_in[order[-half:]].sum() + (~is_in[order[:half]]).sum())
    bound = lower_bound(right, 2 * half, len(scores), delta)
    estimate = estimated(scores[is_in], scores[~is_in], delta)
    return Verdict(epsilon, bound, estimate, delta, right, 2 * half, len(scores))


def lower_bound(right: int, guesses: int, canaries: int, delta: float) -> float:
    """The largest ε that `right` of `guesses` right guesses refute at `LEVEL`; 0 if none."""

    def excess(epsilon: float) -> float:
        return _p_value(right, guesses, canaries, epsilon, delta) - LEVEL

    if right == 0 or excess(0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        high *= 2
    return float(brentq(excess, 0, high))


def _p_value(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Largest probability of at least this many right guesses if the release is (ε, δ)-private."""
    q = 1 / (1 + math.exp(-epsilon))
    i = np.arange(1, right + 1)
    rest = np.append(bdtr(right - 1.0 - i[:-1], guesses, q), 0.0)
    below = bdtr(right - 1.0, guesses, q) - rest  # at least right - i, but fewer than right
    return float(bdtrc(right - 1.0, guesses, q) + 2 * canaries * delta * (below / i).max())


def estimated(inside: Numbers, outside: Numbers, delta: float) -> float:
    """ε between two Gaussians with the means of these scores and the spread of those `outside`."""
    if not len(inside) or len(outside) < 2:
        return math.nan
    shift = float(inside.mean() - outside.mean()) / float(outside.std(ddof=1))
    return epsilon_of(max(0.0, shift), delta)
