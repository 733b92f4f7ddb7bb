"""What the papers claim, put to the test on a study's tables.

The claims of PL-FL are in `paper_claims`, those of the methods' sources in `method_claims`.

A claim is a list of comparisons that must **all** come out in its favour. It

- *holds* when every one of them does so significantly (an intersection-union test: no correction
  is needed, the weakest comparison decides);
- *does not hold* when at least one contradicts it significantly: any, after correction for having
  looked at all of them (max-T, see `statistics.sign_flips`), or in (e) the one cell that validation
  chose, without;
- is *undecided* otherwise, which is where it starts.

Significant means that an effect stands out from what other clients and other seeds would change
together (`statistics.sign_flips`, where the variances of both add up), and from the seeds by
themselves (`Comparison.trainings`). P values are two-sided and corrected by Holm over the whole
family of claims and models. A study with a single seed knows nothing of other seeds and leaves
claims about scores undecided. The measured error rates are in `docs/claims.md`.

Where a claim speaks of a best cell, it is chosen on validation, never on the test part.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from plfl.results import method_claims, paper_claims
from plfl.results.statistics import ALPHA, DRAWS, Chosen, Scores, scores
from plfl.results.tables import MODELS, Model, Tables, fitting
from plfl.results.verdict import NotInStudyError, Question, Verdict, judge, settle
from plfl.study import Study

CLAIMS = {**paper_claims.CLAIMS, **method_claims.CLAIMS}
"""The claims by name."""
ABOUT_SCORES: dict[str, Question] = {**paper_claims.ABOUT_SCORES, **method_claims.ABOUT_SCORES}
"""Those that are about scores."""


def verdicts(tables: Tables, chosen: Chosen = "last") -> list[Verdict]:
    """Every claim judged on a results folder, about scores for both models, in order of `CLAIMS`.

    The claims about methods are left out where the study has but one.

    Args:
        tables: the results folder.
        chosen: the round that is scored, for all claims alike.

    Raises:
        ResultsError: a table is missing, damaged or of another format.
    """
    about = [paper_claims] if len(tables.study.grid.method) == 1 else [paper_claims, method_claims]
    with fitting(tables.folder):
        found = [verdict for claims in about for verdict in claims.about_tables(tables)]
        for model in MODELS:
            of_states = scores(tables, model, chosen)
            names = [name for claims in about for name in claims.ABOUT_SCORES]
            found += [about_scores(name, model, tables.study, of_states) for name in names]
    order = list(CLAIMS)
    named = [replace(verdict, text=CLAIMS[verdict.claim]) for verdict in found]
    return settle(sorted(named, key=lambda v: (order.index(v.claim), v.model == "global")))


def about_scores(
    claim: str, model: Model, study: Study, of_states: Mapping[str, Scores], draws: int = DRAWS
) -> Verdict:
    """What one model's scores say about a claim, not yet corrected for the family of claims."""
    blank = Verdict(claim, model)
    try:
        evidence = ABOUT_SCORES[claim](study, of_states)
    except NotInStudyError as lacking:
        return replace(blank, answer="not in this study", reason=str(lacking))
    diverged = tuple(dict.fromkeys([*evidence.blocking, *evidence.excused]))
    blank = replace(blank, diverged=diverged)
    if not evidence.comparisons:
        return replace(blank, reason="every cell concerned diverged")
    return judge(blank, evidence, draws)


def as_json(tables: Tables, found: Sequence[Verdict], chosen: Chosen) -> dict[str, Any]:
    """The verdicts as plain data, for machines."""
    return {
        "study": tables.study.name,
        "sample_data": tables.is_sample,
        "round": chosen,
        "alpha": ALPHA,
        "verdicts": [asdict(verdict) for verdict in found],
    }


def as_text(tables: Tables, found: Sequence[Verdict], chosen: Chosen) -> str:
    """The verdicts to be read in a terminal: each claim, and below it what decides it."""
    sample = " (sample data)" if tables.is_sample else ""
    when = {"last": "the last round", "best_validation": "the round of best validation MASE"}
    lines = [
        f"{tables.study.name}{sample}: the papers' claims at {when[chosen]}",
        "Differences of test MASE are positive where they speak for the claim; in brackets 95 % "
        "intervals over clients; p after Holm.",
    ]
    for i, verdict in enumerate(found):
        if i == 0 or found[i - 1].claim != verdict.claim:
            lines += ["", f"({verdict.claim}) {verdict.text}"]
        lines += _lines(verdict)
    return "\n".join(lines)


def _lines(verdict: Verdict) -> Iterator[str]:
    model = f"{verdict.model}: " if verdict.model else ""
    facts = [describe(verdict)] if verdict.effect is not None else []
    yield f"  {model}{verdict.answer.upper()}" + "".join(f"; {fact}" for fact in facts)
    if verdict.reason:
        yield f"      {verdict.reason}"
    if verdict.cells:
        yield f"      decided by {_some(verdict.cells)}"
    if verdict.diverged:
        yield f"      diverged: {_some(verdict.diverged)}"


def describe(verdict: Verdict) -> str:
    """Effect, interval, p value and what they rest on: "0.12 MASE [0.05, 0.20], p = 0.003, …"."""

    def number(value: float | None) -> str:
        if value is None:
            return "–"
        if verdict.unit == "share":
            return f"{value:.2%}"
        return f"{value:+.3g}" if verdict.unit == "MASE" else f"{value:.3g}"

    unit = {"MASE": " MASE", "factor": "-fold", "share": ""}[verdict.unit]
    text = f"{number(verdict.effect)}{unit} [{number(verdict.low)}, {number(verdict.high)}]"
    if verdict.p is not None and verdict.p_clients is not None:
        if verdict.p_trainings is None:
            text += f", p = {verdict.p:.2g}"
        elif verdict.seeds == 1:
            text += f", p over clients {verdict.p_clients:.2g}, over seeds unknown"
        else:
            raw = f"over clients {verdict.p_clients:.2g}, over seeds {verdict.p_trainings:.2g}"
            text += f", p = {verdict.p:.2g} ({raw})"
    if verdict.seeds:
        text += f", {verdict.seeds} seed" + "s" * (verdict.seeds > 1)
    return f"{text}, {verdict.clients} clients"


def _some(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
