"""Bytes that crossed the channel per global epoch and client (PL-FL Fig. 2), from the ledger."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plfl.figures.style import COLOURS, COLUMN, panels
from plfl.results.tables import Tables

OUTPUTS = ("fig2_bytes",)
_WIDTH = 0.45


def draw(tables: Tables) -> dict[str, Figure]:
    """Two bars per split, server → client and client → server, with their values."""
    splits = tables.study.grid.personalization
    traffic = mean_bytes(tables)
    figure, axes = panels(1, 1, (COLUMN, 2.3))
    axis: Axes = axes[0, 0]
    largest, least = traffic.to_numpy().max(), traffic[traffic > 0].min().min()
    axis.set_yscale("log")
    # Nothing has no place on a logarithmic axis: leave a decade of room below, write 0 there.
    bottom = 10 ** np.floor(np.log10(least if least > 0 else 1) - 0.5)
    axis.set_ylim(bottom, max(largest, 10 * bottom) * 2.5)
    for i, (direction, label) in enumerate(_DIRECTIONS.items()):
        heights = traffic.loc[splits, direction]
        at = np.arange(len(splits)) + (i - 0.5) * _WIDTH
        bars = axis.bar(at, heights, _WIDTH * 0.94, color=_COLOURS[i], label=label)
        for bar, height in zip(bars, heights, strict=True):
            axis.annotate(
                f"{height:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}"),
                (bar.get_x() + bar.get_width() / 2, max(height, bottom)),
                xytext=(0, 1.5),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=6.5,
            )
    axis.set_xticks(
        range(len(splits)), [f"{split}\n{tables.split_label(split)}" for split in splits]
    )
    axis.set_xlim(-0.6, len(splits) - 0.4)
    axis.tick_params(axis="x", length=0)
    axis.set_ylabel("Bytes per global epoch and client")
    axis.grid(axis="y")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return {"fig2_bytes": figure}


_DIRECTIONS = {"bytes_down": "server → client", "bytes_up": "client → server"}
_COLOURS = (COLOURS[0], COLOURS[1])


def mean_bytes(tables: Tables) -> pd.DataFrame:
    """Mean bytes of a client in a round, columns `bytes_down` and `bytes_up`, a row per split."""
    columns = ["personalization", *_DIRECTIONS]
    ledger = tables.records(columns, split="train")
    return ledger.groupby("personalization")[list(_DIRECTIONS)].mean()
