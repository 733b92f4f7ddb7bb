"""Claims of the paper about personalised federated forecasting (PL-FL, arXiv 2404.01517)."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from plfl.config.study import Study
from plfl.results.claim import texts
from plfl.results.scores import AXES, Scores, best
from plfl.results.statistics import ALPHA, Array, Comparison
from plfl.results.tables import Tables
from plfl.results.verdict import (
    Evidence,
    NotInStudyError,
    Question,
    Verdict,
    best_of,
    contest,
    need,
)

CLAIMS = texts("paper")
"""The claims in words, by name."""
SCHEMES = {"FL": ["*"], "PL-FL": ["body"], "local training": []}
"""Shared parameters of the paper's three sharing schemes; a study may name them as it likes."""
FAVOURED, BEATEN = ["adam", "adamams"], ["prox", "proxadam"]
ROUNDS = {"fedopt": 4, "authors_code": 8}
"""The methods that implement the paper's round, according to its text or its authors' code, with
the bytes of each number that they send."""
PARAMETERS = 60276
"""Parameters of the paper's model; the fraction of PL-FL depends on the model."""
BYTES = 0.0581
"""Claimed ratio of the bytes of PL-FL to those of FL."""
STRONG = 2.0
"""Clients differ strongly if the geometric standard deviation of their loads exceeds this: the
middle two thirds of the clients then span a factor of four. The paper gives no number."""


def about_tables(tables: Tables) -> list[Verdict]:
    """The claims about bytes (d) and loads (f)."""
    return [_bytes(tables), _loads(tables)]


def _papers(study: Study, of_states: Mapping[str, Scores]) -> dict[str, Scores]:
    """The scores of the cells with the paper's round, without other methods."""
    papers = {}
    for state, of_state in of_states.items():
        keep = of_state.where(method=own_round(study))
        papers[state] = replace(
            of_state,
            combinations=tuple(itertools.compress(of_state.combinations, keep)),
            weekly=of_state.weekly[keep],
            validation=of_state.validation[keep],
            diverged=of_state.diverged[keep],
        )
    return papers


def own_round(study: Study) -> str:
    """The method of a study that implements the paper's round.

    Raises:
        NotInStudyError: the study has none.
    """
    for method in ROUNDS:
        if method in study.grid.method:
            return method
    raise NotInStudyError(f"the grid has no method {' or '.join(ROUNDS)}, the paper's round")


def scheme(study: Study, role: str, shares: Sequence[str] | None = None) -> str:
    """The name that the study gives to one of the paper's sharing schemes.

    `shares`: the shared parameters of another scheme; `role`: its name in messages.

    Raises:
        NotInStudyError: the study has no such scheme.
    """
    patterns = SCHEMES[role] if shares is None else shares
    for name in study.grid.sharing:
        if name not in study.schemes and study.parameters(study.shared[name]) == study.parameters(
            patterns
        ):
            return name
    shared = ", ".join(patterns) or "nothing"
    raise NotInStudyError(f"the grid has no sharing scheme for {role} (shares {shared})")


