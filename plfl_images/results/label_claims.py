"""Claims about classifiers under skewed labels, judged on all variants of a study.

A to G are those of FedADC (arXiv 2012.09102), Q to S those of the clustered methods' sources. A
claim is a list of comparisons, one per pair of sides and score, and is judged like the claims about
forecasts (`plfl.results.claims`): it *holds* if all comparisons are significantly in its favour,
*does not hold* if one contradicts it, and is *undecided* otherwise. All clients share the held-out
images, so an effect is judged by its variation over seeds alone, with paired t-tests. P values are
corrected by Holm's method over all verdicts of the study.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from plfl.config.study import Study
from plfl.files import digest
from plfl.results.claims import listed
from plfl.results.labels import method_label
from plfl.results.statistics import ALPHA
from plfl.results.verdict import NotInStudyError, Verdict, finite_or_none, settle
from plfl_images.data import skew_of
from plfl_images.results.classification import target_of
from plfl_images.results.paired import Pair, judge
from plfl_images.results.variants import SCORES, Trained, side

CLAIMS = {
    "A1": "SlowMo is more accurate than FedAvg",
    "A2": "FedADC is more accurate than SlowMo",
    "A3": "the fewer labels clients have, the further FedADC is ahead of SlowMo",
    "B1": "FedADC reaches the target accuracy, however few labels clients have",
    "B2": "the fewer labels clients have, the more rounds FedADC needs to the target accuracy",
    "C": "where clients have fewest labels, FedADC is more accurate with Nesterov than with"
    " heavy-ball momentum",
    "D": "FedADC+ is more accurate than every other method",
    "E": "FedADC+ is more accurate than FedDyn with any number of clients and local epochs",
    "F": "calibrating the head makes models more accurate on the clients' own labels",
    "G": "selecting participants whose labels cover all classes makes models more accurate than"
    " selecting them uniformly",
    "Q": "FedCluster is more accurate than FedAvg after a quarter of the rounds",
    "R": "the clients' models of FedAC are more accurate on their own labels than those of IFCA,"
    " one-shot clustering, FedCluster and FedSC",
    "S1": "FedSC is more accurate than FedAvg, FedProx and FedCluster",
    "S2": "the more clusters FedSC has, the more accurate it is",
}
"""The claims by name."""
_SKEW = {"data.skew.s": "s", "data.skew.alpha": "α"}
"""Axes along which clients have fewer or more labels, and their symbols."""


Where = tuple[str, list[Pair]]
"""What a verdict is about, such as the variant and the score, and its comparisons."""
Question = Callable[[Sequence[Trained]], Iterator[Where]]
"""Finds the comparisons of a claim, for one or more verdicts; none if the study lacks them."""


def verdicts(variants: Sequence[Trained]) -> list[Verdict]:
    """The verdicts on every claim, in the order of `CLAIMS`.

    Args:
        variants: the variants of a study; see `plfl_images.results.variants.trained`.

    Raises:
        ResultsError: a table is missing or damaged.
    """
    judged: list[Verdict] = []
    for claim, text in CLAIMS.items():
        unit = "rounds" if claim == "B2" else "points"
        blank = Verdict(claim, None, unit=unit, text=text)
        if claim == "B1":
            judged += [replace(verdict, text=text) for verdict in _reached(variants)]
            continue
        try:
            judged += [
                judge(replace(blank, where=w), pairs) for w, pairs in _ASKED[claim](variants)
            ]
        except NotInStudyError as lacking:
            judged.append(replace(blank, answer="not in this study", reason=str(lacking)))
    return settle(judged)


def as_text(study: Study, judgements: Sequence[Verdict]) -> str:
    """The verdicts as text: each claim, and below it the evidence."""
    return "\n".join([f"{study.name}: claims about classifiers", about(study), *listed(judgements)])


def as_json(study: Study, judgements: Sequence[Verdict]) -> dict[str, Any]:
    """The verdicts as data that JSON can hold."""
    return {
        "study": study.name,
        "alpha": ALPHA,
        "about": about(study),
        "verdicts": [asdict(verdict) for verdict in judgements],
    }


def about(study: Study) -> str:
    """What the numbers of the verdicts are."""
    chosen = (
        "The hyperparameters of every row of the grid were chosen on validation"
        if study.tuning.search
        else "Hyperparameters have fixed values"
    )
    return (
        f"{chosen}. Differences of test accuracy in points are positive where they support the "
        "claim. Brackets: 95 % intervals over seeds. p: paired t-tests, corrected by Holm's method."
    )


def _reached(variants: Sequence[Trained]) -> Iterator[Verdict]:
    """(B1): the rounds to the target, which need no test."""
    blank = Verdict("B1", None, unit="rounds")
    some = False
    for one in variants:
        for row in _rows(one, "fedadc"):
            rounds = side(one, row, "rounds_to_target")
            some, count = True, int(rounds.notna().sum())
            target = 100 * target_of(one.study)
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
    if not some:
        reason = "the grid has no FedADC with the ServerOpt fedavg"
        yield replace(blank, answer="not in this study", reason=reason)


def _rows(one: Trained, method: str, server: str = "fedavg") -> list[dict[str, str]]:
    """The rows of the grid with a method and a ServerOpt."""
    return [row for row in one.rows if (row["method"], row["server_opt"]) == (method, server)]


_SLOWMO, _FEDAVG = ("fedopt", "slowmo"), ("fedopt", "fedavg")
_NAMES = {_SLOWMO: "SlowMo", _FEDAVG: "FedAvg"}


def _name(key: tuple[str, str]) -> str:
    return _NAMES.get(key) or method_label(key[0])


def _ahead(
    one: Trained,
    better: tuple[str, str],
    worse: Sequence[tuple[str, str]],
    score: str,
    model: str = "global",
) -> list[Pair]:
    """A method and ServerOpt against others with the same ClientOpt and sharing scheme."""
    pairs = []
    for row, key in itertools.product(_rows(one, *better), worse):
        for other in _rows(one, *key):
            if all(other[axis] == row[axis] for axis in ("state", "sharing", "client_opt")):
                ours, theirs = (side(one, r, score, model) for r in (row, other))
                lost = (_name(better),) if ours.isna().any() else ()
                pairs.append(Pair((_name(better), _name(key)), 100 * (ours - theirs), lost))
    return pairs


def _within(
    better: tuple[str, str], *worse: tuple[str, str], scores: Sequence[str] = ()
) -> Question:
    """A question per variant and score: is a row of the grid more accurate than others?

    Without `worse`, than all others.
    """

    def ask(variants: Sequence[Trained]) -> Iterator[Where]:
        asked = False
        keys = dict.fromkeys(
            (row["method"], row["server_opt"]) for one in variants for row in one.rows
        )
        others = worse or [key for key in keys if key != better]
        for (label, one), score in itertools.product(
            _distinct(variants, [better, *others]), scores or SCORES
        ):
            if pairs := _ahead(one, better, others, score):
                asked = True
                yield _where(label, SCORES[score]), pairs
        if not asked:
            others_named = " and ".join(map(_name, worse)) or "another method"
            raise NotInStudyError(f"the grid lacks {_name(better)} or {others_named}")

    return ask


def _distinct(
    variants: Sequence[Trained], keys: Sequence[tuple[str, str]]
) -> list[tuple[str, Trained]]:
    """One of the variants that have the same trainings of the methods and ServerOpts `keys`.

    A hyperparameter of another method, for example, does not change them.

    Returns:
        Each such variant, with what the names of all those that equal it have in common.
    """
    groups: dict[str, list[Trained]] = {}
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
    variants: Sequence[Trained], keys: Sequence[str]
) -> Iterator[tuple[str, str, list[Trained]]]:
    """Variants that differ on one of the axes `keys` only, in the order of its values.

    Yields:
        The key, the place on the other axes in words, and the variants.
    """
    for key in keys:
        lines: dict[str, list[Trained]] = {}
        for one in variants:
            if key in one.place:
                rest = ", ".join(f"{k}={v}" for k, v in one.place.items() if k != key)
                lines.setdefault(rest, []).append(one)
        for rest, line in lines.items():
            if len(line) > 1:
                yield key, rest, line


def _ends(variants: Sequence[Trained]) -> Iterator[tuple[str, Trained, Trained]]:
    """Variants with fewest and with most labels per client that are equal otherwise."""
    some = False
    for key, rest, line in _along(variants, list(_SKEW)):
        line = sorted(line, key=lambda one: float(one.place[key]))
        some, (few, many) = True, (line[0], line[-1])
        change = f"{_SKEW[key]} = {few.place[key]} against {many.place[key]}"
        yield _where(rest, change), few, many
    if not some:
        raise NotInStudyError(f"the grid has no axis {' or '.join(_SKEW)}")


def _widens(variants: Sequence[Trained]) -> Iterator[Where]:
    """(A3): FedADC's lead over SlowMo with few labels, less its lead with many."""
    asked = False
    for where, few, many in _ends(variants):
        for score in SCORES:
            leads = [_ahead(one, ("fedadc", "fedavg"), [_SLOWMO], score) for one in (few, many)]
            if pairs := [
                Pair(("the lead with few labels", "that with many"), a.ahead - b.ahead, a.lost)
                for a, b in zip(*leads, strict=True)
            ]:
                asked = True
                yield _where(where, SCORES[score]), pairs
    if not asked:
        raise NotInStudyError("the grid lacks FedADC or SlowMo")


