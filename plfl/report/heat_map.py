"""The heat map of a study with axes: the best way without raw data at each place, and its lead."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from plfl.report.figures.style import COLOURS, PAGE, mark_sample, panels
from plfl.report.rendering import with_interval
from plfl.results.overview import MAP, Overview, shown
from plfl.results.words import place

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
    "data.clients": "clients",
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
    study = overview.study
    longest = [axis for axis in shown(study) if len(axis.choices) > 1][:2]
    across, down = (longest[i] if i < len(longest) else None for i in range(2))
    keys = [axis.key for axis in longest]
    table = overview.table(MAP)
    records = table.to_dict("records")
    table = table.assign(
        across=table[across.column] if across else "",
        down=table[down.column] if down else "",
        text=[words(row) for row in records],
        panel=[
            place(study, {str(column): label for column, label in row.items()}, keys)
            for row in records
        ],
    )
    columns, rows = (list(axis.choices) if axis else [""] for axis in (across, down))
    groups = list(table.groupby("panel", sort=False))[:MOST]
    wide = max(1, min(len(groups), 5 // len(columns)))
    high = -(-len(groups) // wide)
    figure, panel_grid = panels(high, wide, (PAGE, high * (0.62 * len(rows) + 0.55) + 0.6))
    colours = _colours(table)
    codes = {way: code for code, way in enumerate(colours)}
    for panel, (title, part) in zip(panel_grid.flat, groups, strict=False):
        part = part.assign(code=part["best"].map(codes).astype(float))
        squares, texts = (
            part.pivot(index="down", columns="across", values=column).reindex(rows, columns=columns)
            for column in ("code", "text")
        )
        sns.heatmap(
            squares,
            annot=texts.fillna("n/a"),
            fmt="",
            cmap=ListedColormap(list(colours.values()) or ["white"]),
            vmin=-0.5,
            vmax=max(len(colours), 1) - 0.5,
            cbar=False,
            alpha=0.55,
            annot_kws={"fontsize": min(6.5, 39 / (len(columns) * wide)), "color": "black"},
            ax=panel,
        )
        for row in part[(part["lead_low"] > 0) | (part["lead_high"] < 0)].to_dict("records"):
            corner = columns.index(row["across"]) + 0.03, rows.index(row["down"]) + 0.05
            panel.add_patch(
                Rectangle(corner, 0.94, 0.9, fill=False, edgecolor="0.1", linewidth=0.9)
            )
        panel.tick_params(length=0, rotation=0)
        panel.set(
            xlabel=TITLES.get(across.key, across.key) if across else "",
            ylabel=TITLES.get(down.key, down.key) if down else "",
            title="\n".join(textwrap.wrap(str(title), 60)),
        )
        panel.title.set_fontsize(7)
    for panel in panel_grid.flat[len(groups) :]:
        panel.axis("off")
    sent = set(table["federated"])
    legend = [
        Patch(color=c, alpha=0.55, label=f"{'models sent' if way in sent else 'alone'}: {way}")
        for way, c in colours.items()
    ]
    look: dict[str, Any] = {"title": KEY, "title_fontsize": 7, "ncols": 3}
    figure.legend(handles=legend, loc="outside lower center", **look)
    if study.data.is_sample:
        mark_sample(figure)
    return figure


def _colours(table: pd.DataFrame) -> dict[str, str]:
    """The colour of each way of forecasting that is best somewhere."""
    found: dict[str, str] = {}
    for kind, colours in (("federated", _FEDERATED), ("alone", _ALONE)):
        ways = list(dict.fromkeys(table.loc[table["best"] == table[kind], "best"]))
        found |= {w: colours[i] if i < len(colours) else _TOO_MANY for i, w in enumerate(ways)}
    return found


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
