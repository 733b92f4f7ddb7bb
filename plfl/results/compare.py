"""Compare two studies or two cells client by client, with intervals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.errors import Problem, ResultsError, suggest_name
from plfl.base.text import list_names, print_table
from plfl.results.contest import difference_columns
from plfl.results.dominance import deciding_clients
from plfl.results.records import MODELS, ModelKind
from plfl.results.scores import ForecasterScores, WeeklyScores, pool, scores
from plfl.results.tables import Tables, refuse_contradictions

EXPLORATORY = "exploratory: no claim that the study names (`plfl claims` judges those)"
_NUMBERS = ["mase_a", "mase_b", "difference", "low", "high", "clients", "weeks", "seeds"]


@dataclass(frozen=True)
class CellPairs:
    """The pairs of cells of two sides, A and B; every difference is B - A."""

    rows: pd.DataFrame
    """One row per pair of cells and model: `a`, `b` (names), `model` ("baseline" if both sides are
    baselines), `mase_a`, `mase_b` (means over clients and seeds), `difference` with its interval
    `low`, `high`, `clients`, `weeks`, `seeds`."""
    clients: pd.DataFrame
    """One row per pair, model and client: `a`, `b`, `model`, `client`, `mase_a`, `mase_b`,
    `difference`; means over seeds."""
    notes: list[str]
    """Caveats: clients or cells that only one side has, sample data, other data."""


def compare(a: str, b: str) -> CellPairs:
    """Compare two results folders cell by cell, or two cells.

    A cell is `FOLDER:CELL` with its name as `plfl cells --list` prints it, without its seed
    (`CA-P2-fedopt-adam-fedyogi`) and with its variant if the study has any. The name of a baseline
    is, for example, `CA-baseline-lightgbm_lags`. ResultsError: a folder or cell does not exist,
    only one side is a cell, or the sides have no cell, client, seed or test week in common.
    """
    (first, first_cell), (second, second_cell) = _side(a), _side(b)
    if bool(first_cell) != bool(second_cell):
        raise ResultsError(
            Problem(
                "",
                f"{a} and {b}: one is a study, the other a cell",
                "name two folders or two FOLDER:CELL",
            )
        )
    rows, clients = [], []
    with refuse_contradictions(first.folder, second.folder):
        notes = list(_data_notes([(a, first), (b, second)]))
        for model in MODELS:
            first_cells, second_cells = (
                _cells(first, first_cell, model),
                _cells(second, second_cell, model),
            )
            for name, partner in _pairs([(a, first_cells), (b, second_cells)], notes):
                pair = first_cells[name], second_cells[partner]
                label = "baseline" if all(side.is_baseline for side in pair) else model
                if label == "baseline" and model != MODELS[0]:
                    continue
                row, table = _compare(*pair, notes)
                about = {"a": name, "b": partner, "model": label}
                rows.append(about | row)
                clients.append(table.assign(**about))
    columns = ["a", "b", "model", *_NUMBERS]
    client_table = pd.concat(clients, ignore_index=True)
    return CellPairs(pd.DataFrame(rows, columns=columns), client_table, list(dict.fromkeys(notes)))


def _side(text: str) -> tuple[Tables, str]:
    """A results folder, and the name of one cell in it, or ""."""
    folder, colon, name = text.rpartition(":")
    if not colon or Path(text).is_dir():
        return Tables(Path(text)), ""
    variant, _, cell = name.rpartition("/")
    return Tables(Path(folder) / variant), cell


def _cells(tables: Tables, cell: str, model: ModelKind) -> dict[str, ForecasterScores]:
    """All cells of the study, or the one cell or baseline, by name."""
    scores_by_state = scores(tables, model, includes_baselines=bool(cell))
    cells = {f.label: f for forecasters in scores_by_state.values() for f in forecasters}
    if cell and cell not in cells:
        raise ResultsError(
            Problem(
                tables.folder,
                f"has no cell {cell!r}",
                f"name one of {list_names(list(cells), 3)}{suggest_name(cell, cells)}",
            )
        )
    return {cell: cells[cell]} if cell else cells


def _pairs(
    sides: Sequence[tuple[str, dict[str, ForecasterScores]]], notes: list[str]
) -> Iterator[tuple[str, str]]:
    """The names of what is compared: of two cells, or of all that both studies have."""
    (a, first), (b, second) = sides
    if len(first) == len(second) == 1:
        yield next(iter(first)), next(iter(second))
        return
    common = [name for name in first if name in second]
    if not common:
        raise ResultsError(
            Problem(
                f"{a} and {b}", "have no cell in common", "name one cell of each as FOLDER:CELL"
            )
        )
    for label, names in sides:
        if unpaired := len(names) - len(common):
            notes.append(f"{unpaired} combinations exist only in {label}")
    yield from ((name, name) for name in common)


def _compare(
    first: ForecasterScores, second: ForecasterScores, notes: list[str]
) -> tuple[dict[str, Any], pd.DataFrame]:
    names = f"{first.label} and {second.label}"
    trained_sides = [side for side in (first, second) if not side.is_baseline]
    seeds = (
        [s for s in trained_sides[0].seeds if s in trained_sides[-1].seeds]
        if trained_sides
        else first.seeds[:1]
    )
    a, b = (_select_seeds(side, seeds) for side in (first, second))
    clients = [client for client in a.clients if client in b.clients]
    common_factors = {
        "state": a.state == b.state,
        "client": bool(clients),
        "seed": bool(seeds),
        "test period": a.origin == b.origin and a.weekly.shape[2] == b.weekly.shape[2],
    }
    if not all(common_factors.values()):
        missing_factor = next(name for name, is_common in common_factors.items() if not is_common)
        raise ResultsError(
            Problem(
                names,
                f"have no {missing_factor} in common",
                "compare results of the same data and state",
            )
        )
    if lone := len({*a.clients} ^ {*b.clients}):
        notes.append(f"{lone} clients of {names} exist on one side only")
    means = {
        f"mase_{name}": side.select(clients).sum(axis=2).mean(axis=1)
        for name, side in (("a", a), ("b", b))
    }
    table = pd.DataFrame({"client": clients, **means})
    table["difference"] = table["mase_b"] - table["mase_a"]
    difference = pool([a.advantage_over(b)], bool(trained_sides))
    notes += [
        f"{names}: {list_names(decided, 3)} {'decides' if len(decided) == 1 else 'decide'} a mean, "
        f"{table[name].mean():,.1f}; the median over clients is {table[name].median():.3f}"
        for name in means
        if (decided := deciding_clients(table.set_index("client")[name]))
    ]
    row: dict[str, Any] = {name: table[name].mean() for name in means}
    return row | (difference_columns(difference) if difference.scored_differences else {}), table


def _select_seeds(side: ForecasterScores, seeds: Sequence[int]) -> WeeklyScores:
    """The part of these seeds; a baseline has the same errors for every seed."""
    columns = [0 if side.is_baseline else side.seeds.index(seed) for seed in seeds]
    return WeeklyScores(side.state, side.origin, side.clients, side.weekly[:, columns])


def _data_notes(sides: Sequence[tuple[str, Tables]]) -> Iterator[str]:
    for label, tables in sides:
        if tables.study.data.is_sample:
            yield f"{label}: sample data"
    column = "persistence_mae_test"
    (_, first), (_, second) = sides
    common_clients = first.clients.merge(second.clients, on=["state", "client"])
    first_errors, second_errors = (common_clients[f"{column}_{side}"] for side in "xy")
    if not np.allclose(first_errors, second_errors, rtol=1e-6, equal_nan=True):
        yield (
            "the error of persistence differs between the sides (different windows or data), so "
            "their MASE are not comparable"
        )


def as_text(pairs: CellPairs) -> str:
    """The comparison as text; for a single pair of cells, with every client."""
    lines = []
    if pairs.rows[["a", "b"]].drop_duplicates().shape[0] == 1:
        first = pairs.rows.iloc[0]
        wide = pairs.clients.pivot(
            index="client", columns="model", values=["mase_a", "mase_b", "difference"]
        )
        wide = wide.swaplevel(axis=1)[pairs.rows["model"].tolist()]
        lines += [f"A: {first['a']}", f"B: {first['b']}", ""]
        lines += ["Test MASE by client", print_table(wide, index=True), ""]
        table = pairs.rows.set_index("model")[_NUMBERS]
    else:
        table = pairs.rows.set_index(["a", "model"])[_NUMBERS].rename_axis(["cell", "model"])
    lines += [
        "Means over clients. Differences are B - A, negative where B is better; intervals of 95 % "
        "over clients, weeks and seeds.",
        print_table(table, index=True),
    ]
    return "\n".join([*lines, *(f"- {note}" for note in (EXPLORATORY, *pairs.notes))])
