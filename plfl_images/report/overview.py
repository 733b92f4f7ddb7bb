"""The page and the figures of a study of classifiers with further axes, which compare its variants.

`plfl.report.overview` has the same for forecasters.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from plfl.baselines import BASELINE
from plfl.report.figures.style import PAGE, fit, panels, save, style
from plfl.report.forest import forest
from plfl.report.overview import draw_lines, positions
from plfl.report.rendering import drawing, write_page
from plfl.results import comparisons
from plfl.results.overview import BEST, Overview, along
from plfl.results.tables import fitting
from plfl.study import Study, axes
from plfl.study.axes import Axis
from plfl_images.report.figures import draw_curves, grouped, label, legend_below, lines_of, look
from plfl_images.report.page import ABOUT_BASELINES, percent
from plfl_images.results.classification import TAIL, of_row, rows_of
from plfl_images.results.variants import CURVES

CAPTIONS = {
    "overview": f"Test accuracy of the global models, mean of the last {TAIL} evaluated rounds:"
    " mean over seeds, with 95 % intervals over seeds (Student's t, cut off at 0 and 100 %).",
    "curves": "Test accuracy of the global models against rounds: mean over seeds, ± standard"
    " deviation.",
}
"""The figures by the stem of their files."""
FILES = {
    BEST: "accuracies of every row of the grid in every variant",
    comparisons.FILE: "all comparisons, with the verdicts on the study's claims",
    CURVES: "test accuracy against rounds",
    "summary.csv": "scores of every cell of every variant",
    "records.parquet": "scores and bytes of every client and round of every variant",
    "study.json": "configuration, versions and variants",
}
MOST = 12
"""Largest number of rows of panels of the curves; if a study has more, the first are shown."""


@dataclass(frozen=True)
class Lines:
    """The lines of the figures: accuracies of the global models, by variant and row of the grid."""

    found: Overview

    @property
    def study(self) -> Study:
        """The study."""
        return self.found.study

    @property
    def along(self) -> Axis:
        """The axis with the most values."""
        return along(self.study)[0]

    @property
    def places(self) -> list[dict[str, str]]:
        """The places on the other axes, by key."""
        others = [axis for axis in self.study.axes if axis is not self.along]
        return list(axes.variants(others).values()) if others else [{}]

    @property
    def rows(self) -> list[dict[str, str]]:
        """The rows of the grid."""
        return rows_of(self.found.table(CURVES))

    def at(self, table: pd.DataFrame, place: dict[str, str]) -> pd.DataFrame:
        """The part of a table at a place on some axes."""
        columns = {axis.key: axis.column for axis in self.study.axes}
        for key, value in place.items():
            table = table[table[columns[key]] == value]
        return table

    def title(self, place: dict[str, str]) -> str:
        """A place in words, such as `s=2, participation=0.1`."""
        text = axes.text(place, self.study.axes).replace(",", ", ")
        return fit(text, 40, lines=2) if text else ""


def illustrate(results: Path, figures: Path) -> list[Path]:
    """Draw the figures of the study in folder `results` into folder `figures`."""
    lines = Lines(Overview(results))
    files: list[Path] = []
    for stem, draw in {"overview": ends, "curves": curves}.items():
        with style(), fitting(results):
            figure = draw(lines)
        files += save(figure, figures / stem)
    return files


def ends(lines: Lines) -> Figure:
    """Accuracy at the end along the axis with most values, one panel per place on the others."""
    best = lines.found.table(BEST)
    shown = best[best["model"] == "global"]
    groups, along = grouped(lines.rows), lines.along
    drawn = list(itertools.product(lines.places, groups))
    columns = min(3, len(drawn))
    figure, cells = panels(
        -(-len(drawn) // columns), columns, (PAGE, 2.6 * -(-len(drawn) // columns)), sharey=True
    )
    where, numeric = positions(along)
    shown = shown.assign(
        at=shown[along.column].map(where),
        percent=100 * shown["accuracy_tail"],
        low=100 * shown["low"],
        high=100 * shown["high"],
    )
    for panel, (place, group) in zip(cells.flat, drawn, strict=False):
        part, looks = lines_of(lines.at(shown, place), group, lines.rows)
        draw_lines(panel, part, "percent", looks, numeric)
        panel.set_xticks(list(where.values()), list(where))
        panel.minorticks_off()
        panel.set(xlabel=along.key, ylabel="Test accuracy (%)")
        panel.set_title(lines.title(place), fontsize=7)
        panel.grid(axis="y")
        legend_below(panel, 2)
    for panel in cells.flat[len(drawn) :]:
        panel.axis("off")
    return figure


def curves(lines: Lines) -> Figure:
    """Accuracy against rounds, one panel per variant; several panels if the grid has many rows.

    If the grid has one row, the lines of a panel are the values of the longest axis.
    """
    drawn = _panels(lines)[:MOST]
    figure, cells = panels(
        len(drawn), len(drawn[0]), (PAGE, 2.3 * len(drawn)), sharex=True, sharey=True
    )
    for panel, (place, named, looks) in zip(cells.flat, itertools.chain(*drawn), strict=True):
        draw_curves(panel, named, looks)
        panel.set_title(lines.title(place), fontsize=7)
        panel.label_outer()
        panel.get_legend().remove()
    for row in cells:
        legend_below(row[len(row) // 2], 3 if len(row) > 1 else 2)
    return figure


def _panels(
    lines: Lines,
) -> list[list[tuple[dict[str, str], pd.DataFrame, dict[str, dict[str, Any]]]]]:
    """Rows of panels, each with its place on the axes, its curves and their looks."""
    table, along = lines.found.table(CURVES), lines.along
    if len(lines.rows) == 1:
        table = table.assign(line=along.short + "=" + table[along.column])
        looks = {f"{along.short}={label}": look(k) for k, label in enumerate(along.choices)}
        return [[(place, lines.at(table, place), looks) for place in lines.places]]
    return [
        [
            (place | at, *lines_of(lines.at(table, place | at), group, lines.rows))
            for at in ({along.key: label} for label in along.choices)
        ]
        for place, group in itertools.product(lines.places, grouped(lines.rows))
    ]


@dataclass(frozen=True)
class Row:
    """A row of the grid in all variants, as the page shows it: accuracies in per cent."""

    name: str
    baseline: bool
    cells: list[tuple[str, str, str]]
    """For each variant: mean ± standard deviation, the interval, and the chosen hyperparameters."""


def write(results: Path, figures: Path, out: Path) -> None:
    """Write the page of the study in folder `results`, with its figures, to file `out`.

    Variants whose own pages exist are linked. The same results give the same bytes.
    """
    overview = Overview(results)
    places = overview.about["variants"]
    with fitting(results):
        lines = Lines(overview)
        write_page(
            out,
            "variants.html.jinja",
            overview.about,
            "plfl_images.report",
            study=overview.study,
            places=places,
            links={name: _link(results, name) for name in places},
            tables=[
                (title, list(_rows(lines, list(places), *about)))
                for title, *about in (
                    ("Global models at the end", "global", "accuracy_tail"),
                    ("Global models at a quarter of the rounds", "global", "accuracy_quarter"),
                    ("Local models on the clients' own labels", "local", "own_accuracy"),
                )
            ],
            about_baselines=ABOUT_BASELINES,
            compared=forest(overview.study, overview.comparisons),
            drawings=[
                (drawing(figures / f"{stem}.svg", caption), caption)
                for stem, caption in CAPTIONS.items()
            ],
            files=FILES,
        )


def _link(results: Path, label: str) -> str | None:
    """The link to the page of a variant, if it has one."""
    return f"{quote(label)}/index.html" if (results / label / "index.html").is_file() else None


def _rows(lines: Lines, labels: Sequence[str], model: str, score: str) -> Iterator[Row]:
    """The rows of the grid, then the baselines; only the end has baselines and intervals."""
    table = lines.found.table(BEST)
    of_model, is_end = table[table["model"] == model], score == "accuracy_tail"
    for row in lines.rows:
        cells = of_row(of_model, row).set_index("variant")
        yield Row(label(row, lines.rows), False, [_cell(cells.loc[name], score) for name in labels])
    others = table[table["sharing"] == BASELINE]
    for name in dict.fromkeys(others["method"]) if is_end else ():
        cells = others[others["method"] == name].set_index("variant")
        yield Row(str(name).replace("_", " "), True, [_cell(cells.loc[of], score) for of in labels])


def _cell(row: Any, score: str) -> tuple[str, str, str]:
    interval, chosen = "", ""
    if score == "accuracy_tail":  # the choice is the same at a quarter of the rounds
        chosen = row.get("hyperparameters")
        if np.isfinite(row["low"]):
            interval = f"[{100 * row['low']:.1f}, {100 * row['high']:.1f}]"
    return (
        percent(row[score], row[f"{score}_std"]),
        interval,
        _briefly(chosen) if isinstance(chosen, str) else "",
    )


def _briefly(chosen: str) -> str:
    """Chosen hyperparameters with short names; a column of the table is narrow."""
    values = dict(pair.split("=", 1) for pair in chosen.split(", ") if pair)
    names = axes.short_names(values)
    return ", ".join(map("=".join, zip(names, values.values(), strict=True)))
