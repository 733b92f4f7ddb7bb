"""Mean and standard deviation of every client's load (PL-FL, arXiv 2404.01517, Fig. 1)."""

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from plfl.report.figures.style import COLOURS, COLUMN, PAGE, fit, log_if_wide, panels
from plfl.results.tables import Tables

OUTPUTS = ("fig1_loads",)
CAPTION = (
    "Mean and standard deviation of each client's load over its whole series. More than"
    " twelve clients of a state are numbered in the order of the study."
)


def draw(tables: Tables) -> dict[str, Figure]:
    """One panel per state with the mean and standard deviation of every client's whole series."""
    states = tables.study.data.states
    columns = min(3, len(states))
    rows = math.ceil(len(states) / columns)
    size = (PAGE if columns > 1 else COLUMN, 2.35 * rows + 0.35)
    figure, axes = panels(rows, columns, size, sharey=True)
    table = tables.clients
    logarithmic = log_if_wide(axes.flat, table[["mean", "std"]].to_numpy(), ratio=15)
    for axis, state in zip(axes.flat, states, strict=False):
        here = table[table["state"] == state]
        number = np.arange(1, len(here) + 1)
        axis.vlines(number, here["mean"], here["std"], color="0.75", linewidth=0.8, zorder=1)
        axis.plot(number, here["mean"], "o", color=COLOURS[0], markersize=4, label="mean")
        axis.plot(
            number,
            here["std"],
            "s",
            color=COLOURS[2],
            markerfacecolor="white",
            markersize=3.5,
            label="standard deviation",
        )
        axis.set_title(fit(state, 26, lines=2) if len(states) > 1 else "")
        axis.set_xlim(0.4, len(here) + 0.6)
        if len(here) <= 12:
            names = [fit(str(name), 24) for name in here["client"]]
            axis.set_xticks(number, names, rotation=60, ha="right", rotation_mode="anchor")
        else:
            axis.set_xlabel(tables.study.participant.capitalize())
            axis.xaxis.set_major_locator(MaxNLocator(12, integer=True))
        axis.grid(axis="y")
    if not logarithmic:
        axes[0, 0].set_ylim(bottom=0)
    for axis in axes[:, 0]:
        axis.set_ylabel(f"Load ({tables.load_unit})")
    for axis in list(axes.flat)[len(states) :]:
        axis.set_axis_off()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return {"fig1_loads": figure}
