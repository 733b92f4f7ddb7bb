"""What all pages are made with: their templates, and drawings embedded in them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from plfl.base.errors import ResultsError
from plfl.config.study import Study
from plfl.report.figures import available, caption
from plfl.report.figures.nothing import EMPTY
from plfl.results.labels import spaced

ZOOM = 1.9
"""CSS pixels per point of a figure: text of 7 pt becomes as large as that of the tables."""


@cache
def templates(*packages: str) -> jinja2.Environment:
    """The templates of the pages, each of which is compiled once a process.

    `packages` have templates of their own, which come before those of plfl.
    """
    loaders = [jinja2.PackageLoader(package) for package in (*packages, "plfl.report")]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["number"] = spaced
    return environment


def ticks(low: float, high: float) -> list[float]:
    """Round numbers in about four equal steps, from at most `low` to at least `high`."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * k for k in (1, 2, 2.5, 5, 10) if power * k * 4 >= span)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * k for k in range(first, max(last, first + 1) + 1)]


@dataclass(frozen=True)
class Shown:
    """A figure with its drawings in SVG."""

    name: str
    caption: str
    drawings: list[Markup]
    """Without those that have nothing to show in this study."""


def figures_of(study: Study, folder: Path) -> Iterator[Shown]:
    """The figures of a study, drawn as SVG files in `folder`."""
    for name, stems in available(study).items():
        text = caption(name, study)
        drawings = [drawing(folder / f"{stem}.svg", text) for stem in stems]
        yield Shown(name, text, [shown for shown in drawings if shown])


_RULES = re.compile(r"<defs>\s*<style.*?</defs>\s*", re.DOTALL)
_NAME = re.compile(r'(\bid="|url\(#|href="#)')
_BETWEEN = re.compile(r">\s*(?:<!--.*?-->\s*)*<", re.DOTALL)
_BREAK = re.compile(r"\s*\n\s*")
_DECIMALS = re.compile(r"(scale\([^)]*\))|(\d\.\d\d)\d+")
_SIZE = re.compile(r'width="([\d.]+)pt" height="([\d.]+)pt"')


def drawing(path: Path, text: str) -> Markup:
    """An SVG to embed in the page, with unique ids and a label for screen readers.

    Empty if the figure has nothing to show.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ResultsError(
            f"{path}: the figure is missing; run the study again to draw it"
        ) from None
    if f'id="{EMPTY}"' in content:
        return Markup()
    svg = content[content.index("<svg") :]  # HTML allows no XML prolog
    svg = _RULES.sub("", svg, count=1)  # they would apply to the whole page, which has its own
    svg = _NAME.sub(rf"\g<1>{path.stem}-", svg)
    svg = _BREAK.sub(" ", _BETWEEN.sub("><", svg))
    svg = _DECIMALS.sub(r"\1\2", svg)  # hundredths of a point are enough, except for factors
    size = _SIZE.search(svg)
    assert size is not None, "matplotlib writes the size of every SVG"
    width, height = (round(ZOOM * float(points)) for points in size.groups())
    label = escape(f"Figure {path.stem}: {text.split('.')[0]}.")
    svg = svg.replace(
        size[0], f'role="img" aria-label="{label}" width="{width}" height="{height}"', 1
    )
    return Markup(svg)
