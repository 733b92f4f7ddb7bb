"""How the claims that a study names are judged.

A claim is one comparison or several (`plfl.config.claims.Claim`). It

- *holds* if every comparison supports it significantly (an intersection-union test: no correction
  is needed, the weakest comparison decides);
- *does not hold* if at least one comparison contradicts it significantly, corrected for their
  number (Bonferroni);
- is *undecided* otherwise, with what would decide it (`plfl.results.statistics`).

P values are two-sided, and corrected by Holm's method for the number of the study's claims. With a
single client, week or seed, the variation between clients, weeks or seeds is unknown, so claims
about errors are undecided.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from plfl.base.array_types import Floats
from plfl.base.lazy import special
from plfl.config.claim_scores import COUNTED, LOADS_SCORE
from plfl.config.claims import Claim
from plfl.results import words
from plfl.results.contenders import NotInStudyError
from plfl.results.contest import Contest, contests
from plfl.results.scores import AXES
from plfl.results.statistics import ALPHA, Difference, advice, holm, open_level
from plfl.results.variants import Variant
from plfl.study import Study

Answer = Literal["holds", "does not hold", "undecided", "not in this study"]
FINITE = "Train the diverged cells with hyperparameters that give finite scores."


@dataclass(frozen=True)
class Verdict:
    """The verdict of a study on a claim."""

    answer: Answer
    row: dict[str, Any]
    """The deciding difference, and what it is based on; see `contest.difference_columns`."""
    p: float | None = None
    """P value of the answer, corrected by Holm's method over all claims."""
    p_alone: float | None = None
    """The p value before it, corrected for the number of comparisons if any one is sufficient."""
    deciding_difference: Difference | None = None
    """The comparison that decides; None for counted quantities."""
    sufficient: int = 1
    """Of how many comparisons any one could have decided the claim."""
    reason: str = ""
    """The evidence for the answer, in words."""
    remedy: str = ""
    """What would decide an undecided claim, in words."""


def name_of_claim(number: int) -> str:
    """What the claim with this number, from one on, is called in tables."""
    return f"c{number}"