def _slower(variants: Sequence[Trained]) -> Iterator[Where]:
    """(B2): rounds of FedADC to the target with few labels, less those with many."""
    asked = False
    for where, few, many in _ends(variants):
        for row in _rows(few, "fedadc"):
            rounds = [side(one, row, "rounds_to_target") for one in (few, many)]
            asked = True
            yield f"{where}, rounds", [Pair(("few labels", "many"), rounds[0] - rounds[1])]
    if not asked:
        raise NotInStudyError("the grid lacks FedADC")


def _red(variants: Sequence[Trained]) -> Iterator[Where]:
    """(C): FedADC with Nesterov momentum against heavy ball, where labels are fewest."""
    key = "hyperparameters.method.fedadc.variant"
    lines = list(_along(variants, [key]))
    if not lines:
        raise NotInStudyError(f"the grid has no axis {key}")
    fewest = min(_labels(line[0]) for _, _, line in lines)
    for (_, rest, line), score in itertools.product(lines, SCORES):
        both = {one.place[key]: one for one in line}
        if _labels(line[0]) > fewest or set(both) != {"heavy_ball", "nesterov"}:
            continue
        for row in _rows(line[0], "fedadc"):
            nesterov, heavy = (side(both[name], row, score) for name in ("nesterov", "heavy_ball"))
            yield (
                _where(rest, SCORES[score]),
                [Pair(("Nesterov", "heavy ball"), 100 * (nesterov - heavy))],
            )


