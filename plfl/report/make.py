"""Figures and page of any study, from its tables."""

from __future__ import annotations

from pathlib import Path

from plfl.config.study import Study
from plfl.report import figures, overview, page
from plfl.report.classifiers import figures as figures_of_images
from plfl.report.classifiers import overview as overview_of_images
from plfl.report.classifiers import page as page_of_images
from plfl.results.overview import is_overview, study_of


def figures_of(results: Path, study: Study) -> Path:
    """The folder of the figures of the study whose results folder is `results`."""
    return results.resolve().parents[len(Path(study.name).parts)] / study.figures


def make(results: Path, drawn: Path, path: Path) -> None:
    """Draw the figures of the study in folder `results` into `drawn`, and write its page to `path`.

    Raises:
        PlflError: a file cannot be written.
        ResultsError: the results are incomplete or have another format.
    """
    of_images = study_of(results).data.is_images
    if is_overview(results):
        shown = overview_of_images if of_images else overview
        shown.illustrate(results, drawn)
        shown.write(results, drawn, path)
    else:
        for _ in (figures_of_images if of_images else figures).render_all(results, drawn):
            pass
        (page_of_images if of_images else page).write(results, drawn, path)
