"""Claims, forecasters and places of a study in words, as the page and the commands show them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from plfl import baselines, methods
from plfl.base.text import capitalise, count_in_words
from plfl.config.claim_scores import CLAIM_SCORES, COUNTED, LOADS_SCORE
from plfl.config.claims import Claim
from plfl.config.sharing import Scheme
from plfl.optimizers import client as client_opts
from plfl.optimizers import server as server_opts
from plfl.study import Study
from plfl.study.axes import Axis
from plfl.study.forecaster_names import (
    ANY,
    FEDERATION,
    IN_USE,
    IN_USE_ALONE,
    LOCAL,
    RAW,
    ForecasterName,
    parse_name,
)


def client_label(name: str) -> str:
    """The label of a ClientOpt, such as "SGD"."""
    return client_opts.available()[name].label


def server_label(name: str) -> str:
    """The label of a ServerOpt, such as "FedYogi"."""
    return server_opts.available()[name].label


def method_label(name: str) -> str:
    """The label of a method, such as "SCAFFOLD"."""
    return methods.available()[name].label


def client_side(study: Study, method: str, client_opt: str) -> str:
    """Label of a ClientOpt, with its method if the study has others than the plain round."""
    label = client_label(client_opt)
    plain = study.grid.method == ["fedopt"]
    return label if plain else f"{method_label(method)} · {label}"


VALUE_LABELS = {"method": method_label, "client_opt": client_label, "server_opt": server_label}
"""Functions that give the label of a value on an axis. On other axes a value is its own label."""


def space_thousands(count: float) -> str:
    """A whole number in print, with narrow spaces between thousands."""
    return f"{count:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def lead_time(study: Study) -> str:
    """How far ahead a study forecasts: "an hour ahead", "a day ahead", "1.5 hours ahead"."""
    hours = study.windows.farthest * study.data.interval / 60
    lead_times = {"1": "an hour", "24": "a day", "168": "a week"}
    return f"{lead_times.get(f'{hours:g}', f'{hours:g} hours')} ahead"


def describe_times(study: Study) -> str:
    """What a forecast reads and is of, in a line for all variants or for each different one; empty
    if the study forecasts no loads."""
    if not study.task.forecasts:
        return ""
    lines = (v.windows.describe_times(v.data.interval) for v in study.variants.values())
    return "\n".join(dict.fromkeys(lines))


def baseline_label(name: str) -> str:
    """The label of a baseline, such as "Ridge, day and week lags"."""
    return baselines.find(name).label


LONG = 24
"""Longest list of shared parameters that names a sharing scheme, in characters."""
_KINDS = {
    FEDERATION: "the best federation",
    LOCAL: "the best without a federation",
    RAW: "the best on the raw data of all {client_word}s",
}
USE_WORDS = {IN_USE: "in use", IN_USE_ALONE: "in use without a federation"}
"""What is in use, in tables."""
_USES = {
    IN_USE: "the forecaster in use",
    IN_USE_ALONE: "the one that would be used without a federation",
}
CROSSES = {FEDERATION: "models", LOCAL: "nothing", RAW: "raw data"}
"""What the clients of each kind of forecasters exchange."""


def join_words(words: Iterable[str], conjunction: str = "and") -> str:
    """Words as a list in a sentence."""
    *first_words, last = words
    return f"{', '.join(first_words)} {conjunction} {last}" if first_words else last


def word_place(study: Study, labels: Mapping[str, str], excluded_keys: Iterable[str] = ()) -> str:
    """A place on the axes, given its labels by column: "1 week of history, 12 clients". Axes with a
    single value, and those whose keys are in `excluded_keys`, are not mentioned."""
    return ", ".join(
        word_value(axis, labels[axis.column], study.client_word)
        for axis in study.plan.axes
        if len(axis.choices) > 1 and axis.key not in excluded_keys and axis.column in labels
    )


def word_value(axis: Axis, label: str, client_word: str = "client") -> str:
    """A value of an axis: "1 week of history"."""
    if axis.key == "windows.history":
        plural = "" if label == "1" else "s"
        return "the whole history" if label == "null" else f"{label} week{plural} of history"
    if axis.key == "windows.horizons":
        return f"{label} step{'' if label == '1' else 's'} ahead"
    if axis.key == "data.clients":
        return f"{label} {client_word}s"
    if axis.key == "data.federations":
        return f"federations of {label}"
    if axis.key == "data.origins":
        return f"tests from {label}"
    return f"{axis.short} {label}".replace("_", " ")


def word_scheme(study: Study, sharing: str) -> str:
    """A sharing scheme with what it shares: "P1 (everything shared)", "P3 (local training)"."""
    return f"{sharing} ({describe_shared(study, sharing)})"


def describe_shared(study: Study, sharing: str) -> str:
    """What a sharing scheme shares, without its name."""
    block = study.sharing[sharing]
    if isinstance(block, Scheme):
        if block.history:
            weeks = count_in_words(block.history, "week")
            return f"a new {study.client_word} with {weeks} of readings"
        raw = block.join == "raw"
        return "a network on the raw data of all" if raw else "received without taking part"
    if not block:
        return "local training"
    if list(block) == ["*"]:
        return "everything shared"
    shared_names = join_words(block)
    return f"{shared_names if len(shared_names) <= LONG else f'{shared_names[:LONG]}…'} shared"


def describe_training(study: Study, sharing: str) -> str:
    """What clients train together in a sharing scheme, in a sentence; empty if that is nothing, or
    if some only receive."""
    block = study.sharing.get(sharing)
    if not block or isinstance(block, Scheme):
        return ""
    is_whole = list(block) == ["*"]
    shared_text = "the whole model" if is_whole else f"one part of the model ({join_words(block)})"
    own_part = "" if is_whole else f"; each {study.client_word} has the rest of its own"
    return f"{sharing}: all {study.client_word}s train {shared_text} together{own_part}."


def word_baseline(name: str, is_short: bool = False) -> str:
    """A baseline within a sentence: "ridge, day and week lags"; `is_short`: "ridge"."""
    label = baseline_label(name).partition(",")[0] if is_short else baseline_label(name)
    return (
        label[0].lower() + label[1:] if label[1:2].islower() and label[:8] != "LightGBM" else label
    )


def word_forecaster(study: Study, name: ForecasterName, names_scheme: bool = True) -> str:
    """A forecaster in words; global models are not told from local ones. `names_scheme`: whether to
    name the sharing scheme beside a method."""
    if phrase := (_KINDS | _USES).get(name.sharing):
        return phrase.format(client_word=study.client_word)
    if name.is_baseline:
        return word_baseline(name.method)
    method, client, server = name.algorithms
    words = [] if name.sharing == ANY else [word_scheme(study, name.sharing)]
    if method != ANY and not (names_scheme and len(study.grid.sharing) > 1):
        words = []
    servers = [server] if server != ANY else study.grid.server_opt
    if method == "fedopt" and len(servers) == 1:
        words.insert(0, server_label(servers[0]))
    else:
        words = [*([] if method == ANY else [method_label(method)]), *words]
        words += [] if server == ANY else [server_label(server)]
    if client != ANY:
        label = client_label(client)
        words[:1] = [f"{words[0]} with {label}" if words else label]
    return ", ".join(words) or "any forecaster"


def word_mixture(labels: Sequence[str], client_word: str = "client") -> str:
    """What is in use, given the label of the forecaster of each client: "LightGBM" or "LightGBM for
    50 of 56 meters, for 4 ridge, for 2 others"."""
    (first, count), *other_labels = Counter(labels).most_common()
    if not other_labels:
        return first
    (second, second_count), *rest = other_labels
    parts = [f"{first} for {count} of {len(labels)} {client_word}s", f"for {second_count} {second}"]
    other_count = sum(number for _, number in rest)
    parts += [f"for {count_in_words(other_count, 'other')}"] if other_count else []
    return ", ".join(parts)


