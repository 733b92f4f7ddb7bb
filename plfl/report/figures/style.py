"""The style of the figures, and how they are saved.

Sizes are those of a two-column journal page (IEEE): 3.5 in for one column, 7.16 in for both.
"""

import textwrap
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import seaborn as sns
from cycler import cycler
from fontTools import subset
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from plfl.base.files import atomic

COLUMN_WIDTH = 3.5
PAGE_WIDTH = 7.16
"""Widths in inches."""

COLOURS = ("#5790fc", "#f89c20", "#e42536", "#964a8b", "#9c9ca1", "#7a21dd")
"""Six colours that colour-blind readers can tell apart (Petroff, arXiv 2107.02270)."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""Markers that go with `COLOURS`, for print in grey."""
ACCENT = "#d55e00"
"""Colour of highlights (vermilion of the palette by Okabe and Ito)."""
SEQUENTIAL = "cividis_r"
"""Colour map of amounts: darker is more; its lightness decreases monotonically."""

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # ships with matplotlib, so a figure is the same everywhere
    "font.size": 7,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=COLOURS),
    "grid.color": "0.9",
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 3,
    "pdf.fonttype": 42,
    "savefig.dpi": 220,
    "svg.fonttype": "path",  # letters as curves: the same in every browser
    "svg.hashsalt": "plfl",  # otherwise the ids of elements are random
}
# A PDF stores the positions of its letters, so it needs no tables about typesetting. Removing
# unused letters from these tables would take most of the time of writing a PDF.
subset.Options._drop_tables_default += ["GSUB", "GPOS", "GDEF", "kern"]

_METADATA: dict[str, dict[str, None]] = {
    ".pdf": {"CreationDate": None},
    ".png": {"Software": None},
    ".svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
}
"""Metadata that each format would contain by default; None removes it."""


def style() -> AbstractContextManager[None]:
    """The matplotlib settings for drawing and saving figures, as a context manager."""
    seaborn = sns.axes_style("ticks") | sns.plotting_context("paper", font_scale=0.75)
    defaults: Any = dict(matplotlib.rcParamsDefault)
    return matplotlib.rc_context(defaults | seaborn | _STYLE)


def panels(
    row_count: int, columns: int, size: tuple[float, float], **options: Any
) -> tuple[Figure, NDArray[Any]]:
    """A figure of `size` inches and its axes, an array of shape (rows, columns)."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(row_count, columns, squeeze=False, **options)


def colour(index: int) -> dict[str, Any]:
    """Colour and marker of line number `index`; up to 36 lines have different ones."""
    turn, place = divmod(index, len(COLOURS))
    return {"color": COLOURS[place], "marker": MARKERS[(place + turn) % len(MARKERS)]}


def fit(text: str, width: int, lines: int = 1) -> str:
    """`text` in at most `lines` lines of `width` characters; "…" replaces what does not fit. Lines
    break at spaces and after underscores, which are common in names of states and sharing schemes.
    Dollar signs are escaped, so that they do not start a formula."""
    wrapped = textwrap.wrap(text.replace("_", "_ "), width)
    lines_kept = [*wrapped[: lines - 1], " ".join(wrapped[lines - 1 :])]
    *lines_kept, last = (line.replace("_ ", "_") for line in lines_kept if line)
    lines_kept.append(last if len(last) <= width else last[: width - 1] + "…")
    return "\n".join(lines_kept).replace("$", r"\$")


def log_if_wide(axes: Iterable[Axes], values: NDArray[Any], ratio: float) -> bool:
    """Make the y axes logarithmic if positive `values` span more than `ratio`; return whether."""
    values = values[np.isfinite(values)]
    spanned = values.max() / values.min() if values.size and values.min() > 0 else 1
    wide = bool(spanned > ratio)
    for axis in axes if wide else ():
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())
    return wide


def mark_sample(figure: Figure) -> None:
    """Write "sample data" above the figure."""
    box = {"boxstyle": "square,pad=0.25", "facecolor": "white", "edgecolor": ACCENT, "lw": 0.8}
    look: Any = {"size": 7, "color": ACCENT, "weight": "bold", "bbox": box}
    figure.suptitle("sample data", x=0.98, ha="right", **look)


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write `figure` as `stem`.pdf, .png and .svg, without dates; return the files."""
    paths = []
    for suffix, metadata in _METADATA.items():
        path = stem.parent / (stem.name + suffix)
        with style(), atomic(path) as temporary:
            figure.savefig(temporary, format=suffix[1:], metadata=metadata)
        # All formats have the layout of the first, since computing one takes as long as drawing.
        figure.set_layout_engine(None)
        # The last bits of positions differ from process to process, and the ids in an SVG file are
        # digests of numbers that follow from them.
        for axis in figure.axes:
            original, now = axis.get_position(original=True), axis.get_position()
            axis.set_position(Bbox(original.get_points().round(9)), "original")
            axis.set_position(Bbox(now.get_points().round(9)), "active")
        paths.append(path)
    return paths
