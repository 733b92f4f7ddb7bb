"""The figures of a study of classifiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plfl.report.figures.style import COLUMN, PAGE, SEQUENTIAL, colour, panels, save, style
from plfl_images.report.tables import label, results_in
from plfl_images.results import classification
from plfl_images.results.variants import Results

PER_PANEL = 6
"""Largest number of curves in a panel: the number of colours."""
_DASHES = ("-", "--", "-.", ":")
"""Line styles that distinguish rows of the same colour."""


def grouped(rows: Sequence[dict[str, str]]) -> list[list[dict[str, str]]]:
    """The rows of the grid in groups, one per panel. The first row is in all panels, for
    comparison."""
    others = [rows[i : i + PER_PANEL - 1] for i in range(1, len(rows), PER_PANEL - 1)] or [[]]
    return [[rows[0], *group] for group in others]


def look(k: int) -> dict[str, Any]:
    """Colour, marker and line of row `k` of the grid, the same in all panels.

    The first row, which is in all panels, has a colour of its own. Rows of different panels may
    share a colour; then they differ in marker and line.
    """
    turn, place = divmod(k - 1, PER_PANEL - 1) if k else (0, -1)
    return {
        "color": colour(place + 1)["color"],
        "marker": colour(place + 1 + turn)["marker"],
        "linestyle": _DASHES[turn % len(_DASHES)],
    }


def accuracy(results: Results) -> Figure:
    """Test accuracy of the global models against rounds, mean over seeds, with the spread."""
    rows, groups = results.rows, grouped(results.rows)
    figure, axes = panels(1, len(groups), (PAGE if len(groups) > 1 else COLUMN, 2.8), sharey=True)
    for axis, group in zip(axes[0], groups, strict=True):
        for row in group:
            own = classification.of_row(results.curves, row)
            draw_curve(axis, own, label(row, rows), look(rows.index(row)))
        axis.set_xlabel("Round")
        axis.grid(axis="y")
        legend_below(axis, 3)
    axes[0, 0].set_ylabel("Test accuracy (%)")
    axes[0, 0].set_ylim(0, 100)
    return figure


def draw_curve(panel: Axes, curve: pd.DataFrame, name: str, drawn: dict[str, Any]) -> None:
    """Draw one of `Results.curves`, mean and standard deviation."""
    mean, std = (100 * curve[column].to_numpy(float) for column in ("accuracy", "std"))
    panel.plot(curve["round"], mean, label=name, markevery=4, **drawn)
    ends = mean - std, mean + std
    panel.fill_between(curve["round"], *ends, color=drawn["color"], alpha=0.12, lw=0)


def legend_below(panel: Axes, columns: int) -> None:
    """A legend below the panel, where it does not cover curves."""
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns)


def labels(results: Results) -> Figure:
    """Training images of every client and label, of the first seed."""
    study = results.study
    clients = results.clients[results.clients["seed"] == study.grid.seeds[0]]
    counts = clients.pivot(index="label", columns="client", values="images")
    shown = counts.where(counts > 0).to_numpy(float)  # white where there are none
    figure, axes = panels(1, 1, (PAGE, 1.6))
    axis = axes[0, 0]
    drawn = axis.imshow(shown, aspect="auto", cmap=SEQUENTIAL, interpolation="nearest", vmin=0)
    axis.set_xlabel("Client")
    axis.set_ylabel("Label")
    if len(counts) <= 10:
        axis.set_yticks(np.arange(len(counts)), counts.index.astype(str))
    figure.colorbar(drawn, ax=axis, label="Training images")
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
