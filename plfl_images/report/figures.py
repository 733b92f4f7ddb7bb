"""The figures of a study of classifiers, with or without further axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from plfl.report.figures.style import (
    COLOURS,
    COLUMN_WIDTH,
    PAGE_WIDTH,
    SEQUENTIAL,
    colour,
    fit,
    panels,
    save,
    style,
)
from plfl.report.variants_page import draw_lines, positions
from plfl.results import words
from plfl.results.overview import BEST_FILE, Overview, longest_axis
from plfl.results.tables import Tables, refuse_contradictions
from plfl.results.words import client_label, method_label, server_label
from plfl.study import Study
from plfl_images.results import classification
from plfl_images.results.variants import CURVES_FILE, Results

MOST_PANELS = 12
"""Largest number of panels; if a study has more variants, the first are shown."""
_DASHES: tuple[Any, ...] = ("", (4, 1.5), (1, 1))
"""Dashes that distinguish curves of the same colour."""


def label(row: Mapping[str, str], rows: Sequence[Mapping[str, str]]) -> str:
    """A short name of a row of the grid among `rows`, such as `FedADC+` or `SlowMo`.

    It contains only what differs among them.
    """
    method, server, client = row["method"], row["server_opt"], row["client_opt"]
    name = method_label(method)
    if method == "fedopt":
        name = "FedAvg" if server == "fedavg" else server_label(server)
    elif server != "fedavg":
        name += f" + {server_label(server)}"
    if len({grid_row["client_opt"] for grid_row in rows}) > 1:
        name += f", {client_label(client)}"
    for axis in ("state", "sharing"):
        if len({grid_row[axis] for grid_row in rows}) > 1:
            name += f" ({row[axis]})"
    return name


def _with_names(table: pd.DataFrame) -> pd.DataFrame:
    """A table with the name of the row of the grid in the column `line`."""
    rows = classification.rows_of(table)
    parts = [classification.select_row(table, row).assign(line=label(row, rows)) for row in rows]
    return pd.concat(parts, ignore_index=True)


def curves(study: Study, table: pd.DataFrame) -> Figure:
    """Test accuracy of the global models against rounds, mean over seeds with the spread, a panel
    for each variant. `table`: see `Results.curves`, with the columns of the variants, if any."""
    table = _with_names(table.assign(percent=100 * table["accuracy"]))
    groups = (
        list(table.groupby("variant", sort=False))[:MOST_PANELS]
        if study.plan.axes
        else [("", table)]
    )
    lines, columns = list(dict.fromkeys(table["line"])), min(3, len(groups))
    rows = -(-len(groups) // columns)
    size = PAGE_WIDTH if columns > 1 else COLUMN_WIDTH, 2.1 * rows + 0.9
    figure, axes = panels(rows, columns, size, sharex=True, sharey=True)
    for panel, (_, part) in zip(axes.flat, groups, strict=False):
        sns.lineplot(
            part,
            x="round",
            y="percent",
            hue="line",
            style="line",
            palette={name: colour(i)["color"] for i, name in enumerate(lines)},
            dashes={name: _DASHES[i // len(COLOURS) % 3] for i, name in enumerate(lines)},
            errorbar="sd",
            err_kws={"alpha": 0.12, "linewidth": 0},
            ax=panel,
        )
        panel.set(xlabel="Round", ylabel="Test accuracy (%)", ylim=(0, 100))
        panel.set_title(_place(study, part), fontsize=7)
        panel.grid(axis="y")
    _legend(figure, axes.flat, len(groups))
    return figure


def ends(overview: Overview) -> Figure:
    """Accuracy at the end along the axis with most values, a panel for each place on the others."""
    study, best = overview.study, overview.table(BEST_FILE)
    axis, other_axes = longest_axis(study)
    position, numeric = positions(axis)
    table = _with_names(best[best["model"] == "global"])
    table = table.assign(at=table[axis.column].map(position))
    table[["accuracy_tail", "low", "high"]] *= 100
    groups = (
        list(table.groupby([*other_axes], sort=False))[:MOST_PANELS]
        if other_axes
        else [("", table)]
    )
    looks = {name: colour(i) for i, name in enumerate(dict.fromkeys(table["line"]))}
    columns = min(3, len(groups))
    rows = -(-len(groups) // columns)
    figure, axes = panels(rows, columns, (PAGE_WIDTH, 2.1 * rows + 0.9), sharey=True)
    for panel, (_, part) in zip(axes.flat, groups, strict=False):
        draw_lines(panel, part, "accuracy_tail", looks, numeric)
        panel.set_xticks(list(position.values()), list(position))
        panel.minorticks_off()
        panel.set(xlabel=axis.key, ylabel="Test accuracy (%)")
        panel.set_title(_place(study, part, [axis.key]), fontsize=7)
        panel.grid(axis="y")
    _legend(figure, axes.flat, len(groups))
    return figure


def _place(study: Study, part: pd.DataFrame, excluded_keys: Sequence[str] = ()) -> str:
    """The place of a panel on the axes, in words."""
    labels = {axis.column: str(part[axis.column].iloc[0]) for axis in study.plan.axes}
    text = words.word_place(study, labels, excluded_keys)
    return fit(text, 40, lines=2) if text else ""


def _legend(figure: Figure, axes: Any, entries: int) -> None:
    """One legend for all panels, below them; panels that are not used disappear."""
    handles, names = axes[0].get_legend_handles_labels()
    for i, panel in enumerate(axes):
        if legend := panel.get_legend():
            legend.remove()
        if i >= entries:
            panel.axis("off")
    figure.legend(handles, names, loc="outside lower center", ncols=4)


def labels(results: Results) -> Figure:
    """Training images of every client and label, of the first seed."""
    study = results.study
    clients = results.clients[results.clients["seed"] == study.grid.seeds[0]]
    counts = clients.pivot(index="label", columns="client", values="images")
    figure, axes = panels(1, 1, (PAGE_WIDTH, 1.6))
    sns.heatmap(
        counts.where(counts > 0).astype(float),  # white where there are none
        cmap=SEQUENTIAL,
        vmin=0,
        cbar_kws={"label": "Training images"},
        ax=axes[0, 0],
    )
    axes[0, 0].set(xlabel="Client", ylabel="Label")
    axes[0, 0].tick_params(length=0, rotation=0)
    return figure


def render_all(results: Path, folder: Path) -> Iterator[str]:
    """Draw all figures of a study without further axes into `folder`, as PDF, PNG and SVG.

    Yields:
        The name of each figure, when its files are written.

    Raises:
        PlflError: the folder cannot be written.
    """
    study_results = Results("", {}, Tables(results))
    with style():
        for stem, figure in (
            ("accuracy", curves(study_results.study, study_results.curves)),
            ("labels", labels(study_results)),
        ):
            save(figure, folder / stem)
            yield stem


def illustrate(results: Path, folder: Path) -> None:
    """Draw the figures of a study with further axes into `folder`."""
    overview = Overview(results)
    with style(), refuse_contradictions(results):
        save(ends(overview), folder / "overview")
        save(curves(overview.study, overview.table(CURVES_FILE)), folder / "accuracy")