def usual_forecaster(labels: Sequence[str]) -> str:
    """What is in use at several times or in several states, given the label of the forecaster of
    each client there: "LightGBM", or "mostly LightGBM, sometimes ridge or 2 others"."""
    (first, count), *other_labels = Counter(labels).most_common()
    if not other_labels:
        return first
    others = [other_labels[0][0]]
    if remaining_count := len(other_labels) - 1:
        others.append(count_in_words(remaining_count, "other"))
    frequency = "mostly " if 2 * count > len(labels) else ""
    return f"{frequency}{first}, sometimes {join_words(others, 'or')}"


def word_side(
    study: Study,
    names: Sequence[str],
    rival_names: Sequence[str] = (),
    means_every_name: bool = False,
    is_first: bool = False,
) -> str:
    """A side of a comparison, given the `rival_names` of the other one: "the best federation
    among P1 (everything shared) and unseen (received without taking part)". `means_every_name`:
    every one of the names is meant, not the best. `is_first`: a sentence begins with it; names of
    sharing schemes keep their first letter."""
    by_key = {axis.key: axis for axis in study.plan.axes}
    side, rivals = (
        [parse_name(text, study.plan.axes) for text in texts] for texts in (names, rival_names)
    )
    # What both sides have in common is not told.
    forecasters = [name for _, name in (*side, *rivals)]
    schemes = {n.sharing for n in forecasters if n.has_algorithms and not n.is_baseline}
    names_model = len({name.is_global for name in forecasters}) > 1
    words = []
    for labels, name in side:
        parts = [word_value(by_key[key], label, study.client_word) for key, label in labels.items()]
        text = (
            word_baseline(name.method, is_short=True)
            if name.is_baseline and len(names) > 1
            else word_forecaster(study, name, len(schemes) > 1)
        )
        if name.is_global and names_model and (labels, replace(name, is_global=False)) not in side:
            text += ", the server's model"
        words.append(text + (f" with {join_words(parts)}" if parts else ""))
    words = list(dict.fromkeys(words))
    text, (_, first_name) = join_words(words), side[0]
    if len(words) == 1:
        is_scheme = first_name.sharing in study.sharing and first_name.method == ANY
        return capitalise(text) if is_first and not is_scheme else text
    kinds = {find_kind(study, name) for _, name in side}
    if means_every_name:
        start = "each of"
    elif kinds <= {FEDERATION, LOCAL} and len(kinds) == 1:
        start = f"{_KINDS[kinds.pop()]} among"
    else:
        start = "the best of"
    return f"{capitalise(start) if is_first else start} {text}"


