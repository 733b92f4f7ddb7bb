"""The weekly errors of meters, before and after a forecaster's last training (`plfl backtest`), and
the page of an update: how good the forecasts so far were, and what the new readings change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from plfl.base.files import atomic, write_text
from plfl.forecast.update import Update
from plfl.report.figures.style import ACCENT, COLOURS, PAGE, REFERENCE, fit, panels, style
from plfl.report.rendering import drawing, templates

COLUMNS = 3
"""Panels side by side."""
CAPTION = "MASE of each week, until now and of the new readings. 1 is repeating the last reading."


def draw(
    rows: Sequence[Mapping[str, Any]],
    weeks: Mapping[str, tuple[pd.Series[float], pd.Series[float]]],
    path: Path,
) -> None:
    """Draw a panel for each row of the table and write the figure. `weeks`: the weekly MASE of each
    client until now and of the new readings, by its first day."""
    lines = -(-len(rows) // COLUMNS)
    with style():
        size = PAGE, 0.4 + 1.5 * lines
        figure, axes = panels(lines, COLUMNS, size, sharex=True, sharey=True)
        for axis, row in zip(axes.flat, rows, strict=False):
            past, now = weeks[str(row["client"])]
            axis.axhline(1, **REFERENCE)
            axis.plot(past.index, past, marker="o", color=COLOURS[4], label="weeks until now")
            axis.plot(now.index, now, marker="s", color=COLOURS[0], label="new weeks")
            drifted = row["drift_low"] > 0
            grown = f", grown by {row['drift']:.2f}" if drifted else ""
            title = f"{fit(str(row['client']), 44)}\n{fit(row['forecaster'] + grown, 44)}"
            axis.set_title(title, color=ACCENT if drifted else "black")
            axis.tick_params(axis="x", rotation=45)
        for axis in axes.flat[len(rows) :]:
            axis.set_visible(False)
        for axis in axes[:, 0]:
            axis.set_ylabel("MASE of a week")
        axes.flat[0].legend()
        with atomic(path) as temporary:
            figure.savefig(temporary)


def write(update: Update, out: Path) -> None:
    """Write the page of an update to file `out`."""
    shown = None
    if update.errors:
        with TemporaryDirectory() as folder:
            path = Path(folder, "weeks.svg")
            draw(update.errors, update.weeks, path)
            shown = drawing(path, CAPTION)
    study = update.forecasters.any_model.study
    page = templates().get_template("update.html.jinja").render(
        name=study.name,
        last=update.last,
        sample=study.data.is_sample,
        errors=update.errors,
        outcome=update.outcome().to_dict("records") if update.measured else [],
        drawing=shown,
        caption=CAPTION,
    )  # fmt: skip
    write_text(out, page)
