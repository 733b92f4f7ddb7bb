"""What the paper claims (PL-FL, arXiv 2404.01517), put to the test on a study's tables.

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

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from plfl.results.statistics import (
    ALPHA,
    AXES,
    DRAWS,
    Array,
    Chosen,
    Comparison,
    Scores,
    holm,
    scores,
    sign_flips,
)
from plfl.results.tables import MODELS, Model, Tables, client_label
from plfl.study import Study

Answer = Literal["holds", "does not hold", "undecided", "not in this study"]

CLAIMS = {
    "a": "Adam and AdamAMS beat Prox and ProxAdam in every setting",
    "b": "in each state the best cell is PL-FL (P2) with Adam",
    "c1": "PL-FL (P2) beats FL (P1)",
    "c2": "PL-FL (P2) beats local training (P3)",
    "d": "PL-FL (P2) sends 5.81 % of the bytes of FL (P1)",
    "e1": "no cell reaches a MASE below 1 in CA",
    "e2": "some cell reaches a MASE below 1 in IL",
    "e3": "some cell reaches a MASE below 1 in NY",
    "f": "clients differ strongly in the mean and spread of their load",
}
"""The claims by name."""
SPLITS = {"FL": ["*"], "PL-FL": ["lstm.*"], "local training": []}
"""What the paper's three splits share; a study may call them as it likes."""
FAVOURED, BEATEN = ["adam", "adamams"], ["prox", "proxadam"]
ROUND = "fedopt"
"""The method that is the paper's own round."""
PARAMETERS = 60276
"""Numbers in the paper's model; in another one PL-FL has another share."""
BYTES = 0.0581
"""Claimed bytes of PL-FL over those of FL."""
STRONG = 2.0
"""Clients differ strongly when their loads' geometric standard deviation is above this: the middle
two thirds of them then span a factor of four. The paper gives no number."""


@dataclass(frozen=True)
class Verdict:
    """What a study says about a claim."""

    claim: str
    """Name of the claim in `CLAIMS`."""
    model: Model | None
    """The model that was scored; None where no model is concerned (d, f)."""
    answer: Answer = "undecided"
    effect: float | None = None
    """Effect of the deciding comparison; for differences of MASE, positive speaks for the claim."""
    low: float | None = None
    high: float | None = None
    """95 % interval of the effect: over clients; for bytes, the range over all cells."""
    unit: str = "MASE"
    """What the effect is: a difference of `MASE`, a `share` or a `factor`."""
    p: float | None = None
    """P value of the answer, corrected by Holm over all claims and models."""
    p_clients: float | None = None
    """P value of the deciding comparison by itself, over clients alone."""
    p_trainings: float | None = None
    """The same over trainings (seeds), corrected for the number of comparisons where one of them
    is enough; None where no training is concerned (d, f)."""
    seeds: int = 0
    clients: int = 0
    """Clients behind the effect."""
    cells: tuple[str, ...] = ()
    """The cells that decide, without their seeds."""
    diverged: tuple[str, ...] = ()
    """Cells that the claim asks about and that have no score."""
    reason: str = ""
    """In words, what the answer rests on."""

    @property
    def text(self) -> str:
        """The claim in words."""
        return CLAIMS[self.claim]


@dataclass(frozen=True)
class Evidence:
    """The comparisons a claim asks for."""

    comparisons: Sequence[Comparison]
    """All of them must be positive for the claim to hold."""
    blocking: tuple[str, ...] = ()
    """Diverged cells that the claim says to be the better ones: it cannot hold."""
    excused: tuple[str, ...] = ()
    """Diverged cells that the claim says to be the worse ones: they speak neither way."""
    witness: Comparison | None = None
    """The one chosen on validation to contradict; None: any may, and is corrected for."""
    denied: bool = False
    """The claim is that *not* all of them are positive."""


Question = Callable[[Study, dict[str, Scores]], Evidence]


class _NotInStudyError(Exception):
    """The grid lacks the cells of a claim."""


