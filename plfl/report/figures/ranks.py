"""Critical-difference diagrams of sharing schemes and ClientOpts (Demšar, JMLR 7, 2006, Fig. 1)."""

from __future__ import annotations

from functools import partial

import scikit_posthocs
from matplotlib.figure import Figure

from plfl.base.text import count_in_words
from plfl.report.figures.style import ACCENT, PAGE_WIDTH, fit, panels
from plfl.results.ranking import mase_by_client, rank_methods
from plfl.results.records import MODELS
from plfl.results.scores import scores
from plfl.results.statistics import ALPHA
from plfl.results.tables import Tables


def draw(tables: Tables) -> dict[str, Figure]:
    """One diagram for the local models and one for the global models below it."""
    shorten = partial(fit, width=18)
    rankings = [
        rank_methods(mase_by_client(tables.study, scores(tables, model), shorten))
        for model in MODELS
    ]
    size = PAGE_WIDTH, len(MODELS) * (0.9 + 0.11 * len(rankings[0].ranks))
    figure, axes = panels(len(MODELS), 1, size)
    for axis, model, ranked in zip(axes[:, 0], MODELS, rankings, strict=True):
        # Numbers instead of names: the order of sets of names differs from process to process.
        names, numbers = list(ranked.ranks.index), range(len(ranked.ranks))
        artists = scikit_posthocs.critical_difference_diagram(
            ranked.ranks.set_axis(numbers),
            ranked.p.set_axis(numbers).set_axis(numbers, axis=1),
            alpha=ALPHA,
            ax=axis,
            marker_props={"color": "0.15", "s": 12},
            elbow_props={"color": "0.3", "linewidth": 0.7},
            crossbar_props={"color": ACCENT, "linewidth": 2.6},
            label_fmt_left="{label} {rank:.2f}",
            label_fmt_right="{label} {rank:.2f}",
        )
        for text in artists["labels"]:
            number, rank = text.get_text().split()
            words = [names[int(number)], rank, ""]
            text.set_text(
                "\N{NO-BREAK SPACE}".join(words if text.get_ha() == "right" else words[::-1])
            )
        p = f"= {ranked.friedman:.2g}" if ranked.friedman >= 1e-4 else "< 0.0001"
        clients = count_in_words(ranked.clients, "client")
        axis.set_title(
            f"{model} models, {clients}: mean rank, the best on the left\n"
            f"critical difference (CD) {ranked.critical_difference:.2f}, Friedman p {p}"
        )
    return {"ranks": figure}
