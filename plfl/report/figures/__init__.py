"""The figures of a study: one module each, drawn from a results folder alone.

A module of this package that defines `OUTPUTS` is a figure. `OUTPUTS` lists the stems of its files,
`CAPTION` is the text below it, both as literals; `draw` returns one matplotlib figure per stem. A
new module is found without registration.

A study has only the figures in which it has something to show. The workflow must know them before
anything is trained, so that the configuration decides (`_CONDITIONS`).
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plfl.base.errors import PlflError

if TYPE_CHECKING:  # the workflow needs the names and captions only, without matplotlib
    from matplotlib.figure import Figure

    from plfl.results.tables import Tables
    from plfl.study import Study


def _several(study: Study, axes: list[str]) -> bool:
    """Whether the grid of a study has more than one value on any of these axes."""
    return any(len(getattr(study.grid, axis)) > 1 for axis in axes)


_CONDITIONS: dict[str, Callable[[Study], bool]] = {
    "fig2_bytes": lambda study: bool(study.federated),
    "fig3_mase": lambda study: _several(study, ["method", "client_opt", "server_opt"]),
    "ranks": lambda study: _several(study, ["sharing", "method", "client_opt"]),
}
"""When a study has a figure; it always has one that is not in this table."""


@cache
def _declared() -> dict[str, dict[str, Any]]:
    """`OUTPUTS` and `CAPTION` of every figure, read from its source without importing it."""
    names = [info.name for info in pkgutil.iter_modules(__path__)]
    names.sort(key=lambda name: (not name.startswith("fig"), name))  # the paper's figures first
    constants_of = {name: _constants(Path(__path__[0]) / f"{name}.py") for name in names}
    return {name: constants for name, constants in constants_of.items() if "OUTPUTS" in constants}


def _constants(source: Path) -> dict[str, Any]:
    return {
        target.id: ast.literal_eval(node.value)
        for node in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in ("OUTPUTS", "CAPTION")
    }


def _of(study: Study | None) -> dict[str, dict[str, Any]]:
    """`_declared` as far as a study has them."""
    return {
        name: constants
        for name, constants in _declared().items()
        if study is None or name not in _CONDITIONS or _CONDITIONS[name](study)
    }


def available(study: Study | None = None) -> dict[str, tuple[str, ...]]:
    """The figures of a study, or all, by name, with the stems of their files."""
    return {name: tuple(constants["OUTPUTS"]) for name, constants in _of(study).items()}


def caption(name: str, study: Study | None = None) -> str:
    """The caption of figure `name`, in the words of a study."""
    text: str = _of(study)[name]["CAPTION"]
    return study.worded(text) if study else text


def draw(name: str, tables: Tables) -> dict[str, Figure]:
    """Draw figure `name`: one matplotlib figure per stem, marked if the data are sample data;
    PlflError if there is no such figure."""
    # Imported here because the workflow lists the figures without drawing them.
    from plfl.report.figures.style import mark_sample, style
    from plfl.results.tables import fitting

    known = available(tables.study)
    if name not in known:
        raise PlflError(f"unknown figure {name!r}; available: {', '.join(known)}")
    with style(), fitting(tables.folder):
        figures: dict[str, Figure] = importlib.import_module(f"{__name__}.{name}").draw(tables)
        if tables.is_sample:
            for figure in figures.values():
                mark_sample(figure)
    return figures


def render_all(results: Path, out: Path) -> Iterator[str]:
    """Draw all figures of a results folder into folder `out`, as PDF, PNG and SVG, and yield the
    name of each, when its files are written. The same results give the same bytes. PlflError if
    the folder cannot be written."""
    from plfl.report.figures.style import save  # see `draw`
    from plfl.results.tables import Tables

    tables = Tables(results)
    for name in available(tables.study):
        for stem, figure in draw(name, tables).items():
            save(figure, out / stem)
        yield name
