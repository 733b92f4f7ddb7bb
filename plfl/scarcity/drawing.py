"""The figure of the scarcity study."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from plfl.figures.style import COLUMN, PAGE, colour, fit, log_if_wide, mark_sample, panels
from plfl.scarcity.comparison import BASELINES, CALIBRATED, CENTRALISED, label, summarise
from plfl.study import Study

CAPTION = (
    "Test MASE against weeks of training history per client, always on the same test part. Error"
    " bars are 95 % bootstrap intervals over clients, each the mean of its seeds."
)
_DASHES = dict(zip(BASELINES, (":", "--", "-."), strict=True))


def draw(study: Study, table: pd.DataFrame) -> Figure:
    """MASE of what the clients hold against weeks of history: a panel a state, a line a split.

    Error bars are the intervals of `summarise`, set apart a little so that all can be seen.
    """
    summary = summarise(table)
    states = study.data.states
    wide = len(states) > 1
    figure, axes = panels(1, len(states), (PAGE if wide else COLUMN, 2.8))
    lines = [(split, "local") for split in study.grid.personalization] + [(CENTRALISED, "global")]
    if CALIBRATED in set(summary["forecaster"]):
        lines.append((CALIBRATED, "local"))
    shown = []
    for axis, state in zip(axes[0], states, strict=True):
        part = summary[summary["state"] == state].set_index(["forecaster", "model"])
        for k, key in enumerate(lines):
            # The grey among the colours is that of the baselines.
            look = colour(5 if key[0] == CALIBRATED else k)
            line = part.loc[[key]]
            ends = line[["low", "mase", "high"]].to_numpy(float)
            axis.errorbar(
                line["weeks"] * 1.05 ** (k - (len(lines) - 1) / 2),
                line["mase"],
                yerr=np.diff(ends, axis=1).T,
                label=label(key[0])
                if key[0] in (CENTRALISED, CALIBRATED)
                else f"{key[0]}, local model",
                elinewidth=0.6,
                capsize=1.5,
                **look,
            )
            shown.append(ends)
        for name, dashes in _DASHES.items():
            level = part["mase"].loc[[(name, "baseline")]].iloc[0]
            if np.isfinite(level):
                look = {"color": "0.55", "linewidth": 0.8, "linestyle": dashes}
                axis.axhline(level, label=label(name), zorder=1, **look)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator(sorted(part["weeks"].dropna().unique())))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter("{x:g}")
        axis.grid(axis="y")
        axis.set_xlabel("Weeks of training history per client")
        axis.set_title(fit(state, 40))
    log_if_wide(axes[0], np.concatenate(shown), 4, ticks=(1, 1.5, 2, 3, 5, 7))
    axes[0, 0].set_ylabel("Test MASE")
    # A panel may lack a naive forecast that has no week of data before its test part.
    handles = {
        label: handle
        for axis in axes[0]
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    # matplotlib lists error bars last.
    naive = [label(name) for name in BASELINES]
    order = sorted(handles, key=lambda label: label in naive)
    figure.legend(
        handles=[handles[label] for label in order],
        loc="outside lower center",
        ncols=4 if wide else 2,
    )
    if study.is_sample:
        mark_sample(figure)
    return figure
