"""The study's figures: one file each, drawn from a results folder and from nothing else.

A figure is a module of this package with `OUTPUTS`, the stems of its files, `CAPTION`, what a
reader needs to know to read them, and `draw`, which makes one matplotlib figure per stem. A new
file is found by itself.
"""

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType

from matplotlib.figure import Figure

from plfl.errors import PlflError
from plfl.figures.style import mark_sample, save, style
from plfl.results.tables import Tables, fitting

__all__ = ["Tables", "available", "caption", "draw", "render", "save", "style"]


@cache
def _modules() -> dict[str, ModuleType]:
    names = [info.name for info in pkgutil.iter_modules(__path__)]
    names.sort(key=lambda name: (not name.startswith("fig"), name))  # the paper's own come first
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "OUTPUTS")}


def available() -> dict[str, tuple[str, ...]]:
    """Every figure by name, with the stems of the files it makes."""
    return {name: module.OUTPUTS for name, module in _modules().items()}


def caption(name: str) -> str:
    """What stands below figure `name`."""
    text: str = _modules()[name].CAPTION
    return text


def draw(name: str, tables: Tables) -> dict[str, Figure]:
    """Draw figure `name`: one matplotlib figure per stem, marked when the data are generated.

    Raises:
        PlflError: there is no such figure.
        ResultsError: the results folder is incomplete or of another format.
    """
    if name not in available():
        raise PlflError(f"no figure is called {name!r}; there are {', '.join(available())}")
    with style(), fitting(tables.folder):
        figures: dict[str, Figure] = _modules()[name].draw(tables)
        if tables.is_sample:
            for figure in figures.values():
                mark_sample(figure)
    return figures


def render(name: str, results: Path, out: Path) -> list[Path]:
    """Draw figure `name` of the results folder into `out`, as PDF, PNG and SVG; return the files.

    The same results give the same bytes.
    """
    figures = draw(name, Tables(results))
    return [path for stem, figure in figures.items() for path in save(figure, out / stem)]
