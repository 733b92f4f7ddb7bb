"""Bytes that crossed the channel per global epoch and client (PL-FL Fig. 2), from the ledger."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plfl.figures.style import COLOURS, COLUMN, fit, panels
from plfl.results.tables import Tables

OUTPUTS = ("fig2_bytes",)
CAPTION = (
    "Bytes that crossed between server and client per global epoch (round) and client, in both"
    " directions, by what the clients share. Counted in the channel, parameters and extras."
)
_DIRECTIONS = {"bytes_down": "server → client", "bytes_up": "client → server"}
_WIDTH = 0.4


def draw(tables: Tables) -> dict[str, Figure]:
    """Two bars per split, server → client and client → server, with their values."""
    splits = tables.study.grid.personalization
    traffic = tables.traffic
    figure, axes = panels(1, 1, (COLUMN, 0.9 + 0.4 * len(splits)))
    axis: Axes = axes[0, 0]
    for i, (direction, label) in enumerate(_DIRECTIONS.items()):
        at = np.arange(len(splits)) + (i - 0.5) * _WIDTH
        bars = axis.barh(at, traffic[direction], _WIDTH * 0.9, color=COLOURS[i], label=label)
        axis.bar_label(bars, fmt=number, padding=2, fontsize=6.5)
    axis.set_yticks(
        range(len(splits)),
        [f"{fit(split, 26)}\n{tables.split_label(split)}" for split in splits],
    )
    axis.set_ylim(len(splits) - 0.5, -0.5)
    # Room for the value beside the longest bar; an empty axis still needs a width.
    axis.set_xlim(0, max(1.25 * traffic.to_numpy().max(), 1))
    axis.locator_params(axis="x", nbins=4, integer=True)
    axis.xaxis.set_major_formatter(lambda value, _: number(value))
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel("Bytes per global epoch and client")
    axis.grid(axis="x")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return {"fig2_bytes": figure}


def number(count: float) -> str:
    """A count of bytes with narrow spaces between thousands."""
    return f"{count:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
