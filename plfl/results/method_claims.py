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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from plfl.config.study import Study
from plfl.methods.fedsc import FedSC
from plfl.methods.fine_tuning import FineTuning
from plfl.methods.ifca import Ifca
from plfl.methods.per_fedavg import PerFedAvg
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

CLAIMS = {
    "g1": "FedADC beats SlowMo",
    "g2": "SlowMo beats FedAvg",
    "h1": "FedADC+ beats FedADC, FedDyn, FedGKD, MOON, FedProx and FedAvg",
    "h2": "FedAvg beats FedProx and MOON",
    "i": "FedSplit, whose fixed point is the optimum, beats FedAvg and FedProx",
    "j1": "FedSC with several clusters beats FedAvg, which is FedSC with one cluster",
    "j2": "FedCluster beats FedAvg after the same number of rounds",
    "j3": "FedAC beats IFCA, one-shot clustering, FedCluster and FedSC",
    "k": "CC-FedAdagrad, CC-FedAdam and CC-FedAMS beat FedAvg under partial participation",
    "l1": "clients wait less under FedEff than under FedAvg",
    "l2": "FedEff takes less time than FedAvg for the same number of rounds",
    "m": "the downlink bytes of IFCA are those of FedAvg times its number of clusters",
    "o1": "Ditto beats FedAvg",
    "o2": "FedRep beats FedPer, the plain round with the same personal parameters",
    "o3": "FedBABU beats FedAvg where both are fine-tuned",
    "o4": "Per-FedAvg beats FedAvg",
    "o5": "pFedMe beats Per-FedAvg",
    "o6": "FedALA beats FedAvg",
    "o7": "fine-tuning beats Ditto, APFL and pFedMe",
    "o8": "Ditto and APFL beat local training",
    "o9": "FedAMP and FedFomo beat FedAvg",
    "o10": "kNN-Per beats FedAvg",
    "o11": "FedPer beats LG-FedAvg, which shares the head instead of the body",
    "o12": "one step on the own data makes Per-FedAvg's model better than FedAvg's",
    "o13": "Ditto's MASE differs less between clients than FedAvg's and local training's",
}
"""The claims by name."""
AVERAGING = "fedopt"
"""The plain round; with the ServerOpt `fedavg` it is FedAvg."""
CC = ["cc_fedadagrad", "cc_fedadam", "cc_fedams"]


