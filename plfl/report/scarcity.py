"""The figure of `plfl scarcity`: MASE against weeks of training history."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from numpy.typing import NDArray

from plfl.config.study import Study
from plfl.report.figures.style import (
    COLUMN,
    PAGE,
    colour,
    fit,
    log_if_wide,
    mark_sample,
    panels,
    save,
    style,
)
from plfl.results.scarcity import (
    CALIBRATED,
    CENTRALISED,
    LIGHTGBM,
    LIGHTGBM_POOLED,
    NAIVE,
    PERSISTENCE,
    RIDGE,
    label,
    summarise,
)

CAPTION = (
    "Test MASE against weeks of training history per client, always on the same test set. Error"
    " bars are 95 % bootstrap intervals over clients, each the mean of its seeds. Grey and black"
    " lines are baselines: LightGBM and ridge regression learn from the same history; of the"
    " seasonal naive forecasts the one with the least test MASE is drawn. LightGBM, pooled needs"
    " the raw data of all clients in one place."
)
_LOOKS: dict[str, dict[str, Any]] = {
    LIGHTGBM: {"color": "0.1", "linestyle": "-", "marker": "x"},
    LIGHTGBM_POOLED: {"color": "0.1", "linestyle": "--", "marker": "x"},
    RIDGE: {"color": "0.5", "linestyle": "-.", "marker": "+"},
}
"""Line styles of the baselines that learn."""
_BEST_NAIVE = "best seasonal naive"


def illustrate(study: Study, table: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw the figure into `folder`; return the files.

    Raises:
        PlflError: the disk is full or the folder cannot be written.
    """
    with style():
        figure = draw(study, table)
    return save(figure, folder / "scarcity")


def draw(study: Study, table: pd.DataFrame) -> Figure:
    """Draw the MASE of the clients' local models against weeks of history, one panel per state.

    The sharing schemes, the centralised model and the clients that join late are drawn in colour,
    baselines in grey or black.
    """
    summary = summarise(table)
    drawn = (summary["model"] != "global") | (summary["forecaster"] == CENTRALISED)
    summary = summary[drawn]
    states = study.data.states
    wide = len(states) > 1
    figure, axes = panels(1, len(states), (PAGE if wide else COLUMN, 3.4))
    for axis, state in zip(axes[0], states, strict=True):
        part = summary[summary["state"] == state].set_index("forecaster")
        _sharing(axis, part, study.grid.sharing)
        _baselines(axis, part)
        _levels(axis, part)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator(sorted(part["weeks"].dropna().unique())))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter("{x:g}")
        axis.grid(axis="y")
        axis.set_xlabel("Weeks of training history per client")
        axis.set_title(fit(state, 40))
    learnt = summary.loc[summary["weeks"].notna(), ["low", "mase", "high"]].to_numpy(float)
    log_if_wide(axes[0], learnt, 4, ticks=(1, 1.5, 2, 3, 5, 7))
    axes[0, 0].set_ylabel("Test MASE")
    _legend(figure, axes[0], 3 if wide else 2)
    if study.data.is_sample:
        mark_sample(figure)
    return figure


def _sharing(axis: Axes, part: pd.DataFrame, schemes: list[str]) -> None:
    """Draw the schemes, the centralised model and late clients, shifted so that no bars overlap."""
    names = [*schemes, CENTRALISED, *([CALIBRATED] if CALIBRATED in part.index else [])]
    for k, name in enumerate(names):
        line = part.loc[[name]]
        axis.errorbar(
            line["weeks"] * 1.05 ** (k - (len(names) - 1) / 2),
            line["mase"],
            yerr=np.diff(line[["low", "mase", "high"]].to_numpy(float), axis=1).T,
            label=f"{name}, local model" if name in schemes else label(name),
            elinewidth=0.6,
            capsize=1.5,
            # The grey among the colours is left to the baselines.
            **colour(5 if name == CALIBRATED else k),
        )


def _baselines(axis: Axes, part: pd.DataFrame) -> None:
    """Draw the baselines that learn from the history."""
    for name in part.index.unique().intersection(list(_LOOKS)):
        line = part.loc[[name]]
        look = _LOOKS[name] | {"linewidth": 0.9, "zorder": 1.5}
        axis.plot(line["weeks"], line["mase"], label=label(name), **look)


def _levels(axis: Axes, part: pd.DataFrame) -> None:
    """Draw persistence and the best seasonal naive forecast, which do not depend on the history."""
    for text, names, dashes in (
        (_BEST_NAIVE, NAIVE, "--"),
        (label(PERSISTENCE), (PERSISTENCE,), ":"),
    ):
        level = float(part["mase"][part.index.isin(names)].min())
        if np.isfinite(level):
            look: dict[str, Any] = {"color": "0.55", "linewidth": 0.8, "linestyle": dashes}
            axis.axhline(level, label=text, zorder=1, **look)


def _legend(figure: Figure, axes: NDArray[Any], columns: int) -> None:
    """Draw one legend for all panels; some may lack a seasonal naive forecast for lack of data.

    The lines of the federation come first; matplotlib would list them last, after plain lines.
    """
    found = [axis.get_legend_handles_labels() for axis in axes]
    handles = {text: line for pair in found for line, text in zip(*pair, strict=True)}
    grey = [*map(label, _LOOKS), _BEST_NAIVE, label(PERSISTENCE)]
    order = sorted(handles, key=lambda text: grey.index(text) if text in grey else -1)
    figure.legend(
        handles=[handles[text] for text in order], loc="outside lower center", ncols=columns
    )
