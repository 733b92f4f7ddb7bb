"""What the sources of the methods claim, as far as a study of forecasts can ask it.

Most of them speak of the accuracy of image classifiers; here each is asked of MASE, in every split
that shares something, and each side with the ClientOpt that did best on validation in its state.
All methods step with the server's `fedavg`; SlowMo is the plain round with the ServerOpt `slowmo`.
What was counted (bytes) or simulated (time) is compared cell by cell, without a test.

Claims that no study of forecasts can ask are tested instead: fixed points on a quadratic, and that
clusters of constructed clients are recovered (`tests/methods`).
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from plfl.results.records import CELL
from plfl.results.statistics import Scores
from plfl.results.tables import Tables, method_label
from plfl.results.verdict import Evidence, NotInStudyError, Question, Verdict, contest
from plfl.study import Study

CLAIMS = {
    "g1": "FedADC beats SlowMo",
    "g2": "SlowMo beats FedAvg",
    "h1": "FedADC+ beats FedADC, FedDyn, FedGKD, MOON, FedProx and FedAvg",
    "h2": "FedProx and MOON stay behind FedAvg",
    "i": "FedSplit, whose fixed point is the right one, beats FedAvg and FedProx",
    "j1": "the more clusters FedSC has, the better: it beats FedAvg, which is FedSC with one",
    "j2": "FedCluster is further than FedAvg after as many rounds",
    "j3": "FedAC beats IFCA, one-shot clustering, FedCluster and FedSC",
    "k": "CC-FedAdagrad, CC-FedAdam and CC-FedAMS beat FedAvg under partial participation",
    "l1": "clients wait less under FedEff than under FedAvg",
    "l2": "FedEff takes less time than FedAvg for as many rounds",
    "m": "IFCA sends as many times FedAvg's downlink as it has clusters",
}
"""The claims by name."""
AVERAGING = "fedopt"
"""The plain round, which with the ServerOpt `fedavg` is FedAvg."""
CC = ["cc_fedadagrad", "cc_fedadam", "cc_fedams"]


def _rivals(pairs: Sequence[tuple[str, str]], servers: Sequence[str] = ()) -> Question:
    """Methods against others, each (better, worse), with the ServerOpts `servers` or `fedavg`."""
    ours, theirs = servers or ("fedavg", "fedavg")

    def evidence(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
        _need_methods(study, [method for pair in pairs for method in pair])
        _need_servers(study, [ours, theirs])
        found = [
            contest(
                of_states,
                {"personalization": split, "method": better, "server_opt": ours},
                {"personalization": split, "method": worse, "server_opt": theirs},
            )
            for split, (better, worse) in itertools.product(_shared(study), pairs)
        ]
        return Evidence(
            [comparison for one in found for comparison in one.comparisons],
            tuple(cell for one in found for cell in one.blocking),
            tuple(cell for one in found for cell in one.excused),
        )

    return evidence


def _more_clusters(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """(j1): FedSC with its clusters against FedSC with one, which is the plain round."""
    if study.method.fedsc.clusters == 1:  # type: ignore[attr-defined]
        raise NotInStudyError("method.fedsc.clusters is 1, so its FedSC is FedAvg")
    return _rivals([("fedsc", AVERAGING)])(study, of_states)


def _partly(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """(k): the client-centric methods against the plain round, of which not everybody is part."""
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
}
"""The evidence of each claim about scores, from the study and the scores of its states."""


def about_tables(tables: Tables) -> list[Verdict]:
    """The claims that are about simulated time (l) and bytes (m)."""
    clusters = float(tables.study.method.ifca.clusters)  # type: ignore[attr-defined]
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
    quantity: Callable[[Tables, str], "pd.Series[float]"],
    as_claimed: Callable[[float], bool],
    unit: str = "share",
) -> Verdict:
    """What `method` has of a quantity for what FedAvg has, in each pair of cells alike otherwise.

    Args:
        tables: the results folder.
        claim: name of the claim.
        method: the method that it is about.
        quantity: total of each cell, of one method.
        as_claimed: whether a pair's ratio is what the claim says.
        unit: that of the effect, see `Verdict.unit`.
    """
    blank = Verdict(claim, None, unit=unit)
    study = tables.study
    try:
        _need_methods(study, [method, AVERAGING])
        _need_servers(study, ["fedavg"])
        shared = _shared(study)
        both = pd.concat(
            [quantity(tables, name).rename(name) for name in (method, AVERAGING)], axis=1
        )
    except NotInStudyError as lacking:
        return replace(blank, answer="not in this study", reason=str(lacking))
    both = both.dropna().reset_index()
    both = both[both["personalization"].isin(shared) & (both["server_opt"] == "fedavg")]
    if (both[AVERAGING] == 0).all():
        return replace(blank, answer="not in this study", reason="there is none under FedAvg")
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
            f"{state}-{split}-{name}-*"
            for state, split, name in itertools.product(
                study.data.states, shared, (method, AVERAGING)
            )
        ),
        reason=f"counted over {len(ratios)} pairs of cells, which are its range; no test",
    )


_PAIRED = [axis for axis in CELL if axis != "method"]


def _waiting(tables: Tables, method: str) -> "pd.Series[float]":
    """Simulated seconds that all clients waited for others in all rounds."""
    rows = _simulated(tables, method)
    return (rows["round_seconds"] - rows["seconds"]).groupby([rows[a] for a in _PAIRED]).sum()


def _duration(tables: Tables, method: str) -> "pd.Series[float]":
    """Simulated seconds of all rounds."""
    rows = _simulated(tables, method)
    rounds = rows.groupby([*_PAIRED, "round"])["round_seconds"].first()
    total: pd.Series[float] = rounds.groupby(_PAIRED).sum()
    return total


def _simulated(tables: Tables, method: str) -> pd.DataFrame:
    if "seconds" not in tables.summary:
        raise NotInStudyError("the study simulates no time (federation.simulation)")
    columns = [*_PAIRED, "round", "seconds", "round_seconds"]
    return tables.records(columns, split="train", method=method)


def _downlink(tables: Tables, method: str) -> "pd.Series[float]":
    """Bytes that all clients were sent in all rounds."""
    rows = tables.records([*_PAIRED, "bytes_down"], split="train", method=method)
    total: pd.Series[float] = rows.groupby(_PAIRED)["bytes_down"].sum()
    return total


def _shared(study: Study) -> list[str]:
    """The splits in which methods differ."""
    if found := [split for split in study.grid.personalization if not study.shares_nothing(split)]:
        return found
    raise NotInStudyError("the grid has no split that shares anything")


def _need_methods(study: Study, names: Sequence[str]) -> None:
    if missing := [name for name in dict.fromkeys(names) if name not in study.grid.method]:
        raise NotInStudyError(f"the grid has no method {', '.join(map(method_label, missing))}")


def _need_servers(study: Study, names: Sequence[str]) -> None:
    if missing := [name for name in dict.fromkeys(names) if name not in study.grid.server_opt]:
        raise NotInStudyError(f"the grid has no ServerOpt {', '.join(missing)}")
