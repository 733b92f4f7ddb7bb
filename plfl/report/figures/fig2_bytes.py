"""Bytes exchanged per round and client (PL-FL, arXiv 2404.01517, Fig. 2), as the channel counts."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plfl.report.figures.style import COLOURS, COLUMN, empty, fit, panels
from plfl.results.labels import method_label, spaced
from plfl.results.tables import Tables

OUTPUTS = ("fig2_bytes",)
CAPTION = (
    "Bytes exchanged between server and client per round and participating client,"
    " in each direction, by sharing scheme and, where the study has several, by method; mean over"
    " states, optimisers, seeds and rounds. The bytes are counted in the channel; they include"
    " parameters and whatever else a method sends."
)
_WIDTH = 0.4


def draw(tables: Tables) -> dict[str, Figure]:
    """One panel per sharing scheme with two bars per method, one for each direction."""
    schemes = tables.study.grid.sharing
    if not tables.traffic.to_numpy().any():
        return {"fig2_bytes": empty("no sharing scheme of this study sends anything")}
    parts = [tables.traffic.loc[[scheme]].droplevel(0) for scheme in schemes]
    rows = [len(part) for part in parts]
    figure, axes = panels(
        len(schemes),
        1,
        (COLUMN, 1.1 + 0.3 * sum(rows) + 0.22 * len(schemes)),
        sharex=True,
        gridspec_kw={"height_ratios": rows},
    )
    one = tables.study.participant
    heading = f"Bytes per round and {one}, by sharing scheme\n\n"
    if len(tables.study.grid.method) > 1:  # their names leave little room
        heading = "Bytes by scheme and method\n\n"
    for axis, scheme, part in zip(axes[:, 0], schemes, parts, strict=True):
        _bars(axis, part, one)
        axis.set_yticks(range(len(part)), _names(tables, scheme, part.index))
        label = fit(f"{scheme}: {tables.scheme_label(scheme)}", 48, lines=2)
        axis.set_title(heading + label, loc="left", fontsize=7)
        heading = ""
    # Leave room for the value beside the longest bar; an empty axis also needs a width.
    axis.set_xlim(0, max(1.25 * tables.traffic.to_numpy().max(), 1))
    axis.locator_params(axis="x", nbins=4, integer=True)
    axis.xaxis.set_major_formatter(lambda value, _: spaced(value))
    axis.set_xlabel(f"Bytes per round and {one}")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return {"fig2_bytes": figure}


def _names(tables: Tables, scheme: str, methods: Iterable[str]) -> list[str]:
    """Labels of the rows of a sharing scheme: the methods that send, if the study has several."""
    study = tables.study
    if len(study.grid.method) == 1:
        return [""]
    return [
        "" if study.combinations.trains_alone(scheme, method) else method_label(method)
        for method in methods
    ]


def _bars(axis: Axes, traffic: pd.DataFrame, one: str) -> None:
    """Draw two bars with their values for each row of `traffic`, the first row on top."""
    labels = {"bytes_down": f"server → {one}", "bytes_up": f"{one} → server"}
    for i, (direction, label) in enumerate(labels.items()):
        at = np.arange(len(traffic)) + (i - 0.5) * _WIDTH
        bars = axis.barh(at, traffic[direction], _WIDTH * 0.9, color=COLOURS[i], label=label)
        axis.bar_label(bars, fmt=spaced, padding=2, fontsize=6.5)
    axis.set_ylim(len(traffic) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x")
