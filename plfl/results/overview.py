"""The variants of a study with further axes side by side: their tables, joined and compared.

`records.parquet` and `summary.csv` are those of all variants, with a column `variant` and one
column for each axis, named after its key, such as `federation.participation` (`model.*` if its
values are whole blocks). `best.csv` has the best cell of each variant, state, sharing scheme and
method, `map.csv` the best way of forecasting at each place on the axes, and `comparisons.csv` all
comparisons (`plfl.results.comparisons`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.spreadsheets import write_csv
from plfl.config.baselines import BASELINE
from plfl.results import words
from plfl.results.best import best
from plfl.results.checksums import write_sums
from plfl.results.comparisons import (
    COMPARISONS_FILE,
    ORIGINS,
    compute_comparisons,
    contest_of,
    contest_of_federation,
    places,
    read,
)
from plfl.results.contenders import Contender, contender_of
from plfl.results.records import (
    CELL,
    installed_versions,
    join_tables,
    read_csv,
    read_facts,
    write_facts,
)
from plfl.results.scores import select
from plfl.results.selection import contenders_in_use, scheme_method_pairs
from plfl.results.statistics import Difference
from plfl.results.tables import Tables, refuse_contradictions
from plfl.results.variants import Variant
from plfl.study import Study
from plfl.study.axes import Axis
from plfl.study.forecaster_names import FEDERATION, LOCAL, RAW, ForecasterName

BEST_FILE = "best.csv"
MAP_FILE = "map.csv"
INTERVALS = re.compile(r"scaled_crps|(?:coverage|width)_[\d.]+(_least)?")
"""Columns of `best.csv` with the test scores of intervals."""
EXCHANGE_KINDS = ("alone", "federated", "raw")
"""The kinds of ways of forecasting, by what clients exchange: nothing, models, raw data."""


def compare_variants(study: Study, variants: list[Variant]) -> dict[str, pd.DataFrame]:
    """The tables that compare the variants of a study of forecasts, by the names of their files."""
    best = pd.concat(map(best_cells, variants), ignore_index=True)
    return {
        BEST_FILE: best,
        COMPARISONS_FILE: compute_comparisons(study, variants),
        MAP_FILE: _map(study, variants),
    }


def gather(
    study: Study,
    folder: Path,
    git: str | None,
    compare: Callable[[Study, list[Variant]], dict[str, pd.DataFrame]] = compare_variants,
) -> None:
    """Write the joined tables of all variants and, made by `compare`, the tables that compare them
    into `folder`."""
    variants = Variant.all_of(study, study.paths.results)
    name = "records.parquet"
    paths = [variant.tables.folder / name for variant in variants]
    join_tables(paths, folder / name, marks=[variant.columns for variant in variants])
    summaries = [v.with_labels(v.tables.whole_summary) for v in variants]
    write_csv(pd.concat(summaries, ignore_index=True), folder / "summary.csv")
    with refuse_contradictions(*(v.tables.folder for v in variants)):
        for name, table in compare(study, variants).items():
            write_csv(table, folder / name)
    python = {"python": installed_versions()["python"]}
    write_facts(folder, git, python, {"study": study.description(), "variants": study.plan.places})
    write_sums(folder)


def best_cells(variant: Variant) -> pd.DataFrame:
    """What is in use in each state, and what would be without a federation if that is different;
    the best optimisers of each state, sharing scheme, method and model, by validation MASE; then
    the baselines.

    Columns: `variant` and the axes; `state`, `sharing`, `method`, `model`; `forecaster`, its name
    in words; `crosses`, what clients send: nothing, models or raw data; `cell`, its name without
    the seed; `mase`, its test MASE, mean over clients and seeds, with a 95 % interval `low`, `high`
    over clients, weeks and seeds, and `std`, the standard deviation over seeds; `mase_median`, the
    median over clients of their means over seeds; `wape`;
    `validation_mase`, `hyperparameters`, `seeds`, `clients`; `bytes` that cross between all clients
    and the server in a training, in both directions; if intervals are forecast, the means of their
    test scores over clients and seeds, such as `coverage_90`, and the least coverage of a client,
    `coverage_90_least`. In the rows of baselines, `sharing` and `model` are `baseline`, and
    `method` is the baseline; in those of what is in use, `sharing` and `model` are `in use` or `in
    use alone`. Scores are NaN if every combination diverged.
    """
    rows = itertools.chain(_rows_in_use(variant), _best_of_cells(variant), _baseline_rows(variant))
    table = pd.DataFrame([variant.columns | row for row in rows])
    always = ["cell", "mase", "low", "high", "std", "validation_mase", "hyperparameters", "bytes"]
    return table.reindex(columns=list(dict.fromkeys([*table.columns, *always])))


def _best_of_cells(variant: Variant) -> Iterator[dict[str, Any]]:
    tables, study = variant.tables, variant.tables.study
    last: dict[str, Any] = {"split": "test", "round": study.federation.rounds}
    for state, (sharing, method) in itertools.product(
        study.data.states, scheme_method_pairs(study)
    ):
        for model in variant.models(sharing, method):
            row: dict[str, Any] = {"state": state, "sharing": sharing, "method": method}
            name = ForecasterName(sharing, method)
            row |= {"model": model, "crosses": words.word_crossing(study, name)}
            forecaster = best(select(variant.scores[model][state], sharing=sharing, method=method))
            if forecaster is None:
                yield row | {"forecaster": words.word_forecaster(study, name)}
                continue
            means = variant.summary_rows(model, forecaster.name)
            labels = {"state": state, "model": model} | forecaster.combination._asdict()
            covered = _coverage_columns(tables)
            by_client = tables.records(["client", *covered], **last, **labels) if covered else None
            contender = contender_of(variant, replace(forecaster, model=model))
            row |= {"forecaster": contender.label}
            row |= {"bytes": (means["bytes_down"] + means["bytes_up"]).mean()}
            row |= {"hyperparameters": means["hyperparameters"].iloc[0]}
            yield row | _score_columns(contender) | _other_scores(means, by_client)


def _rows_in_use(variant: Variant) -> Iterator[dict[str, Any]]:
    tables = variant.tables
    for state in tables.study.data.states:
        for use in contenders_in_use(variant, state):
            name = use.forecaster.combination.sharing
            row: dict[str, Any] = {"state": state, "sharing": name, "method": name, "model": name}
            row |= {"forecaster": f"{words.USE_WORDS[name]}: {use.label}", "crosses": use.crosses}
            row |= {"bytes": use.bytes} | _score_columns(use) | {"cell": ""}
            covered = _coverage_columns(tables)
            scores = {
                column: use.by_client(column)
                for column in tables.record_columns
                if column == "wape" or INTERVALS.fullmatch(column)
            }
            row |= {column: by_client.mean(skipna=False) for column, by_client in scores.items()}
            yield row | {f"{column}_least": scores[column].min(skipna=False) for column in covered}


def _baseline_rows(variant: Variant) -> Iterator[dict[str, Any]]:
    tables, table = variant.tables, variant.tables.baselines
    for means in tables.baseline_scores.reset_index().to_dict("records"):
        state, name = means["state"], means["baseline"]
        rows = table[(table["state"] == state) & (table["baseline"] == name)]
        rows = rows[rows["split"] == "test"]
        (forecaster,) = select(variant.scores["local"][state], sharing=BASELINE, method=name)
        row = {"state": state, "sharing": BASELINE, "method": name, "model": BASELINE}
        row |= {"forecaster": words.baseline_label(name), "crosses": means["crosses"]}
        row |= {"bytes": means["bytes"]} | _score_columns(contender_of(variant, forecaster))
        yield row | _other_scores(rows, rows[["client", *_coverage_columns(tables)]])


def _coverage_columns(tables: Tables) -> list[str]:
    """The columns of the records with the coverage of an interval."""
    return [name for name in tables.record_columns if re.fullmatch(r"coverage_[\d.]+", name)]


def _other_scores(means: pd.DataFrame, by_client: pd.DataFrame | None) -> dict[str, float]:
    """WAPE and the scores of intervals, if there are any; NaN if one is missing. `by_client`: the
    coverage for each client and seed, if there are intervals."""
    column_of_score = {str(column).removesuffix("_mean"): column for column in means}
    means_of = {
        name: float(means[column].mean(skipna=False))
        for name, column in column_of_score.items()
        if name == "wape" or INTERVALS.fullmatch(name)
    }
    if by_client is None:
        return means_of
    least_scores = by_client.groupby("client").mean().min(skipna=False)
    return means_of | {f"{column}_least": float(value) for column, value in least_scores.items()}


def _score_columns(contender: Contender) -> dict[str, Any]:
    forecaster, is_trained = contender.forecaster, contender.is_trained
    difference = Difference({forecaster.state: forecaster.weekly}, is_trained)
    row = {"cell": forecaster.label, "validation_mase": forecaster.validation}
    if not difference.scored_differences:
        return row
    by_seed = difference.scored_differences[forecaster.state].mean(axis=0)
    low, high = difference.interval
    by_client = difference.scored_differences[forecaster.state].mean(axis=1)
    row |= {"mase": by_seed.mean(), "low": low, "high": high}
    row |= {"mase_median": float(np.median(by_client))}
    row |= {"std": by_seed.std(ddof=1) if is_trained and len(by_seed) > 1 else np.nan}
    row |= {"seeds": len(forecaster.seeds)} if is_trained else {}
    return row | {"clients": len(difference.scored_differences[forecaster.state])}


def _map(study: Study, variants: Sequence[Variant]) -> pd.DataFrame:
    """A row per place: the axes but `data.origins`; `best`, the best way without raw data, and
    `alone`, `federated`, `raw`, the best way of each kind, with their test MASE; `lead`, the MASE
    of `alone` minus that of `federated`, and `price`, that of `best` minus that of `raw`, each with
    its 95 % interval and its range without one of the states; bytes of a client (`bytes_best`, …);
    numbers of clients, states, origins and weeks."""
    return pd.DataFrame(
        {c: v for c, v in place_variants[0].place.items() if c != ORIGINS}
        | _place_columns(study, place_variants)
        for _, place_variants in places(study, variants)
    )


def _place_columns(study: Study, variants: Sequence[Variant]) -> dict[str, Any]:
    """The columns of a place in `map.csv` besides the axes."""
    sides = {"alone": [LOCAL], "federated": [FEDERATION], "raw": [RAW]}
    sides = {"best": [LOCAL, FEDERATION]} | sides
    contests_of = {kind: contest_of(study, variants, names, names) for kind, names in sides.items()}
    row: dict[str, Any] = {}
    for name, contest in contests_of.items():
        row[name] = contest.label(0) if contest else ""
        row[f"mase_{name}"] = contest.error(0) if contest else np.nan
        row[f"bytes_{name}"] = contest.bytes(0) if contest else np.nan
    price = contest_of(study, variants, sides["raw"], sides["best"])
    columns = {"": "difference"} | {f"_{end}": end for end in ("low", "high", "lowest", "highest")}
    for name, difference in (("lead", contest_of_federation(study, variants)), ("price", price)):
        values = difference.row if difference else {}
        row |= {f"{name}{end}": values.get(column, np.nan) for end, column in columns.items()}
    if best := contests_of["best"]:
        row |= {name: best.row[name] for name in ("clients", "states", "origins", "weeks")}
    return row


def longest_axis(study: Study) -> tuple[Axis, dict[str, str]]:
    """The axis with the most values, along which scores are shown, and the other axes: column to
    name."""
    longest = max(study.plan.axes, key=lambda axis: len(axis.choices))
    return longest, {axis.column: axis.short for axis in study.plan.axes if axis is not longest}


@dataclass(frozen=True)
class Overview:
    """The joined tables in the results folder of a study with further axes. Every access raises
    ResultsError if its file is missing or damaged."""

    folder: Path

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Content of study.json: format, version, git, study and variants."""
        return read_facts(self.folder)

    @cached_property
    def study(self) -> Study:
        """The study."""
        return Study.from_results(self.facts["study"], str(self.folder / "study.json"))

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """All comparisons; see `plfl.results.comparisons`."""
        return read(self.folder, self.study)

    def table(self, name: str) -> pd.DataFrame:
        """A table that compares the variants, by the name of its file."""
        text_columns = [
            "variant",
            "state",
            "model",
            *CELL,
            "hyperparameters",
            "client",
            "best",
            *EXCHANGE_KINDS,
        ]
        axes = [axis.column for axis in self.study.plan.axes]
        return read_csv(self.folder / name, dict.fromkeys([*text_columns, *axes], str))


def is_overview(folder: Path) -> bool:
    """Whether a results folder contains a study with further axes."""
    return "variants" in read_facts(folder)


def study_of(folder: Path) -> Study:
    """The study that made the results in a folder, with or without further axes."""
    return (Overview(folder) if is_overview(folder) else Tables(folder)).study
