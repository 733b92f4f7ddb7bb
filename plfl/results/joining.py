"""Whether it is worth it to join a federation, client by client, and what is known of it.

What is answered is about the forecasters that `plfl forecast` uses (`plfl.results.assignment`):
those that it takes, against those that it would take if clients exchanged nothing. A study whose
claim is about the best federation is answered about that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from plfl.baselines import pretrained_names
from plfl.baselines.public import Public
from plfl.config.claims import Claim
from plfl.results.claims import Answer, name_of_claim
from plfl.results.comparisons import contest_of, gains
from plfl.results.contenders import Contender, NotInStudyError
from plfl.results.contest import Contest
from plfl.results.dominance import deciding_clients
from plfl.results.selection import find_contenders
from plfl.results.statistics import needed_levels, open_level
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.study import Study
from plfl.study.forecaster_names import FEDERATION, IN_USE, IN_USE_ALONE, LOCAL, ForecasterName

QUESTIONS = ((IN_USE, IN_USE_ALONE), (FEDERATION, LOCAL))
"""The two sides of the question, as claims name them."""
NAIVE = ("persistence", "naive_day", "naive_week")
"""What anybody can take as a forecast."""
FARTHEST_PERSISTENCE = 60
"""Minutes ahead up to which the last reading is such a forecast."""

Outcome = Literal["needs nobody", "not judged"] | Answer
"""Whether to join: what the claim about it was answered, or that what is in use exchanges nothing,
or that there is no claim."""
Disclosure = Literal["nothing", "models", "open sums", "raw data"]
"""What clients send, the least first."""


@dataclass(frozen=True)
class Gain:
    """What joining brings; differences of errors are positive if it lowers them."""

    percent: float
    """The difference in percent of the error without it."""
    low: float
    high: float
    """Its 95 % interval; NaN without one."""
    kwh: float
    """The difference in kWh of errors a month for each client."""
    kwh_alone: float
    """These errors without it."""
    gaining_count: int
    """The number of clients whose error it lowers."""
    losing_count: int
    clearly_gaining: int
    """The number of those that gain by more than chance explains."""
    clearly_losing: int
    has_intervals: bool
    """Whether the test set has enough weeks for intervals of clients."""


@dataclass(frozen=True)
class PublicGain:
    """What is in use, or the best federation, beside a model of public meters alone."""

    error: float
    """The error of that model, as a share of the load; NaN if the tables lack it."""
    percent: float
    """By how much the errors are lower, in percent of its own."""
    kwh: float
    """The same in kWh a month for each client."""


@dataclass(frozen=True)
class MeanErrors:
    """The errors of both sides in MASE. Where few clients decide the means, medians count."""

    means: tuple[float, float]
    medians: tuple[float, float]
    deciding_clients: list[str]
    """The clients that decide a mean, if they are few."""

    @property
    def counted_errors(self) -> tuple[float, float]:
        return self.medians if self.deciding_clients else self.means


def find_question(
    study: Study, comparisons: pd.DataFrame
) -> tuple[tuple[str, str], dict[Any, Any]]:
    """The two sides that the study asks about, and the row of the claim about them, if it has one.
    A claim about bytes, some states or with a margin asks something else."""
    sides, asked_claim = QUESTIONS[0], {}
    claims = comparisons[comparisons["about"] == "claim"].set_index("claim", drop=False)
    for pair in reversed(QUESTIONS):
        plain = str(Claim(better=[pair[0]], than=[pair[1]]))
        for number, claim in enumerate(study.claims, 1):
            if str(claim) == plain and (name := name_of_claim(number)) in claims.index:
                sides, asked_claim = pair, claims.loc[name].to_dict()
                break
    return sides, asked_claim


class Joining:
    """What it brings to join a federation, and whether it is worth it."""

    def __init__(
        self, study: Study, variants: Sequence[Variant], comparisons: pd.DataFrame
    ) -> None:
        """`variants`: those of the study, which has no further axes, or only that of its
        origins."""
        self.study, self.variants, self.comparisons = study, variants, comparisons
        self.sides, self.claim = find_question(study, comparisons)

    @property
    def is_about_use(self) -> bool:
        """Whether it is about what is in use, and not about the best federation."""
        return self.sides[0] == IN_USE

    @cached_property
    def needs_nobody(self) -> bool:
        """Whether what is in use exchanges nothing."""
        return self.is_about_use and all(
            contender.crosses == "nothing" for contender in self.in_use
        )

    @cached_property
    def latest(self) -> Variant:
        """The variant whose models forecast."""
        label = self.study.plan.latest_variant
        return next(variant for variant in self.variants if variant.label == label)

    @cached_property
    def in_use(self) -> list[Contender]:
        """What `plfl forecast` uses, in each state, or would have used at each origin; empty if
        nothing has a score."""
        return self._find(IN_USE)

    @cached_property
    def latest_in_use(self) -> list[Contender]:
        """What `plfl forecast` uses, in each state."""
        return [contender for contender in self.in_use if contender.variant is self.latest]

    def _find(self, name: str) -> list[Contender]:
        try:
            states = self.study.data.states
            return [
                c for s in states for c in find_contenders(self.study, self.variants, s, [name])
            ]
        except NotInStudyError:
            return []

    @cached_property
    def _contest(self) -> Contest | None:
        sides = (FEDERATION, IN_USE) if self.needs_nobody else self.sides
        return contest_of(self.study, self.variants, [sides[0]], [sides[1]])

    @property
    def exists(self) -> bool:
        """Whether there are a federation and a rival."""
        return self._contest is not None

    @property
    def contest(self) -> Contest:
        """The comparison that answers it: if nothing that exchanges models is in use, of the best
        federation with what is."""
        assert self._contest is not None
        return self._contest

    @cached_property
    def clients(self) -> pd.DataFrame:
        """The rows of `gains`."""
        return pd.DataFrame(gains(self.contest))

    @property
    def outcome(self) -> Outcome:
        """Whether to join."""
        if self.needs_nobody:
            return "needs nobody"
        outcome: Outcome = self.claim.get("verdict", "not judged")
        return outcome

    @cached_property
    def gain(self) -> Gain:
        """What joining brings."""
        difference, error, clients = self.contest.difference, self.contest.error(1), self.clients
        percent, low, high = (
            100 * value / error for value in (difference.effect, *difference.interval)
        )
        return Gain(
            percent=percent,
            low=low,
            high=high,
            kwh=float(clients["kwh_a_month"].mean()),
            kwh_alone=float(clients["kwh_alone"].mean()),
            gaining_count=int((clients["gain"] > 0).sum()),
            losing_count=int((clients["gain"] < 0).sum()),
            clearly_gaining=int((clients["low"] > 0).sum()),
            clearly_losing=int((clients["high"] < 0).sum()),
            has_intervals=bool(clients["low"].notna().any()),
        )

    @property
    def direction(self) -> int:
        """1 if the errors of all clients are lower by more than chance explains, −1 if they are
        higher, 0 if chance could explain it, or nothing says so."""
        low, high = self.contest.difference.interval
        return int(low > 0) - int(high < 0)

    @property
    def could_be_chance(self) -> bool:
        """Whether chance alone could explain the difference in the test."""
        low, high = self.contest.difference.interval
        return low <= 0 <= high

    @property
    def deciding_weeks(self) -> int | None:
        """Weeks of test that would decide the question, if the difference stays; None: not even
        two years."""
        p = self.comparisons.loc[self.comparisons["about"] == "claim", "p"]
        return needed_levels(self.contest.difference, "weeks", open_level(p))

    @property
    def error(self) -> float:
        """The error of what is in use, as a share of the load; NaN if the tables lack it."""
        return _mean(self.in_use, "wape")

    @property
    def naive_errors(self) -> dict[str, float]:
        """The same of the naive forecasts that have one, by name."""
        minutes_ahead = self.study.windows.farthest * self.study.data.interval
        errors = {
            name: _mean(self._find(str(ForecasterName.from_baseline(name))), "wape")
            for name in NAIVE
            if name != "persistence" or minutes_ahead <= FARTHEST_PERSISTENCE
        }
        return {name: error for name, error in errors.items() if math.isfinite(error)}

    @property
    def disclosure(self) -> Disclosure:
        """What a client sends that joins."""
        joining = [first for first, *_ in self.contest.pairs]
        crosses = {contender.crosses for contender in joining}
        if crosses == {"nothing"} or not self.contest.bytes(0):
            return "nothing"
        if "raw data" in crosses:
            return "raw data"
        has_open_sums = any(contender.sends_open_sums for contender in joining)
        return "open sums" if has_open_sums else "models"

    @property
    def has_trained_public(self) -> bool:
        """Whether a model of public meters was trained on these meters, so that it does not
        count."""
        return Public.name in pretrained_names(self.study.baselines.further)

    @cached_property
    def _public(self) -> list[Contender]:
        return self._find(str(ForecasterName.from_baseline(Public.name)))

    @property
    def uses_public_alone(self) -> bool:
        """Whether what is in use is a model of public meters alone."""
        labels = [{contender.label for contender in side} for side in (self.in_use, self._public)]
        return bool(self._public) and labels[0] == labels[1]

    @cached_property
    def public_gain(self) -> PublicGain | None:
        """What is added to a model of public meters; None without one."""
        side = IN_USE if self.is_about_use else FEDERATION
        contest = contest_of(
            self.study, self.variants, [side], [str(ForecasterName.from_baseline(Public.name))]
        )
        if contest is None:
            return None
        return PublicGain(
            _mean(self._public, "wape"),
            100 * contest.difference.effect / contest.error(1),
            float(pd.DataFrame(gains(contest))["kwh_a_month"].mean()),
        )

    @cached_property
    def mean_errors(self) -> MeanErrors:
        """The errors of both sides in MASE."""
        sides = [self.clients.set_index("client")[f"mase_{s}"] for s in ("federated", "alone")]
        first, second = sides
        return MeanErrors(
            (self.contest.error(0), self.contest.error(1)),
            (float(first.median()), float(second.median())),
            list(dict.fromkeys(name for mase in sides for name in deciding_clients(mase))),
        )


def unscored_clients(tables: Tables) -> list[str]:
    """The clients without a MASE, which all means leave out: their loads hardly changed."""
    clients = tables.clients
    names: list[str] = clients.loc[clients["persistence_mae_test"] == 0, "client"].tolist()
    return names


def _mean(contenders: Sequence[Contender], score: str) -> float:
    """A score, mean over the clients of all states; NaN without one."""
    by_client = [contender.by_client(score) for contender in contenders]
    return float(pd.concat(by_client).mean()) if by_client else np.nan
