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
from plfl.results.scores import AXES, Forecaster, scores
from plfl.results.statistics import Comparison
from plfl.results.tables import Tables, fitting

EXPLORATORY = "exploratory: no claim that the study names (`plfl claims` judges those)"


@dataclass(frozen=True)
class Compared:
    """The comparison of two sides, A and B; every difference is B - A."""

    rows: pd.DataFrame
    """One row per pair of cells and model: `a`, `b` (names), `model` ("baseline" if both sides are
    baselines), `mase_a`, `mase_b` (means over clients and seeds), `difference` with its interval
    `low`, `high`, `clients`, `weeks`, `seeds`, `hyperparameters_a`, `hyperparameters_b` (the tuned
    values; "" without tuning)."""
    clients: pd.DataFrame
    """One row per pair, model and client: `a`, `b`, `model`, `client`, `mase_a`, `mase_b`,
    `difference`; means over seeds."""
    notes: list[str]
    """Caveats: clients or cells that only one side has, different seeds, data or tuned
    hyperparameters."""


@dataclass(frozen=True)
class _Side:
    """A results folder, and optionally one cell in it."""

    label: str
    tables: Tables
    cell: str | None


def compare(a: str, b: str) -> Compared:
    """Compare two results folders cell by cell, or two cells.

    Args:
        a: a results folder, or `FOLDER:CELL` with the name of a cell as `plfl cells --list` prints
            it, with its variant if the study has any. A name without the seed
            (`CA-P2-fedopt-adam-fedyogi`) stands for all seeds. The name of a baseline is, for
            example, `CA-baseline-lightgbm_lags`.
        b: the other side, of the same kind.

    Raises:
        ResultsError: a folder or cell does not exist, only one side is a cell, or the sides have
            nothing in common.
    """
    sides = _side(a), _side(b)
    if (sides[0].cell is None) != (sides[1].cell is None):
        raise ResultsError(
            f"{a} and {b}: one is a study, the other a cell; name two folders or two FOLDER:CELL"
        )
    rows, clients = [], []
    with fitting(*(side.tables.folder for side in sides)):
        notes: list[str] = list(_data_notes(*sides))
        for model in MODELS:
            pairs = _pairs(sides, [_cells(side, model) for side in sides], notes)
            label: str = model
            for pair in pairs:
                label = "baseline" if all(one.is_baseline for one in pair) else model
                row, table = _compare(*pair, notes)
                about = {"a": pair[0].shown, "b": pair[1].shown, "model": label}
                for name, side, one in zip("ab", sides, pair, strict=True):
                    about[f"hyperparameters_{name}"] = _tuned(side.tables, model, one)
                rows.append(about | row)
                clients.append(table.assign(**{key: about[key] for key in ("a", "b", "model")}))
            if label == "baseline":
                break
        compared = pd.DataFrame(rows)
        notes += _hyperparameter_notes(compared)
    whole = pd.concat(clients, ignore_index=True)
    return Compared(compared, whole, list(dict.fromkeys(notes)))


def _side(text: str) -> _Side:
    folder, colon, name = text.rpartition(":")
    if not colon or Path(text).is_dir():
        return _Side(text, Tables(Path(text)), None)
    variant, _, cell = name.rpartition("/")
    return _Side(text, Tables(Path(folder) / variant), cell)


def _cells(side: _Side, model: Model) -> dict[str, Forecaster]:
    """All combinations of a study, each with all seeds, or the one cell or baseline of the side."""
    of_states = scores(side.tables, model, baselines=side.cell is not None)
    cells = {one.shown: one for of_state in of_states.values() for one in of_state.those()}
    if side.cell is None:
        return cells
    single = {
        f"{name}-{seed}": replace(c, name=f"{name}-{seed}", seeds=(seed,), weekly=c.weekly[:, [i]])
        for name, c in cells.items()
        for i, seed in enumerate(() if c.is_baseline else c.seeds)
    }
    known = cells | single
    if side.cell not in known:
        raise ResultsError(
            f"{side.tables.folder}: has no cell {side.cell!r}{did_you_mean(side.cell, known)}"
        )
    return {side.cell: known[side.cell]}


