"""Mean and standard deviation of every client's load (PL-FL, arXiv 2404.01517, Fig. 1)."""

import math

import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from plfl.report.figures.style import COLOURS, COLUMN_WIDTH, PAGE_WIDTH, fit, log_if_wide, panels
from plfl.results.tables import Tables


def draw(tables: Tables) -> dict[str, Figure]:
    """One panel per state with the mean and standard deviation of every client's whole series."""
    states = tables.study.data.states
    columns = min(3, len(states))
    rows = math.ceil(len(states) / columns)
    size = (PAGE_WIDTH if columns > 1 else COLUMN_WIDTH, 2.35 * rows + 0.35)
    figure, axes = panels(rows, columns, size, sharey=True)
    names = {"mean": "mean", "std": "standard deviation"}
    unit = f"Load ({tables.load_unit})"
    for axis, state in zip(axes.flat, states, strict=False):
        state_clients = tables.clients[tables.clients["state"] == state].rename(columns=names)
        state_clients["number"] = range(1, len(state_clients) + 1)
        loads = state_clients.melt(["number"], [*names.values()], "statistic", unit)
        # Beside each other, so that none hides the other where both are alike.
        loads["number"] += loads["statistic"].map({names["mean"]: -0.1, names["std"]: 0.1})
        look = {"palette": [COLOURS[0], COLOURS[2]], "s": 16, "markers": ["o", "s"]}
        encoding = {"hue": "statistic", "style": "statistic"}
        sns.scatterplot(loads, x="number", y=unit, ax=axis, **encoding, **look)
        lines = axis.get_legend_handles_labels()
        axis.get_legend().remove()
        axis.set_title(fit(state, 26, lines=2))
        axis.set_xlabel(tables.study.client_word.capitalize())
        axis.set_xlim(0.4, len(state_clients) + 0.6)
        if len(state_clients) <= 12:
            labels = [fit(str(name), 24) for name in state_clients["client"]]
            axis.set_xticks(
                state_clients["number"], labels, rotation=60, ha="right", rotation_mode="anchor"
            )
        else:
            axis.xaxis.set_major_locator(MaxNLocator(12, integer=True))
        axis.grid(axis="y")
    if not log_if_wide(axes.flat, tables.clients[["mean", "std"]].to_numpy(), ratio=15):
        axes[0, 0].set_ylim(bottom=0)
    for axis in list(axes.flat)[len(states) :]:
        axis.set_axis_off()
    figure.align_xlabels()
    figure.legend(*lines, loc="outside lower center", ncols=2)
    return {"fig1_loads": figure}