def judge_claims(study: Study, variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """The claims of a study with their verdicts: rows of `plfl.results.comparisons`."""
    verdicts = settle(
        [_judge_claim(claim, study, variants) for claim in study.claims], study.client_word
    )
    rows = []
    for i, (claim, verdict) in enumerate(zip(study.claims, verdicts, strict=True), 1):
        rows.append(
            {
                "claim": name_of_claim(i),
                "text": words.word_claim(study, claim),
                "better": ", ".join(claim.better),
                "than": ", ".join(claim.than),
                "score": claim.score,
                **verdict.row,
                "verdict": verdict.answer,
                "p": verdict.p,
                "p_alone": verdict.p_alone,
                "reason": verdict.reason,
                "needed": verdict.remedy,
            }
        )
    return rows


def _judge_claim(claim: Claim, study: Study, variants: Sequence[Variant]) -> Verdict:
    columns = {axis.key: axis.column for axis in study.plan.axes}
    keys = [key for key in claim.where if key in columns]
    variants = [v for v in variants if all(v.place[columns[k]] in claim.labels(k) for k in keys)]
    states = claim.labels("data.states") if "data.states" in claim.where else ()
    if absent := claim.absent_states(study.data.states):
        reason = f"data.states does not have {', '.join(absent)}"
        return Verdict("not in this study", {}, reason=reason)
    keys_each: Sequence[str] = claim.each
    if claim.score in COUNTED:
        keys_each = ["state", "variant", *AXES]
    try:
        if claim.score == LOADS_SCORE:
            if len(variants) != 1 or claim.share is None:  # as `check_claims` says
                raise NotInStudyError("the claim does not name one variant and a share")
            return _judge_load_spread(variants[0], claim.share, states)
        pairs = contests(
            study,
            variants,
            claim.better,
            claim.than,
            keys_each,
            claim.score,
            claim.margin,
            states,
        )
        return _judge_counted(claim, pairs) if claim.score in COUNTED else judge(pairs)
    except NotInStudyError as lacking:
        return Verdict("not in this study", {}, reason=str(lacking))


def judge(pairs: Sequence[Contest]) -> Verdict:
    """Judge whether all comparisons are positive, or one is clearly negative, before Holm's
    correction."""
    scored_contests = [contest for contest in pairs if contest.difference.scored_differences]
    blocking, excused = (
        sorted({n for contest in pairs for n in contest.diverged_forecasters[i]}) for i in (0, 1)
    )
    lost_cells = [f"{len(blocking) + len(excused)} cells diverged"] if blocking or excused else []
    if not scored_contests:
        return Verdict("undecided", {}, reason="every cell of a side diverged", remedy=FINITE)
    different = [contest for contest in scored_contests if not contest.difference.is_identical]
    if not different:
        return Verdict(
            "undecided",
            scored_contests[0].row,
            reason="both sides have identical results, so there is nothing to decide",
        )
    if equal_count := len(scored_contests) - len(different):
        lost_cells.append(
            f"{equal_count} further {'pair has' if equal_count == 1 else 'pairs have'} equal "
            "results"
        )
    supporting = sum(contest.difference.effect > 0 for contest in different)
    holds = supporting == len(different)
    if holds:
        deciding = max(
            different, key=lambda contest: (contest.difference.p, -contest.difference.effect)
        )
        p = deciding.difference.p
    else:
        deciding = min(
            different,
            key=lambda contest: (
                contest.difference.p if contest.difference.effect < 0 else 1.0,
                contest.difference.effect,
            ),
        )
        p = min(1.0, len(different) * deciding.difference.p)
    answer: Answer = "holds" if holds else "does not hold"
    reasons = [_evidence(deciding, different, supporting), *lost_cells]
    remedy = ""
    if holds and blocking:
        answer, remedy = "undecided", FINITE
        reasons.append("the side that should be better has diverged")
    sufficient = 1 if holds else len(different)
    reason = "; ".join(filter(None, reasons))
    return Verdict(answer, deciding.row, p, p, deciding.difference, sufficient, reason, remedy)


def _evidence(deciding: Contest, different: Sequence[Contest], supporting: int) -> str:
    sides = f"{deciding.label(0)} against {deciding.label(1)}"
    if len(different) > 1:
        return f"{supporting} of {len(different)} comparisons support it; decided by {sides}"
    by_state = zip(
        deciding.difference.scored_differences, deciding.difference.clients(), strict=True
    )
    effects = [f"{state} {gains.mean():+.3g}" for state, gains in by_state]
    return f"{sides}: {', '.join(effects)}" if len(effects) > 1 else sides


def settle(verdicts: Sequence[Verdict], client_word: str = "client") -> list[Verdict]:
    """Correct the p values for their number; make verdicts undecided that are not significant.
    `client_word`: the word for one in what they need."""
    adjusted = iter(holm([v.p for v in verdicts if v.p is not None]).tolist())
    settled = [v if v.p is None else replace(v, p=next(adjusted)) for v in verdicts]
    level = open_level(v.p for v in settled if v.p is not None)
    return [
        v if v.p is None or v.p < ALPHA else _make_undecided(v, level, client_word) for v in settled
    ]


def _make_undecided(verdict: Verdict, level: float, client_word: str) -> Verdict:
    """The verdict as undecided, with what would decide it at this `level`."""
    if verdict.deciding_difference is None:
        return replace(verdict, answer="undecided")
    remedy = verdict.remedy or advice(
        verdict.deciding_difference, level, verdict.sufficient, client_word
    )
    return replace(verdict, answer="undecided", remedy=remedy)


def _judge_counted(claim: Claim, contests: Sequence[Contest]) -> Verdict:
    """A claim about a counted quantity, in every pair of cells that differ only as it says."""
    contender_pairs = [pair for contest in contests for pair in contest.pairs]
    if claim.score == "bytes":
        counts = [tuple(contender.bytes for contender in pair) for pair in contender_pairs]
    else:
        counts = [
            tuple(contender.counted_cost(claim.score) for contender in pair)
            for pair in contender_pairs
        ]
    table = np.array(counts, float).reshape(-1, 2)
    if not np.isfinite(table).all():
        raise NotInStudyError("the quantity is not known on every side")
    table = table[table.any(axis=1)]
    if not len(table):
        raise NotInStudyError("the quantity is 0 on both sides")
    if lone_count := int((table[:, 1] == 0).sum()):
        reason = f"in {lone_count} of {len(table)} pairs of cells the other side has none; no test"
        return Verdict("does not hold", {}, reason=reason)
    ratios = table[:, 0] / table[:, 1]
    if claim.share is None:
        holds = bool((ratios < 1).all())
    else:
        digits = len(str(claim.share).partition(".")[2])
        holds = bool((np.round(ratios, digits) == claim.share).all())
    total = table.sum(axis=0)
    ends = {"difference": total[0] / total[1], "low": ratios.min(), "high": ratios.max()}
    reason = f"counted in {len(ratios)} pairs of cells, whose range is in brackets; no test"
    return Verdict("holds" if holds else "does not hold", ends, reason=reason)


def _judge_load_spread(variant: Variant, strong: float, states: Sequence[str]) -> Verdict:
    """The claim that clients differ strongly: the geometric standard deviation of the mean loads of
    a state's clients, and that of the standard deviations of their loads, exceed `strong`, in each
    of the `states`; empty: in all."""
    clients = variant.tables.clients
    clients = clients[clients["state"].isin(states)] if states else clients
    spreads = {
        f"{name} of the load in {state}": _spread(client_rows[column].to_numpy(float), strong)
        for state, client_rows in clients.groupby("state", sort=False)
        for column, name in (("mean", "mean"), ("std", "standard deviation"))
        if (client_rows[column] > 0).sum() > 1
    }
    if not spreads:
        raise NotInStudyError(f"no state has two {variant.tables.study.client_word}s")
    contrary = {name: spread for name, spread in spreads.items() if spread[0] <= strong}
    if contrary:
        name = min(contrary, key=lambda name: contrary[name][3])
        p = min(1.0, len(spreads) * contrary[name][3])
    else:
        name = max(spreads, key=lambda name: spreads[name][3])
        p = spreads[name][3]
    effect, low, high, _, number = spreads[name]
    row = {"difference": effect, "low": low, "high": high, "clients": number}
    reason = f"decided by the {name}"
    return Verdict("does not hold" if contrary else "holds", row, p, p, reason=reason)


def _spread(values: Floats, strong: float) -> tuple[float, float, float, float, int]:
    """The geometric standard deviation of positive `values`, its 95 % interval, the two-sided p
    value of a χ² test against `strong`, and the number of values."""
    logs = np.log(values[values > 0])
    freedom = len(logs) - 1
    squares = logs.var() * len(logs)
    quantile = special.chdtr(freedom, squares / np.log(strong) ** 2)
    ends = squares / np.array([freedom, *special.chdtri(freedom, [ALPHA / 2, 1 - ALPHA / 2])])
    effect, low, high = np.exp(np.sqrt(ends)).tolist()
    return effect, low, high, float(2 * min(quantile, 1 - quantile)), freedom + 1