def _tuned(tables: Tables, model: Model, cell: Forecaster) -> str:
    """The tuned hyperparameters of a cell, which are the same for all its seeds."""
    table = tables.summary
    table = table[(table["model"] == model) & (table["chosen"] == "last")]
    rows = table[(table[["state", *AXES]] == [cell.state, *cell.axes]).all(axis=1)]
    return str(rows["hyperparameters"].iloc[0]) if len(rows) else ""


def _pairs(
    sides: tuple[_Side, _Side], cells: list[dict[str, Forecaster]], notes: list[str]
) -> list[tuple[Forecaster, Forecaster]]:
    first, second = cells
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
    one: Forecaster, other: Forecaster, notes: list[str]
) -> tuple[dict[str, Any], pd.DataFrame]:
    names = f"{one.shown} and {other.shown}"
    common = [client for client in one.clients if client in other.clients]
    if not common:
        raise ResultsError(
            f"{names}: have no client in common; compare results of the same data and state"
        )
    if lone := len(set(one.clients) ^ set(other.clients)):
        notes.append(f"{lone} clients of {names} exist on one side only")
    a, b = one.of(common), other.of(common)
    trained = not (one.is_baseline and other.is_baseline)
    # A baseline has the same errors for every seed.
    seeds = [
        seed
        for seed in (other if one.is_baseline else one).seeds
        if other.is_baseline or seed in other.seeds
    ]
    if seeds and trained:
        a, b = (
            table[:, [cell.seeds.index(s) for s in seeds]]
            if not cell.is_baseline
            else table[:, :1].repeat(len(seeds), axis=1)
            for table, cell in ((a, one), (b, other))
        )
    elif trained:
        notes.append(f"{names} have no seed in common: means over their own seeds")
        a, b = a.mean(axis=1, keepdims=True), b.mean(axis=1, keepdims=True)
    if a.shape[2] != b.shape[2]:
        notes.append(f"{names} have other test weeks: only their sums compare")
        a, b = a.sum(axis=2, keepdims=True), b.sum(axis=2, keepdims=True)
    means = {name: side.sum(axis=2).mean(axis=1) for name, side in (("mase_a", a), ("mase_b", b))}
    table = pd.DataFrame({"client": common, **means})
    table["difference"] = table["mase_b"] - table["mase_a"]
    row: dict[str, Any] = {
        "mase_a": table["mase_a"].mean(),
        "mase_b": table["mase_b"].mean(),
        **dict.fromkeys(["difference", "low", "high"], np.nan),
        "clients": int(np.isfinite(table["difference"]).sum()),
        "weeks": a.shape[2],
        "seeds": len(seeds) if seeds and trained else np.nan,
    }
    comparison = Comparison((one.shown, other.shown), {one.state: b - a}, trained)
    if comparison.scored:
        row["difference"] = comparison.effect
        row["low"], row["high"] = comparison.interval
    return row, table


def _hyperparameter_notes(rows: pd.DataFrame, shown: int = 2) -> Iterator[str]:
    """How many comparisons are of different tuned hyperparameters, with the first of them."""
    tuned = rows[(rows["hyperparameters_a"] != "") & (rows["hyperparameters_b"] != "")]
    differ = tuned[tuned["hyperparameters_a"] != tuned["hyperparameters_b"]]
    if differ.empty:
        return
    both = differ["hyperparameters_a"] + " against " + differ["hyperparameters_b"]
    such = (differ["a"] + " (" + differ["model"] + ": " + both + ")").head(shown).tolist()
    yield (
        f"tuned hyperparameters differ in {len(differ)} of {len(tuned)} comparisons, such as "
        f"{' and '.join(such)}"
    )


def _data_notes(one: _Side, other: _Side) -> Iterator[str]:
    for side in (one, other):
        if side.tables.is_sample:
            yield f"{side.label}: sample data"
    column = "persistence_mae_test"
    both = one.tables.clients.merge(other.tables.clients, on=["state", "client"])
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
