"""The rows of the page about the table that `plfl scarcity` makes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from plfl.config.study import Study
from plfl.report.clients import score
from plfl.report.extras import EXTRAS, extras
from plfl.report.rendering import drawing
from plfl.results import scarcity
from plfl.results.provenance import own_table
from plfl.results.tables import Tables

MARKS = {"scarcity.csv": scarcity.mark}
"""For each of the `EXTRAS`, the function that computes what its column `study` must hold."""


@dataclass(frozen=True)
class Scarcity:
    """Scores by weeks of history."""

    drawing: Markup
    caption: str
    sentences: list[str]
    weeks: list[str]
    rows: list[tuple[str, str, str, list[str]]]
    """State, forecaster, model, and the MASE for each length of history."""


def extra_tables(tables: Tables, results: Path) -> dict[str, pd.DataFrame | None]:
    """Those of the `EXTRAS` that exist; None for a table that is not of this study."""
    return {path.name: own_table(tables, path.name, MARKS[path.name]) for path in extras(results)}


def described(study: Study, extra: dict[str, pd.DataFrame | None]) -> dict[str, str]:
    """What the page says about each of the `EXTRAS` in `extra`."""
    return {
        name: EXTRAS[name]
        if table is not None
        else Markup(
            "not shown because it belongs to another study or to an earlier version of this one; "
            "run <code>plfl {} {}.yaml</code> to make it again"
        ).format(Path(name).stem, study.name)
        for name, table in extra.items()
    }


def scarcity_of(study: Study, table: pd.DataFrame | None, figures: Path) -> Scarcity | None:
    """The results of `plfl scarcity`; its figure is drawn again if it is missing."""
    if table is None:
        return None
    # Imported here because most pages need no figure from it, and matplotlib is slow to import.
    from plfl.report import scarcity as figure

    picture = figures / "scarcity.svg"
    if not picture.is_file():
        figure.illustrate(study, table, figures)
    summary = scarcity.summarise(table)
    weeks = sorted(summary["weeks"].dropna().unique())
    rows = []
    for keys, part in summary.groupby(["state", "forecaster", "model"], sort=False):
        state, forecaster, model = map(str, keys)
        by_weeks = part.set_index("weeks")["mase"]
        # A forecaster that learns nothing has the same score for every length of history.
        otherwise = by_weeks.iloc[0] if by_weeks.index.isna().all() else np.nan
        values = [by_weeks.get(w, otherwise) for w in weeks]
        rows.append((state, scarcity.label(forecaster), model, [score(value) for value in values]))
    return Scarcity(
        drawing(picture, figure.CAPTION),
        figure.CAPTION,
        scarcity.crossings(table),
        [f"{w:g}" for w in weeks],
        rows,
    )
