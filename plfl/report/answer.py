"""The first screen of the page: the answer of `plfl.results.joining` in words, and its plot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from plfl.base.text import format_percent, list_names, readable_size
from plfl.baselines.public import Public
from plfl.data.dataset import NEGLIGIBLE
from plfl.forecast.kept_errors import warn_of_sums
from plfl.public.models import card
from plfl.report.comparison_plot import Scale
from plfl.report.error_tables import describe_as_new
from plfl.report.rendering import with_interval
from plfl.results import words
from plfl.results.contest import Contest
from plfl.results.joining import Joining, unscored_clients
from plfl.results.statistics import too_few
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.results.words import space_thousands
from plfl.study import Study

NAIVE_LABELS = {
    "persistence": "the last reading",
    "naive_day": "yesterday's readings",
    "naive_week": "last week's",
}
"""The naive forecasts, in words."""
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
    summary: str
    """The first two sentences."""
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
    test_period: str
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
    joining = Joining(study, variants, comparisons)
    if not joining.exists:
        return None
    text, clients = _AnswerText(joining), joining.clients
    # Persistence, to whose error of 1 the axis has a line, is always in the plot.
    errors = clients[["mase_alone", "mase_federated"]].to_numpy(float)
    extremes = {
        str(state): _extremes(state_clients)
        for state, state_clients in clients.groupby("state", sort=False)
    }
    return FederationAnswer(
        text.verdict,
        f"{text.verdict} {text.gain_sentence}",
        list(text.sentences()),
        list(text.details()),
        {"federation": text.names[0], "alone": text.names[1]},
        Scale.from_numbers(errors.ravel(), marked_value=1.0),
        extremes,
        len(clients) - sum(map(len, extremes.values())),
        joining.gain.has_intervals,
        _describe_test_periods(variants),
        {
            baseline.kind: card(baseline.kind)
            for baseline in study.baselines.further
            if isinstance(baseline, Public) and baseline.file is None
        },
    )


@dataclass(frozen=True)
class _AnswerText:
    """An answer in words."""

    joining: Joining

    @property
    def study(self) -> Study:
        return self.joining.study

    @property
    def names(self) -> tuple[str, str]:
        """What the sides of the comparison are called in the plot."""
        if self.joining.needs_nobody:
            return "best federation", "in use"
        if self.joining.is_about_use:
            return "in use", "in use without a federation"
        return "federation", "best without one"

    @property
    def lead_words(self) -> str:
        """How far ahead is forecast: "a day ahead"."""
        return words.lead_time(self.study)

    @property
    def verdict(self) -> str:
        """The answer: join, do not join, or not on this evidence."""
        outcome = self.joining.outcome
        if outcome == "needs nobody":
            return (
                f"Do not join: for forecasts {self.lead_words}, nothing that needs the others, "
                "and whose models can be kept for use, was better in the weeks before the test, so "
                "what is in use does without them."
            )
        if outcome == "not judged":
            direction = self.joining.direction
            compared = (
                f"are {'lower' if direction > 0 else 'higher'} with the others"
                if direction
                else "hardly differ"
            )
            return (
                "Not judged, because the study names no claim about it; errors "
                f"{self.lead_words} {compared}."
            )
        if outcome == "holds":
            return (
                f"Join: forecasts {self.lead_words} are better with the others than without them, "
                "by more than chance explains."
            )
        if outcome == "does not hold":
            return (
                f"Do not join: forecasts {self.lead_words} are worse with the others than without "
                "them, by more than chance explains."
            )
        return (
            f"Not on this evidence: whether the others make forecasts {self.lead_words} better "
            "cannot be told from this test."
        )

    def sentences(self) -> Iterator[str]:
        """What a federation brings, what would decide it, what the forecasts will miss, what it
        costs, and what a model of public meters alone gives."""
        yield f"{self.gain_sentence} {self.client_counts}"
        if self.joining.outcome == "undecided":
            yield self.decision_weeks
        yield from self.error_sentences
        yield self.cost
        yield from self.public_sentences

    @property
    def gain_sentence(self) -> str:
        """The gain: percent of the error, kWh a month."""
        gain, client_word = self.joining.gain, self.study.client_word
        has_use = self.joining.is_about_use and not self.joining.needs_nobody
        subject = f"With {'the others' if has_use else 'the best federation'}, errors were"
        is_same = round(gain.percent, 1) == 0
        span = f" (95{SPACE}% range: {_range(gain.low, gain.high)})"
        amount = (
            "the same" if is_same else
            f"{_amount(gain.percent)} {'lower' if gain.percent > 0 else 'higher'}"
        )  # fmt: skip
        direction = "less" if gain.kwh >= 0 else "more"
        energy = (
            f": {_energy(abs(gain.kwh))} of errors {direction} a month for each {client_word}, out "
            f"of {_energy(gain.kwh_alone)}"
        )
        return (
            f"{subject} {amount}{span if math.isfinite(gain.low) else ''}"
            f"{'' if is_same else energy + self.doubt}."
        )

    @property
    def client_counts(self) -> str:
        """How many clients gain and lose."""
        gain, count = self.joining.gain, len(self.joining.clients)
        gaining, losing = gain.gaining_count, gain.losing_count
        unchanged = count - gaining - losing
        rest = f"; for {unchanged} nothing changes" if unchanged else ""
        return (
            f"Of {count} {self.study.client_word}s, {_counted('gain', gaining)} and "
            f"{_counted('lose', losing)}{rest}{self.clearly}."
        )

    @property
    def clearly(self) -> str:
        """How many clients clearly gain and lose, as the end of a sentence; empty if the test set
        has too few weeks to say so."""
        gaining, losing = self.joining.gain.clearly_gaining, self.joining.gain.clearly_losing
        if not self.joining.gain.has_intervals:
            return ""
        if not gaining and not losing:
            return "; none clearly gains or loses"
        return f"; {_counted('clearly gain', gaining)} and {_counted('clearly lose', losing)}"

    @property
    def doubt(self) -> str:
        """Whether chance explains the difference of the best federation in the test; empty if the
        verdict says so."""
        is_open = self.joining.needs_nobody and self.joining.could_be_chance
        return "; chance alone could explain that" if is_open else ""

    @property
    def decision_weeks(self) -> str:
        """What would decide the question: weeks of test."""
        difference = self.joining.contest.difference
        if difference.missing_factors:
            return too_few(difference.missing_factors, self.study.client_word)
        weeks = difference.parts["weeks"].levels
        if needed_weeks := self.joining.deciding_weeks:
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
        mean = self.joining.error
        if not math.isfinite(mean):
            return
        naive_texts = [
            f"{NAIVE_LABELS[name]} "
            f"{'' if number else 'would miss '}{format_percent(100 * error, 0)}"
            for number, (name, error) in enumerate(self.joining.naive_errors.items())
        ]
        naive_clause = f"; repeating {words.join_words(naive_texts)}" if naive_texts else ""
        used_contenders = self.joining.latest_in_use
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
        warnings = warn_of_sums(Path(self.joining.latest.tables.folder), self.study)
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
        several = (
            f" of a {self.study.client_word} on average" if len(self.joining.clients) > 1 else ""
        )
        return f"the load{several}"

    @property
    def cost(self) -> str:
        """Bytes, and what is revealed."""
        revealed = self.joining.disclosure
        if revealed == "nothing":
            return "It costs nothing: nothing is sent."
        size = readable_size(self.joining.contest.bytes(0)).replace(" ", SPACE)
        costs = (
            f"Joining costs {size} of messages for each "
            f"{self.study.client_word}, once for a training, and reveals"
        )
        if revealed == "raw data":
            return f"{costs} readings."
        if revealed == "open sums":
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
        if self.joining.has_trained_public:
            yield "The model of public meters was trained on these meters, so it does not count."
            return
        if self.joining.uses_public_alone:
            yield (
                "What is in use is the model of public meters alone, which needs no partners and "
                "sends nothing."
            )
            return
        if (gain := self.joining.public_gain) is None:
            return
        share = (
            f"misses {format_percent(100 * gain.error, 0)} of {self.load}"
            if math.isfinite(gain.error)
            else ""
        )
        compared = (
            f"{_amount(gain.percent)} {'lower' if gain.percent > 0 else 'higher'}"
            if round(gain.percent, 1)
            else "the same"
        )
        name = "what is in use" if self.joining.is_about_use else "the best federation"
        yield (
            "The model of public meters alone, which needs no partners and sends nothing, "
            f"{share or 'was compared, too'}; the errors of {name} are {compared} "
            f"({_energy(abs(gain.kwh))} a month for each {self.study.client_word})."
        )

    def details(self) -> Iterator[str]:
        """The same in MASE, the clients that gain and lose most, new clients, those left out."""
        yield self.difference
        if text := _gainers_and_losers(self.joining.clients):
            yield text
        if text := describe_as_new(Path(self.joining.latest.tables.folder), self.study):
            yield f"{text} Tested on the last weeks." if len(self.joining.variants) > 1 else text
        yield from explain_new_clients(self.study, self.joining.comparisons)
        yield from dict.fromkeys(
            text for variant in self.joining.variants for text in _left_out(variant.tables)
        )

    @property
    def difference(self) -> str:
        """Both errors, in MASE and in percent of the load. If few clients decide a mean, medians
        lead."""
        contest, errors = self.joining.contest, self.joining.mean_errors
        difference, interval = contest.difference, ""
        low, high = difference.interval
        if math.isfinite(low):
            interval = f" (difference {with_interval(difference.effect, low, high)})"
        kind, about_means, counted = "mean", "", errors.counted_errors
        if names := errors.deciding_clients:
            about_means = (
                f" {list_names(names, FEW_NAMES)} {'decides' if len(names) == 1 else 'decide'} the "
                f"means, {errors.means[0]:,.3f} and {errors.means[1]:,.3f}{interval}."
            )
            kind, interval = "median", ""
        beaten = ", which neither beats" if min(counted) >= 1 else ""
        first, second = self.names
        return (
            f"In MASE: the {kind} error was {counted[0]:.3f} ({first}: {contest.label(0)}) and "
            f"{counted[1]:.3f} ({second}: {contest.label(1)}); 1 is the error of repeating "
            f"the last reading{beaten}. The first is {_describe_change(*counted)}{interval}."
            f"{about_means}{_in_percent(contest, self.load)}"
        )


def _counted(verb: str, count: int) -> str:
    """How many clients do something: "none gains", "1 gains", "2 gain"."""
    return f"{count or 'none'} {verb}" if count > 1 else f"{count or 'none'} {verb}s"


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


def explain_new_clients(study: Study, comparisons: pd.DataFrame) -> Iterator[str]:
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


def _left_out(tables: Tables) -> Iterator[str]:
    """The clients without a MASE, which all means leave out."""
    names = unscored_clients(tables)
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
    parts = []
    if clients["low"].isna().all():
        parts.append("The test set has too few weeks to say who clearly gains.")
    ordered = clients.sort_values("gain", kind="stable")
    for row, word in ((ordered.iloc[-1], "gains"), (ordered.iloc[0], "loses")):
        if row["gain"] * (1 if word == "gains" else -1) > 0:
            saved_text = f"{space_thousands(abs(row['kwh_a_month']))} kWh of errors a month"
            share = format_percent(abs(row["percent"]), 0)
            doubt = ", but not clearly" if row["low"] <= 0 <= row["high"] else ""
            parts.append(
                f"{row['client']} {word} most{doubt}: {abs(row['gain']):.3f} "
                f"({share}, {saved_text})."
            )
    return " ".join(parts)


def _extremes(clients: pd.DataFrame) -> list[dict[Any, Any]]:
    ordered = clients.sort_values("gain", ascending=False, kind="stable").to_dict("records")
    if len(ordered) <= MOST_CLIENTS:
        return ordered
    return [*ordered[: MOST_CLIENTS // 2], *ordered[-MOST_CLIENTS // 2 :]]
