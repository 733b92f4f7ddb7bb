"""The figures of a study: one module each, drawn from a results folder alone.

`draw` of the module `NAME` returns one matplotlib figure for each stem of its files. A study has
only the figures in which it has something to show. The workflow must know them before anything is
trained, so that the configuration decides, and this table has what can be said without drawing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from plfl.report.annotations import Figure, Tables
from plfl.study import Study


def _has_several(study: Study, axes: list[str]) -> bool:
    """Whether the grid of a study has more than one value on any of these axes."""
    return any(len(getattr(study.grid, axis)) > 1 for axis in axes)


class FigureText(NamedTuple):
    """What is known of a figure before it is drawn."""

    stems: tuple[str, ...]
    """Stems of its files."""
    caption: str
    """The text below it; `{client_word}` is the word of a study for a client."""
    has: Callable[[Study], bool] = lambda study: True
    """Whether a study has it."""


FIGURES = {
    "fig1_loads": FigureText(
        ("fig1_loads",),
        "Mean and standard deviation of each {client_word}'s load over its whole series. More than"
        " twelve {client_word}s of a state are numbered in the order of the study.",
    ),
    "fig2_bytes": FigureText(
        ("fig2_bytes",),
        "Bytes exchanged between server and {client_word} per round and participating"
        " {client_word}, both directions together (number) and their parts (colours), by sharing "
        "scheme and, where the"
        " study has several, by method; mean over states, optimisers, seeds and rounds. The bytes"
        " are counted in the channel; they include parameters and whatever else a method sends.",
        lambda study: bool(study.plan.schemes.federated_schemes),
    ),
    "fig3_mase": FigureText(
        ("fig3_mase_local", "fig3_mase_global"),
        "Test MASE of every combination of optimisers at the last round, mean over {client_word}s"
        " (and seeds). A forecast with a MASE below 1 beats persistence. A local model is a"
        " {client_word}'s own model after its last local steps; a global model has the shared "
        "parameters of the"
        " server. On the right: baselines that need no federation, without persistence, whose MASE"
        " is 1. Framed: the lowest MASE of each panel, and the baseline of lowest validation MASE"
        " among those that send no data. Grey: diverged (div.) or no score (n/a). The colours of a"
        " state go from the lowest score of its local models to where outliers begin, in both"
        " figures; what lies beyond has the first or the last colour.",
        lambda study: _has_several(study, ["method", "client_opt", "server_opt"]),
    ),
    "ranks": FigureText(
        ("ranks",),
        "Critical-difference diagram: mean rank over {client_word}s of every combination of sharing"
        " scheme and ClientOpt, by test MASE at the last round (mean over seeds); the best is on"
        " the left. Each has the ServerOpt of lowest validation MASE in its state; a diverged"
        " combination ranks last. A thick bar joins combinations that Nemenyi's test at 5 % does"
        " not separate: their ranks differ by less than the critical difference (CD).",
        lambda study: _has_several(study, ["sharing", "method", "client_opt"]),
    ),
}
"""The figures by name, the paper's first."""


def available(study: Study | None = None) -> dict[str, tuple[str, ...]]:
    """The figures of a study, or all, by name, with the stems of their files."""
    return {
        name: figure.stems for name, figure in FIGURES.items() if study is None or figure.has(study)
    }


def caption(name: str, study: Study) -> str:
    """The caption of figure `name`, in the words of a study."""
    return FIGURES[name].caption.format(client_word=study.client_word)


def draw(name: str, tables: Tables) -> dict[str, Figure]:
    """Draw figure `name`: one matplotlib figure per stem, marked if the data are sample data."""
    # Imported here because the workflow lists the figures without drawing them.
    from plfl.report.figures.style import mark_sample, style
    from plfl.results.tables import refuse_contradictions

    with style(), refuse_contradictions(tables.folder):
        figures: dict[str, Figure] = importlib.import_module(f"{__name__}.{name}").draw(tables)
        if tables.study.data.is_sample:
            for figure in figures.values():
                mark_sample(figure)
    return figures


def render_all(results: Path, folder: Path) -> Iterator[str]:
    """Draw all figures of a results folder into `folder`, as PDF, PNG and SVG, and yield the
    name of each, when its files are written. The same results give the same bytes. PlflError if
    the folder cannot be written."""
    from plfl.report.figures.style import save  # see `draw`
    from plfl.results.tables import Tables

    tables = Tables(results)
    for name in available(tables.study):
        for stem, figure in draw(name, tables).items():
            save(figure, folder / stem)
        yield name
