"""The first screen of the page: whether a federation is worth it here, client by client."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from plfl.base.text import list_names
from plfl.baselines import BASELINE, find_pretrained
from plfl.baselines.public import Public
from plfl.data.dataset import NEGLIGIBLE
from plfl.report.forest import Scale
from plfl.results import words
from plfl.results.comparisons import contest_of, gains, lead
from plfl.results.contest import Contest
from plfl.results.dominance import deciding
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.results.words import spaced
from plfl.study import Study

KINDS = {"federation": "federation", "alone": "best without one"}
"""The forecasters that are drawn for each client, and their names."""
SHORT = {
    "holds": "Yes: the best federation has a lower error than the best forecaster without one.",
    "does not hold": "No: the best forecaster without a federation has a lower error.",
    "undecided": "Not on this evidence: it is undecided.",
}
UNNAMED = " (No claim of the study is about it, so there is no verdict.)"
MOST_CLIENTS = 40
"""Most clients of a state that have a row each; of more, those that gain and lose most."""
FEW_NAMES = 3
"""Largest number of clients that a sentence lists one by one."""


@dataclass(frozen=True)
class FederationAnswer:
    """The answer, and the rows of its plot by state."""

    short: str
    sentences: list[str]
    scale: Scale
    states: dict[str, list[dict[Any, Any]]]
    """The rows of `gains`."""
    left_out: int
    """Clients without a row."""
    has_intervals: bool
    """Whether the test set has enough weeks for intervals."""
    tested: str
    """The period in which the forecasts were tested."""


def answer(variant: Variant, comparisons: pd.DataFrame) -> FederationAnswer | None:
    """The answer; None if there is no federation, no rival, or no table of errors by day."""
    tables, study = variant.tables, variant.tables.study
    if not (Path(tables.folder) / "errors.parquet").is_file():  # a deployed study
        return None
    contest = lead(study, [variant])
    if contest is None:
        return None
    clients = pd.DataFrame(gains(contest))
    # Persistence, to whose error of 1 the axis has a line, is always in the plot.
    errors = clients[["mase_federated", "mase_alone"]].to_numpy(float)
    scale = Scale.from_numbers(errors.ravel(), marked=1.0)
    extremes = {
        str(state): _extremes(state_clients)
        for state, state_clients in clients.groupby("state", sort=False)
    }
    short, *weeks_needed = _short(comparisons)
    sentences = [_difference(study, comparisons, contest, clients), *_of_public(variant)]
    sentences += weeks_needed
    sentences += [_gainers_and_losers(clients, study.participant), *_of_new(study, comparisons)]
    sentences += left_out(tables)
    return FederationAnswer(
        short,
        sentences,
        scale,
        extremes,
        len(clients) - sum(map(len, extremes.values())),
        bool(clients["low"].notna().any()),
        _tested(tables),
    )


def _of_federation(comparisons: pd.DataFrame) -> pd.DataFrame:
    """The rows about the best federation against the best without one: over all states, then of
    each."""
    rows = comparisons[comparisons["about"] == "federation"]
    return rows[rows["than"] == words.LOCAL]


def _short(comparisons: pd.DataFrame) -> list[str]:
    """The answer in a few words, and what would decide it."""
    claims = comparisons[comparisons["about"] == "claim"]
    is_claimed = (claims["better"] == words.FEDERATION) & (claims["than"] == words.LOCAL)
    for row in claims[is_claimed].to_dict("records"):
        if row["verdict"] in SHORT:
            return [SHORT[row["verdict"]], *([row["needed"]] if row["needed"] else [])]
    low, high = _of_federation(comparisons)[["low", "high"]].iloc[0]
    if low > 0 or high < 0:
        return [f"The federation has the {'lower' if low > 0 else 'higher'} error here.{UNNAMED}"]
    return [f"The interval of the difference includes 0.{UNNAMED}"]


def _difference(
    study: Study, comparisons: pd.DataFrame, contest: Contest, clients: pd.DataFrame
) -> str:
    """Which side is better, and by how much. If few clients decide a mean, medians lead."""
    row = _of_federation(comparisons).iloc[0]
    errors, interval = (row["error"], row["error_than"]), ""
    if math.isfinite(row["low"]):
        interval = f" (difference {row['difference']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}])"
    kind, about_means = "mean", ""
    sides = [clients.set_index("client")[f"mase_{side}"] for side in ("federated", "alone")]
    if names := list(dict.fromkeys(name for mase in sides for name in deciding(mase))):
        about_means = (
            f" {list_names(names, FEW_NAMES)} {'decides' if len(names) == 1 else 'decide'} the "
            f"means, {errors[0]:,.2f} and {errors[1]:,.2f}{interval}."
        )
        kind, errors, interval = "median", (float(sides[0].median()), float(sides[1].median())), ""
    beaten = ", which neither beats" if min(errors) >= 1 else ""
    return study.put_in_words(
        f"The {kind} error was {errors[0]:.2f} with the federation ({contest.label(0)}) and "
        f"{errors[1]:.2f} without one ({contest.label(1)}); 1 is the error of repeating the last "
        f"reading (MASE){beaten}. The error with the federation is {_compared(*errors)}{interval}."
        f"{about_means}{_in_percent(contest)}"
    )


def _compared(federated: float, own_error: float) -> str:
    """How the error with a federation compares with that without: "12 % lower"."""
    share = (own_error - federated) / own_error if own_error else 0.0
    if abs(share) < 0.005:
        return "as good as equal"
    if share < -10:
        return f"{federated / own_error:,.0f} times as high"
    return f"{_percent(abs(share))} {'lower' if share > 0 else 'higher'}"


def _of_public(variant: Variant) -> Iterator[str]:
    """What a model of public meters alone gives, and what the best federation adds to it."""
    study, public = variant.tables.study, f"{BASELINE}-{Public.name}"
    if Public.name in find_pretrained(study.baselines.further):
        yield "The model of public meters was trained on these meters, so it does not count."
        return
    contest = contest_of(study, [variant], [words.FEDERATION], [public])
    if contest is None:
        return
    gain = contest.comparison.effect
    low, high = contest.comparison.interval
    saved = pd.DataFrame(gains(contest))["kwh_a_month"].mean()
    interval = f" [{low:+.3f}, {high:+.3f}]" if math.isfinite(low) else ""
    yield study.put_in_words(
        f"The model of public meters alone, for which nothing is sent, had an error of "
        f"{contest.error(1):.2f}, and the best federation ({contest.label(0)}) "
        f"{contest.error(0):.2f}: it gains {gain:+.3f}{interval}, or {saved:+.1f} kWh of errors a "
        f"month for each client, for {contest.bytes(0) / 1e6:.1f} MB of messages of each."
    )


def _of_new(study: Study, comparisons: pd.DataFrame) -> Iterator[str]:
    """What a client that opens next month can expect."""
    for row in comparisons[comparisons["about"] == "new"].to_dict("records"):
        yield (
            f"For {words.shares(study, row['better'])}, the model of the others had an error of "
            f"{row['error']:.2f}, and the best naive forecast ({row['chosen_than']}) "
            f"{row['error_than']:.2f} (difference {row['difference']:+.3f} "
            f"[{row['low']:+.3f}, {row['high']:+.3f}])."
        )


def _in_percent(contest: Contest) -> str:
    """The errors of both sides in percent of the load; empty if the tables lack them."""
    federated, alone_percent = (100 * contest.mean(side, "wape") for side in (0, 1))
    if not math.isfinite(federated + alone_percent):
        return ""
    return (
        f" In percent of the load (WAPE): {federated:.1f}\N{NO-BREAK SPACE}% and "
        f"{alone_percent:.1f}\N{NO-BREAK SPACE}%."
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


def _tested(tables: Tables) -> str:
    """The period in which the forecasts were tested."""
    days = pd.to_datetime(tables.errors(["day"])["day"])
    first, last = (f"{day.day} {day:%B %Y}" for day in (days.min(), days.max()))
    return f"Tested on the days from {first} to {last}."


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


def _gainers_and_losers(clients: pd.DataFrame, participant: str) -> str:
    """How many clients gain and lose, and which most."""
    gaining, down = int((clients["low"] > 0).sum()), int((clients["high"] < 0).sum())
    if clients["low"].isna().all():
        clearly = "The test set has too few weeks to say who clearly gains."
    elif not gaining and not down:
        clearly = f"None of the {len(clients)} {participant}s clearly gains or loses."
    else:
        clearly = f"Of {len(clients)} {participant}s, {gaining or 'none'} clearly "
        clearly += f"gain{'s' * (gaining < 2)} and {down or 'none'} clearly lose{'s' * (down < 2)}."
    parts = []
    ordered = clients.sort_values("gain", kind="stable")
    for row, word in ((ordered.iloc[-1], "gains"), (ordered.iloc[0], "loses")):
        if row["gain"] * (1 if word == "gains" else -1) > 0:
            saved = f"{spaced(abs(row['kwh_a_month']))} kWh of errors a month"
            share = _percent(abs(row["percent"]) / 100)
            open_ = bool(row["low"] <= 0 <= row["high"])
            parts.append(
                f"{row['client']} {word} most{', but not clearly' * open_}: "
                f"{abs(row['gain']):.2f} ({share}, {saved})."
            )
    return " ".join([clearly, *parts])


def _extremes(clients: pd.DataFrame) -> list[dict[Any, Any]]:
    ordered = clients.sort_values("gain", ascending=False, kind="stable").to_dict("records")
    if len(ordered) <= MOST_CLIENTS:
        return ordered
    return [*ordered[: MOST_CLIENTS // 2], *ordered[-MOST_CLIENTS // 2 :]]
