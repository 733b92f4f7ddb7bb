"""Compare two studies or two cells client by client, with intervals and tests."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.errors import ResultsError, did_you_mean
from plfl.base.text import printed
from plfl.baselines import BASELINE
from plfl.results.labels import baseline_label
from plfl.results.records import MODELS, Model
from plfl.results.scores import AXES, Forecaster, scores
from plfl.results.statistics import Comparison, holm
from plfl.results.tables import Tables, fitting

EXPLORATORY = "exploratory: no claim that the study names (`plfl claims` judges those)"


@dataclass(frozen=True)
class Compared:
    """The comparison of two sides, A and B; every difference is B - A."""

    rows: pd.DataFrame
    """One row per pair of cells and model: `a`, `b` (names), `model` ("baseline" if both sides are
    baselines), `mase_a`, `mase_b` (means over clients and seeds), `difference` with its interval
    `low`, `high` and its `p` value, corrected by Holm's method over all rows (see
    `plfl.results.statistics`; NaN unless trained sides have at least two seeds in common, clients
    and weeks), `clients`, `weeks`, `seeds`, `hyperparameters_a`, `hyperparameters_b` (the
    tuned values; "" without tuning)."""
    clients: pd.DataFrame
    """One row per pair, model and client: `a`, `b`, `model`, `client`, `mase_a`, `mase_b`,
    `difference`; means over seeds."""
    notes: list[str]
    """Caveats: clients or cells that only one side has, different seeds, data or tuned
    hyperparameters."""
    best_baselines: list[str]
    """For two studies, the best baseline of each state that sends no data, by validation MASE."""


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
            cells = [_cells(side, model) for side in sides]
            given = [_hyperparameters(side.tables, model) for side in sides]
            pairs = list(_pairs(sides, cells, notes if model == MODELS[0] else []))
            without_model = not any(cell.seeds for pair in pairs for cell in pair)
            label = BASELINE if without_model else model
            for one, other in pairs:
                row, table = _compare(one, other, notes if model == MODELS[0] else [])
                about = {"a": one.name, "b": other.name, "model": label}
                for name, of, cell in zip("ab", given, (one, other), strict=True):
                    about[f"hyperparameters_{name}"] = of.get(
                        "-".join([cell.state, *cell.axes]), ""
                    )
                rows.append(about | row)
                clients.append(table.assign(a=one.name, b=other.name, model=label))
            if without_model:
                break
        compared = pd.DataFrame(rows)
        notes += _hyperparameter_notes(compared)
        tested = compared["p"].notna()
        compared.loc[tested, "p"] = holm(compared.loc[tested, "p"].tolist())
        best = [] if sides[0].cell else list(_best_baselines(*sides))
    return Compared(
        compared, pd.concat(clients, ignore_index=True), list(dict.fromkeys(notes)), best
    )


def _side(text: str) -> _Side:
    folder, colon, name = text.rpartition(":")
    if not colon or Path(text).is_dir():
        return _Side(text, Tables(Path(text)), None)
    variant, _, cell = name.rpartition("/")
    return _Side(text, Tables(Path(folder) / variant), cell)


def _cells(side: _Side, model: Model) -> dict[str, Forecaster]:
    """All combinations of a study, each with all seeds, or the one cell or baseline of the side.

    Baselines have no seeds; their only row of MASE stands for every seed.
    """
    of_states = scores(side.tables, model, baselines=side.cell is not None)
    cells = {}
    for one in (one for of_state in of_states.values() for one in of_state.those()):
        if one.is_baseline:
            name = one.name.removesuffix("-none-none")
            one = replace(one, name=name, seeds=(), weekly=one.weekly[:, :1])
        cells[one.name] = one
    if side.cell is None:
        return cells
    single = {
        f"{name}-{seed}": replace(c, name=f"{name}-{seed}", seeds=(seed,), weekly=c.weekly[:, [i]])
        for name, c in cells.items()
        for i, seed in enumerate(c.seeds)
    }
    known = cells | single
    if side.cell not in known:
        raise ResultsError(
            f"{side.tables.folder}: has no cell {side.cell!r}{did_you_mean(side.cell, known)}"
        )
    return {side.cell: known[side.cell]}


def _hyperparameters(tables: Tables, model: Model) -> dict[str, str]:
    """The tuned hyperparameters by name of the cell without its seed; they are the same for all."""
    table = tables.summary
    table = table[(table["model"] == model) & (table["chosen"] == "last")]
    names = table[["state", *AXES]].agg("-".join, axis=1)
    return dict(zip(names, table["hyperparameters"], strict=True))


def _pairs(
    sides: tuple[_Side, _Side], cells: list[dict[str, Forecaster]], notes: list[str]
) -> Iterator[tuple[Forecaster, Forecaster]]:
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
            notes.append(f"{only} combinations exist only in {side.label}")
    yield from ((first[name], second[name]) for name in common)


def _compare(
    one: Forecaster, other: Forecaster, notes: list[str]
) -> tuple[dict[str, Any], pd.DataFrame]:
    one, other = _for_seeds_of(one, other), _for_seeds_of(other, one)
    common = [client for client in one.clients if client in other.clients]
    if not common:
        raise ResultsError(
            f"{one.name} and {other.name}: have no client in common; compare results of the same "
            "data and state"
        )
    if lone := len(set(one.clients) ^ set(other.clients)):
        notes.append(f"{lone} clients of {one.name} and {other.name} exist on one side only")
    a, b = one.of(common), other.of(common)
    seeds = [seed for seed in one.seeds if seed in other.seeds]
    trained = bool(one.seeds or other.seeds)
    if seeds:
        a, b = (
            table[:, [cell.seeds.index(seed) for seed in seeds]]
            for table, cell in ((a, one), (b, other))
        )
    elif trained:
        notes.append(
            f"{one.name} and {other.name} have no seed in common: means over their own seeds"
        )
        a, b = a.mean(axis=1, keepdims=True), b.mean(axis=1, keepdims=True)
    if a.shape[2] != b.shape[2]:
        notes.append(f"{one.name} and {other.name} have other test weeks: only their sums compare")
        a, b = a.sum(axis=2, keepdims=True), b.sum(axis=2, keepdims=True)
    means = {name: side.sum(axis=2).mean(axis=1) for name, side in (("mase_a", a), ("mase_b", b))}
    table = pd.DataFrame({"client": common, **means})
    table["difference"] = table["mase_b"] - table["mase_a"]
    row: dict[str, Any] = {
        "mase_a": table["mase_a"].mean(),
        "mase_b": table["mase_b"].mean(),
        "clients": int(np.isfinite(table["difference"]).sum()),
        "weeks": a.shape[2],
        "seeds": len(seeds) or np.nan,
        **dict.fromkeys(["difference", "low", "high", "p"], np.nan),
    }
    comparison = Comparison((one.name, other.name), {one.state: b - a}, trained)
    if comparison.scored:
        row["difference"] = comparison.effect
        row["low"], row["high"] = comparison.interval
        row["p"] = np.nan if comparison.lacking else comparison.p
    return row, table


def _for_seeds_of(cell: Forecaster, other: Forecaster) -> Forecaster:
    """The cell; if it is a baseline, repeated for each seed of the other side."""
    if cell.seeds or not other.seeds:
        return cell
    weekly = np.repeat(cell.weekly, len(other.seeds), axis=1)
    return replace(cell, seeds=other.seeds, weekly=weekly)


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


def _best_baselines(one: _Side, other: _Side) -> Iterator[str]:
    """The best baseline of every state that both sides have; one name if both agree."""
    states = one.tables.study.data.states
    for state in (state for state in states if state in other.tables.study.data.states):
        found = {side.label: _best_baseline(side.tables, state) for side in (one, other)}
        if len(set(found.values())) > 1:
            text = "; ".join(f"{label}: {best}" for label, best in found.items())
        else:
            text = found[one.label]
        yield f"Best baseline in {state}: {text}"


def _best_baseline(tables: Tables, state: str) -> str:
    best = tables.best_baseline(state)
    if best is None:
        return "none"
    mase = tables.baseline_scores["mase_mean"].to_dict()[state, best]
    return f"{baseline_label(best)}, test MASE {mase:.3g}"


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
    columns = ["mase_a", "mase_b", "difference", "low", "high", "p", "clients", "weeks", "seeds"]
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
    notes = [f"- {note}" for note in (EXPLORATORY, *compared.notes)]
    return "\n".join([*lines, *notes, *compared.best_baselines])