def _rivals(pairs: Sequence[tuple[str, str]], servers: Sequence[str] = ()) -> Question:
    """Pairs of methods, each (better, worse); `servers` are their ServerOpts, default `fedavg`."""
    ours, theirs = servers or ("fedavg", "fedavg")

    def evidence(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
        _need_methods(study, [method for pair in pairs for method in pair])
        _need_servers(study, [ours, theirs])
        contests = [
            (shared, pair)
            for shared, pair in itertools.product(shared_schemes(study), pairs)
            if not any((method, shared) in study.unshareable for method in pair)
        ]
        if not contests:
            raise NotInStudyError("the methods do not work with any sharing scheme of the grid")
        return _all(
            contest(
                of_states,
                {"sharing": shared, "method": better, "server_opt": ours},
                {"sharing": shared, "method": worse, "server_opt": theirs},
            )
            for shared, (better, worse) in contests
        )

    return evidence


def _against_local(methods: Sequence[str]) -> Question:
    """(o8): methods, in every sharing scheme that shares something, against local training."""

    def evidence(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
        schemes, alone = shared_schemes(study), scheme(study, "local training")
        _need_methods(study, [*methods, AVERAGING])
        _need_servers(study, ["fedavg"])
        local = {"sharing": alone, "method": AVERAGING, "server_opt": "fedavg"}
        return _all(
            contest(of_states, local | {"sharing": shared, "method": method}, local)
            for shared, method in itertools.product(schemes, methods)
            if (method, shared) not in study.unshareable
        )

    return evidence


def _evenly(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """(o13): Ditto against FedAvg and local training, by the distance of each client's MASE from
    the median over clients, as in the test of Brown and Forsythe."""

    def apart(of_state: Scores) -> Scores:
        scored = np.isfinite(of_state.mase).any(axis=(0, 1))
        median = np.median(of_state.mase[..., scored], axis=-1, keepdims=True)
        return replace(of_state, mase=np.abs(of_state.mase - median))

    _need_methods(study, ["ditto", AVERAGING])
    distances = {state: apart(of_state) for state, of_state in of_states.items()}
    return _all(
        question(study, distances)
        for question in (_rivals([("ditto", AVERAGING)]), _against_local(["ditto"]))
    )


def _one_step(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """(o12): Per-FedAvg against fine-tuned FedAvg, both after a single step."""
    _need_methods(study, ["per_fedavg", "fine_tuning"])
    tuned = study.hyperparameters.of_class(FineTuning)
    meta = study.hyperparameters.of_class(PerFedAvg)
    single = meta.adapt_steps == tuned.most_steps == 1 and tuned.epochs > tuned.head_epochs == 0
    searched = {"fine_tuning.head_epochs", "fine_tuning.epochs", "fine_tuning.most_steps"}
    searched |= {"per_fedavg.adapt_steps"}
    if not single or any(f"method.{key}" in study.tuning.search for key in searched):
        raise NotInStudyError(
            "it needs per_fedavg: {adapt_steps: 1} and fine_tuning: {most_steps: 1}, without "
            "head_epochs, in hyperparameters.method"
        )
    return _rivals([("per_fedavg", "fine_tuning")])(study, of_states)


def _layers(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """(o11): the plain round where the body is shared against that where the head is."""
    _need_methods(study, [AVERAGING])
    _need_servers(study, ["fedavg"])
    shared_schemes(study)  # its reason, if there is none, is that of the other claims
    plain = {"method": AVERAGING, "server_opt": "fedavg"}
    body, head = scheme(study, "PL-FL"), scheme(study, "LG-FedAvg", ["head"])
    return contest(of_states, plain | {"sharing": body}, plain | {"sharing": head})


def _all(evidences: Iterable[Evidence]) -> Evidence:
    """The evidence of several contests, all of which a claim is about."""
    evidences = list(evidences)
    return Evidence(
        [comparison for one in evidences for comparison in one.comparisons],
        tuple(cell for one in evidences for cell in one.blocking),
        tuple(cell for one in evidences for cell in one.excused),
    )


def _more_clusters(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """(j1): FedSC with several clusters against the plain round, which is FedSC with one."""
    if study.hyperparameters.of_class(FedSC).clusters == 1:
        raise NotInStudyError("with hyperparameters.method.fedsc.clusters: 1, FedSC is FedAvg")
    return _rivals([("fedsc", AVERAGING)])(study, of_states)


def _partly(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """(k): the client-centric methods against the plain round, under partial participation."""
    share, simulation = study.federation.participation, study.federation.simulation
    everyone = share == simulation.availability == 1 and not simulation.dropout
    if everyone and simulation.trace is None:
        raise NotInStudyError("every client takes part in every round (federation.participation)")
    return _rivals([(method, AVERAGING) for method in CC])(study, of_states)


ABOUT_SCORES: dict[str, Question] = {
    "g1": _rivals([("fedadc", AVERAGING)], servers=("fedavg", "slowmo")),
    "g2": _rivals([(AVERAGING, AVERAGING)], servers=("slowmo", "fedavg")),
    "h1": _rivals(
        [
            ("fedadc_plus", other)
            for other in ("fedadc", "feddyn", "fedgkd", "moon", "fedprox", AVERAGING)
        ]
    ),
    "h2": _rivals([(AVERAGING, "fedprox"), (AVERAGING, "moon")]),
    "i": _rivals([("fedsplit", AVERAGING), ("fedsplit", "fedprox")]),
    "j1": _more_clusters,
    "j2": _rivals([("fedcluster", AVERAGING)]),
    "j3": _rivals([("fedac", other) for other in ("ifca", "one_shot", "fedcluster", "fedsc")]),
    "k": _partly,
    "o1": _rivals([("ditto", AVERAGING)]),
    "o2": _rivals([("fedrep", AVERAGING)]),
    "o3": _rivals([("fedbabu", "fine_tuning")]),
    "o4": _rivals([("per_fedavg", AVERAGING)]),
    "o5": _rivals([("pfedme", "per_fedavg")]),
    "o6": _rivals([("fedala", AVERAGING)]),
    "o7": _rivals([("fine_tuning", other) for other in ("ditto", "apfl", "pfedme")]),
    "o8": _against_local(["ditto", "apfl"]),
    "o9": _rivals([("fedamp", AVERAGING), ("fedfomo", AVERAGING)]),
    "o10": _rivals([("knn_per", AVERAGING)]),
    "o11": _layers,
    "o12": _one_step,
    "o13": _evenly,
}
"""The evidence for each claim about scores, from the study and the scores of its states."""


def about_tables(tables: Tables) -> list[Verdict]:
    """The claims about simulated time (l) and bytes (m)."""
    clusters = tables.study.hyperparameters.of_class(Ifca).clusters
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