def word_crossing(study: Study, name: ForecasterName) -> str:
    """What the clients of a forecaster send: models, nothing, or raw data; new ones use models."""
    return CROSSES.get(find_kind(study, name), "models")


def find_kind(study: Study, name: ForecasterName) -> str:
    """What the clients of a forecaster exchange, one of `WHOLE_KINDS`: models, nothing, or raw
    data; empty if its name stands for several, or for new clients."""
    sharing = name.sharing
    if name.is_whole_kind:
        return sharing
    if name.is_baseline:
        crosses = baselines.find(name.method).crosses
        return next(kind for kind, crossing in CROSSES.items() if crossing == crosses)
    if sharing == ANY or name.is_in_use or sharing in study.plan.schemes.for_new:
        return ""
    if study.plan.schemes.shares_nothing(sharing):
        return LOCAL
    return RAW if study.plan.schemes.joins(sharing) == "raw" else FEDERATION


def word_claim(study: Study, named_claim: Claim) -> str:
    """A claim of a study in words."""
    if named_claim.text:
        return named_claim.text
    by_key = {axis.key: axis for axis in study.plan.axes}
    conditions = [
        join_words(named_claim.labels(key), "or")
        if key not in by_key
        else join_words(
            (
                word_value(by_key[key], label, study.client_word)
                for label in named_claim.labels(key)
            ),
            "or",
        )
        for key in named_claim.where
    ]
    start = f"with {' and '.join(conditions)}: " if conditions else ""
    if set(named_claim.where) == {"data.states"}:
        start = f"in {conditions[0]}: "
    score = CLAIM_SCORES[named_claim.score]
    verb = score.describe(study.task.forecasts).format(
        client_word=study.client_word, share=named_claim.share or 1
    )
    if named_claim.score == LOADS_SCORE:
        sides = verb if start else capitalise(verb)
    else:
        # Where the sides differ in something that the claim is made for each of, all are meant.
        has_every_name = bool({"method", "client_opt"} & {*named_claim.each})
        pairs = (named_claim.better, named_claim.than), (named_claim.than, named_claim.better)
        better, than = (
            word_side(study, *pair, has_every_name, is_first=not start and pair is pairs[0])
            for pair in pairs
        )
        if named_claim.share is not None:
            amount = (
                f"{100 * named_claim.share:.4g} % of"
                if named_claim.share < 1
                else f"{named_claim.share:g} times"
            )
            score_name = named_claim.score.partition("_")[0]
            verb = f"{score.of_share} {amount} the {score_name} of"
        elif named_claim.margin:
            verb = f"has an error at most {100 * named_claim.margin:g} % above that of"
        sides = f"{better} {verb} {than}"
    words = {"state": "state", "variant": "variant", "sharing": "sharing scheme"}
    words |= {"server_opt": "server optimiser", "client_opt": "local optimiser", "method": "method"}
    differ = (
        {"method", "client_opt"} if len({*named_claim.better, *named_claim.than}) > 1 else set()
    )
    names = [
        parse_name(text, study.plan.axes)[1] for text in (*named_claim.better, *named_claim.than)
    ]
    if not any(name.sharing == ANY for name in names):
        differ.add("sharing")
    axes = [words[axis] for axis in named_claim.each if axis not in differ]
    scope = f", for every {join_words(axes)}" if axes else ""
    return f"{capitalise(start)}{sides}{scope}"


