"""Claims of the methods' papers, as far as a study of forecasts can test them.

Most papers report the accuracy of image classifiers; here each claim is about MASE, in every
sharing scheme that shares parameters. Each side has the ClientOpt of lowest validation MASE in its
state. All methods use the ServerOpt `fedavg`; SlowMo is the plain round with the ServerOpt
`slowmo`. Counted bytes and simulated time are compared cell by cell, without a statistical test.

Unit tests in `tests/methods` cover claims that no study of forecasts can test, such as fixed points
on a quadratic and the recovery of constructed clusters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from plfl.config.study import Study
from plfl.results.claim import LISTED, texts
from plfl.results.paper_claims import scheme
from plfl.results.records import CELL
from plfl.results.scores import Scores
from plfl.results.tables import Tables
from plfl.results.verdict import (
    Evidence,
    NotInStudyError,
    Question,
    Verdict,
    contest,
    need,
    shared_schemes,
)

AVERAGING = "fedopt"
"""The plain round; with the ServerOpt `fedavg` it is FedAvg."""


class Side(NamedTuple):
    """Cells that a claim compares."""

    method: str = AVERAGING
    server: str = "fedavg"
    role: str | None = None
    """The role of the sharing scheme of its cells, one of `SHARED`; None: each scheme that shares
    anything."""


SHARED = {"local training": [], "PL-FL": ["body"], "LG-FedAvg": ["head"]}
"""The patterns of parameters that are shared in each role."""
Reason = Callable[[Study], str | None]
"""Why a study with all methods of a claim cannot test it; None if it can."""


def _everyone_takes_part(study: Study) -> str | None:
    share, simulation = study.federation.participation, study.federation.simulation
    everyone = share == simulation.availability == 1 and not simulation.dropout
    if everyone and simulation.trace is None:
        return "every client takes part in every round (federation.participation)"
    return None


def _one_cluster(study: Study) -> str | None:
    if study.hyperparameters.of("method", "fedsc").clusters == 1:
        return "with hyperparameters.method.fedsc.clusters: 1, FedSC is FedAvg"
    return None


def _several_steps(study: Study) -> str | None:
    tuned, meta = (study.hyperparameters.of("method", m) for m in ("fine_tuning", "per_fedavg"))
    single = meta.adapt_steps == tuned.most_steps == 1 and tuned.epochs > tuned.head_epochs == 0
    searched = {f"method.fine_tuning.{key}" for key in ("head_epochs", "epochs", "most_steps")}
    if single and not {*searched, "method.per_fedavg.adapt_steps"} & set(study.tuning.search):
        return None
    return (
        "it needs per_fedavg: {adapt_steps: 1} and fine_tuning: {most_steps: 1}, without "
        "head_epochs, in hyperparameters.method"
    )


def _apart(of_state: Scores) -> Scores:
    """The distance of each client's MASE from the median over clients, as in the test of Brown and
    Forsythe."""
    scored = np.isfinite(of_state.mase).any(axis=(0, 1))
    median = np.median(of_state.mase[..., scored], axis=-1, keepdims=True)
    side = np.sign(of_state.mase - median)[..., None]
    weeks = of_state.weekly.shape[-1]
    return replace(of_state, weekly=side * (of_state.weekly - median[..., None] / weeks))


CLAIMS = texts("methods")
"""The claims in words, by name."""
SIDES = {
    "SlowMo": Side(server="slowmo"),
    **{role: Side(role=role) for role in SHARED},
}
"""The sides of claims that are more than a method."""
LACKS: dict[str, Reason] = {"j1": _one_cluster, "k": _everyone_takes_part, "o12": _several_steps}
"""Further needs of claims: why a study cannot test them, if so."""
SCORED: dict[str, Callable[[Scores], Scores]] = {"o13": _apart}
"""The quantities that claims compare instead of MASE, computed from the scores of a state; smaller
is better."""


def evidence(claim: str, study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """The best cells of each side of a claim, over all states, in each sharing scheme."""
    contrasts = [
        [SIDES.get(name, Side(name)) for name in (better, other)]
        for better, others in LISTED["methods"][claim].beats.items()
        for other in others
    ]
    sides = [side for contrast in contrasts for side in contrast]
    schemes = shared_schemes(study)
    named = {side: scheme(study, side.role, SHARED[side.role]) for side in sides if side.role}
    need(study, "method", [side.method for side in sides])
    need(study, "server_opt", [side.server for side in sides])
    if claim in LACKS and (reason := LACKS[claim](study)):
        raise NotInStudyError(reason)
    quantity = SCORED.get(claim)
    scored = {state: quantity(one) if quantity else one for state, one in of_states.items()}
    found = []
    for shared, contrast in itertools.product(schemes, contrasts):
        if all(side.role for side in contrast) and shared != schemes[0]:
            continue  # sides with roles name their schemes: the pair is the same for every `shared`
        placed = [(side, named.get(side, shared)) for side in contrast]
        if any((side.method, sharing) in study.unshareable for side, sharing in placed):
            continue
        found.append(
            contest(
                scored,
                *(
                    {"sharing": sharing, "method": side.method, "server_opt": side.server}
                    for side, sharing in placed
                ),
            )
        )
    if not found:
        raise NotInStudyError("the methods do not work with any sharing scheme of the grid")
    return Evidence.of(found)


ABOUT_SCORES: dict[str, Question] = {
    name: partial(evidence, name) for name, claim in LISTED["methods"].items() if claim.beats
}
"""The evidence for each claim about scores, from the study and the scores of its states."""


def about_tables(tables: Tables) -> list[Verdict]:
    """The claims about simulated time (l) and bytes (m)."""
    clusters = tables.study.hyperparameters.of("method", "ifca").clusters
    return [
        _counted(tables, "l1", "fedeff", _waiting, lambda share: share < 1),
        _counted(tables, "l2", "fedeff", _duration, lambda share: share < 1),
        _counted(
            tables, "m", "ifca", _downlink, lambda factor: abs(factor - clusters) < 1e-9, "factor"
        ),
    ]


def _counted(
    tables: Tables,
    claim: str,
    method: str,
    quantity: Callable[[Tables, str], pd.Series[float]],
    as_claimed: Callable[[float], bool],
    unit: str = "share",
) -> Verdict:
    """The ratio of a quantity to that under FedAvg, in otherwise equal cells. `quantity` computes
    the total of each cell of a method."""
    blank = Verdict(claim, None, unit=unit)
    study = tables.study
    try:
        need(study, "method", [method, AVERAGING])
        need(study, "server_opt", ["fedavg"])
        shared = shared_schemes(study)
        both = pd.concat(
            [quantity(tables, name).rename(name) for name in (method, AVERAGING)], axis=1
        )
    except NotInStudyError as lacking:
        return replace(blank, answer="not in this study", reason=str(lacking))
    both = both.dropna().reset_index()
    both = both[both["sharing"].isin(shared) & (both["server_opt"] == "fedavg")]
    if (both[AVERAGING] == 0).all():
        return replace(blank, answer="not in this study", reason="the quantity is 0 under FedAvg")
    both = both[both[AVERAGING] > 0]
    ratios = both[method] / both[AVERAGING]
    holds = all(as_claimed(ratio) for ratio in ratios)
    return replace(
        blank,
        answer="holds" if holds else "does not hold",
        effect=float(both[method].sum() / both[AVERAGING].sum()),
        low=float(ratios.min()),
        high=float(ratios.max()),
        seeds=len(study.grid.seeds),
        clients=len(tables.clients),
        cells=tuple(
            f"{state}-{scheme}-{name}-*"
            for state, scheme, name in itertools.product(
                study.data.states, shared, (method, AVERAGING)
            )
        ),
        reason=f"counted over {len(ratios)} pairs of cells, whose range is in brackets; no test",
    )


_PAIRED = [axis for axis in CELL if axis != "method"]


def _waiting(tables: Tables, method: str) -> pd.Series[float]:
    """Simulated seconds that all clients wait for others in all rounds."""
    rows = _simulated(tables, method)
    return (rows["round_seconds"] - rows["seconds"]).groupby([rows[a] for a in _PAIRED]).sum()


def _duration(tables: Tables, method: str) -> pd.Series[float]:
    """Simulated duration of all rounds in seconds."""
    rows = _simulated(tables, method)
    rounds = rows.groupby([*_PAIRED, "round"])["round_seconds"].first()
    total: pd.Series[float] = rounds.groupby(_PAIRED).sum()
    return total


def _simulated(tables: Tables, method: str) -> pd.DataFrame:
    if "seconds" not in tables.summary:
        raise NotInStudyError("the study does not simulate time (federation.simulation)")
    columns = [*_PAIRED, "round", "seconds", "round_seconds"]
    return tables.records(columns, split="train", model="local", method=method)


def _downlink(tables: Tables, method: str) -> pd.Series[float]:
    """Bytes sent to all clients in all rounds."""
    rows = tables.records([*_PAIRED, "bytes_down"], split="train", model="local", method=method)
    total: pd.Series[float] = rows.groupby(_PAIRED)["bytes_down"].sum()
    return total