def verdicts(tables: Tables, chosen: Chosen = "last") -> list[Verdict]:
    """Every claim judged on a results folder, for both models, in the order of `CLAIMS`.

    Args:
        tables: the results folder.
        chosen: the round that is scored, for all claims alike.

    Raises:
        ResultsError: a table is missing, damaged or of another format.
    """
    found = [_bytes(tables), _loads(tables)]
    for model in MODELS:
        of_states = scores(tables, model, chosen)
        found += [about_scores(name, model, tables.study, of_states) for name in ABOUT_SCORES]
    order = list(CLAIMS)
    return settle(sorted(found, key=lambda v: (order.index(v.claim), v.model == "global")))


def settle(found: Sequence[Verdict]) -> list[Verdict]:
    """Correct the p values for their family and let stand only what is significant."""
    family = [i for i, verdict in enumerate(found) if verdict.p is not None]
    raw = [p for verdict in found if (p := verdict.p) is not None]
    settled = list(found)
    for i, p in zip(family, holm(raw).tolist(), strict=True):
        settled[i] = replace(found[i], p=p)
        if p >= ALPHA:
            said = [found[i].reason, _doubt(found[i])]
            settled[i] = replace(
                settled[i], answer="undecided", reason="; ".join(filter(None, said))
            )
    return settled


def _doubt(verdict: Verdict) -> str:
    if verdict.p_trainings is not None:
        if verdict.seeds == 1:
            return "one seed cannot tell an effect from the luck of a training; add grid.seeds"
        if verdict.p_trainings > (verdict.p_clients or 0):
            return f"{verdict.seeds} seeds do not agree enough; more of them may decide"
    return f"{verdict.clients} clients do not agree enough"


def about_scores(
    claim: str, model: Model, study: Study, of_states: dict[str, Scores], draws: int = DRAWS
) -> Verdict:
    """What one model's scores say about a claim, not yet corrected for the family of claims."""
    blank = Verdict(claim, model)
    try:
        _need_round(study)
        evidence = ABOUT_SCORES[claim](study, _papers(of_states))
    except _NotInStudyError as lacking:
        return replace(blank, answer="not in this study", reason=str(lacking))
    diverged = tuple(dict.fromkeys([*evidence.blocking, *evidence.excused]))
    blank = replace(blank, diverged=diverged)
    if not evidence.comparisons:
        return replace(blank, reason="every cell concerned diverged")
    return _judge(blank, evidence, draws)


def _judge(blank: Verdict, evidence: Evidence, draws: int) -> Verdict:
    """Whether all comparisons are positive, or which one contradicts that most clearly."""
    comparisons = [c for c in evidence.comparisons if not c.identical]
    same = [c.cells for c in evidence.comparisons if c.identical]
    if not comparisons:
        cells = tuple(cell for pair in same for cell in pair)
        return replace(blank, cells=cells, reason="the cells concerned have identical results")
    effects = np.array([comparison.effect for comparison in comparisons])
    alone, together = sign_flips(comparisons, draws, seeds=True)
    trainings = np.array([comparison.trainings() for comparison in comparisons])
    if (effects > 0).all():
        # The weakest comparison decides.
        p = np.maximum(alone, trainings)
        positive, k = True, int(np.lexsort((-effects, p))[-1])
    else:
        if evidence.witness is None:
            trainings = np.minimum(len(comparisons) * trainings, 1)
            p = np.where(effects < 0, np.maximum(together, trainings), 1)
        else:
            called = np.array([comparison is evidence.witness for comparison in comparisons])
            p = np.where(called & (effects < 0), np.maximum(alone, trainings), 1)
        positive, k = False, int(np.lexsort((effects, p))[0])
    for_claim = positive != evidence.denied
    sign = -1 if evidence.denied else 1
    ends = sorted(sign * end for end in comparisons[k].interval(draws))
    answer: Answer = "holds" if for_claim else "does not hold"
    reason = _counted(comparisons[k], effects, evidence.denied)
    if same:
        reason += f"; {len(same)} pairs have identical results, such as {' and '.join(same[0])}"
    if positive and evidence.blocking:
        answer, reason = "undecided", f"{reason}; cells that it names as better diverged"
    some = next(iter(comparisons[k].differences.values()))
    return replace(
        blank,
        answer=answer,
        effect=float(sign * effects[k]),
        low=_number(ends[0]),
        high=_number(ends[1]),
        p=float(p[k]),
        p_clients=float(sign_flips([comparisons[k]], draws)[0][0]),
        p_trainings=float(trainings[k]),
        seeds=some.shape[1],
        clients=sum(map(len, comparisons[k].clients())),
        cells=comparisons[k].cells,
        reason=reason,
    )


