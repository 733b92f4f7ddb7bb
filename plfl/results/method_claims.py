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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from plfl.config.study import Study
from plfl.results.labels import method_label
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
    shared_schemes,
)

AVERAGING = "fedopt"
"""The plain round; with the ServerOpt `fedavg` it is FedAvg."""


class Side(NamedTuple):
    """Cells that a claim compares."""

    method: str = AVERAGING
    server: str = "fedavg"
    role: str | None = None
    """What its cells share, one of `SHARED`; None: each scheme that shares anything."""


SHARED = {"local training": [], "PL-FL": ["body"], "LG-FedAvg": ["head"]}
"""The patterns of parameters that cells in a role share."""
Contrast = tuple[Side, Side]
"""The side that the claim calls better, and the other."""
Reason = Callable[[Study], str | None]
"""Why a study cannot test a claim, which it otherwise could; None if it can."""


def beats(better: str, *worse: str) -> tuple[Contrast, ...]:
    """A method against each of others."""
    return tuple((Side(better), Side(other)) for other in worse)


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


@dataclass(frozen=True)
class Claim:
    """A claim of a paper: contrasts all of which must come out in its favour."""

    text: str
    source: str
    contrasts: tuple[Contrast, ...] = ()
    """Empty for claims about what is counted."""
    lacks: Reason = lambda study: None
    score: Callable[[Scores], Scores] = lambda of_state: of_state
    """What is compared, made of the scores of a state; smaller is better."""


_LOCAL, _SLOWMO = Side(role="local training"), Side(server="slowmo")
_FEDADC, _LI = "arXiv 2012.09102", "arXiv 2012.04221"
ALL = {
    "g1": Claim("FedADC beats SlowMo", _FEDADC, ((Side("fedadc"), _SLOWMO),)),
    "g2": Claim("SlowMo beats FedAvg", _FEDADC, ((_SLOWMO, Side()),)),
    "h1": Claim(
        "FedADC+ beats FedADC, FedDyn, FedGKD, MOON, FedProx and FedAvg",
        f"{_FEDADC}, Table I",
        beats("fedadc_plus", "fedadc", "feddyn", "fedgkd", "moon", "fedprox", AVERAGING),
    ),
    "h2": Claim(
        "FedAvg beats FedProx and MOON",
        f"{_FEDADC}, Table I",
        beats(AVERAGING, "fedprox", "moon"),
    ),
    "i": Claim(
        "FedSplit, whose fixed point is the optimum, beats FedAvg and FedProx",
        "Pathak and Wainwright 2020",
        beats("fedsplit", AVERAGING, "fedprox"),
    ),
    "j1": Claim(
        "FedSC with several clusters beats FedAvg, which is FedSC with one cluster",
        "doi 10.3934/era.2023266",
        beats("fedsc", AVERAGING),
        _one_cluster,
    ),
    "j2": Claim(
        "FedCluster beats FedAvg after the same number of rounds",
        "Chen et al. 2020",
        beats("fedcluster", AVERAGING),
    ),
    "j3": Claim(
        "FedAC beats IFCA, one-shot clustering, FedCluster and FedSC",
        "arXiv 2403.16460",
        beats("fedac", "ifca", "one_shot", "fedcluster", "fedsc"),
    ),
    "k": Claim(
        "CC-FedAdagrad, CC-FedAdam and CC-FedAMS beat FedAvg under partial participation",
        "arXiv 2501.09946",
        tuple((Side(name), Side()) for name in ("cc_fedadagrad", "cc_fedadam", "cc_fedams")),
        _everyone_takes_part,
    ),
    "l1": Claim("clients wait less under FedEff than under FedAvg", "its authors' slides"),
    "l2": Claim(
        "FedEff takes less time than FedAvg for the same number of rounds", "its authors' slides"
    ),
    "m": Claim(
        "the downlink bytes of IFCA are those of FedAvg times its number of clusters",
        "its Algorithm 2",
    ),
    "o1": Claim("Ditto beats FedAvg", _LI, beats("ditto", AVERAGING)),
    "o2": Claim(
        "FedRep beats FedPer, the plain round with the same personal parameters",
        "arXiv 2102.07078",
        beats("fedrep", AVERAGING),
    ),
    "o3": Claim(
        "FedBABU beats FedAvg where both are fine-tuned",
        "arXiv 2106.06042",
        beats("fedbabu", "fine_tuning"),
    ),
    "o4": Claim("Per-FedAvg beats FedAvg", "arXiv 2002.07948", beats("per_fedavg", AVERAGING)),
    "o5": Claim("pFedMe beats Per-FedAvg", "arXiv 2006.08848", beats("pfedme", "per_fedavg")),
    "o6": Claim("FedALA beats FedAvg", "arXiv 2212.01197", beats("fedala", AVERAGING)),
    "o7": Claim(
        "fine-tuning beats Ditto, APFL and pFedMe",
        "arXiv 2108.07313",
        beats("fine_tuning", "ditto", "apfl", "pfedme"),
    ),
    "o8": Claim(
        "Ditto and APFL beat local training",
        f"{_LI}, 2003.13461",
        ((Side("ditto"), _LOCAL), (Side("apfl"), _LOCAL)),
    ),
    "o9": Claim(
        "FedAMP and FedFomo beat FedAvg",
        "arXiv 2007.03797, 2012.08565",
        (*beats("fedamp", AVERAGING), *beats("fedfomo", AVERAGING)),
    ),
    "o10": Claim("kNN-Per beats FedAvg", "arXiv 2111.09360", beats("knn_per", AVERAGING)),
    "o11": Claim(
        "FedPer beats LG-FedAvg, which shares the head instead of the body",
        "arXiv 1912.00818, 2001.01523",
        ((Side(role="PL-FL"), Side(role="LG-FedAvg")),),
    ),
    "o12": Claim(
        "one step on the own data makes Per-FedAvg's model better than FedAvg's",
        "arXiv 2002.07948",
        beats("per_fedavg", "fine_tuning"),
        _several_steps,
    ),
    "o13": Claim(
        "Ditto's MASE differs less between clients than FedAvg's and local training's",
        _LI,
        ((Side("ditto"), Side()), (Side("ditto"), _LOCAL)),
        score=_apart,
    ),
}
"""The claims by name."""
CLAIMS = {name: claim.text for name, claim in ALL.items()}


