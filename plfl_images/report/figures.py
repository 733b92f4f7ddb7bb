"""The figures of a study of classifiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from plfl.report.figures.style import COLUMN, PAGE, SEQUENTIAL, colour, panels, save, style
from plfl_images.report.tables import Results
from plfl_images.results import classification

PER_PANEL = 6
"""Most curves of a panel: as many as there are colours."""
_DASHES = ("-", "--", "-.", ":")
"""Lines of rows that share a colour."""


def grouped(rows: Sequence[dict[str, str]]) -> list[list[dict[str, str]]]:
    """The rows of the grid in groups for a panel each; the first row is in all, to compare with."""
    others = [rows[i : i + PER_PANEL - 1] for i in range(1, len(rows), PER_PANEL - 1)] or [[]]
    return [[rows[0], *group] for group in others]


def look(k: int) -> dict[str, Any]:
    """Colour, marker and line of row `k` of the grid, the same in all panels.

    The first row, which is in all panels, shares its colour with none. Rows of different panels may
    share a colour, and then differ in marker and line.
    """
    turn, place = divmod(k - 1, PER_PANEL - 1) if k else (0, -1)
    return {
        "color": colour(place + 1)["color"],
        "marker": colour(place + 1 + turn)["marker"],
        "linestyle": _DASHES[turn % len(_DASHES)],
    }


def accuracy(results: Results) -> Figure:
    """Test accuracy of the global models against rounds, mean over seeds, with the spread."""
    found = classification.curves(results.records)
    test = found[(found["split"] == "test") & (found["model"] == "global")]
    groups = grouped(results.rows)
    figure, axes = panels(1, len(groups), (PAGE if len(groups) > 1 else COLUMN, 2.8), sharey=True)
    for axis, group in zip(axes[0], groups, strict=True):
        for row in group:
            own = test[(test[list(row)] == list(row.values())).all(axis=1)]
            curve = own.groupby("round")["accuracy"].agg(["mean", "std"]) * 100
            drawn = look(results.rows.index(row))
            axis.plot(curve.index, curve["mean"], label=results.label(row), markevery=4, **drawn)
            low, high = curve["mean"] - curve["std"], curve["mean"] + curve["std"]
            axis.fill_between(curve.index, low, high, color=drawn["color"], alpha=0.12, lw=0)
        axis.set_xlabel("Round")
        axis.grid(axis="y")
        # Below the panel, where it covers no curve.
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
    axes[0, 0].set_ylabel("Test accuracy (%)")
    axes[0, 0].set_ylim(0, 100)
    return figure


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
"""How each figure of `CAPTIONS` is drawn."""


def render_all(results: Path, out: Path) -> Iterator[str]:
    """Draw all figures of a results folder into folder `out`, as PDF, PNG and SVG.

    Yields:
        The name of each figure, when its files are written.

    Raises:
        PlflError: the folder cannot be written.
    """
    found = Results(results)
    for stem, draw in DRAW.items():
        with style():
            save(draw(found), out / stem)
        yield stem
