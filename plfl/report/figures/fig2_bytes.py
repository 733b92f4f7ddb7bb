"""Bytes exchanged per round and client (PL-FL, arXiv 2404.01517, Fig. 2), as the channel counts."""

import seaborn as sns
from matplotlib.figure import Figure

from plfl.report.figures.style import COLOURS, COLUMN_WIDTH, fit, panels
from plfl.results.tables import Tables
from plfl.results.traffic import mean_traffic
from plfl.results.words import method_label, space_thousands
from plfl.results.words import word_scheme as scheme_label


def draw(tables: Tables) -> dict[str, Figure]:
    """A bar for each sharing scheme and method: both directions, one after the other."""
    study, traffic = tables.study, mean_traffic(tables)
    parts = {
        "bytes_down": f"server → {study.client_word}",
        "bytes_up": f"{study.client_word} → server",
    }
    has_several_methods = len(study.grid.method) > 1
    names = [
        f"{fit(scheme, 18)}, {method_label(method)}"
        if has_several_methods and not study.plan.combinations.trains_alone(scheme, method)
        else fit(scheme_label(tables.study, scheme), 22, lines=3)
        for scheme, method in traffic.index
    ]
    figure, ((axis,),) = panels(
        1, 1, (COLUMN_WIDTH, 0.9 + (0.2 if has_several_methods else 0.45) * len(names))
    )
    table = traffic.rename(columns=parts).assign(name=names)
    bars = table.melt("name", [*parts.values()], "direction", "bytes")
    sns.histplot(
        bars,
        y="name",
        weights="bytes",
        hue="direction",
        hue_order=[*parts.values()][::-1],  # seaborn stacks the last one first
        multiple="stack",
        palette=[COLOURS[1], COLOURS[0]],
        edgecolor="white",
        alpha=1,
        shrink=0.8,
        ax=axis,
    )
    total = traffic.sum(axis=1)
    for place, count in enumerate(total):
        axis.text(count, place, f" {space_thousands(count)}", va="center")
    # Leave room for the value beside the longest bar.
    axis.set_xlim(0, 1.35 * max(total.max(), 1.0))
    axis.locator_params(axis="x", nbins=4, integer=True)
    axis.xaxis.set_major_formatter(lambda value, _: space_thousands(value))
    axis.set(xlabel=f"Bytes per round and {study.client_word}, both directions", ylabel="")
    axis.tick_params(axis="y", length=0)
    figure.legend(
        axis.get_legend().legend_handles[::-1], parts.values(), loc="outside lower center", ncols=2
    )
    axis.get_legend().remove()
    return {"fig2_bytes": figure}