def _labels(one: Trained) -> float:
    """How many labels clients have, on the scale of their split."""
    skew = skew_of(one.study.data)
    return skew.s if skew.split == "sort_and_partition" else skew.alpha


def _many_clients(variants: Sequence[Trained]) -> Iterator[Where]:
    """(E): FedADC+ against FedDyn in all variants at once."""
    keys = ("data.clients", "federation.local_epochs")
    if not any(key in one.place for one in variants for key in keys):
        raise NotInStudyError(f"the grid has no axis {' or '.join(keys)}")
    for score in SCORES:
        pairs = [
            Pair((f"FedADC+ ({one.label})", "FedDyn"), pair.ahead, pair.lost)
            for one in variants
            for pair in _ahead(one, ("fedadc_plus", "fedavg"), [("feddyn", "fedavg")], score)
        ]
        if not pairs:
            raise NotInStudyError("the grid lacks FedADC+ or FedDyn")
        yield SCORES[score], pairs


def _calibrated(variants: Sequence[Trained]) -> Iterator[Where]:
    """(F): the calibrated local models against the global ones, in every row of the grid."""
    calibrated = [one for one in variants if one.study.federation.calibration.epochs]
    if not calibrated:
        raise NotInStudyError("no variant calibrates (federation.calibration.epochs)")
    for one in calibrated:
        pairs = []
        for row in one.rows:
            own, served = (side(one, row, "own_accuracy", m) for m in ("local", "global"))
            name = _name((row["method"], row["server_opt"]))
            pairs.append(Pair((f"{name}, calibrated", "the server's model"), 100 * (own - served)))
        yield one.label, pairs


