"""The figures of a study of classifiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plfl.report.figures.style import COLUMN, PAGE, SEQUENTIAL, colour, panels, save, style
from plfl.results.tables import Tables
from plfl.results.words import client_label, method_label, server_label
from plfl_images.results import classification
from plfl_images.results.variants import Results

PER_PANEL = 6
"""Largest number of curves in a panel: the number of colours."""
_DASHES: tuple[Any, ...] = ("", (4, 1.5), (3, 1, 1, 1), (1, 1))
"""Dashes that distinguish rows of the same colour."""


def results_in(folder: Path) -> Results:
    """The results of a study without axes, or of a single variant."""
    return Results("", {}, Tables(folder))


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
    if len({other["client_opt"] for other in rows}) > 1:
        name += f", {client_label(client)}"
    for axis in ("state", "sharing"):
        if len({other[axis] for other in rows}) > 1:
            name += f" ({row[axis]})"
    return name


def grouped(rows: Sequence[dict[str, str]]) -> list[list[dict[str, str]]]:
    """The rows of the grid in groups, one per panel. The first row is in all panels, for
    comparison."""
    others = [rows[i : i + PER_PANEL - 1] for i in range(1, len(rows), PER_PANEL - 1)] or [[]]
    return [[rows[0], *group] for group in others]


def look(k: int) -> dict[str, Any]:
    """Colour, marker and dashes of row `k` of the grid, the same in all panels.

    The first row, which is in all panels, has a colour of its own. Rows of different panels may
    share a colour; then they differ in marker and line.
    """
    turn, place = divmod(k - 1, PER_PANEL - 1) if k else (0, -1)
    return {
        "color": colour(place + 1)["color"],
        "marker": colour(place + 1 + turn)["marker"],
        "dashes": _DASHES[turn % len(_DASHES)],
    }


def lines_of(
    table: pd.DataFrame, group: Sequence[dict[str, str]], rows: Sequence[dict[str, str]]
) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """The parts of a table that belong to a group of the `rows` of the grid, named in the column
    `line`, and the look of each."""
    names = {label(row, rows): row for row in group}
    parts = [classification.of_row(table, row).assign(line=name) for name, row in names.items()]
    looks = {name: look(rows.index(row)) for name, row in names.items()}
    return pd.concat(parts, ignore_index=True), looks


def accuracy(results: Results) -> Figure:
    """Test accuracy of the global models against rounds, mean over seeds, with the spread."""
    rows, groups = results.rows, grouped(results.rows)
    figure, axes = panels(1, len(groups), (PAGE if len(groups) > 1 else COLUMN, 2.8), sharey=True)
    for axis, group in zip(axes[0], groups, strict=True):
        draw_curves(axis, *lines_of(results.curves, group, rows))
        legend_below(axis, 3)
    return figure


def draw_curves(panel: Axes, curves: pd.DataFrame, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw `Results.curves`, mean and standard deviation over seeds: a line for each name in the
    column `line`, which has one of the `looks`."""
    sns.lineplot(
        curves.assign(percent=100 * curves["accuracy"]),
        x="round",
        y="percent",
        hue="line",
        style="line",
        palette={name: look["color"] for name, look in looks.items()},
        dashes={name: look["dashes"] for name, look in looks.items()},
        errorbar="sd",
        err_kws={"alpha": 0.12, "linewidth": 0},
        ax=panel,
    )
    panel.set(xlabel="Round", ylabel="Test accuracy (%)", ylim=(0, 100))
    panel.grid(axis="y")


def legend_below(panel: Axes, columns: int) -> None:
    """A legend below the panel, where it does not cover curves."""
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns, title=None)


def labels(results: Results) -> Figure:
    """Training images of every client and label, of the first seed."""
    study = results.study
    clients = results.clients[results.clients["seed"] == study.grid.seeds[0]]
    counts = clients.pivot(index="label", columns="client", values="images")
    figure, axes = panels(1, 1, (PAGE, 1.6))
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


DRAW: dict[str, Callable[[Results], Figure]] = {"accuracy": accuracy, "labels": labels}
"""The function that draws each figure of `CAPTIONS`."""


def render_all(results: Path, out: Path) -> Iterator[str]:
    """Draw all figures of a results folder into folder `out`, as PDF, PNG and SVG.

    Yields:
        The name of each figure, when its files are written.

    Raises:
        PlflError: the folder cannot be written.
    """
    found = results_in(results)
    for stem, draw in DRAW.items():
        with style():
            save(draw(found), out / stem)
        yield stem