def _counted(deciding: Comparison, effects: Array, denied: bool) -> str:
    """How many comparisons speak for the claim; of a single one, its effect in every state."""
    if len(effects) > 1:
        count = int((effects < 0).sum() if denied else (effects > 0).sum())
        return f"{count} of {len(effects)} {'cells' if denied else 'comparisons'} speak for it"
    by_state = zip(deciding.scored, deciding.clients(), strict=True)
    return ", ".join(f"{state} {clients.mean():+.3g}" for state, clients in by_state)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _papers(of_states: dict[str, Scores]) -> dict[str, Scores]:
    """The scores of the paper's own round, without those of other methods."""
    papers = {}
    for state, found in of_states.items():
        keep = found.where(method=ROUND)
        papers[state] = replace(
            found,
            combinations=tuple(itertools.compress(found.combinations, keep)),
            mase=found.mase[keep],
            validation=found.validation[keep],
            diverged=found.diverged[keep],
        )
    return papers


def _need_round(study: Study) -> None:
    if ROUND not in study.grid.method:
        raise _NotInStudyError(f"the grid has no method {ROUND}, the paper's own round")


def _split(study: Study, role: str) -> str:
    """What the study calls one of the paper's splits."""
    for name in study.grid.personalization:
        if study.personalization[name] == SPLITS[role]:
            return name
    shared = ", ".join(SPLITS[role]) or "nothing"
    raise _NotInStudyError(f"the grid has no split for {role} (shares {shared})")


def _need_clients(study: Study) -> None:
    missing = [name for name in FAVOURED + BEATEN if name not in study.grid.client_opt]
    if missing:
        names = ", ".join(map(client_label, missing))
        raise _NotInStudyError(f"the grid has no ClientOpt {names}")


def _difference(found: Scores, better: int, worse: int) -> Array:
    """Shape (clients, seeds): positive where `better` has the lower MASE."""
    difference: Array = found.mase[worse] - found.mase[better]
    return difference.T


def _optimisers(study: Study, of_states: dict[str, Scores]) -> Evidence:
    """(a): each pair of optimisers in every state, split and ServerOpt."""
    _need_clients(study)
    comparisons, blocking, excused = [], [], []
    for found in of_states.values():
        row = {key: k for k, key in enumerate(found.combinations)}
        kept = _distinct(study, found)
        client = AXES.index("client_opt")
        for key, k in row.items():
            if key[client] not in FAVOURED or not kept[k]:
                continue
            for rival in BEATEN:
                other = row[(*key[:client], rival, *key[client + 1 :])]
                if found.diverged[k]:
                    blocking.append(found.names[k])
                elif found.diverged[other]:
                    excused.append(found.names[other])
                else:
                    tables = {found.state: _difference(found, k, other)}
                    comparisons.append(Comparison((found.names[k], found.names[other]), tables))
    return Evidence(comparisons, tuple(blocking), tuple(excused))


def _distinct(study: Study, found: Scores) -> NDArray[np.bool_]:
    """Which combinations are trainings of their own: without a server, one ServerOpt is enough."""
    local = [s for s in study.grid.personalization if study.shares_nothing(s)]
    first = found.where(server_opt=study.grid.server_opt[0])
    return ~found.where(personalization=local) | first