def _covering(variants: Sequence[Trained]) -> Iterator[Where]:
    """(G): data-aware against uniform selection, in every row of the grid."""
    key = "federation.selection"
    lines = [
        (rest, {one.place[key]: one for one in line}) for _, rest, line in _along(variants, [key])
    ]
    both = [(rest, line) for rest, line in lines if set(line) >= {"uniform", "data_aware"}]
    if not both:
        raise NotInStudyError(f"the grid has no axis {key} with uniform and data_aware")
    for (rest, line), score in itertools.product(both, SCORES):
        aware, uniform = line["data_aware"], line["uniform"]
        pairs = [
            Pair(
                (f"{_name((row['method'], row['server_opt']))}, data-aware", "uniform"),
                100 * (side(aware, row, score) - side(uniform, row, score)),
            )
            for row in aware.rows
        ]
        yield _where(rest, SCORES[score]), pairs


def _clusters(variants: Sequence[Trained]) -> Iterator[Where]:
    """(S2): FedSC with each number of clusters against the next smaller one."""
    key = "hyperparameters.method.fedsc.clusters"
    lines = list(_along(variants, [key]))
    if not lines:
        raise NotInStudyError(f"the grid has no axis {key}")
    for (_, rest, line), score in itertools.product(lines, SCORES):
        line = sorted(line, key=lambda one: float(one.place[key]))
        pairs = []
        for fewer, more in itertools.pairwise(line):
            for row in _rows(more, "fedsc"):
                ours, theirs = side(more, row, score), side(fewer, row, score)
                names = (f"{more.place[key]} clusters", fewer.place[key])
                pairs.append(Pair(names, 100 * (ours - theirs)))
        yield _where(rest, SCORES[score]), pairs


def _personal(variants: Sequence[Trained]) -> Iterator[Where]:
    """(R): the local models of FedAC against those of other clustered methods."""
    others = [(method, "fedavg") for method in ("ifca", "one_shot", "fedcluster", "fedsc")]
    asked = False
    for label, one in _distinct(variants, [("fedac", "fedavg"), *others]):
        if pairs := _ahead(one, ("fedac", "fedavg"), others, "own_accuracy", "local"):
            asked = True
            yield label, pairs
    if not asked:
        raise NotInStudyError("the grid lacks FedAC or the methods that it is compared with")


_PLAIN = {name: (name, "fedavg") for name in ("fedadc", "fedadc_plus", "fedsc", "fedcluster")}
_ASKED: Mapping[str, Question] = {
    "A1": _within(_SLOWMO, _FEDAVG),
    "A2": _within(_PLAIN["fedadc"], _SLOWMO),
    "A3": _widens,
    "B2": _slower,
    "C": _red,
    "D": _within(_PLAIN["fedadc_plus"]),
    "E": _many_clients,
    "F": _calibrated,
    "G": _covering,
    "Q": _within(_PLAIN["fedcluster"], _FEDAVG, scores=["accuracy_quarter"]),
    "R": _personal,
    "S1": _within(_PLAIN["fedsc"], _FEDAVG, ("fedprox", "fedavg"), _PLAIN["fedcluster"]),
    "S2": _clusters,
}
