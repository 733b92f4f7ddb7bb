"""Two studies, or two cells, side by side: client by client, with interval and test."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.data.releases import nearest
from plfl.errors import ResultsError
from plfl.results.statistics import Chosen, Comparison, Scores, holm, scores, sign_flips
from plfl.results.tables import MODELS, Tables, fitting


@dataclass(frozen=True)
class Compared:
    """What two sides have in common, and how they differ; every difference is B - A."""

    rows: pd.DataFrame
    """One row a pair of cells and model: `a`, `b` (names), `model`, `mase_a`, `mase_b` (means over
    clients and seeds), `difference` with its bootstrap interval `low`, `high`, `p_clients` (sign
    flips over clients) and `p_seeds` (over trainings; NaN unless both sides share two seeds or
    more), both corrected by Holm over all rows, `seeds`, `clients`."""
    clients: pd.DataFrame
    """One row a pair, model and client: `a`, `b`, `model`, `client`, `mase_a`, `mase_b`,
    `difference`, means over seeds."""
    notes: list[str]
    """What a reader must know: clients or cells that only one side has, other seeds or data."""


@dataclass(frozen=True)
class _Side:
    """A results folder, and the one cell of it that is meant, if any."""

    label: str
    tables: Tables
    cell: str | None


@dataclass(frozen=True)
class _Cell:
    """Test MASE of one cell, shape (seeds, clients), and what it belongs to."""

    name: str
    state: str
    seeds: tuple[int, ...]
    clients: tuple[str, ...]
    mase: Any


def compare(a: str, b: str, chosen: Chosen = "last") -> Compared:
    """Compare two results folders cell by cell, or two cells.

    Args:
        a: a results folder, or `FOLDER:CELL` with the name of a cell as `plfl cells --list` prints
            it; without its seed (`CA-P2-fedopt-adam-fedyogi`) it stands for all seeds.
        b: the other one, of the same kind.
        chosen: the round that is scored, on both sides.

    Raises:
        ResultsError: a folder or cell does not exist, one side is a folder and the other a cell, or
            they have nothing in common.
    """
    sides = _side(a), _side(b)
    if (sides[0].cell is None) != (sides[1].cell is None):
        raise ResultsError(
            f"{a} and {b}: one is a study, the other a cell; name two folders, or FOLDER:CELL twice"
        )
    rows, clients, comparisons = [], [], []
    with fitting(*(side.tables.folder for side in sides)):
        notes: list[str] = list(_data_notes(*sides))
        for model in MODELS:
            cells = [_cells(side, scores(side.tables, model, chosen)) for side in sides]
            pairs = list(_pairs(sides, cells, notes if model == MODELS[0] else []))
            for one, other in pairs:
                row, table, comparison = _compare(one, other, notes if model == MODELS[0] else [])
                rows.append({"a": one.name, "b": other.name, "model": model, **row})
                clients.append(table.assign(a=one.name, b=other.name, model=model))
                comparisons.append(comparison)
        found = pd.DataFrame(rows)
        measured = [c for c in comparisons if c is not None]
        found["p_clients"] = np.nan
        if measured:
            alone, _ = sign_flips(measured)
            found.loc[[c is not None for c in comparisons], "p_clients"] = holm(alone.tolist())
        tested = found["p_seeds"].notna()
        found.loc[tested, "p_seeds"] = holm(found.loc[tested, "p_seeds"].tolist())
    return Compared(found, pd.concat(clients, ignore_index=True), list(dict.fromkeys(notes)))


def _side(text: str) -> _Side:
    folder, colon, cell = text.rpartition(":")
    if not colon or Path(text).is_dir():
        return _Side(text, Tables(Path(text)), None)
    return _Side(text, Tables(Path(folder)), cell)


def _cells(side: _Side, of_states: dict[str, Scores]) -> dict[str, _Cell]:
    """The combinations of a study with all seeds, or the one cell that is meant."""
    cells = {
        name: _Cell(name, state, found.seeds, found.clients, mase)
        for state, found in of_states.items()
        for name, mase in zip(found.names, found.mase, strict=True)
    }
    if side.cell is None:
        return cells
    single = {
        f"{name}-{seed}": _Cell(f"{name}-{seed}", c.state, (seed,), c.clients, c.mase[[i]])
        for name, c in cells.items()
        for i, seed in enumerate(c.seeds)
    }
    known = cells | single
    if side.cell not in known:
        raise ResultsError(
            f"{side.tables.folder}: has no cell {side.cell!r}{nearest(side.cell, known)}"
        )
    return {side.cell: known[side.cell]}


def _pairs(
    sides: tuple[_Side, _Side], cells: list[dict[str, _Cell]], notes: list[str]
) -> Iterator[tuple[_Cell, _Cell]]:
    first, second = cells
    if sides[0].cell is not None:
        yield next(iter(first.values())), next(iter(second.values()))
        return
    common = [name for name in first if name in second]
    if not common:
        raise ResultsError(
            f"{sides[0].label} and {sides[1].label}: have no cell in common; name one cell of each "
            "as FOLDER:CELL"
        )
    for side, names in zip(sides, (first, second), strict=True):
        if only := len(names) - len(common):
            notes.append(f"{only} combinations are in {side.label} only")
    yield from ((first[name], second[name]) for name in common)


def _compare(
    one: _Cell, other: _Cell, notes: list[str]
) -> tuple[dict[str, Any], pd.DataFrame, Comparison | None]:
    common = [client for client in one.clients if client in other.clients]
    if not common:
        raise ResultsError(
            f"{one.name} and {other.name}: have no client in common; compare results of the same "
            "data and state"
        )
    if lone := len(set(one.clients) ^ set(other.clients)):
        notes.append(f"{lone} clients of {one.name} and {other.name} are on one side only")
    a, b = (c.mase[:, [c.clients.index(client) for client in common]].T for c in (one, other))
    seeds = [seed for seed in one.seeds if seed in other.seeds]
    paired = bool(seeds)
    if paired:
        a, b = (
            table[:, [cell.seeds.index(seed) for seed in seeds]]
            for table, cell in ((a, one), (b, other))
        )
    else:
        notes.append(f"{one.name} and {other.name} have no seed in common: means over their own")
        a, b = a.mean(axis=1, keepdims=True), b.mean(axis=1, keepdims=True)
    table = pd.DataFrame({"client": common, "mase_a": a.mean(axis=1), "mase_b": b.mean(axis=1)})
    table["difference"] = table["mase_b"] - table["mase_a"]
    scored = np.isfinite(table["difference"].to_numpy())
    row: dict[str, Any] = {
        "mase_a": table["mase_a"].mean(),
        "mase_b": table["mase_b"].mean(),
        "seeds": len(seeds) or np.nan,
        "clients": int(scored.sum()),
    }
    comparison = None
    if scored.any():
        comparison = Comparison((one.name, other.name), {one.state: b - a})
        row["difference"] = comparison.effect
        row["low"], row["high"] = comparison.interval()
        row["p_seeds"] = comparison.trainings() if len(seeds) > 1 else np.nan
    else:
        row |= dict.fromkeys(["difference", "low", "high", "p_seeds"], np.nan)
    return row, table, comparison


def _data_notes(one: _Side, other: _Side) -> Iterator[str]:
    for side in (one, other):
        if side.tables.is_sample:
            yield f"{side.label}: sample data"
    column = "persistence_mae_test"
    both = one.tables.clients.merge(other.tables.clients, on=["state", "client"])
    if not np.allclose(both[f"{column}_x"], both[f"{column}_y"], rtol=1e-6):
        yield (
            "persistence errs differently on the two sides (other windows or data), so their MASE "
            "are not measured by the same rod"
        )


def as_text(found: Compared) -> str:
    """The comparison to be read in a terminal; of a single pair of cells with every client."""
    lines = []
    columns = [
        "mase_a",
        "mase_b",
        "difference",
        "low",
        "high",
        "p_clients",
        "p_seeds",
        "seeds",
        "clients",
    ]
    if found.rows[["a", "b"]].drop_duplicates().shape[0] == 1:
        first = found.rows.iloc[0]
        lines += [f"A: {first['a']}", f"B: {first['b']}", ""]
        wide = found.clients.pivot(
            index="client", columns="model", values=["mase_a", "mase_b", "difference"]
        )
        wide = wide.swaplevel(axis=1)[list(MODELS)]
        lines += ["Test MASE by client", _print(wide), ""]
        table = found.rows.set_index("model")[columns]
    else:
        table = found.rows.set_index(["a", "model"])[columns].rename_axis(["cell", "model"])
    lines += [
        "Means over clients; differences are B - A, negative where B is better",
        _print(table),
    ]
    return "\n".join([*lines, *(f"- {note}" for note in found.notes)])


def _print(table: pd.DataFrame) -> str:
    return table.to_string(float_format="{:,.3g}".format, na_rep="–")
