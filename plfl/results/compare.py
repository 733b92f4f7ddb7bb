"""Compare two studies or two cells client by client, with intervals."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.errors import ResultsError, did_you_mean
from plfl.base.text import printed
from plfl.results.records import MODELS, Model
from plfl.results.scores import Forecaster, scores
from plfl.results.statistics import Comparison
from plfl.results.tables import Tables, fitting

EXPLORATORY = "exploratory: no claim that the study names (`plfl claims` judges those)"


@dataclass(frozen=True)
class Compared:
    """The comparison of two sides, A and B; every difference is B - A."""

    rows: pd.DataFrame
    """One row per pair of cells and model: `a`, `b` (names), `model` ("baseline" if both sides are
    baselines), `mase_a`, `mase_b` (means over clients and seeds), `difference` with its interval
    `low`, `high`, `clients`, `weeks`, `seeds`."""
    clients: pd.DataFrame
    """One row per pair, model and client: `a`, `b`, `model`, `client`, `mase_a`, `mase_b`,
    `difference`; means over seeds."""
    notes: list[str]
    """Caveats: clients or cells that only one side has, sample data, other data."""


@dataclass(frozen=True)
class _Side:
    """A results folder, and optionally one cell in it."""

    label: str
    tables: Tables
    cell: str | None

    def cells(self, model: Model) -> dict[str, Forecaster]:
        """All combinations of the study, or the one cell or baseline, by name."""
        of_states = scores(self.tables, model, baselines=self.cell is not None)
        cells = {f.shown: f for of_state in of_states.values() for f in of_state}
        if self.cell is None:
            return cells
        if self.cell not in cells:
            raise ResultsError(
                f"{self.tables.folder}: has no cell {self.cell!r}{did_you_mean(self.cell, cells)}"
            )
        return {self.cell: cells[self.cell]}


def compare(a: str, b: str) -> Compared:
    """Compare two results folders cell by cell, or two cells.

    A cell is `FOLDER:CELL` with its name as `plfl cells --list` prints it, without its seed
    (`CA-P2-fedopt-adam-fedyogi`) and with its variant if the study has any. The name of a baseline
    is, for example, `CA-baseline-lightgbm_lags`. ResultsError: a folder or cell does not exist,
    only one side is a cell, or the sides have no cell, client, seed or test week in common.
    """
    sides = _side(a), _side(b)
    if (sides[0].cell is None) != (sides[1].cell is None):
        raise ResultsError(
            f"{a} and {b}: one is a study, the other a cell; name two folders or two FOLDER:CELL"
        )
    rows, clients = [], []
    with fitting(*(side.tables.folder for side in sides)):
        notes = list(_data_notes(*sides))
        for model in MODELS:
            label: str = model
            for first, other in _pairs(sides, model, notes):
                label = "baseline" if first.is_baseline and other.is_baseline else model
                row, table = _compare(first, other, notes)
                about = {"a": first.shown, "b": other.shown, "model": label}
                rows.append(about | row)
                clients.append(table.assign(**about))
            if label == "baseline":
                break
    whole = pd.concat(clients, ignore_index=True)
    return Compared(pd.DataFrame(rows), whole, list(dict.fromkeys(notes)))


def _side(text: str) -> _Side:
    folder, colon, name = text.rpartition(":")
    if not colon or Path(text).is_dir():
        return _Side(text, Tables(Path(text)), None)
    variant, _, cell = name.rpartition("/")
    return _Side(text, Tables(Path(folder) / variant), cell)


def _pairs(
    sides: tuple[_Side, _Side], model: Model, notes: list[str]
) -> list[tuple[Forecaster, Forecaster]]:
    first, second = (side.cells(model) for side in sides)
    if sides[0].cell is not None:
        return [(next(iter(first.values())), next(iter(second.values())))]
    common = [name for name in first if name in second]
    if not common:
        raise ResultsError(
            f"{sides[0].label} and {sides[1].label}: have no cell in common; name one cell of each "
            "as FOLDER:CELL"
        )
    for side, names in zip(sides, (first, second), strict=True):
        if only := len(names) - len(common):
            notes.append(f"{only} combinations exist only in {side.label}")
    return [(first[name], second[name]) for name in common]


def _compare(
    first: Forecaster, other: Forecaster, notes: list[str]
) -> tuple[dict[str, Any], pd.DataFrame]:
    names = f"{first.shown} and {other.shown}"
    trained = not (first.is_baseline and other.is_baseline)
    if first.is_baseline and trained:  # it has the same errors for every seed
        first = _with_seeds(first, other.seeds)
    elif other.is_baseline:
        other = _with_seeds(other, first.seeds)
    clients = [client for client in first.clients if client in other.clients]
    seeds = [seed for seed in first.seeds if seed in other.seeds]
    if not clients or not seeds or first.weekly.shape[2] != other.weekly.shape[2]:
        lacking = "client" if not clients else "seed" if not seeds else "test period"
        raise ResultsError(
            f"{names}: have no {lacking} in common; compare results of the same data and state"
        )
    if lone := len(set(first.clients) ^ set(other.clients)):
        notes.append(f"{lone} clients of {names} exist on one side only")
    a, b = (side.of(clients)[:, [side.seeds.index(s) for s in seeds]] for side in (first, other))
    means = {name: side.sum(axis=2).mean(axis=1) for name, side in (("mase_a", a), ("mase_b", b))}
    table = pd.DataFrame({"client": clients, **means})
    table["difference"] = table["mase_b"] - table["mase_a"]
    comparison = Comparison((), {first.state: b - a}, trained)
    low, high = comparison.interval if comparison.scored else (np.nan, np.nan)
    row: dict[str, Any] = {
        "mase_a": table["mase_a"].mean(),
        "mase_b": table["mase_b"].mean(),
        "difference": comparison.effect if comparison.scored else np.nan,
        **{"low": low, "high": high},
        "clients": int(np.isfinite(table["difference"]).sum()),
        "weeks": a.shape[2],
        "seeds": len(seeds) if trained else np.nan,
    }
    return row, table


def _with_seeds(baseline: Forecaster, seeds: tuple[int, ...]) -> Forecaster:
    weekly = baseline.weekly[:, :1].repeat(len(seeds), axis=1)
    return replace(baseline, seeds=seeds, weekly=weekly)


def _data_notes(each: _Side, other: _Side) -> Iterator[str]:
    for side in (each, other):
        if side.tables.is_sample:
            yield f"{side.label}: sample data"
    column = "persistence_mae_test"
    both = each.tables.clients.merge(other.tables.clients, on=["state", "client"])
    if not np.allclose(both[f"{column}_x"], both[f"{column}_y"], rtol=1e-6):
        yield (
            "the error of persistence differs between the sides (different windows or data), so "
            "their MASE are not comparable"
        )


def as_text(compared: Compared) -> str:
    """The comparison as text; for a single pair of cells, with every client."""
    lines = []
    columns = ["mase_a", "mase_b", "difference", "low", "high", "clients", "weeks", "seeds"]
    if compared.rows[["a", "b"]].drop_duplicates().shape[0] == 1:
        first = compared.rows.iloc[0]
        lines += [f"A: {first['a']}", f"B: {first['b']}", ""]
        wide = compared.clients.pivot(
            index="client", columns="model", values=["mase_a", "mase_b", "difference"]
        )
        wide = wide.swaplevel(axis=1)[compared.rows["model"].tolist()]
        lines += ["Test MASE by client", printed(wide, index=True), ""]
        table = compared.rows.set_index("model")[columns]
    else:
        table = compared.rows.set_index(["a", "model"])[columns].rename_axis(["cell", "model"])
    lines += [
        "Means over clients. Differences are B - A, negative where B is better; intervals of 95 % "
        "over clients, weeks and seeds.",
        printed(table, index=True),
    ]
    return "\n".join([*lines, *(f"- {note}" for note in (EXPLORATORY, *compared.notes))])
