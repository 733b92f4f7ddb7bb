"""How the figures look, and how they become files.

Sizes are those of a two-column journal page (IEEE): 3.5 in for one column, 7.16 in for both.
"""

import textwrap
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from plfl.files import atomic

COLUMN = 3.5
PAGE = 7.16
"""Widths in inches."""

COLOURS = ("#5790fc", "#f89c20", "#e42536", "#964a8b", "#9c9ca1", "#7a21dd")
"""Six colours that stay apart for colour-blind readers (Petroff, arXiv 2107.02270)."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""Markers that go with `COLOURS`, for readers of grey prints."""

ACCENT = "#d55e00"
"""Colour of what a figure points at (vermilion of Okabe and Ito)."""
SEQUENTIAL = "cividis_r"
"""Colour map of amounts: darker is more; its lightness only ever falls."""

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # ships with matplotlib, so a figure is the same everywhere
    "font.size": 7,
    "axes.titlesize": 8,
    "axes.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 3,
    "pdf.fonttype": 42,
    "savefig.dpi": 220,
    "svg.fonttype": "path",  # letters as curves: the same wherever the page is opened
    "svg.hashsalt": "plfl",  # else the names of its parts are random
}
_METADATA: dict[str, dict[str, None]] = {
    ".pdf": {"CreationDate": None},
    ".png": {"Software": None},
    ".svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
}
"""What each format would say of its making, were it not told to keep quiet."""
_SAMPLE_BAND = 0.2


def style() -> AbstractContextManager[None]:
    """The settings of matplotlib under which figures are drawn and saved."""
    defaults: Any = dict(matplotlib.rcParamsDefault)
    return matplotlib.rc_context(defaults | _STYLE)


def panels(
    rows: int, columns: int, size: tuple[float, float], **options: Any
) -> tuple[Figure, NDArray[Any]]:
    """A figure of `size` inches with rows × columns axes, which come as a 2-D array."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def colour(index: int) -> dict[str, Any]:
    """Colour and marker of the `index`-th of several lines."""
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


def fit(text: str, width: int, lines: int = 1) -> str:
    """`text` in at most `lines` lines of `width` characters; what does not fit becomes "…".

    It breaks at spaces and after underscores, since names of users' states and splits have those.
    A dollar in a client's name begins no formula.
    """
    wrapped = textwrap.wrap(text.replace("_", "_ "), width)
    shown = [*wrapped[: lines - 1], " ".join(wrapped[lines - 1 :])]
    *shown, last = (line.replace("_ ", "_") for line in shown if line)
    shown.append(last if len(last) <= width else last[: width - 1] + "…")
    return "\n".join(shown).replace("$", r"\$")


def log_if_wide(
    axes: Iterable[Axes],
    values: NDArray[Any],
    ratio: float,
    ticks: tuple[float, ...] = (1, 2, 5),
) -> bool:
    """Give `axes` a logarithmic y when positive `values` span more than `ratio`; tell whether."""
    values = values[np.isfinite(values)]
    spanned = values.max() / values.min() if values.size and values.min() > 0 else 1
    wide = bool(spanned > ratio)
    for axis in axes if wide else ():
        axis.set_yscale("log")
        # Over more than this, more labels than these would lie on each other.
        axis.yaxis.set_major_locator(LogLocator(subs=ticks if spanned < 30 else (1, 3)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())
    return wide


def note(axis: Axes, text: str) -> None:
    """Write a remark into the upper right corner of `axis`, over whatever is drawn there."""
    axis.annotate(
        text,
        (1, 1),
        xytext=(-2, -2),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=6.5,
        color="0.25",
        bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
    )


def mark_sample(figure: Figure) -> None:
    """Say "sample data" in a band of its own above the figure."""
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + _SAMPLE_BAND)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(rect=(0, 0, 1, height / (height + _SAMPLE_BAND)))  # type: ignore[call-arg]
    figure.text(
        1 - 0.06 / width,
        1 - 0.05 / (height + _SAMPLE_BAND),
        "sample data",
        ha="right",
        va="top",
        color=ACCENT,
        weight="bold",
        bbox={"boxstyle": "square,pad=0.25", "facecolor": "white", "edgecolor": ACCENT, "lw": 0.8},
    )


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write `figure` as `stem`.pdf, .png and .svg, without dates; return the paths."""
    paths = []
    for suffix, metadata in _METADATA.items():
        path = stem.parent / (stem.name + suffix)
        with style(), atomic(path) as temporary:
            figure.savefig(temporary, format=suffix[1:], metadata=metadata)
        paths.append(path)
    return paths
