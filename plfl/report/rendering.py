"""Common parts of all pages: their templates, and drawings embedded in them."""

from __future__ import annotations

import base64
import math
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import pandas as pd
import yaml
from markupsafe import Markup

from plfl.base.errors import Problem, ResultsError
from plfl.base.files import write_text
from plfl.base.text import count_in_words, format_percent
from plfl.report import figures
from plfl.results.tables import Tables
from plfl.results.words import space_thousands

ZOOM = 1.9
"""CSS pixels per point of a figure: text of 7 pt becomes as large as that of the tables."""


@cache
def templates(*packages: str) -> jinja2.Environment:
    """The templates of the pages, each compiled once per process. Those of `packages` take
    precedence over those of plfl."""
    loaders = [jinja2.PackageLoader(package) for package in (*packages, "plfl.report")]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "number": space_thousands,
        "counted": count_in_words,
        "with_interval": with_interval,
        "format_signed": format_signed,
    }
    return environment


def write_page(
    path: Path, template: str, facts: Mapping[str, Any], *packages: str, **context: Any
) -> None:
    """Write a page to file `path`, given the name of its template and the values that it reads.
    Every template also gets `about`, the content of study.json, and the `configuration` of the
    study, also `encoded` for a link that downloads it."""
    configuration = as_yaml(facts["study"])
    encoded = base64.b64encode(configuration.encode()).decode("ascii")
    default_context = {"about": facts, "configuration": configuration, "encoded": encoded}
    page = templates(*packages).get_template(template).render(**default_context, **context)
    write_text(path, page)


def as_yaml(study: Mapping[str, Any]) -> str:
    """The configuration of a study as a file that `plfl study` reads."""
    text: str = yaml.safe_dump(study, sort_keys=False, allow_unicode=True, width=100)
    return text


def link(path: Path, page: Path) -> str:
    """The address of a file in the page `page`."""
    return quote(Path(os.path.relpath(path, page.parent)).as_posix())


def score(value: float, sd: float = math.nan) -> str:
    """A MASE in print, with its standard deviation if there is one."""
    text = f"{value:.3f}" if math.isfinite(value) else "n/a"
    return f"{text} ± {sd:.3f}" if math.isfinite(sd) else text


def with_interval(value: float, low: float, high: float) -> str:
    """A difference with its interval: "+0.054 [+0.020, +0.088]"; empty without one."""
    if pd.isna(value):
        return ""
    interval = "" if pd.isna(low) else f" [{format_signed(low)}, {format_signed(high)}]"
    return f"{format_signed(value)}{interval}"


def format_signed(value: float, digits: int = 3) -> str:
    """A difference with its sign: "+0.054"; with a digit more if it would be rounded to 0."""
    if round(value, digits) == 0 != round(value, digits + 1):
        digits += 1
    return f"{value + 0.0:+.{digits}f}"  # -0.0 + 0.0 is 0


def format_peak(percent: float, hours: float) -> str:
    """The error of a daily peak and its distance in time: "3.1 %, 0.5 h"; `n/a` if unknown."""
    text = format_percent(percent)
    return f"{text}, {hours:.1f}\N{NO-BREAK SPACE}h" if math.isfinite(percent) else text


def figures_of(tables: Tables, folder: Path) -> dict[str, tuple[str, list[Markup]]]:
    """The captions and drawings of the figures of a study by name, drawn as SVGs in `folder`."""
    figure_texts = {}
    for name, stems in figures.available(tables.study).items():
        text = figures.caption(name, tables.study)
        figure_texts[name] = text, [embed_figure(folder / f"{stem}.svg", text) for stem in stems]
    return figure_texts


_SIZE = re.compile(r'width="([\d.]+)pt" height="([\d.]+)pt"')


def embed_figure(path: Path, text: str) -> Markup:
    """A figure to embed in the page as a picture, with a label for screen readers."""
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ResultsError(
            Problem(path, "the figure is missing", "run the study again to draw it")
        ) from None
    size = _SIZE.search(content)
    assert size is not None, "matplotlib writes the size of every SVG"
    width, height = (round(ZOOM * float(points)) for points in size.groups())
    encoded = base64.b64encode(content.encode()).decode("ascii")
    return Markup(
        '<img src="data:image/svg+xml;base64,{}" alt="Figure {}: {}." width="{}" height="{}">'
    ).format(encoded, path.stem, text.split(".", maxsplit=1)[0], width, height)
