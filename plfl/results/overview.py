"""The variants of a study with further axes side by side: their tables, joined and compared.

`records.parquet` and `summary.csv` are those of all variants, with a column `variant` and one
column for each axis, named after its key, such as `federation.participation` (`model.*` if its
values are whole blocks). `best.csv` has the
best cell of each variant, state, sharing scheme and method, `effects.csv` the differences between
variants that differ on one axis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.errors import ResultsError
from plfl.baselines import BASELINE
from plfl.config.axes import Axis
from plfl.config.study import Study
from plfl.results import contrasts, worth
from plfl.results.records import CELL, REMEDY, join_tables, read_about, write_about, write_csv
from plfl.results.scores import AXES, Forecaster
from plfl.results.statistics import Comparison, holm
from plfl.results.tables import Tables, fitting
from plfl.results.variants import V, Variant

BEST = "best.csv"
EFFECTS = "effects.csv"
INTERVALS = re.compile(r"(scaled_crps|(?:coverage|width)_[\d.]+)(_mean)?")
"""Columns of tables with the test scores of intervals."""
_EFFECT = ["state", "sharing", "method", "model"]
"""Columns that both sides of an effect have in common, besides the values of the axes."""


def compared(study: Study, found: list[Variant]) -> dict[str, pd.DataFrame]:
    """The tables that compare the variants of a study of forecasts, by the names of their files."""
    best = pd.concat(map(best_cells, found), ignore_index=True)
    named = {contrasts.CLAIMS: contrasts.table(contrasts.verdicts(study, found), study.results)}
    return {BEST: best, EFFECTS: effects(study, found)} | named | worth.tables(study, found)


def gather(
    study: Study,
    folder: Path,
    git: str | None,
    compare: Callable[[Study, list[Variant]], dict[str, pd.DataFrame]] = compared,
) -> None:
    """Write the joined tables of all variants and, made by `compare`, the tables that compare them
    into `folder`."""
    found = Variant.all_of(study, study.results)
    name = "records.parquet"
    paths = [variant.tables.folder / name for variant in found]
    join_tables(paths, folder / name, marks=[variant.columns for variant in found])
    summaries = [v.marked(v.tables.whole_summary) for v in found]
    write_csv(pd.concat(summaries, ignore_index=True), folder / "summary.csv")
    with fitting(*(v.tables.folder for v in found)):
        for name, table in compare(study, found).items():
            write_csv(table, folder / name)
    write_about(folder, git, {}, {"study": study.description(), "variants": study.places})


def best_cells(variant: Variant) -> pd.DataFrame:
    """The best optimisers of each state, sharing scheme, method and model, by validation MASE.

    Columns: `variant` and the axes; `state`, `sharing`, `method`, `model`; `cell`, its name without
    the seed; `mase`, its test MASE, mean over clients and seeds, with a 95 % interval `low`,
    `high` over clients, weeks and seeds, and `std`, the standard deviation over seeds;
    `validation_mase`, `seeds`, `clients`; `bytes` that cross between all clients and the server in
    a training, in both directions; if intervals are forecast, the means of their test scores over
    clients and seeds, such as `coverage_90`. In the rows of baselines, `sharing` and `model` are
    `baseline`, and `method` is the baseline. Scores are NaN if every combination diverged.
    """
    rows: list[dict[str, Any]] = []
    row: dict[str, Any]
    states = variant.tables.study.data.states
    for state in states:
        for sharing, method in variant.tables.kinds():
            for model in variant.models(sharing, method):
                row = {"state": state, "sharing": sharing, "method": method, "model": model}
                if found := variant.best(model, state, sharing=sharing, method=method):
                    row |= _scored(found)
                    summarised = variant.summarised(model, row["cell"])
                    row["bytes"] = (summarised["bytes_down"] + summarised["bytes_up"]).mean()
                    row |= _of_intervals(summarised)
                rows.append(row)
    for means in variant.tables.baseline_scores.reset_index().to_dict("records"):
        state, name = means["state"], means["baseline"]
        row = {"state": state, "sharing": BASELINE, "method": name, "model": BASELINE}
        scored = {"mase": means["mase_mean"], "validation_mase": means["validation_mase"]}
        table = variant.tables.baselines
        here = (table["state"] == state) & (table["baseline"] == name) & (table["split"] == "test")
        scored |= {"bytes": means["bytes"]} | _of_intervals(table[here])
        rows.append(row | scored | {"cell": f"{state}-{BASELINE}-{name}"})
    return pd.DataFrame([variant.columns | row for row in rows])


def _of_intervals(table: pd.DataFrame) -> dict[str, float]:
    """Means of the scores of intervals in a table, which may have none; NaN if one is missing."""
    matches = {str(column): INTERVALS.fullmatch(str(column)) for column in table}
    return {m[1]: float(table[column].mean(skipna=False)) for column, m in matches.items() if m}


def _scored(one: Forecaster) -> dict[str, Any]:
    own = Comparison((one.name,), {one.state: one.weekly})
    if not own.scored:
        return {"cell": one.name}
    by_seed = own.scored[one.state].mean(axis=0)
    low, high = own.interval
    return {
        "cell": one.name,
        "mase": by_seed.mean(),
        "low": low,
        "high": high,
        "std": by_seed.std(ddof=1) if len(by_seed) > 1 else np.nan,
        "validation_mase": one.validation,
        "seeds": len(one.seeds),
        "clients": len(own.scored[one.state]),
    }


def effects(study: Study, found: list[Variant]) -> pd.DataFrame:
    """The effect of the values of an axis: see `changes`.

    Both sides are the best cells of their variant, state, sharing scheme and method, each chosen on
    validation; see `best_cells`. Differences are paired client by client and seed by seed.

    Further columns: `state`, `sharing`, `method`, `model`; `mase` and `mase_against`; `difference`
    (negative: the `value` is better) with its interval `low`, `high` and its `p` value; `clients`,
    `seeds`; `family`, which is "exploratory". Pairs without a common client, or in which the error
    of persistence differs, are left out: their MASE cannot be compared.
    """
    table = changes(study, found, _compared, _EFFECT)
    return table.assign(family=contrasts.EXPLORATORY) if len(table) else table


def changes(
    study: Study,
    found: Sequence[V],
    compare: Callable[[V, V], Iterable[Mapping[Any, Any]]],
    first: Sequence[str],
) -> pd.DataFrame:
    """The effect of each value of an axis, compared with the axis's first value, all else being
    equal.

    `compare` returns the rows for a variant and the one with the first value. They begin with the
    columns `first`; their `p` are corrected by Holm's method over all rows (see
    `plfl.results.statistics`). Columns before these: `axis`, `value`, `against`, and all axes,
    where `axis` itself has the `value`.
    """
    by_place = {tuple(variant.place.values()): variant for variant in found}
    rows: list[dict[Any, Any]] = []
    for axis in study.axes:
        least = next(iter(axis.choices))
        for variant in found:
            if variant.place[axis.column] == least:
                continue
            other = by_place[tuple((variant.place | {axis.column: least}).values())]
            about = {"axis": axis.key, "value": variant.place[axis.column], "against": least}
            rows += [about | variant.place | dict(row) for row in compare(variant, other)]
    if not rows:
        axes = (axis.column for axis in study.axes)
        return pd.DataFrame(columns=["axis", "value", "against", *axes, *first])
    table = pd.DataFrame(rows)
    tested = table["p"].notna()
    table.loc[tested, "p"] = holm(table.loc[tested, "p"].tolist())
    return table


def _compared(one: Variant, other: Variant) -> Iterator[dict[str, Any]]:
    for sharing, method in one.tables.kinds():
        for model in one.models(sharing, method):
            for state in one.scores[model]:
                both = [v.best(model, state, sharing=sharing, method=method) for v in (other, one)]
                there, here = both
                if there is None or here is None or not here.is_comparable(there):
                    continue
                change = there.lead(here)
                a, b = (side.of(change.clients) for side in (there, here))
                comparison = Comparison((there.name, here.name), {state: change.weekly})
                if not comparison.scored:
                    continue
                low, high = comparison.interval
                yield {
                    **dict(zip(_EFFECT, (state, sharing, method, model), strict=True)),
                    "mase": np.nanmean(b.sum(axis=-1)),
                    "mase_against": np.nanmean(a.sum(axis=-1)),
                    "difference": comparison.effect,
                    "low": low,
                    "high": high,
                    "p": comparison.p,
                    "clients": len(comparison.scored[state]),
                    "seeds": len(here.seeds),
                }


def along(study: Study) -> tuple[Axis, dict[str, str]]:
    """The axis with the most values, along which scores are shown, and the other axes: column to
    name."""
    longest = max(study.axes, key=lambda axis: len(axis.choices))
    return longest, {axis.column: axis.short for axis in study.axes if axis is not longest}


@dataclass(frozen=True)
class Overview:
    """The joined tables in the results folder of a study with further axes.

    Every access raises ResultsError if its file is missing or damaged.
    """

    folder: Path

    @cached_property
    def about(self) -> dict[str, Any]:
        """Content of study.json: format, version, git, study and variants."""
        return read_about(self.folder)

    @cached_property
    def study(self) -> Study:
        """The study."""
        return Study.recorded(self.about["study"], str(self.folder / "study.json"))

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Test MASE at the last round of every combination of the grid and of every baseline along
        the axis with most values.

        Columns: the other axes, the state and the combination, `model`, `value` (on that axis);
        `mase` and `std`, mean and standard deviation over seeds of the mean over clients; NaN if a
        seed diverged. Where clients train alone, repeated methods and models are left out.
        """
        table = self.table("summary.csv")
        table = table[table["chosen"] == "last"]
        axis, others = along(self.study)
        grids = {label: v.combinations for label, v in self.study.variants.items()}

        def repeated(row: pd.Series[Any]) -> bool:
            grid, combination = grids[row["variant"]], tuple(row[AXES])
            if row["sharing"] == BASELINE:
                return False
            alone = grid.trains_alone(row["sharing"], row["method"]) and row["model"] == "global"
            return alone or grid.repeats(*combination)

        table = table[~table.apply(repeated, axis=1)].rename(columns={axis.column: "value"})
        keys = [*others, "state", *AXES, "model", "value"]
        of_seeds = table.groupby(keys, sort=False)["mase_mean"]
        found = of_seeds.agg(mase=lambda mase: mase.mean(skipna=False), std="std")
        return found.reset_index()

    def table(self, name: str) -> pd.DataFrame:
        """A table that compares the variants, by the name of its file."""
        path = self.folder / name
        about = ["variant", "axis", "value", "against", *_EFFECT, *CELL, "hyperparameters"]
        about += ["client", "claim", "text", "answer", "scope", "needed", "best", *worth.KINDS]
        text: Mapping[str, Callable[[str], str]] = dict.fromkeys(
            [*about, *(a.column for a in self.study.axes)], str
        )
        try:
            return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=text)  # type: ignore[arg-type]
        except (OSError, ValueError) as error:
            raise ResultsError(f"{path}: cannot be read ({error}); {REMEDY}") from None


def is_overview(folder: Path) -> bool:
    """Whether a results folder contains a study with further axes."""
    return "variants" in read_about(folder)


def study_of(folder: Path) -> Study:
    """The study that made the results in a folder, with or without further axes."""
    return (Overview(folder) if is_overview(folder) else Tables(folder)).study