def _best_cell(study: Study, of_states: dict[str, Scores]) -> Evidence:
    """(b): in every state the best cell of PL-FL and Adam against the best one of all others."""
    _need_clients(study)
    splits = {role: _split(study, role) for role in SPLITS}
    comparisons, blocking, excused = [], [], []
    for found in of_states.values():
        named = found.where(personalization=splits["PL-FL"], client_opt="adam")
        others = found.where(personalization=list(splits.values())) & ~named
        best, rival = found.best(named), found.best(others)
        if best is None:
            blocking += [found.names[k] for k in np.flatnonzero(named).tolist()]
        elif rival is None:
            excused += [found.names[k] for k in np.flatnonzero(others).tolist()]
        else:
            tables = {found.state: _difference(found, best, rival)}
            comparisons.append(Comparison((found.names[best], found.names[rival]), tables))
    return Evidence(comparisons, tuple(blocking), tuple(excused))


def _splits(role: str) -> Question:
    """(c): PL-FL against another split over all states, each with its best optimisers."""

    def evidence(study: Study, of_states: dict[str, Scores]) -> Evidence:
        splits = _split(study, "PL-FL"), _split(study, role)
        names: list[str] = []
        tables: dict[str, Array] = {}
        lost: tuple[list[str], list[str]] = ([], [])
        for found in of_states.values():
            among = [found.where(personalization=split) for split in splits]
            chosen = [found.best(cells) for cells in among]
            for cells, best, to in zip(among, chosen, lost, strict=True):
                if best is None:
                    to.extend(found.names[k] for k in np.flatnonzero(cells).tolist())
            better, worse = chosen
            if better is not None and worse is not None:
                names += [found.names[better], found.names[worse]]
                tables[found.state] = _difference(found, better, worse)
        comparisons = [Comparison(tuple(names), tables)] if tables else []
        return Evidence(comparisons, tuple(lost[0]), tuple(lost[1]))

    return evidence


def _persistence(state: str, denied: bool) -> Question:
    """(e): every cell of a state against persistence, whose MASE is 1 by definition."""

    def evidence(study: Study, of_states: dict[str, Scores]) -> Evidence:
        _need_clients(study)
        for role in SPLITS:
            _split(study, role)
        if state not in of_states:
            raise _NotInStudyError(f"the grid has no state {state}")
        found = of_states[state]
        cells = np.flatnonzero(_distinct(study, found)).tolist()
        by_cell = {
            k: Comparison((found.names[k],), {state: (found.mase[k] - 1).T})
            for k in cells
            if not found.diverged[k]
        }
        best = found.best(_distinct(study, found))
        # A cell that diverged has surely not reached persistence.
        excused = tuple(found.names[k] for k in cells if found.diverged[k])
        witness = None if best is None else by_cell[best]
        return Evidence([*by_cell.values()], excused=excused, witness=witness, denied=denied)

    return evidence


ABOUT_SCORES: dict[str, Question] = {
    "a": _optimisers,
    "b": _best_cell,
    "c1": _splits("FL"),
    "c2": _splits("local training"),
    "e1": _persistence("CA", denied=False),
    "e2": _persistence("IL", denied=True),
    "e3": _persistence("NY", denied=True),
}
"""The evidence of each claim about scores, from the study and the scores of its states."""