def evidence(claim: Claim, study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """The best cells of each side of a claim's contrasts, over all states, in each sharing scheme.

    Raises:
        NotInStudyError: the study lacks a side, or cannot test the claim.
    """
    sides = [side for contrast in claim.contrasts for side in contrast]
    schemes = shared_schemes(study)
    named = {side: scheme(study, side.role, SHARED[side.role]) for side in sides if side.role}
    _need_methods(study, [side.method for side in sides])
    _need_servers(study, [side.server for side in sides])
    if reason := claim.lacks(study):
        raise NotInStudyError(reason)
    scored = {state: claim.score(of_state) for state, of_state in of_states.items()}
    found = []
    for shared, contrast in itertools.product(schemes, claim.contrasts):
        if all(side.role for side in contrast) and shared != schemes[0]:
            continue  # it is the same in every scheme
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
    return Evidence(
        [comparison for one in found for comparison in one.comparisons],
        tuple(cell for one in found for cell in one.blocking),
        tuple(cell for one in found for cell in one.excused),
    )


ABOUT_SCORES: dict[str, Question] = {
    name: partial(evidence, claim) for name, claim in ALL.items() if claim.contrasts
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
    """The ratio of a quantity under `method` to that under FedAvg, in otherwise equal cells.

    Args:
        tables: the results folder.
        claim: name of the claim.
        method: the method that the claim is about.
        quantity: computes the total of each cell of a method.
        as_claimed: whether the ratio of a pair agrees with the claim.
        unit: unit of the effect, see `Verdict.unit`.
    """
    blank = Verdict(claim, None, unit=unit)
    study = tables.study
    try:
        _need_methods(study, [method, AVERAGING])
        _need_servers(study, ["fedavg"])
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


def _need_methods(study: Study, names: Sequence[str]) -> None:
    if missing := [name for name in dict.fromkeys(names) if name not in study.grid.method]:
        raise NotInStudyError(f"the grid has no method {', '.join(map(method_label, missing))}")


def _need_servers(study: Study, names: Sequence[str]) -> None:
    if missing := [name for name in dict.fromkeys(names) if name not in study.grid.server_opt]:
        raise NotInStudyError(f"the grid has no ServerOpt {', '.join(missing)}")
