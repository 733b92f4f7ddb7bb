"""Questions of users and claims of papers, tested on the tables of a study.

The questions of users are in `baseline_claims`; they are judged state by state. The claims of PL-FL
(arXiv 2404.01517) are in `paper_claims`, those of the methods' papers in `method_claims`.

A claim is a list of comparisons that must **all** come out in its favour. It

- *holds* if every comparison supports it significantly (an intersection-union test: no correction
  is needed, the weakest comparison decides);
- *does not hold* if at least one comparison contradicts it significantly. Any comparison may do so,
  corrected for their number (Bonferroni); in (e) only the cell selected on validation may, without
  correction;
- is *undecided* otherwise.

The test is that of `plfl.results.statistics`, over clients, weeks and seeds together. P values are
two-sided and corrected by Holm's method over all claims and models. With a single client, week or
seed, the variation between clients, weeks or seeds is unknown, so claims about scores are
undecided. An undecided verdict says how many more would decide it (`plfl.results.power`).

The best cell of a claim is selected on validation, never on the test set.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from plfl.base.text import some
from plfl.config.study import Study
from plfl.results import baseline_claims, method_claims, paper_claims
from plfl.results.claim import texts
from plfl.results.records import MODELS, Model
from plfl.results.scores import Scores, scores
from plfl.results.statistics import ALPHA
from plfl.results.tables import Tables, fitting
from plfl.results.verdict import NotInStudyError, Question, Verdict, judge, settle

CLAIMS = texts("users", "paper", "methods")
"""The claims by name, those of users first."""
ABOUT_SCORES: dict[str, Question] = {
    **baseline_claims.ABOUT_SCORES,
    **paper_claims.ABOUT_SCORES,
    **method_claims.ABOUT_SCORES,
}
"""The claims about scores; those of `baseline_claims` are judged for one state at a time."""


def verdicts(tables: Tables) -> list[Verdict]:
    """The verdict on every claim, in the order of `CLAIMS`; claims about scores for both models.

    The claims about methods are left out if the study has only one method.
    """
    about = [paper_claims, *([method_claims] if len(tables.study.grid.method) > 1 else [])]
    names = [name for claims in (baseline_claims, *about) for name in claims.ABOUT_SCORES]
    with fitting(tables.folder):
        judgements = [verdict for claims in about for verdict in claims.about_tables(tables)]
        for model in MODELS:
            of_states = scores(tables, model, baselines=True)
            judgements += judged(names, model, tables.study, of_states)
    claims, states = list(CLAIMS), [None, *tables.study.data.states]
    texts = {claim: tables.study.worded(text) for claim, text in CLAIMS.items()}
    named = [replace(verdict, text=texts[verdict.claim]) for verdict in judgements]
    return settle(
        sorted(
            named,
            key=lambda v: (claims.index(v.claim), states.index(v.state), v.model == "global"),
        )
    )


def judged(
    names: Iterable[str],
    model: Model,
    study: Study,
    of_states: Mapping[str, Scores],
) -> Iterator[Verdict]:
    """The verdicts of the scores of one model on some claims, each in all states or state by
    state."""
    for name in names:
        if name not in baseline_claims.ABOUT_SCORES:
            yield about_scores(name, model, study, of_states)
            continue
        for state, of_state in of_states.items():
            verdict = about_scores(name, model, study, {state: of_state})
            yield replace(verdict, state=state)


def about_scores(
    claim: str, model: Model, study: Study, of_states: Mapping[str, Scores]
) -> Verdict:
    """The verdict of the scores of one model on a claim, before correction for all claims."""
    blank = Verdict(claim, model, metered=study.participant == "meter")
    try:
        evidence = ABOUT_SCORES[claim](study, of_states)
    except NotInStudyError as lacking:
        return replace(blank, answer="not in this study", reason=str(lacking))
    return judge(blank, evidence)


def as_json(study: Study, judgements: Sequence[Verdict], **about: str) -> dict[str, Any]:
    """The verdicts as data for JSON, with further facts `about` them."""
    return {
        "study": study.name,
        "sample_data": study.data.is_sample,
        **about,
        "alpha": ALPHA,
        "verdicts": [asdict(verdict) for verdict in judgements],
    }


ABOUT = (
    "claims at the last round\nExploratory: not named by the study. Differences of test MASE are "
    "positive where they support the claim. Brackets: 95 % intervals over clients, weeks and "
    "seeds. p: Holm's."
)
"""The line about the claims of `CLAIMS`, below the name of the study."""


def as_text(study: Study, judgements: Sequence[Verdict], about: str = ABOUT) -> str:
    """The verdicts as text: a line `about` them, then each claim with its evidence below."""
    title = f"{study.name}{study.data.sample_suffix}: {about}"
    return "\n".join([title, *_listed(judgements)])


def _listed(judgements: Sequence[Verdict]) -> Iterator[str]:
    """The lines of some verdicts, below the claims that they are about."""
    for i, verdict in enumerate(judgements):
        if i == 0 or judgements[i - 1].claim != verdict.claim:
            yield from ("", f"({verdict.claim}) {verdict.text}")
        yield from _lines(verdict)


def _lines(verdict: Verdict) -> Iterator[str]:
    asked = ", ".join(filter(None, [verdict.state, verdict.where, verdict.model]))
    model = f"{asked}: " if asked else ""
    facts = [describe(verdict)] if verdict.effect is not None else []
    yield f"  {model}{verdict.answer.upper()}" + "".join(f"; {fact}" for fact in facts)
    if verdict.reason:
        yield f"      {verdict.reason}"
    if verdict.needed:
        yield f"      {verdict.needed}"
    if verdict.cells:
        # In the form that `plfl compare` accepts.
        yield f"      decided by {some([c.removesuffix('-none-none') for c in verdict.cells], 6)}"
    if verdict.diverged:
        yield f"      diverged: {some(verdict.diverged, 6)}"


def describe(verdict: Verdict) -> str:
    """Effect, interval, p value and scope: "0.12 MASE [0.05, 0.20], p = 0.003, 12 clients, …"."""
    text = estimate(verdict)
    if verdict.p is not None and verdict.spread is None:
        text += f", p = {verdict.p:.2g}"
    elif verdict.spread is not None and all(p.freedom for p in verdict.spread.parts.values()):
        text += f", p = {verdict.p:.2g} ({verdict.p_alone:.2g} alone)"
    return ", ".join(filter(None, [text, scope(verdict)]))


def scope(verdict: Verdict) -> str:
    """The data that a verdict is based on: "132 meters, 3 sites, 4 origins, 16 weeks, 5 seeds, 0.01
    to 0.03 without one site". A single state or origin is not mentioned."""
    client, state = ("meter", "site") if verdict.metered else ("client", "state")
    counted = (
        (verdict.clients, client),
        (verdict.states * (verdict.states > 1), state),
        (verdict.origins * (verdict.origins > 1), "origin"),
        (verdict.weeks, "week"),
        (verdict.seeds, "seed"),
    )
    said = [f"{n} {name}{'s' * (n > 1)}" for n, name in counted if n]
    if verdict.without_one_state:
        low, high = verdict.without_one_state
        said.append(f"{low:+.3g} to {high:+.3g} without one {state}")
    return ", ".join(said)


def estimate(verdict: Verdict) -> str:
    """Effect and interval: "0.12 MASE [0.05, 0.20]"."""

    def number(value: float | None) -> str:
        if value is None:
            return "–"
        if verdict.unit == "share":
            return f"{value:.2%}"
        if verdict.unit == "factor" and value >= 1000:
            return "over 1,000"  # intervals of two or three clients can be that wide
        if verdict.unit == "points" and abs(value) < 0.01:
            return f"{value:+.2f}"
        return (
            f"{value:+.3g}" if verdict.unit in ("MASE", "points", "doublings") else f"{value:.3g}"
        )

    unit = {"factor": "-fold", "share": ""}.get(verdict.unit, f" {verdict.unit}")
    return f"{number(verdict.effect)}{unit} [{number(verdict.low)}, {number(verdict.high)}]"
