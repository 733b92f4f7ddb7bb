"""The variants of a study with further axes side by side: their tables, joined and compared.

`records.parquet` and `summary.csv` are those of all variants, with a column `variant` and one
column for each axis, named after its key, such as `federation.participation` (`model.*` if its
values are whole blocks). `best.csv` has the best cell of each variant, state, sharing scheme and
method, `map.csv` the best way of forecasting at each place on the axes, `meters.csv` what each
client gains there, and `comparisons.csv` all comparisons (`plfl.results.comparisons`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.errors import ResultsError
from plfl.baselines import BASELINE
from plfl.results import words
from plfl.results.comparisons import FILE, ORIGINS, duel, gains, places, read, table
from plfl.results.contest import Contest, Variant
from plfl.results.records import CELL, REMEDY, join_tables, read_about, write_about, write_csv
from plfl.results.scores import AXES, Forecaster, best
from plfl.results.statistics import Comparison
from plfl.results.tables import Tables, fitting
from plfl.study import Study
from plfl.study.axes import Axis

BEST = "best.csv"
MAP, METERS = "map.csv", "meters.csv"
INTERVALS = re.compile(r"(scaled_crps|(?:coverage|width)_[\d.]+)(_mean)?")
"""Columns of tables with the test scores of intervals."""
KINDS = ("alone", "federated", "raw")
"""The kinds of ways of forecasting, by what clients exchange: nothing, models, raw data."""


def compared(study: Study, found: list[Variant]) -> dict[str, pd.DataFrame]:
    """The tables that compare the variants of a study of forecasts, by the names of their files."""
    best = pd.concat(map(best_cells, found), ignore_index=True)
    return {BEST: best, FILE: table(study, found, study.results)} | _maps(study, found)


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
                of_state = variant.scores[model][state]
                if found := best(of_state.those(sharing=sharing, method=method)):
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


def shown(study: Study) -> list[Axis]:
    """The axes of the map, the one with most values first."""
    axes = [axis for axis in study.axes if axis.key != ORIGINS]
    return sorted(axes, key=lambda axis: -len(axis.choices))


def _maps(study: Study, found: Sequence[Variant]) -> dict[str, pd.DataFrame]:
    """The tables of the map and of the meters, by the names of their files.

    `map.csv` has a row per place: the axes but `data.origins`; `best`, the best way without raw
    data, and `alone`, `federated`, `raw`, the best way of each kind, with their test MASE; `lead`,
    the MASE of `alone` minus that of `federated`, and `price`, that of `best` minus that of `raw`,
    each with its 95 % interval and its range without one of the states; bytes of a client
    (`bytes_best`, …); numbers of clients, states, origins and weeks.

    `meters.csv` has a row per place and client with the columns of `comparisons.gains`.
    """
    rows, meters = [], []
    for _, group in places(study, found):
        place = {c: v for c, v in group[0].place.items() if c != ORIGINS}
        row, lead = _of_place(study, group)
        rows.append(place | row)
        meters += [place | gain for gain in gains(lead)] if lead else []
    columns = [*(axis.column for axis in shown(study)), "state", "client", "mase_alone"]
    columns += ["mase_federated", "gain", "low", "high", "percent", "kwh_a_month"]
    return {MAP: pd.DataFrame(rows), METERS: pd.DataFrame(meters, columns=columns)}


def _of_place(study: Study, group: Sequence[Variant]) -> tuple[dict[str, Any], Contest | None]:
    """The row of a place in `map.csv`, and the comparison of the best federation there."""
    sides = {"alone": [words.ALONE], "federated": [words.FEDERATION], "raw": [words.RAW]}
    own = {kind: duel(study, group, names, names) for kind, names in sides.items()}
    scored = {kind: one.validation[0] for kind, one in own.items() if one and kind != "raw"}
    first = min(scored, key=lambda kind: scored[kind], default=None)
    own = {"best": own[first] if first else None} | own
    row: dict[str, Any] = {name: one.label(0) if one else "" for name, one in own.items()}
    row |= {f"mase_{name}": one.error(0) if one else np.nan for name, one in own.items()}
    lead = duel(study, group, sides["federated"], sides["alone"])
    price = duel(study, group, sides["raw"], sides[first]) if first else None
    columns = {"": "difference"} | {f"_{end}": end for end in ("low", "high", "lowest", "highest")}
    for name, found in (("lead", lead), ("price", price)):
        of = found.row if found else {}
        row |= {f"{name}{end}": of.get(column, np.nan) for end, column in columns.items()}
    row |= {f"bytes_{name}": one.bytes(0) if one else np.nan for name, one in own.items()}
    if own["best"]:
        row |= {name: own["best"].row[name] for name in ("clients", "states", "origins", "weeks")}
    return row, lead


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

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """All comparisons; see `plfl.results.comparisons`."""
        return read(self.folder, self.study)

    def table(self, name: str) -> pd.DataFrame:
        """A table that compares the variants, by the name of its file."""
        path = self.folder / name
        about = ["variant", "state", "model", *CELL, "hyperparameters", "client", "best", *KINDS]
        text: Mapping[str, type] = dict.fromkeys(
            [*about, *(a.column for a in self.study.axes)], str
        )
        try:
            return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=text)
        except (OSError, ValueError) as error:
            raise ResultsError(f"{path}: cannot be read ({error}); {REMEDY}") from None


def is_overview(folder: Path) -> bool:
    """Whether a results folder contains a study with further axes."""
    return "variants" in read_about(folder)


def study_of(folder: Path) -> Study:
    """The study that made the results in a folder, with or without further axes."""
    return (Overview(folder) if is_overview(folder) else Tables(folder)).study
