"""Claims about classifiers under skewed labels, judged on all variants of a study.

`claims.toml` lists them: A to G are those of FedADC (arXiv 2012.09102), Q to S those of the
clustered methods' sources. A claim is a list of comparisons, one per pair of sides and score, and
is judged like the claims about forecasts (`plfl.results.claims`): it *holds* if all comparisons are
significantly in its favour, *does not hold* if one contradicts it, and is *undecided* otherwise.
All clients share the held-out images, so an effect is judged by its variation over seeds alone,
with paired t-tests. P values are corrected by Holm's method over all verdicts of the study.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from pydantic import BaseModel, TypeAdapter

from plfl.base.files import digest
from plfl.config.study import Study
from plfl.results.labels import method_label
from plfl.results.verdict import Evidence, Verdict, finite_or_none, judge, settle
from plfl_images.data import skew_of
from plfl_images.results.classification import target_of
from plfl_images.results.variants import SCORES, Results, over_seeds


class Pair(NamedTuple):
    """How far one side is ahead of the other, seed by seed; NaN if a side diverged."""

    names: tuple[str, str]
    ahead: pd.Series[float]
    lost: tuple[str, ...] = ()
    """The side that should be ahead, if it diverged for a seed."""

    @property
    def evidence(self) -> Evidence:
        """The comparison, if any seed has one."""
        comparison = over_seeds(" against ".join(self.names), self.ahead)
        return Evidence([comparison] if comparison.scored else [], self.lost)


_SKEW = {"data.skew.s": "s", "data.skew.alpha": "α"}
"""Axes that change how many labels clients have, and their symbols."""
Row = tuple[str, str]
"""A method and a ServerOpt."""
_SLOWMO = ("fedopt", "slowmo")
_ROWS: dict[str, Row] = {"SlowMo": _SLOWMO, "FedAvg": ("fedopt", "fedavg")}
"""The rows of the grid that are more than a method with the ServerOpt `fedavg`."""
Where = tuple[str, list[Pair]]
"""The subject of a verdict, such as the variant and the score, and its comparisons."""
Question = Callable[[Sequence[Results]], Iterator[Where]]
"""Finds the comparisons of a claim, for one or more verdicts; none if the study lacks them."""


class Claim(BaseModel, frozen=True):
    """A claim of a paper."""

    text: str
    needs: str
    """What a study needs to test it."""
    unit: str = "points"
    better: str = ""
    """A method, or one of `_ROWS`; with an `axis`, one of its values."""
    than: list[str] = []
    """The other side; empty: all other rows of the grid."""
    axis: str = ""
    """The axis whose values are compared, in all rows of the grid or those of one `method`."""
    method: str = ""
    fewest: bool = False
    """Whether the values are compared only where labels are fewest."""
    scores: list[str] = list(SCORES)
    model: str = "global"


LISTED = TypeAdapter(dict[str, Claim]).validate_python(
    tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
)
"""The claims by name, in the order in which they are judged."""


def verdicts(variants: Sequence[Results]) -> list[Verdict]:
    """The verdicts on every claim, in the order of `LISTED`.

    Args:
        variants: the variants of a study.
    """
    judged: list[Verdict] = []
    for name, claim in LISTED.items():
        blank = Verdict(name, None, unit=claim.unit, text=claim.text)
        if name == "B1":
            found = list(_reached(blank, variants))
        else:
            ask = _OWN.get(name) or partial(_values if claim.axis else _within, claim)
            found = [
                judge(replace(blank, where=where), Evidence.of([pair.evidence for pair in pairs]))
                for where, pairs in ask(variants)
                if pairs
            ]
        lacking = replace(blank, answer="not in this study", reason=f"the grid lacks {claim.needs}")
        judged += found or [lacking]
    return settle(judged)


def about(study: Study) -> str:
    """A sentence about the numbers in the verdicts."""
    chosen = (
        "The hyperparameters of every row of the grid were chosen on validation"
        if study.tuning.search
        else "Hyperparameters have fixed values"
    )
    return (
        f"{chosen}. Differences of test accuracy in points are positive where they support the "
        "claim. Brackets: 95 % intervals over seeds. p: paired t-tests, corrected by Holm's method."
    )


def _reached(blank: Verdict, variants: Sequence[Results]) -> Iterator[Verdict]:
    """(B1): the rounds to the target, which need no test."""
    for one in variants:
        for row in _rows(one, "fedadc"):
            rounds = one.scored(row, "rounds_to_target")
            count, target = int(rounds.notna().sum()), 100 * target_of(one.study)
            yield replace(
                blank,
                where=one.label,
                answer="holds" if count == len(rounds) else "does not hold",
                effect=finite_or_none(float(rounds.mean())),
                low=finite_or_none(float(rounds.min())),
                high=finite_or_none(float(rounds.max())),
                seeds=len(rounds),
                reason=f"{count} of {len(rounds)} seeds reach {target:g} %; the range over seeds "
                "is in brackets; no test",
            )


def _rows(one: Results, method: str, server: str = "fedavg") -> list[dict[str, str]]:
    """The rows of the grid with a method and a ServerOpt."""
    return [row for row in one.rows if (row["method"], row["server_opt"]) == (method, server)]


def _row(name: str) -> Row:
    return _ROWS.get(name, (name, "fedavg"))


def _name(row: Row) -> str:
    return next((name for name, one in _ROWS.items() if one == row), method_label(row[0]))


def _ahead(
    one: Results,
    better: Row,
    worse: Sequence[Row],
    score: str,
    model: str = "global",
) -> list[Pair]:
    """A method and ServerOpt against others with the same ClientOpt and sharing scheme."""
    pairs = []
    for row, key in itertools.product(_rows(one, *better), worse):
        for other in _rows(one, *key):
            if all(other[axis] == row[axis] for axis in ("state", "sharing", "client_opt")):
                ours, theirs = (one.scored(r, score, model) for r in (row, other))
                lost = (_name(better),) if ours.isna().any() else ()
                pairs.append(Pair((_name(better), _name(key)), 100 * (ours - theirs), lost))
    return pairs


def _within(claim: Claim, variants: Sequence[Results]) -> Iterator[Where]:
    """By variant and score: is a row of the grid more accurate than others?"""
    better = _row(claim.better)
    rows = ((row["method"], row["server_opt"]) for one in variants for row in one.rows)
    others = list(map(_row, claim.than)) or [r for r in dict.fromkeys(rows) if r != better]
    for label, one in _distinct(variants, [better, *others]):
        for score in claim.scores:
            pairs = _ahead(one, better, others, score, claim.model)
            yield _where(label, SCORES.get(score, "")), pairs


def _values(claim: Claim, variants: Sequence[Results]) -> Iterator[Where]:
    """By score: is one value of an axis better than another?"""
    better, worse = claim.better, claim.than[0]
    lines = list(_along(variants, [claim.axis]))
    least = min((_labels(line[0]) for _, _, line in lines), default=0.0)
    for (_, rest, line), score in itertools.product(lines, SCORES):
        both = {one.place[claim.axis]: one for one in line}
        if not {better, worse} <= set(both) or (claim.fewest and _labels(line[0]) > least):
            continue
        ours, theirs = both[better], both[worse]
        names = [name.replace("_", "-") for name in (better, worse)]
        yield (
            _where(rest, SCORES[score]),
            [
                Pair(
                    (f"{_name((row['method'], row['server_opt']))}, {names[0]}", names[1]),
                    100 * (ours.scored(row, score) - theirs.scored(row, score)),
                )
                for row in (_rows(ours, claim.method) if claim.method else ours.rows)
            ],
        )


def _distinct(
    variants: Sequence[Results], keys: Sequence[tuple[str, str]]
) -> list[tuple[str, Results]]:
    """Yields one of each group of variants with the same trainings of the methods and ServerOpts
    `keys`.

    A hyperparameter of another method, for example, does not change them.

    Returns:
        Each such variant, with the common part of the names of its group.
    """
    groups: dict[str, list[Results]] = {}
    for one in variants:
        study = one.study
        cells = [cell for cell in study.cells if (cell.method, cell.server_opt) in keys]
        groups.setdefault(digest([study.settings(cell) for cell in cells]), []).append(one)
    named = []
    for same in groups.values():
        parts = [one.label.split(",") for one in same]
        common = [part for part in parts[0] if all(part in others for others in parts)]
        named.append((",".join(common), same[0]))
    return named


def _where(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _along(
    variants: Sequence[Results], keys: Sequence[str]
) -> Iterator[tuple[str, str, list[Results]]]:
    """Variants that differ only on one of the axes `keys`, in the order of its values.

    Yields:
        The key, the place on the other axes in words, and the variants.
    """
    for key in keys:
        lines: dict[str, list[Results]] = {}
        for one in variants:
            if key in one.place:
                rest = ", ".join(f"{k}={v}" for k, v in one.place.items() if k != key)
                lines.setdefault(rest, []).append(one)
        for rest, line in lines.items():
            if len(line) > 1:
                yield key, rest, line


def _ends(variants: Sequence[Results]) -> Iterator[tuple[str, Results, Results]]:
    """Variants with the fewest and with the most labels per client that are otherwise equal."""
    for key, rest, line in _along(variants, list(_SKEW)):
        line = sorted(line, key=lambda one: float(one.place[key]))
        few, many = line[0], line[-1]
        change = f"{_SKEW[key]} = {few.place[key]} against {many.place[key]}"
        yield _where(rest, change), few, many


def _widens(variants: Sequence[Results]) -> Iterator[Where]:
    """(A3): FedADC's lead over SlowMo with few labels, minus its lead with many."""
    for (where, few, many), score in itertools.product(_ends(variants), SCORES):
        leads = [_ahead(one, ("fedadc", "fedavg"), [_SLOWMO], score) for one in (few, many)]
        yield (
            _where(where, SCORES[score]),
            [
                Pair(("the lead with few labels", "that with many"), a.ahead - b.ahead, a.lost)
                for a, b in zip(*leads, strict=True)
            ],
        )


