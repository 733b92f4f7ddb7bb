"""Scores of every target of a window, for studies with several horizons."""

from dataclasses import asdict

import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from plfl.baselines import BASELINE
from plfl.report.figures.style import COLOURS, PAGE, best_baselines, fit, note, panels
from plfl.results.tables import Tables

OUTPUTS = ("horizons",)
CAPTION = (
    "Test scores of each target of a window by its time ahead, means over clients at the last"
    " round, of the local models of each state's cell of lowest validation MASE (within P2 if the"
    " study has it) and of the state's best baseline: MASE and, if intervals are forecast, the"
    " coverage of the widest interval, which is the fraction of loads inside it. The dashed lines"
    " are persistence and the nominal coverage."
)


def draw(tables: Tables) -> dict[str, Figure]:
    """A row of panels per state: MASE by time ahead, and the coverage of an interval."""
    study, targets = tables.study, tables.targets
    assert targets is not None, "such a study has no figure of this name"
    states, best = study.data.states, tables.best_baselines
    targets = targets.assign(hours=targets["rows_ahead"] * study.data.interval / 60)
    widest = next(iter(tables.intervals), None)
    scores = {"mase": ("Test MASE", 1.0)}
    if widest:
        scores[f"coverage_{widest}"] = (f"Coverage, {widest} % interval", float(widest) / 100)
    figure, axes = panels(len(states), len(scores), (PAGE, 1.7 * len(states) + 0.5))
    whole = bool((targets["hours"] % 1 == 0).all())
    steps = [1, 2, 3, 6, 10] if whole else [1, 2.5, 5, 10]
    names = [f"local model{'s' * (len(states) > 1)}", "; ".join(best_baselines(tables))]
    for row, state in zip(axes, states, strict=True):
        cell = tables.shown_cell(state)
        here = targets[targets["state"] == state]
        lines = []
        if cell is not None:
            rows = here[here["model"] == "local"]
            for key, value in asdict(cell).items():
                rows = rows[rows[key] == value]
            lines.append(rows.assign(line=names[0]))
        if state in best:
            chosen = (here["sharing"] == BASELINE) & (here["method"] == best[state])
            lines.append(here[chosen].assign(line=names[1]))
        for axis, (score, (label, reference)) in zip(row, scores.items(), strict=True):
            axis.axhline(reference, color="0.6", linewidth=0.8, linestyle="--")
            if cell is None:
                note(axis, "every cell diverged")
            for line, colour in zip(lines, (COLOURS[2], COLOURS[0]), strict=False):
                look = {"color": colour, "label": line["line"].iloc[0], "legend": False}
                sns.lineplot(line, x="hours", y=score, errorbar=None, ax=axis, **look)
            axis.set(xlabel="Hours ahead", ylabel=label, ylim=(0, 1 if score != "mase" else None))
            axis.xaxis.set_major_locator(MaxNLocator(8, steps=steps, integer=whole))
            axis.grid()
        title = state if cell is None else f"{state}: {tables.name(cell)}"
        row[0].set_title(fit(title, 60), loc="left")
    handles = {text: line for line, text in zip(*row[0].get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2)
    return {"horizons": figure}
