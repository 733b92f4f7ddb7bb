"""The heat map of a study with axes: the best way without raw data at each place, and its lead."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes as Panel
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from plfl.report.figures.style import COLOURS, PAGE, fit, mark_sample, panels
from plfl.report.named import with_interval
from plfl.results.overview import MAP, Overview, shown
from plfl.study.axes import Axis

STEM = "heat_map"
CAPTION = (
    "Which way of forecasting is best if no raw data are sent (colour), chosen on validation over"
    " all states and origins. Numbers in a cell: the lead of the best way with models sent over the"
    " best one alone in test MASE, positive where models sent are better, with its 95 % interval;"
    " the price of not pooling, the error of the best way without raw data sent less that of the"
    " best one with them; bytes sent per client, and those of the raw data. Frames mark leads whose"
    " interval excludes 0; where the choice on validation contradicts such a lead, the cell says"
    " so. Exploratory: intervals are not corrected for their number."
)
MOST = 24
"""Largest number of panels of the figure."""
TITLES = {
    "windows.history": "weeks of history",
    "windows.horizons": "readings ahead",
    "data.federations": "clients in a federation",
}
"""Names of axes; other axes have their keys as names."""
KEY = (
    "lead: error of the best alone less that of the best with models sent;"
    " price: of not pooling raw data (MASE)"
)
_FEDERATED, _ALONE = (COLOURS[0], COLOURS[5], COLOURS[3]), (COLOURS[1], COLOURS[2], COLOURS[4])
"""Colours of ways of forecasting; those in which clients exchange models have similar colours."""
_TOO_MANY = "#d0d0d0"


def draw(overview: Overview) -> Figure:
    """A square for each value of the two longest axes; a panel for each place on the others."""
    table, every = overview.table(MAP), shown(overview.study)
    axes = [axis for axis in every if len(axis.choices) > 1] or every[:1]
    across, down = (axes[i] if i < len(axes) else None for i in range(2))
    others = axes[2:]
    keys = [axis.column for axis in others]
    groups = list(table.groupby(keys, sort=False))[:MOST] if keys else [((), table)]
    wide, high = (len(axis.choices) if axis else 1 for axis in (across, down))
    columns = max(1, min(len(groups), 5 // wide))
    rows = -(-len(groups) // columns)
    figure, drawn = panels(rows, columns, (PAGE, rows * (0.62 * high + 0.55) + 0.6))
    colours = _colours(table)
    size = min(6.5, 6.5 * 6 / (wide * columns))
    for panel, (place, part) in zip(drawn.flat, groups, strict=False):
        _cells(panel, part, across, down, colours, size)
        title = ", ".join(f"{a.short}={v}" for a, v in zip(others, place, strict=True))
        if title:
            panel.set_title(fit(title, 60), fontsize=7)
    for panel in drawn.flat[len(groups) :]:
        panel.axis("off")
    sent = set(table["federated"])
    legend = [
        Patch(color=c, alpha=0.55, label=f"{'models sent' if way in sent else 'alone'}: {way}")
        for way, c in colours.items()
    ]
    look: dict[str, Any] = {"title": KEY, "title_fontsize": 7, "ncols": 3}
    figure.legend(handles=legend, loc="outside lower center", **look)
    if overview.study.data.is_sample:
        mark_sample(figure)
    return figure


def _colours(table: pd.DataFrame) -> dict[str, str]:
    """The colour of each way of forecasting that is best somewhere."""
    found: dict[str, str] = {}
    for own, colours in (("federated", _FEDERATED), ("alone", _ALONE)):
        ways = list(dict.fromkeys(table.loc[table["best"] == table[own], "best"]))
        found |= {w: colours[i] if i < len(colours) else _TOO_MANY for i, w in enumerate(ways)}
    return found


def _cells(
    panel: Panel,
    part: pd.DataFrame,
    across: Axis | None,
    down: Axis | None,
    colours: dict[str, str],
    size: float,
) -> None:
    labels = [list(axis.choices) if axis else [""] for axis in (across, down)]
    for row in part.to_dict("records"):
        x, y = (
            names.index(str(row[axis.column])) if axis else 0
            for axis, names in zip((across, down), labels, strict=True)
        )
        decided = row["lead_low"] > 0 or row["lead_high"] < 0
        ground = colours.get(row["best"], "white")
        corner, frame = (x - 0.5, y - 0.5), (x - 0.47, y - 0.45)
        panel.add_patch(Rectangle(corner, 1, 1, facecolor=ground, alpha=0.55))
        if decided:
            panel.add_patch(Rectangle(frame, 0.94, 0.9, fill=False, linewidth=0.9))
        panel.text(x, y, words(row), ha="center", va="center", fontsize=size, linespacing=1.25)
    panel.set_xlim(-0.5, len(labels[0]) - 0.5)
    panel.set_ylim(-0.5, len(labels[1]) - 0.5)
    panel.set_xticks(range(len(labels[0])), [fit(name, 20) for name in labels[0]])
    panel.set_yticks(range(len(labels[1])), ["\n".join(textwrap.wrap(n, 9)) for n in labels[1]])
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    if across:
        panel.set_xlabel(TITLES.get(across.key, across.key))
    if down:
        panel.set_ylabel(TITLES.get(down.key, down.key))


def words(row: Mapping[Any, Any]) -> str:
    """The lines of a square: lead, price, bytes, and whether validation chose the worse way."""
    lines = []
    for name in ("lead", "price"):
        value = with_interval(row, name)
        if value:
            lines.append(f"{name} {value}")
    if crossing := [
        f"{amount(row[f'bytes_{kind}'])} {word}"
        for kind, word in (("best", "sent"), ("raw", "raw data"))
        if not pd.isna(row[f"bytes_{kind}"])
    ]:
        lines.append(", ".join(crossing))
    worse = "alone" if row["lead_low"] > 0 else "federated" if row["lead_high"] < 0 else ""
    if worse and row["best"] == row[worse]:
        lines.append(f"chosen on validation: {'alone' if worse == 'alone' else 'models sent'}")
    return "\n".join(lines) or "n/a"


def amount(count: object) -> str:
    """A number of bytes: "2.2 MB"."""
    value = float(str(count))
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.{int(value < 10 * size)}f} {unit}"
    return f"{value:.0f} B"
