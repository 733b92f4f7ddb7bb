"""The claims that a study names, and comparisons over all of its variants.

Each claim compares two forecasters, each the best on validation of those that it names, in every
state of every variant that it is about, or, where they are named at values of axes, of every group
of variants that differ in these. The differences are means over the variants of an origin; states
and origins are pooled. They are judged as all claims are (`plfl.results.verdict`), and Holm's
correction counts all of them, and nothing else.

With a margin m, a difference is (1 + m) · MASE of the other side less that of the better one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from plfl.baselines import BASELINE
from plfl.config.axes import Axis, named
from plfl.config.sections import Contrast
from plfl.config.study import Study
from plfl.results import family
from plfl.results.claims import scope
from plfl.results.scores import AXES, Scores
from plfl.results.statistics import Array, Comparison
from plfl.results.tables import fitting
from plfl.results.variants import Variant, comparable, variants
from plfl.results.verdict import Evidence, NotInStudyError, Verdict, judge, settle

CLAIMS = "claims.csv"
ORIGINS = "data.origins"
"""The axis whose values have test sets of their own."""
COLUMNS = ["family", "claim", "text", "answer", "effect", "low", "high", "lowest"]
COLUMNS += ["highest", "p", "p_alone", "clients", "states", "origins", "weeks", "seeds", "scope"]
COLUMNS += ["reason", "needed"]
"""Columns of `claims.csv`; `lowest` and `highest` are the effects without one of the states."""
EXPLORATORY = "exploratory"
"""What all other comparisons are called in tables."""


@dataclass(frozen=True)
class Piece:
    """What each week of a variant adds to the scores of a state, or to differences of them."""

    state: str
    origin: str
    clients: tuple[str, ...]
    weekly: Array
    """Shape (clients, seeds, weeks)."""

    def of(self, clients: Sequence[str]) -> Array:
        """The part of some clients, in their order."""
        return self.weekly[[self.clients.index(client) for client in clients]]


@dataclass(frozen=True)
class Stack:
    """The pieces of a state put together: the mean over the variants of each origin, and one origin
    after the other."""

    clients: list[str]
    """Clients that all pieces have."""
    weekly: Array
    """Shape (clients, seeds, weeks); its sums over weeks are means over the origins."""
    weeks: tuple[int, ...]
    """How many of the weeks belong to each origin."""


def stacked(pieces: Sequence[Piece]) -> dict[str, Stack]:
    """The pieces by state."""
    found = {}
    for state in dict.fromkeys(piece.state for piece in pieces):
        here = [piece for piece in pieces if piece.state == state]
        clients = [c for c in here[0].clients if all(c in piece.clients for piece in here)]
        tables = [
            _mean([piece.of(clients) for piece in here if piece.origin == origin])
            for origin in dict.fromkeys(piece.origin for piece in here)
        ]
        weekly = np.concatenate(tables, axis=2) / len(tables)
        found[state] = Stack(clients, weekly, tuple(table.shape[2] for table in tables))
    return found


def pooled(names: Sequence[str], pieces: Sequence[Piece], trained: bool = True) -> Comparison:
    """The comparison over states and origins."""
    stacks = stacked(pieces)
    return Comparison(
        tuple(dict.fromkeys(names)),
        {state: stack.weekly for state, stack in stacks.items()},
        trained,
        {state: stack.weeks for state, stack in stacks.items()},
    )


def _mean(tables: Sequence[Array]) -> Array:
    """The mean of tables with the same clients and seeds. Of more weeks, the last become one."""
    weeks = range(min(table.shape[2] for table in tables))
    mean: Array = np.mean([np.add.reduceat(table, weeks, axis=2) for table in tables], axis=0)
    return mean


def verdicts(study: Study, found: Sequence[Variant]) -> list[Verdict]:
    """The verdict on each claim of a study, corrected for their number."""
    return settle([_judged(i, claim, study, found) for i, claim in enumerate(study.claims, 1)])


def of_folder(folder: Path, study: Study) -> list[Verdict]:
    """The same, given the results folder."""
    found = variants(study, folder) if study.claims else []
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
    pieces, names, trained = [], [], False
    lost: tuple[list[str], list[str]] = ([], [])
    for group in _groups(claim, about, axes):
        for state in group[0].tables.study.data.states:
            best, used = [], dict[str, Variant]()
            for side, to in zip((claim.better, claim.than), lost, strict=True):
                among = list(_candidates(group, state, side, axes))
                used |= {one.variant.label: one.variant for one in among}
                finite = [one for one in among if np.isfinite(one.validation)]
                best += [min(finite, key=lambda one: one.validation)] if finite else []
                to += [] if finite else [one.name for one in among]
            _check_comparable(list(used.values()), state)
            if len(best) < len(lost):
                continue
            names += [one.name for one in best]
            trained |= not all(is_baseline(one.scores, one.k) for one in best)
            origin = group[0].place.get(ORIGINS, "")
            a, b = (
                Piece(state, origin, one.scores.clients, one.scores.by_client(one.k))
                for one in best
            )
            left = (1 + claim.margin) * b.of(a.clients) - a.weekly
            pieces.append(replace(a, weekly=left))
    comparison = pooled(names, pieces, trained)
    blocking, excused = (tuple(dict.fromkeys(side)) for side in lost)
    return Evidence([comparison] if comparison.scored else [], blocking, excused)


def _groups(
    claim: Contrast, about: Sequence[Variant], axes: Sequence[Axis]
) -> Iterator[list[Variant]]:
    """The variants that differ only on axes at whose values the claim names forecasters."""
    places = [named(name, axes)[0] for name in (*claim.better, *claim.than)]
    columns = {axis.column for axis in axes if any(axis.key in place for place in places)}
    groups: dict[tuple[str, ...], list[Variant]] = {}
    for variant in about:
        rest = tuple(value for key, value in variant.place.items() if key not in columns)
        groups.setdefault(rest, []).append(variant)
    yield from groups.values()


def _check_comparable(used: Sequence[Variant], state: str) -> None:
    """Refuse variants whose MASE are of other clients or other test sets.

    Raises:
        NotInStudyError: they have others.
    """
    one, *others = (variant.tables for variant in used)
    for other in others:
        here, there = (
            set(tables.clients.loc[tables.clients["state"] == state, "client"])
            for tables in (one, other)
        )
        if here != there or not comparable(one, other, state):
            raise NotInStudyError("the variants that it compares have other clients or test sets")


def is_baseline(of_state: Scores, k: int) -> bool:
    """Whether a combination is a baseline."""
    return of_state.combinations[k][AXES.index("sharing")] == BASELINE


class _Candidate(NamedTuple):
    """A combination that a side of a claim names."""

    scores: Scores
    """Those that it belongs to."""
    k: int
    """Its place among them."""
    name: str
    """A name that tells the variants of a group apart."""
    variant: Variant

    @property
    def validation(self) -> float:
        return float(self.scores.validation[self.k])


def _candidates(
    group: Sequence[Variant], state: str, names: Sequence[str], axes: Sequence[Axis]
) -> Iterator[_Candidate]:
    """The combinations that a side of a claim names."""
    columns = {axis.key: axis.column for axis in axes}
    for full in names:
        place, name = named(full, axes)
        short = name.removesuffix("-global")
        sharing, _, method = short.partition("-")
        label = full.removesuffix(name)
        here = [v for v in group if all(v.place[columns[k]] == at for k, at in place.items())]
        if not here:
            raise NotInStudyError(f"`where` leaves no variant of {full}")
        for variant in here:
            of_state = variant.scores["local" if short == name else "global"][state]
            these = of_state.where(sharing=sharing, **({"method": method} if method else {}))
            if not these.any():
                where = variant.tables.folder
                raise NotInStudyError(f"{where}: {state} has no cell or baseline {name}")
            for k in np.flatnonzero(these):
                yield _Candidate(of_state, int(k), label + of_state.names[k], variant)


def table(judged: Sequence[Verdict], folder: Path) -> pd.DataFrame:
    """A row per verdict, given the results folder: what it says, on what it rests, and when its
    claim was named (`family`)."""
    before = family.noted(folder) if judged else None
    rows = []
    for verdict in judged:
        every = asdict(replace(verdict, spread=None))
        lowest, highest = verdict.without_one_state or (None, None)
        rows.append(
            {
                **{column: every[column] for column in COLUMNS if column in every},
                "family": family.named(verdict.text, before),
                "lowest": lowest,
                "highest": highest,
                "scope": scope(replace(verdict, without_one_state=None)),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)
