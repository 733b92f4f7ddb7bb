"""Auditing: canary clients, whose presence the trained parameters may betray.

python -m benchmarks.privacy.canaries STUDY.yaml CELL [--canaries N]

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

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.fft import dct, idct
from scipy.optimize import brentq
from scipy.special import bdtr, bdtrc
from torch import Tensor
from tqdm import tqdm

from plfl.base.errors import PlflError
from plfl.data import sources
from plfl.data.examples import Examples
from plfl.experiments.training_setup import TrainingSetup
from plfl.federated.federation import Federation
from plfl.federated.participation import Selection
from plfl.federated.privacy.accounting import epsilon_of
from plfl.federated.privacy.mechanism import Privacy
from plfl.federated.privacy.statement import least_bound
from plfl.federated.round import run_rounds
from plfl.study import Cell, Study
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


class Audited(Privacy):
    """The mechanism of a federation to which canaries are added, before round 1."""

    def __init__(self, f: Federation, count: int):
        assert f.privacy is not None
        super().__init__(f.settings, len(f.local), f.seed, f.x0)
        self.canaries = Canaries(count, f.channel.shared_count, f.selection)
        self.participants = f.settings.expected_participants(len(f.local) + count)
        self.canary_count = 0
        """Canaries in the mean of the current round."""

    def mean(self, t: int, updates: Tensor) -> Tensor:
        """The sum of the `updates` and of the canaries' in round `t`, over m."""
        sent, self.canary_count = self.canaries.sent(t)
        added = float(self.clip) / self.participants * sent
        return super().mean(t, updates) + torch.from_numpy(added).to(updates.device)

    def excess_within(self, flags: Tensor) -> float:
        """How many `flags` are set, and those of the canaries that `mean` added, less half of all:
        their norms are C."""
        return super().excess_within(flags) + self.canary_count / 2


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


def audit(
    study: Study,
    cell: Cell,
    examples: Examples,
    canaries: int,
    progress: Callable[[int], None] = lambda t: None,
) -> Verdict:
    """Train a cell with the study's own hyperparameters and `canaries` canary clients.

    `progress` is called with the number of every finished round.

    Raises:
        PlflError: the cell has no ε to test, or canaries cannot test it.
    """
    setup = TrainingSetup.for_study(study, examples)
    f = setup.make_federation(cell, study.plan.combinations.untuned_candidate(cell.combination))
    block = study.federation.privacy
    if f.privacy is None or not block.noise or block.noise_as_of is not None:
        raise PlflError(
            f"{cell}: has no ε to audit; choose a cell that shares parameters, set "
            "federation.privacy.clip and noise, and remove noise_as_of, which is an extrapolation"
        )
    f.privacy = audited = Audited(f, canaries)
    run_rounds([f], setup.engine, range(1, study.federation.rounds + 1), lambda r: progress(r[0].t))
    change = (f.server.x - f.x0).cpu().double().numpy()
    delta = min(DELTA, block.delta)
    epsilon = least_bound(study, delta).epsilon
    return verdict(audited.canaries.scores(change), audited.canaries.is_in, epsilon, delta)


def main() -> None:
    """Train a cell with canaries and say whether the accounted ε can be true."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.privacy.canaries")
    parser.add_argument("config", help="configuration of the study, or FILE.yaml:VARIANT")
    parser.add_argument("cell")
    parser.add_argument("--canaries", type=int, default=1000, metavar="N")
    options = parser.parse_args()
    study, cell = Study.load(options.config).find(options.cell)
    examples = sources.source_of(study.data).examples_of(study, cell.state)
    with tqdm(total=study.federation.rounds, desc=str(cell), unit="round", disable=None) as bar:
        found = audit(study, cell, examples, options.canaries, lambda t: bar.update())
    print(
        f"{cell}: {found.right} of {found.guesses} guesses about {found.canaries} canaries are "
        f"right.\nThe true ε is at least {found.bound:.3g} (95 % confidence); estimate "
        f"{found.estimate:.3g}; accounted {found.epsilon:.3g}, each at δ = {found.delta:g}."
    )
    if not found.holds:
        raise PlflError(
            f"{cell}: the audited lower bound {found.bound:.3g} is above the accounted ε "
            f"{found.epsilon:.3g}: clipping, noise or accounting is wrong; do not rely on this ε"
        )
    print("verdict: the audited lower bound is below the accounted ε")


if __name__ == "__main__":
    try:
        main()
    except PlflError as error:
        sys.exit(str(error))
