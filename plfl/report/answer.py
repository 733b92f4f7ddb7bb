"""The first screen of the page: whether it is worth it to join a federation, client by client.

What is answered is about the forecasters that `plfl forecast` uses (`plfl.results.assignment`):
those that it takes, against those that it would take if clients exchanged nothing. A study whose
claim is about the best federation is answered about that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.text import format_percent, list_names, readable_size
from plfl.baselines import BASELINE, pretrained_names
from plfl.baselines.public import Public
from plfl.config.sections import Claim
from plfl.data.dataset import NEGLIGIBLE
from plfl.forecast.kept_errors import warn_of_sums
from plfl.public.models import card
from plfl.report.comparison_plot import Scale
from plfl.report.error_tables import describe_as_new
from plfl.report.rendering import with_interval
from plfl.results import words
from plfl.results.claims import name_of_claim
from plfl.results.comparisons import contest_of, gains
from plfl.results.contenders import Contender, NotInStudyError
from plfl.results.contest import Contest
from plfl.results.dominance import deciding
from plfl.results.selection import find_contenders
from plfl.results.statistics import needed_levels, open_level, too_few
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.results.words import space_thousands
from plfl.study import Study

QUESTIONS = ((words.IN_USE, words.IN_USE_ALONE), (words.FEDERATION, words.LOCAL))
"""The two sides of the question, as claims name them."""
NAIVE = {
    "persistence": "the last reading",
    "naive_day": "yesterday's readings",
    "naive_week": "last week's",
}
"""What anybody can take as a forecast, in words."""
MOST_CLIENTS = 40
"""Most clients of a state that have a row each; of more, those that gain and lose most."""
FEW_NAMES = 3
"""Largest number of clients that a sentence lists one by one."""
SPACE = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class FederationAnswer:
    """The answer, and the rows of its plot by state."""

    verdict: str
    """The first sentence."""
    sentences: list[str]
    """The rest of the first paragraph, for readers without statistics."""
    details: list[str]
    """Further sentences."""
    kinds: dict[str, str]
    """What is drawn for each client, with its name."""
    scale: Scale
    states: dict[str, list[dict[Any, Any]]]
    """The rows of `gains`."""
    left_out: int
    """Clients without a row."""
    has_intervals: bool
    """Whether the test set has enough weeks for intervals."""
    tested: str
    """The period in which the forecasts were tested."""
    cards: dict[str, str]
    """The card, as Markdown, of each kind of public models that come with plfl and take part."""


def answer(
    study: Study, variants: Sequence[Variant], comparisons: pd.DataFrame
) -> FederationAnswer | None:
    """The answer; None if there is no federation, no rival, or no table of errors by day.
    `variants`: those of the study, which has no further axes, or only that of its origins."""
    folders = [Path(variant.tables.folder) for variant in variants]
    if not all((folder / "errors.parquet").is_file() for folder in folders):  # a deployed study
        return None
    question = _Question(study, variants, comparisons)
    if question.contest is None:
        return None
    clients = question.clients
    # Persistence, to whose error of 1 the axis has a line, is always in the plot.
    errors = clients[["mase_alone", "mase_federated"]].to_numpy(float)
    extremes = {
        str(state): _extremes(state_clients)
        for state, state_clients in clients.groupby("state", sort=False)
    }
    return FederationAnswer(
        question.verdict,
        list(question.sentences()),
        list(question.details()),
        {"federation": question.names[0], "alone": question.names[1]},
        Scale.from_numbers(errors.ravel(), marked=1.0),
        extremes,
        len(clients) - sum(map(len, extremes.values())),
        bool(clients["low"].notna().any()),
        _describe_test_periods(variants),
        {
            baseline.kind: card(baseline.kind)
            for baseline in study.baselines.further
            if isinstance(baseline, Public) and baseline.file is None
        },
    )


class _Question:
    """Whether to join, and what is known of it."""

    def __init__(
        self, study: Study, variants: Sequence[Variant], comparisons: pd.DataFrame
    ) -> None:
        self.study, self.variants, self.comparisons = study, variants, comparisons
        self.sides = QUESTIONS[0]
        self.claim: dict[Any, Any] = {}
        claims = comparisons[comparisons["about"] == "claim"].set_index("claim", drop=False)
        for sides in reversed(QUESTIONS):
            # Not one that is about bytes, some states or a margin.
            plain = str(Claim(better=[sides[0]], than=[sides[1]]))
            for number, claim in enumerate(study.claims, 1):
                if str(claim) == plain and (name := name_of_claim(number)) in claims.index:
                    self.sides, self.claim = sides, claims.loc[name].to_dict()
                    break

    @cached_property
    def needs_nobody(self) -> bool:
        """Whether what is in use exchanges nothing."""
        return self.sides[0] == words.IN_USE and all(
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
        return self._find(words.IN_USE)

    def _find(self, name: str) -> list[Contender]:
        try:
            states = self.study.data.states
            return [
                c for s in states for c in find_contenders(self.study, self.variants, s, [name])
            ]
        except NotInStudyError:
            return []

    @cached_property
    def contest(self) -> Contest | None:
        """The comparison that answers it: if nothing that exchanges models is in use, of the best
        federation with what is."""
        sides = (words.FEDERATION, words.IN_USE) if self.needs_nobody else self.sides
        return contest_of(self.study, self.variants, [sides[0]], [sides[1]])

    @property
    def names(self) -> tuple[str, str]:
        """What the sides of the comparison are called in the plot."""
        if self.needs_nobody:
            return "best federation", "in use"
        if self.sides[0] == words.IN_USE:
            return "in use", "in use without a federation"
        return "federation", "best without one"

    @cached_property
    def clients(self) -> pd.DataFrame:
        """The rows of `gains`."""
        assert self.contest is not None
        return pd.DataFrame(gains(self.contest))

    @property
    def horizon(self) -> str:
        """How far ahead is forecast: "a day ahead"."""
        return words.lead_time(self.study)

    @property
    def verdict(self) -> str:
        """The answer: join, do not join, or not on this evidence."""
        assert self.contest is not None
        if self.needs_nobody:
            return (
                f"Do not join: for forecasts {self.horizon}, nothing that needs the others, "
                "and whose models can be kept for use, was better in the weeks before the test, so "
                "what is in use does without them."
            )
        if not self.claim:
            low, high = self.contest.comparison.interval
            is_clear = low > 0 or high < 0
            kind = ("lower" if low > 0 else "higher") if is_clear else ""
            return (
                f"Not judged, because the study names no claim about it; errors {self.horizon} "
                + (f"are {kind} with the others." if is_clear else "hardly differ.")
            )
        if self.claim["verdict"] == "holds":
            return (
                f"Join: forecasts {self.horizon} are better with the others than without them, by "
                "more than chance explains."
            )
        if self.claim["verdict"] == "does not hold":
            return (
                f"Do not join: forecasts {self.horizon} are worse with the others than without "
                "them, by more than chance explains."
            )
        return (
            f"Not on this evidence: whether the others make forecasts {self.horizon} better cannot "
            "be told from this test."
        )

    def sentences(self) -> Iterator[str]:
        """What a federation brings, what would decide it, what the forecasts will miss, what it
        costs, and what a model of public meters alone gives."""
        yield self.gain_sentence
        if self.claim.get("verdict") == "undecided" and not self.needs_nobody:
            yield self.deciding
        yield from self.error_sentences
        yield self.cost
        yield from self.public_sentences

    @property
    def gain_sentence(self) -> str:
        """The gain: percent of the error, kWh a month, how many clients gain and lose."""
        assert self.contest is not None
        comparison, error = self.contest.comparison, self.contest.error(1)
        effect, low, high = (
            100 * value / error for value in (comparison.effect, *comparison.interval)
        )
        saved = float(self.clients["kwh_a_month"].mean())
        client_word, count = self.study.client_word, len(self.clients)
        gaining, losing = (
            int((self.clients["gain"] > 0).sum()),
            int((self.clients["gain"] < 0).sum()),
        )
        has_use = self.sides[0] == words.IN_USE and not self.needs_nobody
        subject = f"With {'the others' if has_use else 'the best federation'}, errors were"
        is_same = round(effect, 1) == 0
        span = f" (95{SPACE}% range: {_range(low, high)})"
        amount = (
            "the same" if is_same else
            f"{_amount(effect)} {'lower' if effect > 0 else 'higher'}"
        )  # fmt: skip
        direction = "less" if saved >= 0 else "more"
        energy = (
            f": {_energy(abs(saved))} of errors {direction} a month for each {client_word}, out of "
            f"{_energy(float(self.clients['kwh_alone'].mean()))}"
        )
        unchanged = len(self.clients) - gaining - losing
        return (
            f"{subject} {amount}{span if math.isfinite(low) else ''}"
            f"{'' if is_same else energy + self.doubt}. "
            f"Of {count} {client_word}s, {gaining or 'none'} gain{'s' * (gaining < 2)} and "
            f"{losing or 'none'} lose{'s' * (losing < 2)}"
            + f"; for {unchanged} nothing changes" * bool(unchanged)
            + f"{self.clearly}."
        )

    @property
    def clearly(self) -> str:
        """How many clients clearly gain and lose, as the end of a sentence; empty if the test set
        has too few weeks to say so."""
        gaining = int((self.clients["low"] > 0).sum())
        losing = int((self.clients["high"] < 0).sum())
        if self.clients["low"].isna().all():
            return ""
        if not gaining and not losing:
            return "; none clearly gains or loses"
        return (
            f"; {gaining or 'none'} clearly gain{'s' * (gaining < 2)} and "
            f"{losing or 'none'} clearly lose{'s' * (losing < 2)}"
        )

    @property
    def doubt(self) -> str:
        """Whether chance explains the difference of the best federation in the test; empty if the
        verdict says so."""
        assert self.contest is not None
        low, high = self.contest.comparison.interval
        return "; chance alone could explain that" if self.needs_nobody and low <= 0 <= high else ""

    @property
    def deciding(self) -> str:
        """What would decide the question: weeks of test."""
        assert self.contest is not None
        comparison = self.contest.comparison
        if comparison.missing_factors:
            return too_few(comparison.missing_factors, self.study.client_word)
        weeks = comparison.parts["weeks"].levels
        p = self.comparisons.loc[self.comparisons["about"] == "claim", "p"]
        if needed_weeks := needed_levels(comparison, "weeks", open_level(p)):
            return (
                f"About {needed_weeks} weeks of test would decide it, if the difference stays "
                f"as it is ({weeks} now)."
            )
        return (
            f"Even two years of test would not decide it ({weeks} weeks now): the difference is "
            f"too small, or varies too much between {self.study.client_word}s."
        )

    @property
    def error_sentences(self) -> Iterator[str]:
        """The errors to expect, in percent of the load, beside naive forecasts."""
        mean = _mean(self.in_use, "wape")
        if not math.isfinite(mean):
            return
        naive_errors = {
            text: error
            for name, text in NAIVE.items()
            if (name != "persistence" or self.study.windows.farthest * self.minutes <= 60)
            and math.isfinite(error := _mean(self._find(f"{BASELINE}-{name}"), "wape"))
        }
        naive_texts = [
            f"{text} {'would miss ' * (not number)}{format_percent(100 * error, 0)}"
            for number, (text, error) in enumerate(naive_errors.items())
        ]
        naive_clause = f"; repeating {words.join_words(naive_texts)}" if naive_texts else ""
        used_contenders = [
            contender for contender in self.in_use if contender.variant is self.latest
        ]
        labels = dict.fromkeys(contender.label_with_name for contender in used_contenders)
        yield (
            f"Your forecasts will miss about {format_percent(100 * mean, 0)} of {self.load}"
            f"{naive_clause}. In use: {'; '.join(labels)}."
        )
        yield from dict.fromkeys(
            text
            for contender in used_contenders
            for sharing in contender.schemes
            if (text := words.describe_training(self.study, sharing))
        )
        warnings = warn_of_sums(Path(self.latest.tables.folder), self.study)
        if len(self.study.data.states) == 1:
            yield from warnings.values()
        elif warnings:
            yield (
                f"Do not add the forecasts of {list_names([*warnings], FEW_NAMES)}: of their sums "
                "they were wrong by more than repeating the load of a day before."
            )

    @property
    def load(self) -> str:
        """What errors are shares of."""
        several = f" of a {self.study.client_word} on average" if len(self.clients) > 1 else ""
        return f"the load{several}"

    @property
    def minutes(self) -> int:
        """Minutes between readings."""
        return self.study.data.interval

    @property
    def cost(self) -> str:
        """Bytes, and what is revealed."""
        assert self.contest is not None
        first = [pair[0] for pair in self.contest.pairs]
        crosses = {contender.crosses for contender in first}
        size = self.contest.bytes(0)
        if crosses == {"nothing"} or not size:
            return "It costs nothing: nothing is sent."
        costs = (
            f"Joining costs {readable_size(size).replace(' ', SPACE)} of messages for each "
            f"{self.study.client_word}, once for a training, and reveals"
        )
        if "raw data" in crosses:
            return f"{costs} readings."
        if any(contender.sends_open_sums for contender in first):
            return (
                f"{costs} sums for trees, from which the server can find out many readings "
                "(docs/baselines.md). Masks hide them, if the study sets secure to true. "
                "The trees themselves can tell something, too (docs/privacy.md)."
            )
        return (
            f"{costs} models, no readings. Models can still tell something about the readings "
            "(docs/privacy.md)."
        )

    @property
    def public_sentences(self) -> Iterator[str]:
        """What a model of public meters alone gives, and what is added to it."""
        study, public = self.study, f"{BASELINE}-{Public.name}"
        if Public.name in pretrained_names(study.baselines.further):
            yield "The model of public meters was trained on these meters, so it does not count."
            return
        public_row = self._find(public)
        if public_row and {c.label for c in self.in_use} == {c.label for c in public_row}:
            yield (
                "What is in use is the model of public meters alone, which needs no partners and "
                "sends nothing."
            )
            return
        side = words.IN_USE if self.sides[0] == words.IN_USE else words.FEDERATION
        contest = contest_of(study, self.variants, [side], [public])
        if contest is None:
            return
        missed = _mean(public_row, "wape")
        percent = 100 * contest.comparison.effect / contest.error(1)
        share = (
            f"misses {format_percent(100 * missed, 0)} of {self.load}"
            if math.isfinite(missed)
            else ""
        )
        compared = (
            f"{_amount(percent)} {'lower' if percent > 0 else 'higher'}"
            if round(percent, 1)
            else "the same"
        )
        name = "what is in use" if side == words.IN_USE else "the best federation"
        saved = float(pd.DataFrame(gains(contest))["kwh_a_month"].mean())
        yield (
            "The model of public meters alone, which needs no partners and sends nothing, "
            f"{share or 'was compared, too'}; the errors of {name} are {compared} "
            f"({_energy(abs(saved))} a month for each {study.client_word})."
        )

    def details(self) -> Iterator[str]:
        """The same in MASE, the clients that gain and lose most, new clients, those left out."""
        assert self.contest is not None
        yield self.difference
        if text := _gainers_and_losers(self.clients):
            yield text
        if text := describe_as_new(Path(self.latest.tables.folder), self.study):
            yield f"{text} Tested on the last weeks." if len(self.variants) > 1 else text
        yield from _explain_new_clients(self.study, self.comparisons)
        yield from dict.fromkeys(
            text for variant in self.variants for text in left_out(variant.tables)
        )

    @property
    def difference(self) -> str:
        """Both errors, in MASE and in percent of the load. If few clients decide a mean, medians
        lead."""
        contest = self.contest
        assert contest is not None
        comparison, interval = contest.comparison, ""
        errors = (contest.error(0), contest.error(1))
        low, high = comparison.interval
        if math.isfinite(low):
            interval = f" (difference {with_interval(comparison.effect, low, high)})"
        kind, about_means = "mean", ""
        sides = [self.clients.set_index("client")[f"mase_{s}"] for s in ("federated", "alone")]
        if names := list(dict.fromkeys(name for mase in sides for name in deciding(mase))):
            about_means = (
                f" {list_names(names, FEW_NAMES)} {'decides' if len(names) == 1 else 'decide'} the "
                f"means, {errors[0]:,.3f} and {errors[1]:,.3f}{interval}."
            )
            kind, interval = "median", ""
            errors = (float(sides[0].median()), float(sides[1].median()))
        beaten = ", which neither beats" if min(errors) >= 1 else ""
        first, second = self.names
        return (
            f"In MASE: the {kind} error was {errors[0]:.3f} ({first}: {contest.label(0)}) and "
            f"{errors[1]:.3f} ({second}: {contest.label(1)}); 1 is the error of repeating the last "
            f"reading{beaten}. The first is {_describe_change(*errors)}{interval}.{about_means}"
            f"{_in_percent(contest, self.load)}"
        )


def _mean(contenders: Sequence[Contender], score: str) -> float:
    """A score, mean over the clients of all states; NaN without one."""
    by_client = [contender.by_client(score) for contender in contenders]
    return float(pd.concat(by_client).mean()) if by_client else np.nan


def _energy(amount: float) -> str:
    """An energy in print: "12 kWh"; with a digit more if it is small."""
    text = space_thousands(amount) if amount >= 10 else f"{max(amount, 0.1):.1f}"
    text = text if amount >= 0.05 else f"less than {text}"
    return f"{text}{SPACE}kWh"


def _amount(percent: float) -> str:
    """A share in percent without its sign: "3.1 %", "34 %", "0.02 %"."""
    digits = 0 if abs(percent) >= 10 else 1 if round(percent, 1) else 2
    return format_percent(abs(percent), digits)


def _range(low: float, high: float) -> str:
    """By how much errors are lower, at least and at most, in percent: "1.2 % to 3.1 % lower"."""
    ends = sorted((low, high), key=abs)
    if low * high > 0:
        return f"{' to '.join(map(_amount, ends))} {'lower' if low > 0 else 'higher'}"
    return f"{_amount(low)} higher to {_amount(high)} lower"


def _describe_change(first: float, second: float) -> str:
    """How the first error compares with the second: "12 % lower"."""
    share = (second - first) / second if second else 0.0
    if abs(share) < 0.005:
        return "as good as equal"
    if share < -10:
        return f"{first / second:,.0f} times as high"
    return f"{format_percent(100 * abs(share), 0)} {'lower' if share > 0 else 'higher'}"


def _explain_new_clients(study: Study, comparisons: pd.DataFrame) -> Iterator[str]:
    """What a client that opens next month can expect."""
    for row in comparisons[comparisons["about"] == "new"].to_dict("records"):
        yield (
            f"For {words.describe_shared(study, row['better'])}, the model of the others had an "
            f"error of {row['error']:.3f}, and the best naive forecast ({row['chosen_than']}) "
            f"{row['error_than']:.3f} (difference "
            f"{with_interval(row['difference'], row['low'], row['high'])})."
        )


def _in_percent(contest: Contest, load: str) -> str:
    """The errors of both sides in percent of the `load`; empty if the tables lack them."""
    federated, alone_percent = (100 * contest.mean(side, "wape") for side in (0, 1))
    if not math.isfinite(federated + alone_percent):
        return ""
    return (
        f" In percent of {load} (WAPE): {format_percent(federated)} and "
        f"{format_percent(alone_percent)}."
    )


def left_out(tables: Tables) -> Iterator[str]:
    """The clients without a MASE, which all means leave out."""
    clients = tables.clients
    names = clients.loc[clients["persistence_mae_test"] == 0, "client"].tolist()
    if names:
        subject = words.join_words(
            [*names[:FEW_NAMES], *([f"{len(names) - FEW_NAMES} more"] * (len(names) > FEW_NAMES))]
        )
        possessive, are = ("its load", "is") if len(names) == 1 else ("their loads", "are")
        yield (
            f"{subject} {are} left out of all means: {possessive} hardly changed in the test set "
            "(repeating the last reading was off by less than "
            f"{100 * NEGLIGIBLE:g}\N{NO-BREAK SPACE}%), so there is no MASE."
        )


def _describe_test_periods(variants: Sequence[Variant]) -> str:
    """The periods in which the forecasts were tested."""
    periods = []
    for variant in variants:
        days = pd.to_datetime(variant.tables.errors(["day"])["day"])
        first, last = (f"{day.day} {day:%B %Y}" for day in (days.min(), days.max()))
        periods.append(f"from {first} to {last}")
    trained = " Each time, only earlier readings were trained on." if len(periods) > 1 else ""
    return f"Tested on the days {words.join_words(periods)}.{trained}"


def _gainers_and_losers(clients: pd.DataFrame) -> str:
    """Which clients gain and lose most, if any."""
    has_no_interval = clients["low"].isna().all()
    parts = []
    ordered = clients.sort_values("gain", kind="stable")
    for row, word in ((ordered.iloc[-1], "gains"), (ordered.iloc[0], "loses")):
        if row["gain"] * (1 if word == "gains" else -1) > 0:
            saved = f"{space_thousands(abs(row['kwh_a_month']))} kWh of errors a month"
            share = format_percent(abs(row["percent"]), 0)
            open_ = bool(row["low"] <= 0 <= row["high"])
            parts.append(
                f"{row['client']} {word} most{', but not clearly' * open_}: "
                f"{abs(row['gain']):.3f} ({share}, {saved})."
            )
    unclear = ["The test set has too few weeks to say who clearly gains."] * bool(has_no_interval)
    return " ".join([*unclear, *parts])


def _extremes(clients: pd.DataFrame) -> list[dict[Any, Any]]:
    ordered = clients.sort_values("gain", ascending=False, kind="stable").to_dict("records")
    if len(ordered) <= MOST_CLIENTS:
        return ordered
    return [*ordered[: MOST_CLIENTS // 2], *ordered[-MOST_CLIENTS // 2 :]]
