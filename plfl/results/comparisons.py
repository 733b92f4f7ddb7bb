"""The comparisons of a study of forecasts: one table, which everything that shows them reads.

`comparisons.csv` has a row per comparison (`plfl.results.contest`):

- `about`: `claim`, of those that the study names, with their verdicts; `federation`, the best
  federation against the best ways without one; `new`, what new clients receive against naive
  forecasts; `axis`, a value of an axis against the first one;
- `claim`: its name, such as `c1`; `place`: where on the axes, in words; `state`, if about one;
- `text`: the comparison in words; `better`, `than`: its sides, as claims name them; `chosen`,
  `chosen_than`: the forecasters that represent them, chosen on validation;
- `score`: as in claims; empty: the error (MASE);
- `error`, `error_than`: means over clients and seeds; `difference`: positive where `better` has
  the lower error (for counted quantities a ratio), its 95 % interval `low` to `high`, its range
  `lowest` to `highest` without one of the states;
- `clients`, `states`, `origins`, `weeks`, `seeds`: the data that it is based on;
- `verdict`, `p`, `p_alone`, `reason`, `needed`: only of claims (`plfl.results.claims`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.minutes import MINUTES_PER_DAY, MINUTES_PER_WEEK
from plfl.base.spreadsheets import write_csv
from plfl.results import claims, words
from plfl.results.checksums import write_sums
from plfl.results.contenders import NotInStudyError
from plfl.results.contest import Contest, contests
from plfl.results.records import read_csv, refuse_damage
from plfl.results.scores import pool
from plfl.results.selection import scheme_method_pairs
from plfl.results.tables import refuse_contradictions
from plfl.results.variants import Variant, group_variants
from plfl.study import Study
from plfl.study.forecaster_names import FEDERATION, LOCAL, RAW, ForecasterName

COMPARISONS_FILE = "comparisons.csv"
ORIGINS = "data.origins"
"""The axis whose values have different test sets."""
TEXT_COLUMNS = [
    "about",
    "claim",
    "place",
    "state",
    "text",
    "better",
    "than",
    "chosen",
    "chosen_than",
]
TEXT_COLUMNS += ["score", "verdict", "reason", "needed"]
NUMBER_COLUMNS = ["error", "error_than", "difference", "low", "high", "lowest", "highest"]
NUMBER_COLUMNS += ["clients", "states", "origins", "weeks", "seeds", "p", "p_alone"]
COMPARISON_COLUMNS = [*TEXT_COLUMNS[:10], *NUMBER_COLUMNS, *TEXT_COLUMNS[10:]]
COLUMN_TYPES: dict[str, Any] = dict.fromkeys(TEXT_COLUMNS, str)
COLUMN_TYPES |= dict.fromkeys(NUMBER_COLUMNS, float)
FEWEST_TEST_WEEKS = 4
"""The least number of weeks of the test set for the interval of a client."""
MONTH = 30
"""Days of a month."""
BEST_ALONE = "the best without one"


def compute_comparisons(study: Study, variants: Sequence[Variant]) -> pd.DataFrame:
    """The comparisons of a study, given its variants."""
    with refuse_contradictions(*(variant.tables.folder for variant in variants)):
        rows = [row | {"about": "claim"} for row in claims.judge_claims(study, variants)]
        for place, place_variants in places(study, variants) if study.task.forecasts else ():
            for about, compare in (
                ("federation", _compare_federation),
                ("new", _compare_new_clients),
            ):
                labels = {"about": about, "place": place}
                rows += [row | labels for row in compare(study, place_variants)]
        rows += _compare_axes(study, variants)
        table = pd.DataFrame(rows, columns=COMPARISON_COLUMNS)
        table = table.astype(dict.fromkeys(TEXT_COLUMNS, object)).fillna(
            dict.fromkeys(TEXT_COLUMNS, "")
        )
        return table.astype(COLUMN_TYPES)


def write_comparisons(study: Study, variants: Sequence[Variant], folder: Path) -> None:
    """Write the comparisons of a study into its results folder, and the checksums of all tables."""
    write_csv(compute_comparisons(study, variants), folder / COMPARISONS_FILE)
    write_sums(folder)


def read(folder: Path, study: Study, variants: Sequence[Variant] = ()) -> pd.DataFrame:
    """The comparisons of the study in a results folder; computed if its file is missing, as in a
    deployed study. `variants`: those of another kind than of forecasts."""
    path = folder / COMPARISONS_FILE
    if not path.is_file():
        return compute_comparisons(study, variants or Variant.all_of(study, folder))
    with refuse_damage(path):
        rows = read_csv(path, COLUMN_TYPES)[COMPARISON_COLUMNS]
        return rows.fillna(dict.fromkeys(TEXT_COLUMNS, ""))


def places(study: Study, variants: Sequence[Variant]) -> Iterator[tuple[str, list[Variant]]]:
    """The variants at each place on the axes, whose origins are pooled, with the place in words."""
    for place_variants in group_variants(variants, [ORIGINS]):
        yield words.word_place(study, place_variants[0].place, [ORIGINS]), place_variants


def contest_of(
    study: Study,
    variants: Sequence[Variant],
    better: Sequence[str],
    than: Sequence[str],
    **options: Any,
) -> Contest | None:
    """The comparison of two sets of forecasters; None if the study lacks one, or their scores."""
    try:
        (contest,) = contests(study, variants, better, than, **options)
    except NotInStudyError:
        return None
    return contest if contest.difference.scored_differences else None


def contest_of_federation(study: Study, variants: Sequence[Variant]) -> Contest | None:
    """The best federation against the best without one; None if the study lacks one of them."""
    return contest_of(study, variants, [FEDERATION], [LOCAL])


def gains(contest: Contest) -> Iterator[dict[str, Any]]:
    """What each client gains from the first set of forecasters, in a study whose only further axis
    are origins, if any. They are pooled: a gain is a mean over the origins.

    Yields `state`, `client`; `mase_alone` and `mase_federated`, the errors of the second set and of
    the first; the `gain`, their difference, with its 95 % interval `low` to `high` over the weeks
    of the test set (NaN with fewer than `FEWEST_TEST_WEEKS`); the gain in `percent` of the error of
    the second set, the absolute errors saved in 30 days, `kwh_a_month`, and those of the second
    set, `kwh_alone`.
    """
    for state in dict.fromkeys(score_set.state for score_set in contest.score_sets):
        parts = [
            (pair, score_set)
            for pair, score_set in zip(contest.pairs, contest.score_sets, strict=True)
            if score_set.state == state
        ]
        score_sets = [score_set for _, score_set in parts]
        energies = [_kwh_of_error(better.variant, state) for (better, _), _ in parts]
        for client in score_sets[0].clients:
            if not all(client in score_set.clients for score_set in score_sets):
                continue
            own_score_sets = [
                replace(
                    score_set,
                    clients=(client,),
                    weekly=score_set.select([client]).mean(axis=1, keepdims=True),
                )
                for score_set in score_sets
            ]
            difference = replace(pool(own_score_sets, is_trained=False), is_sampled=False)
            if not difference.scored_differences:
                continue
            errors = [
                float(rival.forecaster.select([client]).sum(axis=2).mean())
                for (_, rival), _ in parts
            ]
            mean_error = float(np.mean(errors))
            kwh_alone = [
                error * float(energy[client])
                for error, energy in zip(errors, energies, strict=True)
            ]
            has_enough_weeks = difference.differences[state].shape[2] >= FEWEST_TEST_WEEKS
            low, high = difference.interval if has_enough_weeks else (np.nan, np.nan)
            saved_energies = [
                score_set.weekly.sum() * float(energy[client])
                for score_set, energy in zip(own_score_sets, energies, strict=True)
            ]
            yield {
                "state": state,
                "client": client,
                "mase_alone": mean_error,
                "mase_federated": mean_error - difference.effect,
                "gain": difference.effect,
                "low": low,
                "high": high,
                "percent": 100 * difference.effect / mean_error if mean_error else np.nan,
                "kwh_a_month": float(np.mean(saved_energies)),
                "kwh_alone": float(np.mean(kwh_alone)),
            }


def _kwh_of_error(variant: Variant, state: str) -> "pd.Series[float]":
    """The kWh of errors in 30 days of each client of a state for a MASE of 1, which is in units of
    the error of persistence, in kWh per interval."""
    clients = variant.tables.clients
    clients_of_state = clients[clients["state"] == state].set_index("client")
    error, interval = clients_of_state["persistence_mae_test"], clients_of_state["interval"]
    energy: pd.Series[float] = error * MINUTES_PER_DAY / interval * MONTH
    return energy


def _compare_federation(study: Study, variants: Sequence[Variant]) -> Iterator[dict[str, Any]]:
    """The best federation against the best without one, over all states and in each, against
    clients that train alone, and against the best on the raw data of all clients."""
    local_schemes = [s for s in study.grid.sharing if study.plan.schemes.shares_nothing(s)]
    rivals = {BEST_ALONE: [LOCAL], "local training": local_schemes}
    rivals["the best on the raw data of all"] = [RAW]
    questions = [(kind, "") for kind, rival_names in rivals.items() if rival_names]
    if len(study.data.states) > 1:
        questions[1:1] = [(BEST_ALONE, state) for state in study.data.states]
    for kind, state in questions:
        states = [state] if state else []
        if contest := contest_of(study, variants, [FEDERATION], rivals[kind], states=states):
            place = f", in {state}" if state else ""
            yield {
                "state": state,
                "text": f"The best federation against {kind}{place}",
                "better": FEDERATION,
                "than": ", ".join(rivals[kind]),
                **contest.row,
            }


def _compare_new_clients(study: Study, variants: Sequence[Variant]) -> Iterator[dict[str, Any]]:
    """What new clients receive against the best forecast that needs neither it nor training."""
    forecasters = map(study.baselines.find, study.baselines.names)
    naive = [
        str(ForecasterName.from_baseline(forecaster.name))
        for forecaster in forecasters
        if forecaster.is_naive and forecaster.reach <= MINUTES_PER_WEEK
    ]
    for scheme in study.plan.schemes.for_new if naive else ():
        if contest := contest_of(study, variants, [scheme], naive):
            name = words.word_scheme(study, scheme)
            text = f"{name}: the others' model against the best naive forecast"
            sides = {"better": scheme, "than": ", ".join(naive)}
            yield {"text": text, **sides, **contest.row}


def _compare_axes(study: Study, variants: Sequence[Variant]) -> Iterator[dict[str, Any]]:
    """What each value of an axis changes against the first one, all else being equal: for the best
    of each sharing scheme, method and model. Values with other test sets are left out."""
    for axis in (axis for axis in study.plan.axes if axis.key != ORIGINS):
        first, *other_labels = axis.choices
        for place_variants in group_variants(variants, [axis.column, ORIGINS]):
            place = words.word_place(study, place_variants[0].place, [ORIGINS, axis.key])
            pairs = dict.fromkeys(
                pair
                for variant in place_variants
                for pair in scheme_method_pairs(variant.tables.study)
            )
            for value, (sharing, method) in ((v, kind) for v in other_labels for kind in pairs):
                for model in place_variants[0].models(sharing, method):
                    name = ForecasterName(sharing, method, is_global=model == "global")
                    sides = [[f"{axis.short}={label}/{name}"] for label in (value, first)]
                    if contest := contest_of(study, place_variants, *sides):
                        labels = [
                            words.word_value(axis, label, study.client_word)
                            for label in (value, first)
                        ]
                        yield {
                            "about": "axis",
                            "place": place,
                            "text": f"{' instead of '.join(labels)}: {contest.label(0)}",
                            "better": sides[0][0],
                            "than": sides[1][0],
                            **contest.row,
                        }
