"""Critical-difference diagrams of sharing schemes and ClientOpts (Demšar, JMLR 7, 2006)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from plfl.config.study import Study
from plfl.report.figures.style import PAGE, empty, fit, panels
from plfl.results.records import MODELS
from plfl.results.statistics import ALPHA, AXES, Ranking, Scores, ranking, scores
from plfl.results.tables import Tables, client_label, method_label

OUTPUTS = ("ranks",)
CAPTION = (
    "Mean rank over clients of every combination of sharing scheme and ClientOpt, by test MASE at"
    " the last round (mean over seeds); 1 is best. Each has the ServerOpt of lowest validation"
    " MASE in its state; a diverged combination ranks last. A bar joins combinations whose ranks"
    " differ by less than the critical difference (CD), so that Nemenyi's test at 5 % does not"
    " separate them."
)


def draw(tables: Tables) -> dict[str, Figure]:
    """One diagram for the local models and one for the global models, side by side."""
    study = tables.study
    rankings = [ranking(blocks(study, scores(tables, model))) for model in MODELS]
    count = len(rankings[0].ranks)
    if count < 2:
        return {"ranks": empty("this study has one combination, so nothing to rank")}
    figure, axes = panels(1, len(MODELS), (PAGE, 1.2 + 0.17 * count))
    for axis, model, ranked in zip(axes[0], MODELS, rankings, strict=True):
        _diagram(axis, ranked, study)
        clients = f"{ranked.clients} client" + "s" * (ranked.clients > 1)
        axis.set_title(
            f"{model} models, {clients}\nCD {ranked.critical_difference:.2f}, Friedman p"
            f" {_p(ranked.friedman)}"
        )
        axis.set_xlabel("Mean rank")
    return {"ranks": figure}


def blocks(study: Study, of_states: dict[str, Scores]) -> pd.DataFrame:
    """MASE, mean over seeds: one row per client, one column per scheme and ClientOpt (`P2 adam`).

    NaN where all ServerOpts diverged. Clients without a MASE are left out.
    """
    axes = _axes(study)
    parts = []
    for found in of_states.values():
        columns = {}
        for combination in found.combinations:
            values = [v for axis, v in zip(AXES, combination, strict=True) if axis in axes]
            best = found.best(found.where(**dict(zip(axes, values, strict=True))))
            columns[" ".join(values)] = np.nan if best is None else found.mase[best].mean(axis=0)
        scored = np.isfinite(found.mase).any(axis=(0, 1)) | found.diverged.all()
        parts.append(pd.DataFrame(columns, index=list(found.clients))[scored])
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
    """One row per combination, the best on top: a dot at its mean rank, bars over similar ranks."""
    ranks, rows = ranked.ranks.to_numpy(), np.arange(len(ranked.ranks))
    alike = (ranked.p > ALPHA).to_numpy()
    ends = [int(np.flatnonzero(row).max()) for row in alike]
    # Only the longest runs of similar combinations; a run inside another adds nothing.
    runs = [(i, end) for i, end in enumerate(ends) if i == 0 or end > max(ends[:i])]
    for start, end in runs:
        if end > start:
            axis.plot([ranks[end]] * 2, [start - 0.25, end + 0.25], color="0.6", linewidth=2.2)
            axis.hlines(
                rows[start : end + 1],
                ranks[start : end + 1],
                ranks[end],
                color="0.85",
                linewidth=0.8,
                zorder=0,
            )
    axis.plot(ranks, rows, "o", color="0.15", clip_on=False)
    axis.set_yticks(rows, [_label(method, study) for method in ranked.ranks.index])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlim(1, max(len(rows), 2))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(axis="x")
    axis.tick_params(axis="y", length=0)


def _p(value: float) -> str:
    return f"= {value:.2g}" if value >= 1e-4 else "< 0.0001"