def _slower(variants: Sequence[Results]) -> Iterator[Where]:
    """(B2): rounds of FedADC to the target with few labels, minus those with many."""
    for where, few, many in _ends(variants):
        for row in _rows(few, "fedadc"):
            rounds = [one.scored(row, "rounds_to_target") for one in (few, many)]
            yield f"{where}, rounds", [Pair(("few labels", "many"), rounds[0] - rounds[1])]


def _labels(one: Results) -> float:
    """How many labels clients have, on the scale of their split."""
    skew = skew_of(one.study.data)
    return skew.s if skew.split == "sort_and_partition" else skew.alpha


def _many_clients(variants: Sequence[Results]) -> Iterator[Where]:
    """(E): FedADC+ against FedDyn in all variants at once."""
    keys = {"data.clients", "federation.local_epochs"}
    if not any(keys & set(one.place) for one in variants):
        return
    for score in SCORES:
        yield (
            SCORES[score],
            [
                Pair((f"FedADC+ ({one.label})", "FedDyn"), pair.ahead, pair.lost)
                for one in variants
                for pair in _ahead(one, ("fedadc_plus", "fedavg"), [("feddyn", "fedavg")], score)
            ],
        )


def _calibrated(variants: Sequence[Results]) -> Iterator[Where]:
    """(F): the calibrated local models against the global ones, in every row of the grid."""
    for one in variants:
        if one.study.federation.calibration.epochs:
            pairs = []
            for row in one.rows:
                own, served = (one.scored(row, "own_accuracy", m) for m in ("local", "global"))
                name = f"{_name((row['method'], row['server_opt']))}, calibrated"
                pairs.append(Pair((name, "the server's model"), 100 * (own - served)))
            yield one.label, pairs


def _clusters(variants: Sequence[Results]) -> Iterator[Where]:
    """(S2): FedSC with each number of clusters against the next smaller one."""
    key = "hyperparameters.method.fedsc.clusters"
    for (_, rest, line), score in itertools.product(list(_along(variants, [key])), SCORES):
        line = sorted(line, key=lambda one: float(one.place[key]))
        pairs = [
            Pair(
                (f"{more.place[key]} clusters", fewer.place[key]),
                100 * (more.scored(row, score) - fewer.scored(row, score)),
            )
            for fewer, more in itertools.pairwise(line)
            for row in _rows(more, "fedsc")
        ]
        yield _where(rest, SCORES[score]), pairs


_OWN: dict[str, Question] = {
    "A3": _widens,
    "B2": _slower,
    "E": _many_clients,
    "F": _calibrated,
    "S2": _clusters,
}
"""The questions that compare neither rows of the grid nor values of an axis."""
