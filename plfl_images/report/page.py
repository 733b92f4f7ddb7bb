"""The page of a study of classifiers, with or without further axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from plfl.config.baselines import BASELINE
from plfl.report import reporting
from plfl.report.comparison_plot import plot_comparisons
from plfl.report.rendering import embed_figure, write_page
from plfl.report.standings import ForecasterRow
from plfl.results import comparisons
from plfl.results.overview import BEST_FILE, Overview, is_overview
from plfl.results.tables import Tables, refuse_contradictions
from plfl.study import Study
from plfl_images.report import paper
from plfl_images.report.figures import illustrate, label
from plfl_images.results.classification import STANDING_COLUMNS, TAIL_ROUNDS, rows_of
from plfl_images.results.variants import Results, best

__all__ = ["illustrate", "write"]
ENDS_CAPTION = (
    "Test accuracy of the global models at the end: mean over seeds, with 95 % intervals."
)
"""The caption of the figure `overview`."""


def write(results: Path, figures: Path, path: Path) -> None:
    """Write the page of a results folder, with the figures of folder `figures`, to `path`.

    Variants whose own pages exist are linked. The same results give the same bytes.

    Raises:
        PlflError: the file cannot be written.
    """
    study_results: Overview | Results = (
        Overview(results) if is_overview(results) else Results("", {}, Tables(results))
    )
    with refuse_contradictions(results):
        if isinstance(study_results, Overview):
            about, table, comparison_rows = (
                study_results.facts,
                study_results.table(BEST_FILE),
                study_results.comparisons,
            )
        else:
            about, table = study_results.tables.facts, best([study_results])
            comparison_rows = comparisons.read(results, study_results.study, [study_results])
        study = study_results.study
        captions = reporting.reporting_of(study).captions(study)
        if study.plan.axes:
            captions = {"overview": ENDS_CAPTION, "accuracy": captions["accuracy"]}
        write_page(
            path,
            "page.html.jinja",
            about,
            "plfl_images.report",
            study=study,
            column=None if study.plan.axes else paper.column_of(study),
            places=[axis.key for axis in study.plan.axes],
            groups=[
                list(_rows(study, variant_table))
                for _, variant_table in table.groupby("variant", sort=False)
            ],
            links={
                name: f"{quote(name)}/index.html"
                for name in about.get("variants", [])
                if (results / name / "index.html").is_file()
            },
            compared=plot_comparisons(study, comparison_rows),
            tail=TAIL_ROUNDS,
            drawings=[
                (embed_figure(figures / f"{stem}.svg", caption), caption)
                for stem, caption in captions.items()
            ],
        )


def _rows(study: Study, table: pd.DataFrame) -> Iterator[ForecasterRow]:
    """The rows of a variant: global models, the most accurate first; local ones; baselines."""
    column = None if study.plan.axes else paper.column_of(study)
    cell_rows = rows_of(table[table["sharing"] != BASELINE])
    order = {"global": 0, "local": 1, BASELINE: 2}
    for row in table.sort_values("model", key=lambda m: m.map(order), kind="stable").to_dict(
        "records"
    ):
        is_baseline = row["sharing"] == BASELINE
        name = (
            label({axis: row[axis] for axis in STANDING_COLUMNS}, cell_rows)
            if not is_baseline
            else ""
        )
        published = column and column.find_accuracy(row["method"], row["server_opt"])
        remark = ", clients' own models" if row["model"] == "local" else ""
        is_global, reached = row["model"] == "global", row.get("reached", 0)
        yield ForecasterRow(
            [str(row[axis.column]) for axis in study.plan.axes],
            f"{name}{remark}" if name else row["method"].replace("_", " "),
            "",
            is_baseline,
            _percent(row, "accuracy_tail"),
            ""
            if math.isnan(row.get("low", math.nan))
            else f"{100 * row['low']:.1f} to {100 * row['high']:.1f}",
            [
                *(_percent(row, f"accuracy_{t}") for t in ("quarter", "half")),
                _percent(row, "own_accuracy"),
                # The costs until a target, and the paper's numbers, are of the server's model.
                f"{row['rounds_to_target']:.0f} ({reached:.0f} of {row['seeds']:.0f})"
                if is_global and reached
                else "–",
                f"{row['bytes_to_target'] / 1e6:.1f}" if is_global and reached else "–",
                f"{published[0]:.2f} ± {published[1]:.2f}" if is_global and published else "–",
                row["hyperparameters"] if isinstance(row.get("hyperparameters"), str) else "–",
            ],
        )


def _percent(row: Mapping[Any, Any], score: str) -> str:
    """A share in per cent, with its standard deviation if it is known."""
    mean, spread = row.get(score, math.nan), row.get(f"{score}_std", math.nan)
    if not math.isfinite(mean):
        return "–"
    text = f"{100 * mean:.1f}"
    return f"{text} ± {100 * spread:.1f}" if math.isfinite(spread) else text