# -- numbers of comparisons ------------------------------------------------------------------------


def word_number(value: float | None, score: str) -> str:
    """A difference, or for counted quantities a ratio, in print; a dash if it is unknown."""
    if value is None or pd.isna(value):
        return "–"
    if score in COUNTED:
        return f"{value:.2%}" if value < 1 else f"{value:.3g}"
    if score == LOADS_SCORE:  # intervals of two or three clients can be wide
        return "over 1,000" if value >= 1000 else f"{value:.3g}"
    return f"{value:+.3g}"


def estimate(row: Any) -> str:
    """The difference of a row with its interval: "+0.12 [+0.05, +0.2]"; empty if there is none."""
    if pd.isna(row.get("difference")):
        return ""
    effect, low, high = (
        word_number(row[end], row["score"]) for end in ("difference", "low", "high")
    )
    return effect if low == high == "–" else f"{effect} [{low}, {high}]"


def word_scope(row: Any, are_meters: bool) -> str:
    """The data that a row is based on: "132 meters, 3 sites, 4 origins, 16 weeks, 5 seeds". A
    single state or origin is not mentioned."""
    client, state = ("meter", "site") if are_meters else ("client", "state")
    fewest_levels = {"clients": (1, client), "states": (2, state), "origins": (2, "origin")}
    fewest_levels |= {"weeks": (1, "week"), "seeds": (1, "seed")}
    counts = {name: 0 if pd.isna(row.get(name)) else int(row[name]) for name in fewest_levels}
    return ", ".join(
        count_in_words(counts[name], word)
        for name, (fewest, word) in fewest_levels.items()
        if counts[name] >= fewest
    )


def claims_as_text(study: Study, rows: Iterable[Any], heading: str) -> str:
    """The claims as text: a line `heading` them, then each with its verdict and evidence."""
    lines = [f"{study.name}{study.data.sample_suffix}: {heading}"]
    for row in rows:
        p = "" if pd.isna(row["p"]) else f"p = {row['p']:.2g}"
        told_of = filter(None, [estimate(row), p, word_scope(row, study.client_word == "meter")])
        lines += ["", f"({row['claim']}) {row['text']}"]
        lines.append(f"  {row['verdict'].upper()}" + "".join(f"; {fact}" for fact in told_of))
        lines += [f"      {row[column]}" for column in ("reason", "needed") if row[column]]
    return "\n".join(lines)