def _bytes(tables: Tables) -> Verdict:
    """(d): what the ledger counted, in every pair of cells that differ in their split alone."""
    blank = Verdict("d", None, unit="share")
    study = tables.study
    try:
        splits = _split(study, "PL-FL"), _split(study, "FL")
        _need_round(study)
    except _NotInStudyError as lacking:
        return replace(blank, answer="not in this study", reason=str(lacking))
    axes = [axis for axis in ("state", *AXES, "seed") if axis != "personalization"]
    ledger = tables.records(
        [*axes, "personalization", "client", "bytes_down", "bytes_up", "extras_up"],
        split="train",
        method=ROUND,
    )
    one_way = (ledger["bytes_up"] - ledger["extras_up"])[ledger["personalization"] == splits[1]]
    crossed = ledger["bytes_down"] + ledger["bytes_up"]
    totals = crossed.groupby([ledger[a] for a in [*axes, "personalization"]]).sum().unstack()
    shares = totals[splits[0]] / totals[splits[1]]
    share = float(totals[splits[0]].sum() / totals[splits[1]].sum())
    low, high = float(shares.min()), float(shares.max())
    found = replace(
        blank,
        effect=share,
        low=low,
        high=high,
        seeds=len(study.grid.seeds),
        clients=len(ledger[["state", "client"]].drop_duplicates()),
        cells=tuple(
            f"{state}-{split}-*" for state, split in itertools.product(study.data.states, splits)
        ),
    )
    parameters = int(one_way.max()) // 4
    if parameters != PARAMETERS:
        reason = (
            f"its model has {parameters:,} parameters, the paper's {PARAMETERS:,}; here the share "
            f"is {share:.2%}"
        )
        return replace(found, answer="not in this study", reason=reason)
    equal = np.round([low, high], 4) == BYTES
    reason = f"counted in the channel over {len(shares)} pairs of cells; no estimate, no test"
    return replace(found, answer="holds" if equal.all() else "does not hold", reason=reason)


@dataclass(frozen=True)
class _Spread:
    """Geometric standard deviation of a state's clients in one respect."""

    name: str
    effect: float
    low: float
    high: float
    p: float
    """Two-sided p value of its being `STRONG`."""
    clients: int


def _loads(tables: Tables) -> Verdict:
    """(f): how clients differ in the mean and spread of their load, in every state."""
    spreads = [
        _spread(f"{name} of the load in {state}", of_state[column].to_numpy(float))
        for state, of_state in tables.clients.groupby("state", sort=False)
        for column, name in (("mean", "mean"), ("std", "standard deviation"))
        if (of_state[column] > 0).sum() > 1
    ]
    blank = Verdict("f", None, unit="factor")
    if not spreads:
        return replace(blank, answer="not in this study", reason="no state has two clients")
    contrary = [spread for spread in spreads if spread.effect <= STRONG]
    if contrary:
        deciding = min(contrary, key=lambda spread: spread.p)
        p = min(1.0, len(spreads) * deciding.p)
    else:
        deciding = max(spreads, key=lambda spread: spread.p)
        p = deciding.p
    return replace(
        blank,
        answer="does not hold" if contrary else "holds",
        effect=deciding.effect,
        low=deciding.low,
        high=deciding.high,
        p=p,
        p_clients=deciding.p,
        clients=deciding.clients,
        reason=f"geometric standard deviation over clients against {STRONG:g}; decided by the "
        f"{deciding.name}",
    )


def _spread(name: str, values: Array) -> _Spread:
    """Interval and test of the variance of logarithms (chi-squared, `scipy.stats`)."""
    logs = np.log(values[values > 0])
    df = len(logs) - 1
    squares = logs.var() * len(logs)
    below = stats.chi2.cdf(squares / np.log(STRONG) ** 2, df)
    ends = squares / np.array([df, *stats.chi2.ppf([1 - ALPHA / 2, ALPHA / 2], df)])
    effect, low, high = np.exp(np.sqrt(ends)).tolist()
    return _Spread(name, effect, low, high, float(2 * min(below, 1 - below)), df + 1)


def as_json(tables: Tables, found: Sequence[Verdict], chosen: Chosen) -> dict[str, Any]:
    """The verdicts as plain data, for machines."""
    return {
        "study": tables.study.name,
        "sample_data": tables.is_sample,
        "round": chosen,
        "alpha": ALPHA,
        "verdicts": [{**asdict(verdict), "text": verdict.text} for verdict in found],
    }


def as_text(tables: Tables, found: Sequence[Verdict], chosen: Chosen) -> str:
    """The verdicts to be read in a terminal: each claim, and below it what decides it."""
    sample = " (sample data)" if tables.is_sample else ""
    when = {"last": "the last round", "best_validation": "the round of best validation MASE"}
    lines = [
        f"{tables.study.name}{sample}: the paper's claims at {when[chosen]}",
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