def _optimisers(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """(a): each pair of optimisers in every state, sharing scheme and ServerOpt."""
    need(study, "client_opt", FAVOURED + BEATEN)
    found = []
    for of_state in of_states.values():
        cells = {one.axes: one for one in of_state.those()}
        client = AXES.index("client_opt")
        for one in of_state.masked(_distinct(study, of_state)):
            if one.axes[client] in FAVOURED:
                others = [cells[(*one.axes[:client], b, *one.axes[client + 1 :])] for b in BEATEN]
                found += [best_of([([one], [other])]) for other in others]
    return Evidence.of(found)


def _distinct(study: Study, of_state: Scores) -> NDArray[np.bool_]:
    """Which combinations are distinct trainings: without a server, only those with the first
    ServerOpt."""
    alone = {c.sharing for c in study.cells if study.is_alone(c)}
    local = [s for s in study.grid.sharing if s in alone]
    first = of_state.where(server_opt=study.grid.server_opt[0])
    return ~of_state.where(sharing=local) | first


def _best_cell(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """(b): the best cell of PL-FL with Adam against the best of all others, in every state."""
    need(study, "client_opt", FAVOURED + BEATEN)
    schemes = {role: scheme(study, role) for role in SCHEMES}
    found = []
    for of_state in of_states.values():
        named = of_state.where(sharing=schemes["PL-FL"], client_opt="adam")
        others = of_state.where(sharing=list(schemes.values())) & ~named
        found.append(best_of([(of_state.masked(named), of_state.masked(others))]))
    return Evidence.of(found)


def _schemes(role: str) -> Question:
    """(c): PL-FL against another sharing scheme over all states, each with its best optimisers."""

    def evidence(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
        ours, others = scheme(study, "PL-FL"), scheme(study, role)
        return contest(of_states, {"sharing": ours}, {"sharing": others})

    return evidence


def _persistence(state: str, denied: bool) -> Question:
    """(e): every cell of a state against persistence, whose MASE is 1 by definition."""

    def evidence(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
        need(study, "client_opt", FAVOURED + BEATEN)
        for role in SCHEMES:
            scheme(study, role)
        if state not in of_states:
            raise NotInStudyError(f"the grid has no state {state}")
        of_state = of_states[state]
        distinct = _distinct(study, of_state)
        cells = of_state.masked(distinct & ~of_state.diverged)
        by_cell = {
            one.name: Comparison((one.name,), {state: one.over_persistence}) for one in cells
        }
        # A diverged cell counts as worse than persistence.
        excused = tuple(one.name for one in of_state.masked(distinct & of_state.diverged))
        chosen = best(cells)
        witness = None if chosen is None else by_cell[chosen.name]
        return Evidence([*by_cell.values()], excused=excused, witness=witness, denied=denied)

    return evidence


def _of_paper(question: Question) -> Question:
    """The same question, restricted to the paper's round."""

    def evidence(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
        return question(study, _papers(study, of_states))

    return evidence


_QUESTIONS: dict[str, Question] = {
    "a": _optimisers,
    "b": _best_cell,
    "c1": _schemes("FL"),
    "c2": _schemes("local training"),
    "e1": _persistence("CA", denied=False),
    "e2": _persistence("IL", denied=True),
    "e3": _persistence("NY", denied=True),
}
ABOUT_SCORES = {name: _of_paper(question) for name, question in _QUESTIONS.items()}
"""The evidence for each claim about scores, from the study and the scores of its states."""


def _bytes(tables: Tables) -> Verdict:
    """(d): counted bytes, in every pair of cells that differ only in the sharing scheme."""
    blank = Verdict("d", None, unit="share")
    study = tables.study
    try:
        schemes = scheme(study, "PL-FL"), scheme(study, "FL")
        own = own_round(study)
    except NotInStudyError as lacking:
        return replace(blank, answer="not in this study", reason=str(lacking))
    axes = [axis for axis in ("state", *AXES, "seed") if axis != "sharing"]
    sent = tables.records(
        [*axes, "sharing", "client", "bytes_down", "bytes_up", "extras_up"],
        split="train",
        model="local",
        method=own,
    )
    one_way = (sent["bytes_up"] - sent["extras_up"])[sent["sharing"] == schemes[1]]
    crossed = sent["bytes_down"] + sent["bytes_up"]
    totals = crossed.groupby([sent[a] for a in [*axes, "sharing"]]).sum().unstack()
    shares = totals[schemes[0]] / totals[schemes[1]]
    share = float(totals[schemes[0]].sum() / totals[schemes[1]].sum())
    low, high = float(shares.min()), float(shares.max())
    verdict = replace(
        blank,
        effect=share,
        low=low,
        high=high,
        seeds=len(study.grid.seeds),
        clients=len(sent[["state", "client"]].drop_duplicates()),
        cells=tuple(
            f"{state}-{scheme}-*" for state, scheme in itertools.product(study.data.states, schemes)
        ),
    )
    parameters = int(one_way.max()) // ROUNDS[own]
    if parameters != PARAMETERS:
        reason = (
            f"the model has {parameters:,} parameters, that of the paper {PARAMETERS:,}; here the "
            f"share is {share:.2%}"
        )
        return replace(verdict, answer="not in this study", reason=reason)
    equal = np.round([low, high], 4) == BYTES
    reason = f"counted in the channel over {len(shares)} pairs of cells; no statistical test"
    return replace(verdict, answer="holds" if equal.all() else "does not hold", reason=reason)


@dataclass(frozen=True)
class _Spread:
    """Geometric standard deviation over the clients of a state of one property of their loads."""

    name: str
    effect: float
    low: float
    high: float
    p: float
    """Two-sided p value of the hypothesis that it equals `STRONG`."""
    clients: int


def _loads(tables: Tables) -> Verdict:
    """(f): geometric standard deviations of the clients' mean loads and load spreads, by state."""
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
        p_alone=deciding.p,
        clients=deciding.clients,
        reason=f"geometric standard deviation over clients, compared with {STRONG:g}; decided by "
        f"the {deciding.name}",
    )


def _spread(name: str, values: Array) -> _Spread:
    """Interval and χ² test of the variance of the logarithms of positive `values`."""
    logs = np.log(values[values > 0])
    df = len(logs) - 1
    squares = logs.var() * len(logs)
    below = special.chdtr(df, squares / np.log(STRONG) ** 2)
    ends = squares / np.array([df, *special.chdtri(df, [ALPHA / 2, 1 - ALPHA / 2])])
    effect, low, high = np.exp(np.sqrt(ends)).tolist()
    return _Spread(name, effect, low, high, float(2 * min(below, 1 - below)), df + 1)
