"""The page of a study of classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plfl.report import reporting
from plfl.report.forest import forest
from plfl.report.rendering import drawing, write_page
from plfl.results import comparisons
from plfl_images.report import paper
from plfl_images.report.figures import label, results_in
from plfl_images.results import classification
from plfl_images.results.variants import Results

ABOUT_BASELINES = (
    "Three baselines need no federation: each client's most frequent label (majority), a logistic"
    " regression on its own images (logistic own), and one on the images of all clients together"
    " (logistic pooled)."
)
"""The text of the pages about the rows of baselines."""


@dataclass(frozen=True)
class Standing:
    """One row of the grid, with accuracies in per cent."""

    name: str
    tuned: str
    quarter: str
    half: str
    tail: str
    own: str
    rounds: str
    megabytes: str
    published: str


def write(results: Path, figures: Path, out: Path) -> None:
    """Write the page of a results folder, with the figures of folder `figures`, to `out`.

    Raises:
        PlflError: the file cannot be written.
    """
    found = results_in(results)
    compared = comparisons.read(results, found.study, [found])
    write_page(
        out,
        "page.html.jinja",
        found.tables.about,
        "plfl_images.report",
        study=found.study,
        column=paper.column_of(found.study),
        standings=_standings(found, "global"),
        local=_standings(found, "local"),
        baselines=_baselines(found),
        about_baselines=ABOUT_BASELINES,
        compared=forest(found.study, compared),
        tail=classification.TAIL,
        drawings=[
            (drawing(figures / f"{stem}.svg", caption), caption)
            for stem, caption in reporting.of(found.study).captions(found.study).items()
        ],
    )


def _standings(found: Results, model: str) -> list[Standing]:
    table = classification.standings(found.summary[found.summary["model"] == model])
    # The paper's numbers, and the costs until a target, are those of the server's model.
    column, rows = paper.column_of(found.study) if model == "global" else None, []
    for row in table.to_dict("records"):
        published = column and column.of(row["method"], row["server_opt"])
        reached = row["reached"] if model == "global" else 0
        price = row["bytes_to_target"]
        rows.append(
            Standing(
                name=label({axis: row[axis] for axis in classification.GROUP}, found.rows),
                tuned=row.get("hyperparameters") or "–",
                **{
                    key: percent(row[score], row[f"{score}_std"])
                    for key, score in (
                        ("quarter", "accuracy_quarter"),
                        ("half", "accuracy_half"),
                        ("tail", "accuracy_tail"),
                        ("own", "own_accuracy"),
                    )
                },
                rounds=f"{row['rounds_to_target']:.0f} ({reached} of {row['seeds']})"
                if reached
                else "–",
                megabytes=f"{price / 1e6:.1f}" if reached else "–",
                published=f"{published[0]:.2f} ± {published[1]:.2f}" if published else "–",
            )
        )
    return rows


def _baselines(found: Results) -> list[tuple[str, str, str]]:
    rows = found.baselines.to_dict("records")
    return [
        (
            row["baseline"].replace("_", " "),
            percent(row["accuracy"], row["accuracy_std"]),
            percent(row["own_accuracy"], row["own_accuracy_std"]),
        )
        for row in rows
    ]


def percent(mean: float, spread: float = np.nan) -> str:
    """A share in per cent, with its standard deviation if it is known."""
    if not np.isfinite(mean):
        return "–"
    text = f"{100 * mean:.1f}"
    return f"{text} ± {100 * spread:.1f}" if np.isfinite(spread) else text
