"""The claims that a study names, and comparisons over all of its variants.

A claim has two sides, and each side names forecasters. In every state of every variant that the
claim is about, the best forecaster of each side on validation is compared with that of the other.
If a side names values of axes, it is the best over the group of variants that differ in these axes.
Differences are averaged over the variants of an origin; states and origins are pooled. The claims
are judged like all claims (`plfl.results.verdict`). Holm's correction is for their number alone.

With a margin m, a difference is (1 + m) · MASE of the other side minus that of the better one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from plfl.config.axes import Axis, parsed
from plfl.config.sections import Contrast
from plfl.config.study import Study
from plfl.results import family
from plfl.results.claims import scope
from plfl.results.scores import Forecaster
from plfl.results.tables import fitting
from plfl.results.variants import Variant, grouped
from plfl.results.verdict import Evidence, NotInStudyError, Verdict, best_of, judge, settle

CLAIMS = "claims.csv"
COLUMNS = ["family", "claim", "text", "answer", "effect", "low", "high", "lowest"]
COLUMNS += ["highest", "p", "p_alone", "clients", "states", "origins", "weeks", "seeds", "scope"]
COLUMNS += ["reason", "needed"]
"""Columns of `claims.csv`; `lowest` and `highest` are the effects without one of the states."""
EXPLORATORY = "exploratory"
"""The family of all other comparisons, as tables name it."""


def verdicts(study: Study, found: Sequence[Variant]) -> list[Verdict]:
    """The verdict on each claim of a study, corrected for their number."""
    return settle([_judged(i, claim, study, found) for i, claim in enumerate(study.claims, 1)])


def of_folder(folder: Path, study: Study) -> list[Verdict]:
    """The verdict on each claim of the study in a results folder."""
    found = Variant.all_of(study, folder) if study.claims else []
    with fitting(*(variant.tables.folder for variant in found)):
        return verdicts(study, found)


def _judged(i: int, claim: Contrast, study: Study, found: Sequence[Variant]) -> Verdict:
    metered = study.participant == "meter"
    blank = Verdict(f"c{i}", None, text=str(claim), metered=metered)
    columns = {axis.key: axis.column for axis in study.axes}
    about = [
        variant
        for variant in found
        if all(variant.place[columns[key]] in claim.labels(key) for key in claim.where)
    ]
    try:
        return judge(blank, _evidence(claim, about, study.axes))
    except NotInStudyError as lacking:
        return replace(blank, answer="not in this study", reason=str(lacking))


def _evidence(claim: Contrast, about: Sequence[Variant], axes: Sequence[Axis]) -> Evidence:
    places = [parsed(name, axes)[0] for name in (*claim.better, *claim.than)]
    free = [axis.column for axis in axes if any(axis.key in place for place in places)]
    sides = []
    for group in grouped(about, free):
        for state in group[0].tables.study.data.states:
            better, than = (
                list(_forecasters(group, state, names, axes))
                for names in (claim.better, claim.than)
            )
            first = better[0]
            for one in (*better, *than):
                if {*one.clients} != {*first.clients} or not one.is_comparable(first):
                    raise NotInStudyError(
                        "the variants that it compares have other clients or test sets"
                    )
            sides.append((better, than))
    return best_of(sides, claim.margin)


def _forecasters(
    group: Sequence[Variant], state: str, names: Sequence[str], axes: Sequence[Axis]
) -> Iterator[Forecaster]:
    """The forecasters that a side of a claim names; their own names tell the variants of a group
    apart."""
    columns = {axis.key: axis.column for axis in axes}
    for full in names:
        place, name = parsed(full, axes)
        short = name.removesuffix("-global")
        sharing, _, method = short.partition("-")
        label = full.removesuffix(name)
        here = [v for v in group if all(v.place[columns[k]] == at for k, at in place.items())]
        if not here:
            raise NotInStudyError(f"`where` leaves no variant of {full}")
        for variant in here:
            of_state = variant.scores["local" if short == name else "global"][state]
            these = of_state.those(sharing=sharing, **({"method": method} if method else {}))
            if not these:
                where = variant.tables.folder
                raise NotInStudyError(f"{where}: {state} has no cell or baseline {name}")
            for one in these:
                yield replace(one, name=label + one.name)


def table(judged: Sequence[Verdict], folder: Path) -> pd.DataFrame:
    """A row per verdict, given the results folder: what it says, the data that it is based on, and
    when its claim was named (`family`)."""
    before = family.noted(folder) if judged else None
    rows = []
    for verdict in judged:
        every = asdict(replace(verdict, spread=None))
        lowest, highest = verdict.without_one_state or (None, None)
        rows.append(
            {
                **{column: every[column] for column in COLUMNS if column in every},
                "family": family.dated(verdict.text, before),
                "lowest": lowest,
                "highest": highest,
                "scope": scope(replace(verdict, without_one_state=None)),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)
