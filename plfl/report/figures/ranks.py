"""Critical-difference diagrams of sharing schemes and ClientOpts (Demšar, JMLR 7, 2006, Fig. 1).

As in that paper, the best rank is on the right.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from plfl.config.study import Study
from plfl.report.figures.style import ACCENT, PAGE, empty, fit, panels
from plfl.results.labels import client_label, method_label
from plfl.results.ranking import Ranking, ranking
from plfl.results.records import MODELS
from plfl.results.scores import AXES, Scores, best, scores
from plfl.results.statistics import ALPHA
from plfl.results.tables import Tables

OUTPUTS = ("ranks",)
CAPTION = (
    "Critical-difference diagram: mean rank over clients of every combination of sharing scheme"
    " and ClientOpt, by test MASE at the last round (mean over seeds); the best is on the right."
    " Each has the ServerOpt of lowest validation MASE in its state; a diverged combination ranks"
    " last. A thick bar joins combinations whose ranks differ by less than the critical difference"
    " (CD), so that Nemenyi's test at 5 % does not separate them."
)
_CD, _FIRST, _BAR = -2.0, 1.1, 0.45
"""Heights in rows below the axis: of the bar of the critical difference, of the first name if there
are no groups, and between the bars of two groups."""


def draw(tables: Tables) -> dict[str, Figure]:
    """One diagram for the local models and one for the global models below it."""
    study = tables.study
    rankings = [ranking(blocks(study, scores(tables, model))) for model in MODELS]
    count = len(rankings[0].ranks)
    if count < 2:
        return {"ranks": empty("this study has one combination, so nothing to rank")}
    rows = _half(count) + _FIRST - _CD + _BAR * max(len(_groups(_alike(one))) for one in rankings)
    figure, axes = panels(len(MODELS), 1, (PAGE, len(MODELS) * (0.55 + 0.17 * rows)))
    for axis, model, ranked in zip(axes[:, 0], MODELS, rankings, strict=True):
        _diagram(axis, ranked, study)
        clients = f"{ranked.clients} client" + "s" * (ranked.clients > 1)
        axis.set_title(
            f"{model} models, {clients}: mean rank, the best on the right\n"
            f"critical difference (CD) {ranked.critical_difference:.2f},"
            f" Friedman p {_p(ranked.friedman)}"
        )
    return {"ranks": figure}


def blocks(study: Study, of_states: dict[str, Scores]) -> pd.DataFrame:
    """MASE, mean over seeds: one row per client, one column per scheme and ClientOpt (`P2 adam`).

    NaN where all ServerOpts diverged. Clients without a MASE are left out.
    """
    axes = _axes(study)
    parts = []
    for of_state in of_states.values():
        columns = {}
        for combination in of_state.combinations:
            values = [v for axis, v in zip(AXES, combination, strict=True) if axis in axes]
            found = best(of_state.those(**dict(zip(axes, values, strict=True))))
            mase = np.nan if found is None else found.weekly.sum(axis=2).mean(axis=1)
            columns[" ".join(values)] = mase
        scored = np.isfinite(of_state.mase).any(axis=(0, 1)) | of_state.diverged.all()
        parts.append(pd.DataFrame(columns, index=list(of_state.clients))[scored])
    return pd.concat(parts)


def _axes(study: Study) -> list[str]:
    """The axes that name a combination: scheme, ClientOpt, and others that the study varies."""
    further = [axis for axis in AXES if axis != "server_opt" and len(getattr(study.grid, axis)) > 1]
    return [axis for axis in AXES if axis in ("sharing", "client_opt", *further)]


def _label(method: str, study: Study) -> str:
    """The printed form of a combination, such as `P2 Adam` for `P2 adam`."""
    names = dict(zip(_axes(study), method.split(), strict=True))
    names["client_opt"] = client_label(names["client_opt"])
    if "method" in names:
        names["method"] = method_label(names["method"])
    return " ".join(fit(name, 18) for name in names.values())


def _diagram(axis: Axes, ranked: Ranking, study: Study) -> None:
    """The axis of ranks, a line from each mean rank to its name, and thick bars over groups."""
    ranks, count = ranked.ranks.to_numpy(), len(ranked.ranks)
    groups = _groups(_alike(ranked))
    first = _FIRST + _BAR * len(groups)
    half = _half(count)
    for k, (method, rank) in enumerate(ranked.ranks.items()):
        on_right = k < half
        height = first + (k if on_right else count - 1 - k)
        edge = 1 if on_right else count
        axis.plot([rank, rank, edge], [0, height, height], color="0.3", linewidth=0.7)
        axis.annotate(
            _label(str(method), study),
            (edge, height),
            xytext=(3 if on_right else -3, 0),
            textcoords="offset points",
            ha="left" if on_right else "right",
            va="center",
        )
    axis.plot(ranks, np.zeros(count), "o", color="0.15", clip_on=False)
    for k, (start, end) in enumerate(groups):
        at = _FIRST - 0.4 + _BAR * k
        axis.hlines(at, ranks[start] - 0.04, ranks[end] + 0.04, color=ACCENT, linewidth=2.6)
    critical = min(ranked.critical_difference, count - 1)
    axis.plot([count, count - critical], 2 * [_CD], "k|-", markersize=5, linewidth=1)
    axis.text(count - critical / 2, _CD - 0.25, "CD", ha="center", va="bottom")
    axis.set_xlim(count, 1)  # the best rank is on the right
    axis.set_ylim(first + half - 0.5, _CD - 1)
    axis.set_yticks([])
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.spines["top"].set_visible(True)
    axis.spines["top"].set_position(("data", 0))
    axis.xaxis.tick_top()
    axis.xaxis.set_major_locator(MaxNLocator(12, integer=True, steps=[1, 2, 5, 10]))


def _alike(ranked: Ranking) -> NDArray[np.bool_]:
    """Mask of the pairs that Nemenyi's test does not separate."""
    alike: NDArray[np.bool_] = (ranked.p > ALPHA).to_numpy()
    return alike


def _groups(alike: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last of each longest run of combinations that are alike, the best run first.

    A run inside another adds nothing.
    """
    ends = [int(np.flatnonzero(row).max()) for row in alike]
    return [(i, end) for i, end in enumerate(ends) if end > i and (i == 0 or end > max(ends[:i]))]


def _half(count: int) -> int:
    """The number of combinations whose names are on the right."""
    return -(-count // 2)


def _p(value: float) -> str:
    return f"= {value:.2g}" if value >= 1e-4 else "< 0.0001"
