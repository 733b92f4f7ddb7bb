"""Figures and page of any study, from its tables."""

from __future__ import annotations

from pathlib import Path

from plfl.report import reporting
from plfl.results.overview import is_overview, study_of
from plfl.study import Study


def figures_of(results: Path, study: Study) -> Path:
    """The folder of the figures of the study whose results folder is `results`."""
    return results.resolve().parents[len(Path(study.name).parts)] / study.figures


def make(results: Path, drawn: Path, path: Path) -> None:
    """Draw the figures of the study in folder `results` into `drawn`, and write its page to `path`.

    Raises:
        PlflError: a file cannot be written.
    """
    its = reporting.of(study_of(results))
    if is_overview(results):
        its.write_overview(results, drawn, path)
        return
    for _ in its.draw(results, drawn):
        pass
    its.write(results, drawn, path)
