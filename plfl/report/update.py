"""The page of an update: how good the forecasts so far were, and what the new readings change."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from plfl.base.files import write_text
from plfl.forecast.update import Update
from plfl.report.figures.backtest import draw
from plfl.report.rendering import drawing, templates

CAPTION = "MASE of each week, until now and of the new readings. 1 is repeating the last reading."


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
