"""What the study found about its best forecasters, in a few sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from plfl import baselines
from plfl.report.clients import score
from plfl.report.standings import bytes_per_round, of_cell
from plfl.results.findings import MODEL, RIVALS, Best, Findings
from plfl.results.labels import baseline_label, spaced
from plfl.results.tables import Tables
from plfl.results.verdict import Verdict

FEW = 3
"""Largest number of states, or of undecided comparisons, that a sentence lists one by one."""


def sentences(tables: Tables, findings: Findings) -> list[str]:
    """The findings in sentences: the best forecaster, the verdicts, the costs, and the basis."""
    return [
        _best(tables, findings.best),
        *_verdicts(tables, findings),
        *_costs(tables, findings.federated),
        " ".join([_basis(tables), *_needed(tables, findings.verdicts)]),
    ]


def _best(tables: Tables, best: Sequence[Best]) -> str:
    """Which forecaster is best on validation in each state, with its test score."""
    if not best:
        return "No forecaster has a score on validation."
    by_name: dict[str, list[Best]] = {}
    for one in best:
        by_name.setdefault(_name(tables, one), []).append(one)
    if len(by_name) == 1:
        (name,) = by_name
        several = len(tables.study.data.states) > 1
        where = f" {_places(tables, [one.state for one in best])}" if several else ""
        return f"The best forecaster on validation{where} is {name}: {_scores(best, several)}."
    parts = [
        f"{_places(tables, [one.state for one in some])} {name}: {_scores(some, len(some) > 1)}"
        for name, some in list(by_name.items())[:FEW]
    ]
    if more := sum(map(len, list(by_name.values())[FEW:])):
        parts.append(f"another one in {more} more {'state' if more == 1 else 'states'}")
    return f"The best forecaster on validation is {'; '.join(parts)}."


def _scores(best: Sequence[Best], named: bool) -> str:
    """Test scores with their intervals, each with its state if `named`; if there are many, their
    range."""
    if len(best) > FEW:
        ends = [score(end(one.mase for one in best)) for end in (min, max)]
        return f"test MASE {' to '.join(ends)}"
    return "test MASE " + ", ".join(_mase(one) + f" in {one.state}" * named for one in best)


def _name(tables: Tables, best: Best) -> str:
    if best.cell is not None:
        kind = "local training" if tables.study.is_alone(best.cell) else "a federation"
        return f"{kind}, {tables.name(best.cell)}"
    assert best.baseline is not None, "it is a cell or a baseline"
    kind = {
        "nothing": "a baseline",
        "models": "a baseline for which models are sent",
        "raw data": "a baseline that needs all raw data in one place",
    }[baselines.find(best.baseline).crosses]
    if best.baseline in tables.have_seen_the_data:
        kind += " that was trained on these data before"
    return f"{baseline_label(best.baseline)} ({kind})"


def _mase(best: Best) -> str:
    if not np.isfinite(best.low):
        return score(best.mase)
    return f"{score(best.mase)} [{score(best.low)}, {score(best.high)}]"


def _verdicts(tables: Tables, findings: Findings) -> Iterator[str]:
    """What the best federation beats, what it loses to, and what is undecided."""
    if not findings.verdicts:
        yield "The study has no federation: no sharing scheme of its grid shares parameters."
        return
    if missing := [r for r in RIVALS if all(verdict.claim != r for verdict in findings.verdicts)]:
        kinds = [rival.removeprefix("the best ") for rival in missing]
        yield f"The results hold no {listed(kinds, 'or')} to compare a federation with."
    judged = [verdict for verdict in findings.verdicts if verdict.effect is not None]
    if not judged:
        yield "Every federated cell diverged, so no federation beats anything."
        return
    if all(verdict.seeds == 1 and verdict.answer == "undecided" for verdict in judged):
        ahead = [verdict for verdict in judged if (verdict.effect or 0) > 0]
        behind = [verdict for verdict in judged if (verdict.effect or 0) <= 0]
        parts = [
            f"{word} {_rivals(tables, some)}"
            for word, some in (("ahead of", ahead), ("behind", behind))
            if some
        ]
        yield (
            f"With its single seed, the best federation is {' and '.join(parts)}; this is not "
            "conclusive, because one seed does not show how much trainings vary."
        )
        return
    for answer, start in (
        ("holds", "The best federation beats"),
        ("does not hold", "The best federation does worse than"),
    ):
        if some := [verdict for verdict in judged if verdict.answer == answer]:
            yield f"{start} {_rivals(tables, some)}."
    if not any(verdict.answer == "holds" for verdict in judged):
        yield "No comparison shows a federation to be better."


def _rivals(tables: Tables, verdicts: Sequence[Verdict]) -> str:
    """The rivals of the verdicts, grouped by their states."""
    states: dict[str, list[str]] = {}
    for verdict in verdicts:
        states.setdefault(verdict.claim, []).append(str(verdict.state))
    rivals: dict[tuple[str, ...], list[str]] = {}
    for rival, where in states.items():
        rivals.setdefault(tuple(where), []).append(rival)
    if len(tables.study.data.states) == 1:
        return listed(states)
    return listed(f"{listed(some)} {_places(tables, where)}" for where, some in rivals.items())


def _places(tables: Tables, states: Sequence[str]) -> str:
    count = len(tables.study.data.states)
    if len(states) == count:
        return "in both states" if count == 2 else f"in all {count} states"
    return f"in {listed(states)}" if len(states) <= FEW else f"in {len(states)} of {count} states"


def listed(words: Iterable[str], joined: str = "and") -> str:
    """Words as a list in a sentence."""
    *most, last = words
    return f"{', '.join(most)} {joined} {last}" if most else last


def _costs(tables: Tables, federated: Sequence[Best]) -> Iterator[str]:
    """The bytes of the best federated cells, per round and over the whole training."""
    cells = [one.cell for one in federated if one.cell is not None]
    if not cells:
        return
    summary = tables.summary
    summary = summary[(summary["model"] == MODEL) & (summary["chosen"] == "last")]
    clients = tables.clients["state"].value_counts()
    in_all = []
    for cell in cells:
        sent = of_cell(summary, cell)[["bytes_down", "bytes_up"]].sum(axis=1).mean()
        in_all.append(sent / clients[cell.state])
    rounds, one = tables.study.federation.rounds, tables.study.participant
    whole = f"all {rounds} rounds" if rounds > 1 else "its only round"
    yield (
        f"The best federation sends {_range([bytes_per_round(tables, cell) for cell in cells])} "
        f"bytes per participating {one} and round, {_range(in_all)} bytes per {one} in {whole}, "
        f"both directions together; baselines and local training send none"
        f"{_crossing(tables)}."
    )


def _crossing(tables: Tables) -> str:
    """The bytes of the baselines that send data, if there are any."""
    table = tables.baseline_scores
    if table.empty:
        return ""
    clients = tables.clients["state"].value_counts()
    states = table.index.get_level_values("state")
    sent = table["bytes"] / clients.reindex(states).to_numpy()
    parts = [
        f"{baseline_label(str(name))}: {_range(sent[rows.index].tolist())} bytes of "
        f"{rows['crosses'].iloc[0]} per {tables.study.participant}, once"
        for name, rows in table[table["crosses"] != "nothing"].groupby("baseline", sort=False)
    ]
    return f" ({'; '.join(parts)})" if parts else ""


def _range(values: Sequence[float]) -> str:
    low, high = spaced(min(values)), spaced(max(values))
    return low if low == high else f"{low} to {high}"


def _basis(tables: Tables) -> str:
    """The numbers of seeds and participants that the study is based on."""
    states = tables.study.data.states
    by_state = tables.clients["state"].value_counts()
    count = int(by_state.sum())
    clients = f"{count} {tables.study.participant}{'s' * (count > 1)}"
    if len(states) > 1:
        each = set(by_state)
        clients += f" in {len(states)} states"
        clients += f" ({each.pop()} in each)" if len(each) == 1 else ""
    seeds = len(tables.study.grid.seeds)
    return f"This rests on {seeds} seed{'s' * (seeds > 1)} and {clients}."


def _needed(tables: Tables, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """What would decide the undecided comparisons; if they differ in this, what would decide the
    first."""
    undecided = [verdict for verdict in verdicts if verdict.answer == "undecided"]
    if not undecided:
        return
    if len({verdict.needed for verdict in undecided}) > 1:
        nearest = min(undecided, key=lambda v: 1.0 if v.p_alone is None else v.p_alone)
        yield (
            f"{len(undecided)} of {len(verdicts)} comparisons are undecided; nearest to a decision "
            f"is that with {_rivals(tables, [nearest])}. {nearest.needed}"
        )
        return
    if len(undecided) < len(verdicts):
        yield f"Undecided against {_rivals(tables, undecided)}."
    yield undecided[0].needed
